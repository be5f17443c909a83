"""Tasks and how they are read, written, inspected, split, tokenized and made up.

Nothing heavy is imported before it is used: pyarrow, yaml, pandas, openpyxl, NLTK and SciPy are imported by
the functions that need them.
"""

from __future__ import annotations

from robusttc.data.inspection import Inspection, inspect_tasks
from robusttc.data.loading import LoadedTasks, load_tasks, read_examples, read_tasks
from robusttc.data.options import SHARES, ReadOptions, check_shares
from robusttc.data.rows import split_rows
from robusttc.data.synthetic import PlantedTasks, make_planted_tasks
from robusttc.data.tables import MISSING, TABLE_ENDINGS, Table, ending_of, normalise_name, open_tables
from robusttc.data.task import SPLITS, Task, TaskSet, is_unicode, name_problem
from robusttc.data.text_files import ProblemList
from robusttc.data.tokens import (
    PADDING_ID,
    PADDING_WORD,
    UNKNOWN_ID,
    UNKNOWN_WORD,
    TokenArray,
    Vocabulary,
    number_words,
    tokenize,
)
from robusttc.data.word_vectors import WordVectors, load_word_vectors, unknown_word_vector
from robusttc.data.writing import write_tasks

__all__ = [
    "MISSING",
    "PADDING_ID",
    "PADDING_WORD",
    "SHARES",
    "SPLITS",
    "TABLE_ENDINGS",
    "UNKNOWN_ID",
    "UNKNOWN_WORD",
    "Inspection",
    "LoadedTasks",
    "PlantedTasks",
    "ProblemList",
    "ReadOptions",
    "Table",
    "Task",
    "TaskSet",
    "TokenArray",
    "Vocabulary",
    "WordVectors",
    "check_shares",
    "ending_of",
    "inspect_tasks",
    "is_unicode",
    "load_tasks",
    "load_word_vectors",
    "make_planted_tasks",
    "name_problem",
    "normalise_name",
    "number_words",
    "open_tables",
    "read_examples",
    "read_tasks",
    "split_rows",
    "tokenize",
    "unknown_word_vector",
    "write_tasks",
]
