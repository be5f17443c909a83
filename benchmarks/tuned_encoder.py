"""Few-shot learning with a fine-tuned sentence model: alone, or with the model as it came beside it.

``python -m benchmarks.tuned_encoder [--draws 3] [--held-out 40]``

Of the bots of `bots175` that are no targets, some are held out and learned from one row a label and 20 more;
the rest are sources, which the sentence model is fine-tuned on (kept in the user's cache). Judged on
validation rows: no test row is looked at. Without clusters, which do not serve on these tasks.
"""

from __future__ import annotations

import argparse

from benchmarks.kept_vectors import keep_vectors
from benchmarks.learning_data import load_set, novel_rows, targets
from benchmarks.records import Record, estimate, score_answers, show, show_differences
from benchmarks.report import print_table
from robusttc import TaskSet
from robusttc.baselines import LogisticRegressionBaseline
from robusttc.encoders import Encoder, PairedEncoder, SentenceEncoder
from robusttc.encoders.fine_tuning import fine_tune
from robusttc.fewshot import ClusterFewShot, choose_validation_tasks, few_shot_rows
from robusttc.models import name_as_text

SEED = 0
USUAL = "logistic regression, C tuned"


def split_sources(n_held_out: int) -> tuple[TaskSet, TaskSet]:
    """Give the sources, and the tasks that are held out."""
    tasks = load_set("bots175")
    pool = tasks.subset(name for name in tasks.names if name not in targets())
    names = choose_validation_tasks(pool, n_held_out, random_state=SEED)
    return pool.subset(name for name in pool.names if name not in names), pool.subset(names)


def fit_ways(sources: TaskSet) -> dict[str, ClusterFewShot | LogisticRegressionBaseline]:
    """Fit every way on the sources."""
    plain = SentenceEncoder(device="cpu")
    tuned = fine_tune(plain, sources, seed=SEED, label_texts=name_as_text)
    encoders: dict[str, Encoder] = {
        "blend": plain,
        "blend, the tuned model alone": tuned,
        "blend, both": PairedEncoder(plain, tuned),
    }
    ways: dict[str, ClusterFewShot | LogisticRegressionBaseline] = {
        USUAL: LogisticRegressionBaseline(few_shot=True, random_state=SEED).fit(sources)
    }
    for name, encoder in encoders.items():
        ways[name] = ClusterFewShot(encoder, random_state=SEED).fit(sources)
    return ways


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=3, help="support sets a task")
    parser.add_argument("--held-out", type=int, default=40, help="tasks that are held out")
    given = parser.parse_args()
    sources, held_out = split_sources(given.held_out)
    novel = novel_rows(load_set("bots175"), "valid")
    ways = fit_ways(sources)
    records: dict[str, list[Record]] = {name: [] for name in ways}
    for draw in range(given.draws):
        for name, way in ways.items():
            right = {}
            for task in held_out:
                keep_vectors(way, task.texts)
                model = way.adapt(task.take(few_shot_rows(task, random_state=draw)))
                rows = task.rows("valid")
                right[task.name] = model.predict(list(task.texts_at(rows))) == task.labels[rows]
            records[name].append(dict(score_answers(right, novel)))
    header = ["way", "all texts", "novel texts", f"all, to {USUAL}", f"novel, to {USUAL}"]
    header += ["all, to the blend", "novel, to the blend"]
    print_table(
        header,
        [
            [
                name,
                *(show(estimate(own, texts)) for texts in ("all", "novel")),
                *(cell for other in (USUAL, "blend") for cell in show_differences(own, records[other])),
            ]
            for name, own in records.items()
        ],
    )


if __name__ == "__main__":
    main()
