"""The tables of ``run.sqlite``, and the statements that read and write them.

Two kinds of tables. The small ones (`SEALED`) are held in memory too and protected together: the table
``seal`` has one hash over all their rows. The large ones, ``contents`` and ``scores``, are read when they are
asked for; their hashes stand in the rows of ``units``.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["APPLICATION_ID", "SCHEMA_VERSION", "SEALED", "STATEMENTS", "Table"]

# "rtcr" in ASCII; tells a run from any other SQLite file.
APPLICATION_ID = 0x72746372
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Table:
    """A small table whose rows are sealed.

    Attributes
    ----------
    name
        Its name.
    create, select, put, remove
        Statements that make it, read all rows, write a row (in the place of the one with its primary key),
        and remove the row with a primary key.
    columns
        Names of the columns, in the order of `select` and `put`; the first is the primary key.
    """

    name: str
    create: str
    select: str
    put: str
    remove: str
    columns: tuple[str, ...]


RUN = Table(
    "run",
    "CREATE TABLE run (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
    "SELECT name, value FROM run",
    "INSERT INTO run (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    "DELETE FROM run WHERE name = ?",
    ("name", "value"),
)

TASKS = Table(
    "tasks",
    "CREATE TABLE tasks (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, sha256 TEXT NOT NULL) STRICT",
    "SELECT number, name, sha256 FROM tasks",
    "INSERT INTO tasks (number, name, sha256) VALUES (?, ?, ?)",
    "DELETE FROM tasks WHERE number = ?",
    ("number", "name", "sha256"),
)

# The content and the scores have hashes of their own, which include the key.
UNITS = Table(
    "units",
    "CREATE TABLE units (number INTEGER PRIMARY KEY, stage TEXT NOT NULL, key TEXT NOT NULL UNIQUE,"
    " content_sha256 BLOB NOT NULL, n_scores INTEGER NOT NULL, scores_sha256 BLOB, seconds REAL NOT NULL,"
    " cpu_seconds REAL NOT NULL, peak_bytes INTEGER NOT NULL, attempts INTEGER NOT NULL,"
    " finished REAL NOT NULL) STRICT",
    "SELECT number, stage, key, content_sha256, n_scores, scores_sha256, seconds, cpu_seconds, peak_bytes,"
    " attempts, finished FROM units",
    "INSERT INTO units (number, stage, key, content_sha256, n_scores, scores_sha256, seconds, cpu_seconds,"
    " peak_bytes, attempts, finished) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "DELETE FROM units WHERE number = ?",
    (
        "number",
        "stage",
        "key",
        "content_sha256",
        "n_scores",
        "scores_sha256",
        "seconds",
        "cpu_seconds",
        "peak_bytes",
        "attempts",
        "finished",
    ),
)

FAILURES = Table(
    "failures",
    "CREATE TABLE failures (key TEXT PRIMARY KEY, stage TEXT NOT NULL, error TEXT NOT NULL,"
    " tasks TEXT NOT NULL, times INTEGER NOT NULL, quarantined INTEGER NOT NULL) STRICT",
    "SELECT key, stage, error, tasks, times, quarantined FROM failures",
    "INSERT INTO failures (key, stage, error, tasks, times, quarantined) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (key) DO UPDATE SET stage = excluded.stage, error = excluded.error, tasks = excluded.tasks,"
    " times = excluded.times, quarantined = excluded.quarantined",
    "DELETE FROM failures WHERE key = ?",
    ("key", "stage", "error", "tasks", "times", "quarantined"),
)

# One row every time that a stage is worked on: at the start, and again after a restart.
SPANS = Table(
    "spans",
    "CREATE TABLE spans (number INTEGER PRIMARY KEY, stage TEXT NOT NULL, n_units INTEGER NOT NULL,"
    " started REAL NOT NULL, seconds REAL NOT NULL, ended INTEGER NOT NULL) STRICT",
    "SELECT number, stage, n_units, started, seconds, ended FROM spans",
    "INSERT INTO spans (number, stage, n_units, started, seconds, ended) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (number) DO UPDATE SET n_units = excluded.n_units, seconds = excluded.seconds,"
    " ended = excluded.ended",
    "DELETE FROM spans WHERE number = ?",
    ("number", "stage", "n_units", "started", "seconds", "ended"),
)

VALUES = Table(
    "facts",
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
    "SELECT name, value FROM facts",
    "INSERT INTO facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    "DELETE FROM facts WHERE name = ?",
    ("name", "value"),
)

SEALED = (RUN, TASKS, UNITS, FAILURES, SPANS, VALUES)

SEAL = (
    "CREATE TABLE seal (one INTEGER PRIMARY KEY CHECK (one = 1), commits INTEGER NOT NULL,"
    " sha256 BLOB NOT NULL) STRICT"
)
CONTENTS = (
    "CREATE TABLE contents (unit INTEGER PRIMARY KEY REFERENCES units (number), content BLOB NOT NULL) STRICT"
)
# A pair has one score: the primary key sees to it.
SCORES = (
    "CREATE TABLE scores (source INTEGER NOT NULL REFERENCES tasks (number),"
    " target INTEGER NOT NULL REFERENCES tasks (number), unit INTEGER NOT NULL REFERENCES units (number),"
    " score REAL NOT NULL, n_examples INTEGER, standard_error REAL, first_half REAL, second_half REAL,"
    " PRIMARY KEY (source, target)) STRICT, WITHOUT ROWID"
)

STATEMENTS = (*(table.create for table in SEALED), SEAL, CONTENTS, SCORES)
