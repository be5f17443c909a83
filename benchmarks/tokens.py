"""How fast texts become word numbers, against NLTK's tokenizer in a bare loop, and whether the tokens agree.

``python -m benchmarks.tokens`` measures on the 108,203 texts of amazon69, on one core, the two ways in turns:

* ours: `Vocabulary.build` and `Vocabulary.encode_tasks`, nothing remembered from the turn before;
* bare: ``for text in texts: tokenizer.tokenize(text)``, whose tokens are thrown away.

The requirement is a ratio of at most 1.3. ``--check`` compares the tokens of all texts of the five real sets.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.report import find_data
from robusttc.data import TaskSet, Vocabulary, load_tasks
from robusttc.data.tokens import load_nltk as nltk_tokenize

ROOT = Path(__file__).parents[1]
TIMED_SET = "amazon69"
ALL_SETS = ("amazon69", "bots175", "clients1491", "diverse", "intents_classic")
MAX_RATIO = 1.3


def read_tasks(name: str) -> TaskSet:
    """Read a real set, with the splits and tasks that are peculiar to amazon69."""
    return load_tasks(find_data(name), split_values={"train_full": "train_full"}, allow_incomplete=True)


def run_ours(tasks: TaskSet) -> int:
    """Make the word numbers of all tasks, and give their number."""
    encoded = Vocabulary.build(tasks).encode_tasks(tasks)
    return sum(len(tokens.ids) for tokens in encoded.values())


def run_bare(texts: list[str]) -> int:
    """Tokenize all texts with NLTK, and give the number of tokens."""
    tokenize = nltk_tokenize()
    n_tokens = 0
    for text in texts:
        n_tokens += len(tokenize(text))
    return n_tokens


def texts_of(tasks: TaskSet) -> list[str]:
    return [text for task in tasks for text in task.texts]


def measure_seconds(work: Callable[[], int]) -> tuple[float, int]:
    start = time.perf_counter()
    n_tokens = work()
    return time.perf_counter() - start, n_tokens


def measure_times(n_repeats: int) -> dict[str, Any]:
    """Time the two ways in turns, so that a busy machine disturbs both alike."""
    tasks = read_tasks(TIMED_SET)
    texts = texts_of(tasks)
    nltk_tokenize()("loads NLTK, which takes a second and is not what is measured")
    seconds: dict[str, list[float]] = {"ours": [], "bare": []}
    for _ in range(n_repeats):
        ours, n_ours = measure_seconds(lambda: run_ours(tasks))
        bare, n_bare = measure_seconds(lambda: run_bare(texts))
        assert n_ours == n_bare, "the two ways must do the same work"
        seconds["ours"].append(ours)
        seconds["bare"].append(bare)
    return {
        "set": TIMED_SET,
        "n_texts": len(texts),
        "n_tokens": n_bare,
        "seconds": seconds,
        "texts_per_second": {way: len(texts) / min(values) for way, values in seconds.items()},
        "ratio": min(seconds["ours"]) / min(seconds["bare"]),
    }


def print_own_memory(way: str) -> None:
    """Do the work of one way once, and print the peak memory of this process before and after it."""
    tasks = read_tasks(TIMED_SET)
    texts = texts_of(tasks) if way == "bare" else []
    nltk_tokenize()
    loaded_mb = peak_memory_mb()
    if way == "bare":
        run_bare(texts)
    else:
        run_ours(tasks)
    print(json.dumps({"loaded_mb": loaded_mb, "peak_mb": peak_memory_mb()}))


def peak_memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure_memory(way: str) -> dict[str, float]:
    """Measure the peak memory of one way in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.tokens", "--memory", way]
    output = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    measured: dict[str, float] = json.loads(output)
    return measured


def check_set(name: str) -> dict[str, Any]:
    """Compare the tokens of every text of a set with those of NLTK, case kept and case lowered."""
    tasks = read_tasks(name)
    tokenize = nltk_tokenize()
    as_is, lowered = (Vocabulary.build(tasks, lower=lower) for lower in (False, True))
    encoded, encoded_lowered = as_is.encode_tasks(tasks), lowered.encode_tasks(tasks)
    differing = 0
    for task in tasks:
        rows = zip(task.texts, encoded[task.name], encoded_lowered[task.name], strict=True)
        for text, row, lowered_row in rows:
            expected = tokenize(text)
            agrees = [as_is.words[number] for number in row.tolist()] == expected
            expected = [token.lower() for token in expected]
            agrees &= [lowered.words[number] for number in lowered_row.tolist()] == expected
            differing += not agrees
    return {"set": name, "n_texts": tasks.n_rows, "n_words": len(lowered), "n_differing": differing}


def print_table(times: dict[str, Any], memory: dict[str, dict[str, float]]) -> None:
    print(f"{times['set']}: {times['n_texts']:,} texts, {times['n_tokens']:,} tokens, one core")
    print(f"{'':6}{'texts/s':>10}{'best s':>9}{'data MB':>10}{'peak MB':>10}   all s")
    for way in ("ours", "bare"):
        seconds = times["seconds"][way]
        print(
            f"{way:6}{times['texts_per_second'][way]:10,.0f}{min(seconds):9.2f}"
            f"{memory[way]['loaded_mb']:10,.0f}{memory[way]['peak_mb']:10,.0f}   "
            + " ".join(f"{value:.2f}" for value in seconds)
        )
    verdict = "met" if times["ratio"] <= MAX_RATIO else "NOT met"
    print(f"ratio {times['ratio']:.3f} (at most {MAX_RATIO}: {verdict})")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="how often each way is timed")
    parser.add_argument(
        "--check", action="store_true", help="compare all tokens with NLTK's instead of timing"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file too")
    parser.add_argument("--memory", choices=("ours", "bare"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory:
        print_own_memory(arguments.memory)
        return 0
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    figures: dict[str, Any]
    if arguments.check:
        figures = {"sets": []}
        for name in ALL_SETS:
            checked = check_set(name)
            print("{set}: {n_texts:,} texts, {n_words:,} words, {n_differing:,} differ".format(**checked))
            figures["sets"].append(checked)
        failed = any(checked["n_differing"] for checked in figures["sets"])
    else:
        # First the memory: a child's peak begins at its parent's, which has not loaded anything yet.
        memory = {way: measure_memory(way) for way in ("ours", "bare")}
        times = measure_times(arguments.repeats)
        print_table(times, memory)
        figures = {"times": times, "memory": memory}
        failed = times["ratio"] > MAX_RATIO
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
