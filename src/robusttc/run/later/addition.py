"""One addition of tasks to a finished run, from their texts to the files of the next version."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from robusttc.encoders import Encoder, make_encoder
from robusttc.errors import DoubtWarning, StoreError, WorkError, quote
from robusttc.jobs import Runner
from robusttc.multitask import ClusterMultiTask
from robusttc.progress import Progress
from robusttc.run.adapted import AdaptedModels
from robusttc.run.kept_tasks import KeptTasks
from robusttc.run.later.added_models import AddedModels
from robusttc.run.later.added_tasks import ADDED, AddedTask
from robusttc.run.later.beginning import finish_change
from robusttc.run.later.changing import CHANGE, Pending
from robusttc.run.later.comparing_new import NO_CLUSTER, Compared, compare_new
from robusttc.run.later.history import Change
from robusttc.run.later.joins import Joined, join_all
from robusttc.run.later.later_outputs import (
    Row,
    count_sizes,
    names_added,
    read_before,
    table_with,
    with_figures,
    write_version,
)
from robusttc.run.later.new_tasks import NewTasks
from robusttc.run.later.telling import sentence_of_added
from robusttc.run.naming import digest_values
from robusttc.run.places import MULTITASK, SCORES
from robusttc.run.settings import FitSettings
from robusttc.run.stages import encode_texts, in_stage
from robusttc.run.store import RunStore
from robusttc.transfer import TransferScores, read_scores

__all__ = ["AddResult", "Adding"]

STAGE = "add"


@dataclass(frozen=True, slots=True, eq=False)
class AddResult:
    """What an addition leaves behind.

    Attributes
    ----------
    folder
        The run's folder.
    version
        The version of the run now.
    added
        The tasks that came, by name.
    there
        The names of tasks that were there already, with the same rows.
    set_aside
        Why some of the new tasks cannot be learned, by name.
    sentences
        What is to be said of all of them together.
    doubts
        What could not be done, a sentence each.
    summary
        What ``summary.json`` says.
    """

    folder: Path
    version: int
    added: Mapping[str, AddedTask]
    there: tuple[str, ...]
    set_aside: Mapping[str, str]
    sentences: tuple[str, ...]
    doubts: tuple[str, ...]
    summary: Mapping[str, Any]

    @property
    def is_doubtful(self) -> bool:
        """Whether something was left out."""
        return bool(self.set_aside or self.doubts)


class Adding:
    """One addition, from the texts of new tasks to the files of the next version."""

    def __init__(
        self,
        store: RunStore,
        pending: Pending,
        new: NewTasks,
        runner: Runner,
        progress: Progress | None,
    ) -> None:
        self.store, self.folder = store, store.folder
        self.pending, self.new = pending, new
        self.runner = runner
        self.progress = in_stage(progress, STAGE)
        self.name = digest_values("add", pending.version, dict(pending.tasks))
        self.configuration = FitSettings(**store.value("configuration"))
        self.doubts: list[str] = []

    def run(self) -> AddResult:
        """Do all of it; what is finished is not done again."""
        before, rows = read_before(self.folder, self.pending.version - 1)
        partition = {row["task"]: int(row["cluster"]) if row["cluster"] else -1 for row in rows}
        for name, why in self.new.set_aside.items():
            self.store.quarantine("read", f"read/{name}", why, [name])
        self.store.begin_stage(STAGE, 0)
        with self.caught():
            encoder = self.encode()
            compared = self.compare(encoder, before, partition)
            joined = self.join(encoder, compared)
        self.store.end_stage(STAGE)
        self.pending = replace(self.pending, state="writing")
        self.store.set_values({CHANGE: self.pending.to_dict()})
        return self.write(before, rows, partition, compared, joined)

    @cached_property
    def measured(self) -> TransferScores:
        """The scores of the run, as they were when they were asked for first."""
        return read_scores(self.folder / SCORES)

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Keep what was doubtful."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DoubtWarning)
            yield
        found = [str(one.message) for one in caught if issubclass(one.category, DoubtWarning)]
        self.doubts += [sentence for sentence in dict.fromkeys(found) if sentence not in self.doubts]

    def named(self, part: str = "") -> Runner:
        """Give the runner with a name of this addition in all keys."""
        return self.runner.with_prefix(f"{self.name}{part}", cost_stage=STAGE)

    def encode(self) -> Encoder:
        """Give the encoder of the run, with the sentence vectors of new texts in its cache."""
        chosen = self.configuration
        encoder = make_encoder(
            chosen.encoder, vectors=chosen.vectors, model=chosen.model, device=chosen.device
        )
        files = self.store.identity.configuration.get("encoder_files")
        found = encoder.fingerprint
        if files is not None and found != files:
            raise StoreError(
                "the encoder is not the one that the run was made with",
                where=quote(str(chosen.model or chosen.vectors or "the default one")),
                got=f"fingerprint {found[:12]}",
                expected=f"fingerprint {files[:12]}",
                todo="bring back its files",
            )
        if encoder.keeps_vectors:
            encode_texts(self.runner, encoder, self.new.learnable, self.progress)
        return encoder

    def compare(self, encoder: Encoder, before: Mapping[str, Any], partition: Mapping[str, int]) -> Compared:
        """Measure the new tasks that may share, and place them."""
        tasks = self.new.learnable.shareable()
        known = None
        if before["transfer"] is not None and before["clusters"] is not None:
            scores = self.measured
            later = {*names_added(before), *self.new.tasks.names}
            # Those of the fit alone: the others have scores with a few tasks only.
            known = scores.subset([name for name in scores.task_names if name not in later])
        try:
            compared = compare_new(
                self.folder,
                tasks,
                known,
                partition,
                self.configuration,
                encoder,
                runner=self.named(),
                strangers_runner=self.named("-strangers"),
                progress=self.progress,
            )
        except WorkError as error:
            self.doubts.append(f"The new tasks could not be measured, so they have no clusters: {error}.")
            return Compared(None, dict.fromkeys(tasks.names, NO_CLUSTER), is_placed=False)
        self.doubts += compared.doubts
        return compared

    def join(self, encoder: Encoder, compared: Compared) -> dict[str, Joined]:
        """Train what the new tasks need."""
        model = ClusterMultiTask.load(self.folder / MULTITASK)
        tasks = self.new.learnable
        clusters = {
            name: compared.placements.get(name, NO_CLUSTER).cluster if compared.is_placed else -1
            for name in tasks.names
        }
        return join_all(
            tasks,
            clusters,
            model,
            encoder,
            n_folds=self.configuration.n_folds,
            runner=self.named(),
            progress=self.progress,
        )

    def write(
        self,
        before: dict[str, Any],
        rows: list[Row],
        partition: dict[str, int],
        compared: Compared,
        joined: Mapping[str, Joined],
    ) -> AddResult:
        """Write all files of the new version, and note that it is there."""
        added = {name: self.describe(name, one, compared) for name, one in joined.items()}
        KeptTasks(self.folder).write(self.new.tasks)
        models = AddedModels(self.folder)
        for one in joined.values():
            models.save(one.later)
        summary = self.summarise(before, partition, added)
        scores = self.all_scores(compared.scores)
        if summary["transfer"] is not None and scores is not None:
            summary["transfer"] = {**summary["transfer"], "n_scores": len(scores)}
        sentences = sentence_of_added(added, self.new.set_aside, compared)
        change = Change(
            self.pending.version, "add", self.pending.when, tuple(self.new.tasks.names), sentences[0]
        )
        written = write_version(
            self.folder,
            self.store,
            change,
            summary=summary,
            table=table_with(rows, [self.row_of(name, added) for name in self.new.tasks.names]),
            scores=scores,
            details={
                "added": [one.to_dict() for one in added.values()],
                "set_aside": dict(self.new.set_aside),
                "sentences": list(sentences),
            },
        )
        finish_change(self.store, change)
        # Not before the commit: until then the addition can be taken back, and adapted models serve again.
        AdaptedModels(self.folder).remove(set(self.new.replaced) & set(added))
        return AddResult(
            self.folder,
            change.version,
            added,
            self.new.there,
            self.new.set_aside,
            sentences,
            tuple(self.doubts),
            written,
        )

    def describe(self, name: str, one: Joined, compared: Compared) -> AddedTask:
        """Put together what is known of a new task."""
        placement = compared.placements.get(name, NO_CLUSTER)
        measured = 0
        if compared.scores is not None and name in compared.scores.task_names:
            place = compared.scores.task_names.index(name)
            is_end = (compared.scores.source == place) | (compared.scores.target == place)
            others = {*compared.scores.source[is_end].tolist(), *compared.scores.target[is_end].tolist()}
            measured = len(others - {place})
        is_placed = compared.is_placed and self.new.tasks[name].may_share
        return AddedTask(
            name,
            self.pending.version,
            one.later.task.cluster,
            placement.confidence if is_placed else 0.0,
            is_placed and placement.out_of_cluster,
            one.gain,
            one.figures,
            measured,
            one.shares,
        )

    def row_of(self, name: str, added: Mapping[str, AddedTask]) -> Row:
        """Give the row of a new task in the table of clusters."""
        one = added.get(name)
        reasons = [
            f"{unit.stage}: {unit.error}" for unit in self.store.quarantined() if unit.tasks == (name,)
        ]
        return {
            "task": name,
            "cluster": str(one.cluster) if one is not None and one.cluster >= 0 else "",
            "confidence": f"{one.confidence:.4f}" if one is not None and one.n_measured else "",
            "private": "no" if self.new.tasks[name].may_share else "yes",
            "learned": "no" if one is None else "yes",
            "quarantined": " ".join("; ".join(reasons).split()),
        }

    def summarise(
        self, before: dict[str, Any], partition: dict[str, int], added: Mapping[str, AddedTask]
    ) -> dict[str, Any]:
        """Give the summary of the new version."""
        tasks, counts = self.new.tasks, before["tasks"]
        after = {**partition, **{name: one.cluster for name, one in added.items()}}
        summary = {
            **before,
            "tasks": {
                "n": counts["n"] + len(tasks),
                "n_learned": counts["n_learned"] + len(added),
                "n_private": counts["n_private"] + len(tasks) - len(tasks.shareable()),
                "n_rows": counts["n_rows"] + tasks.n_rows,
            },
            "clusters": None if before["clusters"] is None else dict(before["clusters"]),
            "evaluation": with_figures(before, [one.figures for one in added.values()]),
            ADDED: [*before.get(ADDED, []), *(one.to_dict() for one in added.values())],
            "doubts": [*before["doubts"], *(one for one in self.doubts if one not in before["doubts"])],
        }
        if summary["clusters"] is not None:
            n_before = before["clusters"]["n_without"]
            without = sum(one.out_of_cluster for one in added.values())
            count_sizes(summary, after, [name for name, number in after.items() if number >= 0])
            summary["clusters"]["n_without"] = n_before + without
        return summary

    def all_scores(self, new: TransferScores | None) -> TransferScores | None:
        """Give the scores of the run with the new ones."""
        if not (self.folder / SCORES).is_file():
            return None
        return self.measured if new is None else self.measured.merged_with(new)
