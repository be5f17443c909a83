"""Everything about learning on clusters: multi-task and few-shot on real tasks, and what it costs.

``make bench-learning_tables`` makes all records (hours on two cores, sentence vectors not counted) and prints
the tables. Records go to a JSON file; what is there is not made again, so it can be stopped and goes on.
`--only` chooses ways of learning, `--part` parts; ``--part tables`` prints the tables of what is there.

Everything was chosen on validation rows of `bots175` and `diverse`, and on 40 pseudo-targets among the 145
tasks that are not targets. These figures are on test rows.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import learning_fewshot, learning_multitask
from benchmarks.records import Records

PARTS = ("few-shot", "multi-task", "diverse", "cnn", "tables")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--only", nargs="+", help="names of ways of learning")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--records", type=Path, default=Path("learning-records.json"))
    parser.add_argument("--split", choices=("valid", "test"), default="test", help="of multi-task learning")
    arguments = parser.parse_args()
    records = Records(arguments.records)
    multitask = {"seeds": arguments.seeds, "split": arguments.split, "only": arguments.only}
    if "few-shot" in arguments.part:
        learning_fewshot.measure(
            records,
            encoder="sentence",
            seeds=arguments.seeds,
            only=arguments.only,
        )
    if "multi-task" in arguments.part:
        learning_multitask.measure(records, data="bots175", encoder="sentence", **multitask)
    if "diverse" in arguments.part:
        learning_multitask.measure(records, data="diverse", encoder="sentence", **multitask)
    if "cnn" in arguments.part:
        learning_multitask.measure(records, data="bots175", encoder="cnn", **multitask)
        learning_fewshot.measure(records, encoder="cnn", seeds=arguments.seeds, only=arguments.only)
    if "tables" in arguments.part:
        for encoder in ("sentence", "cnn"):
            learning_fewshot.print_results(records, encoder=encoder)
        for data, encoder in (("bots175", "sentence"), ("diverse", "sentence"), ("bots175", "cnn")):
            learning_multitask.print_results(records, data=data, encoder=encoder, split=arguments.split)


if __name__ == "__main__":
    main()
