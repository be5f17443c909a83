"""Multi-task learning on clusters: every method on real tasks, and what it costs.

``make bench-learning_tables`` makes all records (hours on two cores, sentence vectors not counted) and prints
the tables. Records go to a JSON file; what is there is not made again, so it can be stopped and goes on.
`--only` chooses ways of learning, `--part` parts; ``--part tables`` prints the tables of what is there.

Everything was chosen on validation rows of `bots175` and `diverse`. These figures are on test rows. Few-shot
learning is in `benchmarks.learning_fewshot`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import learning_multitask
from benchmarks.records import Records

PARTS = ("multi-task", "diverse", "cnn", "tables")


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
    if "multi-task" in arguments.part:
        learning_multitask.measure(records, data="bots175", encoder="sentence", **multitask)
    if "diverse" in arguments.part:
        learning_multitask.measure(records, data="diverse", encoder="sentence", **multitask)
    if "cnn" in arguments.part:
        learning_multitask.measure(records, data="bots175", encoder="cnn", **multitask)
    if "tables" in arguments.part:
        for data, encoder in (("bots175", "sentence"), ("diverse", "sentence"), ("bots175", "cnn")):
            learning_multitask.print_results(records, data=data, encoder=encoder, split=arguments.split)


if __name__ == "__main__":
    main()
