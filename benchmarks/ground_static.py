"""The part ``static`` of `benchmarks.ground`: measuring transfer by `static` in place of `sentence` vectors.

Texts to the full S, each encoder and set in a process of its own that starts with an empty cache, which is
this module run as a script. Its scores, times and vectors are kept in the user's cache folder
(``ROBUSTTC_CACHE`` moves it), so that a second run only compares them. `diverse` has 96 rows of train and 24
of valid a task here (263 tasks), since all of its long reviews take an hour to encode.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from unittest.mock import patch

import numpy as np
from scipy.stats import spearmanr
from sklearn.metrics import adjusted_rand_score

from benchmarks.completion import ScoredSet, dense, predict_ours, read_truth
from benchmarks.ground_data import ONE_THREAD
from benchmarks.reliability import cut_rows
from benchmarks.report import find_data
from robusttc import DoubtWarning, RobustTaskClustering, TaskSet, TransferScores, load_tasks, measure_transfer
from robusttc.encoders import FeatureEncoder, default_cache_folder, make_encoder
from robusttc.transfer import read_scores

HEADER = ("what", "static", "sentence")
SETS = ("bots175", "diverse")
N_KINDS = 7
HELD_OUT = (0.1, 3)  # the share of pairs that completion sees, and the number of draws, seeds 0, 1, 2
TIMES = {
    "load": "of it loading the model (static: distilling)",
    "encode": "of it encoding",
    "score": "of it scoring",
}
RELIABILITY = {
    "split_half_without_donors": "correlation of halves",
    "reciprocity_without_donors": "reciprocity",
}


def measure(_old: Path | None) -> list[list[str]]:
    """Return the rows of the table."""
    return [row for name in SETS for row in compare(name)]


def compare(name: str) -> list[list[str]]:
    """Compare the two encoders on one set."""
    folders = [run(name, encoder) for encoder in HEADER[1:]]
    scores = [read_scores(folder / "scores.csv") for folder in folders]
    times = [json.loads((folder / "times.json").read_text()) for folder in folders]
    rows = [[f"{name}, texts to full S, CPU s", *(f"{sum(own.values()):.1f}" for own in times)]]
    rows += [
        [f"{name}, {what}, CPU s", *(f"{own[part]:.1f}" for own in times)] for part, what in TIMES.items()
    ]
    for part, what in RELIABILITY.items():
        rows.append([f"{name}, {what}", *(f"{getattr(own.reliability(), part):.3f}" for own in scores)])
    rows.append(
        [f"{name}, held-out rank correlation, 10 % of pairs seen", *(predict_held_out(own) for own in scores)]
    )
    (one, known), (other, also_known) = (dense(own) for own in scores)
    both = known & also_known
    agreement = spearmanr(one[both], other[both]).statistic
    rows.append([f"{name}, rank correlation of the two S", f"{agreement:.3f}", ""])
    if name == "diverse":
        rows += compare_clusters(name, scores)
    return rows


def predict_held_out(scores: TransferScores) -> str:
    """Return the rank correlation of predicted and measured scores of held-out pairs, over the draws."""
    data = ScoredSet("", scores, None)
    truth, known = dense(scores)
    share, n_draws = HELD_OUT
    found = []
    for seed in range(n_draws):
        measured = data.measured(share, seed)
        guess = predict_ours(data.restricted(measured), seed)
        held = known & ~measured
        found.append(spearmanr(guess[held], truth[held]).statistic)
    return f"{np.mean(found):.3f} ± {np.std(found) / np.sqrt(n_draws):.3f}"


def compare_clusters(name: str, scores: list[TransferScores]) -> list[list[str]]:
    """Cluster the tasks, and compare with what is known of them."""
    path = find_data(name).parent / "KINDS.tsv"
    rows = []
    for n_clusters in (N_KINDS, "auto"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DoubtWarning)
            models = [RobustTaskClustering(n_clusters).fit(own) for own in scores]
        for column in ("kind", "source"):
            truth = read_truth(scores[0], path, "task", column)
            found = [
                f"{adjusted_rand_score(truth, model.labels_):.3f} ({model.n_clusters_} clusters)"
                for model in models
            ]
            rows.append([f"{name}, ARI with {column}s, K = {n_clusters}", *found])
    return rows


def run(name: str, encoder: str) -> Path:
    """Return the folder with the scores and times, measured in a process of its own if they are not there."""
    folder = default_cache_folder().parent / "ground" / f"{name}-{encoder}"
    if not (folder / "times.json").is_file():
        root = Path(__file__).parents[1]
        environment = {
            **os.environ,
            **ONE_THREAD,
            "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)]),
            "ROBUSTTC_CACHE": str(folder / f"cache-{os.getpid()}"),  # empty at first
        }
        subprocess.run([sys.executable, __file__, name, encoder, str(folder)], env=environment, check=True)
    return folder


def load_set(name: str) -> TaskSet:
    """Read a set, `diverse` with fewer rows."""
    tasks = load_tasks(find_data(name))
    return cut_rows(tasks, 96, 24) if name == "diverse" else tasks


def measure_here(name: str, encoder_name: str, folder: Path) -> None:
    """Measure one set by one encoder, and write scores and times."""
    import torch

    torch.set_num_threads(1)
    tasks = load_set(name)
    few = tasks.subset(tasks.names[:3])
    vectors = {task.name: np.random.default_rng(0).normal(size=(len(task), 20)) for task in few}
    measure_transfer(few, encoder=FeatureEncoder(vectors), progress=False)  # compiles
    encoder = make_encoder(encoder_name, device="cpu")
    clock = [time.process_time()]
    encoder.encode(["a text"])
    clock.append(time.process_time())
    prepared = encoder.prepare(tasks, splits=("train", "valid"))
    clock.append(time.process_time())
    with patch.object(encoder, "prepare", return_value=prepared):
        scores = measure_transfer(tasks, encoder=encoder, pairs="all", random_state=0, progress=False)
    clock.append(time.process_time())
    scores.write_csv(folder / "scores.csv")
    (folder / "times.json").write_text(json.dumps(dict(zip(TIMES, np.diff(clock).tolist(), strict=True))))


if __name__ == "__main__":
    # A process of its own that measures one set by one encoder: see `run`.
    measure_here(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
