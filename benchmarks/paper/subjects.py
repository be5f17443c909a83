"""What each table is about: its title, its command, and what its data are not.

How a table was made stands in the docstring of the module that makes it, and is read from there, so that the
page and the code cannot say different things.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
# Modules that a table is made with, whose docstrings are part of its protocol.
SHARED_MODULES = ("protocol",)
CLUSTERING_MODULES = ("clustering_ways", "clustering_sets")

# Of every table with few-shot rows of our way with the fine-tuned encoder.
TUNED = (
    "Few-shot rows with the tuned encoder were first run, and seen on test rows, with the tuned model alone. "
    "On held-out sources of bots175 the model as it came beside it was better ([by how much]"
    "(../learning.md#two-sentence-models-beside-each-other)); so it stands there now, and these rows were "
    "run again.",
)
AMAZON = (
    "amazon69 is the authors' own public split, lower-cased and without stop words, but the training files "
    "of music and video (6 tasks) could not be had: their validation rows are split 80/20 to train on them.",
    "Labels are skewed, so the commonest label alone is a baseline.",
    "When our default was first run here, on test rows, it was seen to give the rare label too often. That "
    "was mended by validation rows and held-out sources ([how](../../decisions/0021-label-power.md)), and "
    "all rows that it concerns were run again.",
)
AMAZON_FULL = (
    *AMAZON,
    "The 12 targets come with 5 + 5 rows only. Here they train on rows that were made from raw rated reviews "
    "(568 to 643 each), drawn anew to the natural share of positives.",
)
INTENTS = (
    "The paper's 175 tasks are private. bots175 is the intent data of 175 real chatbots by 175 makers, split "
    "64/16/20 within each label; the targets were drawn at random once.",
    "Bots share phrases: 39 % of a bot's test texts (mean over bots) stand in another bot's data too. Every "
    "figure is therefore given on all and on *novel* texts, which occur in no other task.",
)
MANY = (
    "The paper's 1,491 tasks are private. clients1491 has as many clients, cut out of bots175 and of "
    "well-known public sets: each takes some labels of one source, and some merge labels. Clients of one "
    "source share texts by the way they were made, which real clients need not.",
    "The few-shot row with the tuned encoder was run with the tuned model alone, before the model as it came "
    "stood beside it.",
)
DIVERSE = (
    "The paper has no such table. diverse has tasks of different kinds, cut to 96 training, 24 validation "
    "and 60 test rows a task.",
)


@dataclass(frozen=True, slots=True)
class Subject:
    """A table: its name, title and place in the paper, and what its data are not."""

    name: str
    title: str
    source: str
    data: tuple[str, ...]
    has_accuracies: bool = True
    others: tuple[str, ...] = SHARED_MODULES

    @property
    def modules(self) -> tuple[str, ...]:
        """Give all modules whose docstrings say how it is made."""
        return (self.module, *self.others)

    @property
    def module(self) -> str:
        """Give the module that makes it."""
        return self.name.replace("-", "_")

    @property
    def command(self) -> str:
        """Give the command that makes it."""
        return f"make table-{self.name}"

    @property
    def quick_command(self) -> str:
        """Give the command that tries it in minutes."""
        return f"python -m benchmarks.paper.{self.module} --quick --out quick-{self.name}.json"


SUBJECTS = (
    Subject("amazon-mtl", "Sentiment, multi-task: 69 tasks, 12 targets", "Table 1(a)", AMAZON_FULL),
    Subject("amazon-fsl", "Sentiment, five-shot: 57 sources, 12 targets", "Table 1(b)", AMAZON + TUNED),
    Subject("intents-mtl", "Intents, multi-task: 175 tasks", "Table 2(a)", INTENTS),
    Subject("intents-fsl", "Intents, few-shot: one row a label and 20 more", "Table 2(b)", INTENTS + TUNED),
    Subject("many-mtl", "Intents, 1,491 tasks, 4.5 % of the pairs", "Table 3", MANY),
    Subject("diverse", "Tasks of different kinds, multi-task and few-shot", "", DIVERSE + TUNED),
    Subject("clustering", "The clustering itself", "", (), False, CLUSTERING_MODULES),
    Subject("why", "Why clusters do or do not pay", "", (), False, ()),
    Subject("cost", "What it costs", "", (), False, ()),
)


def read_protocol(module: str) -> tuple[list[str], list[str]]:
    """Give the paragraphs of a module's docstring: how it is made, and what departs from the paper.

    Nothing is imported. A module that is not there has no paragraphs.

    Examples
    --------
    >>> read_protocol("no_such_module")
    ([], [])
    """
    path = FOLDER / f"{module}.py"
    if not path.is_file():
        return [], []
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return split_protocol(text)


def split_protocol(text: str) -> tuple[list[str], list[str]]:
    r"""Tell what begins with ``Deviation:`` from the other paragraphs, which stay as they are.

    Examples
    --------
    >>> split_protocol("A title.\n\nRows are\ncut.\n\nDeviation: fewer rows,\nfor want of time.")
    (['A title.', 'Rows are\ncut.'], ['Fewer rows, for want of time.'])
    """
    said, departs = [], []
    for paragraph in text.replace("``", "`").split("\n\n"):
        before, *parts = paragraph.split("Deviation:")
        words = (" ".join(part.split()).rstrip("-* ") for part in parts)
        # The name of a data set stays as it is.
        departs += [one if re.match(r"\S*\d", one) else f"{one[:1].upper()}{one[1:]}" for one in words]
        if before.strip("-* \n"):
            said.append(before.rstrip("-* \n"))
    return said, departs
