"""`make bench-completion`: robust completion against independent solvers, and at sizes they cannot reach.

Every row group is a function; each row says its seeds. Both sides of a comparison are run in one process,
one after the other, with linear algebra at one thread. Compiled code is warmed up outside the timings, and
how long that takes is a row of its own. Sizes whose peak memory counts run in a process of their own.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from benchmarks.planted import Planted, plant
from benchmarks.report import print_table
from benchmarks.textbook_ialm import textbook_ialm
from robusttc.clustering.old.completion.complete import complete_similarity
from robusttc.clustering.old.completion.problem import Problem, make_problem
from robusttc.clustering.old.completion.result import CompletionResult
from robusttc.clustering.old.start import cluster_rows, first_clustering, leading_eigenvectors, refine_labels
from robusttc.errors import DoubtWarning

Row = dict[str, Any]
SCS_SECONDS = 30  # it closes in on some optima for ever
RESULTS = Path(__file__).parent.parent / "docs" / "results"


def complete(data: Planted, lam: Any = "auto", **options: Any) -> tuple[CompletionResult, float]:
    """Complete, and say how many seconds it took from the matrices to the proof."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtWarning)
        start = time.perf_counter()
        result = complete_similarity(data.Y, data.observed, lam, **options)
        return result, time.perf_counter() - start


def labels_of(result: CompletionResult, k: int) -> Any:
    """Cluster the tasks by the factors of X."""
    order = np.argsort(-np.abs(result.eigenvalues))[:k]
    if not len(order):
        return np.zeros(result.n, dtype=np.intp)
    rows = result.eigenvectors[:, order] * np.sqrt(np.abs(result.eigenvalues[order]))
    return cluster_rows(rows, k, 0)


def raw_labels(problem: Problem, k: int, seed: int) -> Any:
    """Cluster the tasks spectrally on the entries as they are, without refinement."""
    values, vectors, _ = leading_eigenvectors(problem, ~problem.on_diagonal, k, seed)
    return cluster_rows(vectors[:, :k] * values[:k], k, seed)


def snr(k: int, degree: float, flips: float) -> float:
    """Give the Kesten-Stigum signal-to-noise ratio."""
    a, b = degree * (1 - flips), degree * flips
    return (a - b) ** 2 / (k * (a + (k - 1) * b))


def peak_gib() -> float:
    """Give the peak memory of this process."""
    status = Path("/proc/self/status")
    if status.exists():  # unlike the general way, this leaves out what the parent process held
        peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(peak.split()[1]) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


# ---- row groups


FIRST_CALL = """
from benchmarks.completion import complete, plant
data = plant(400, 2, 30, 0.05, 0)
print(complete(data, method="factored")[1])
"""


def warm_up() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", FIRST_CALL]
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    data = plant(400, 2, 30, 0.05, 0)
    start = time.perf_counter()
    complete(data, method="factored", n_threads=2)
    complete(data, method="dense", max_iter=10)
    first = time.perf_counter() - start
    second = complete(data, method="factored")[1]
    return [{"compiling_s": float(result.stdout), "first_call_s": first, "second_call_s": second}]


def solve_with_scs(data: Planted, lam: float, weights: tuple[float, float]) -> tuple[float, str]:
    """Give the optimum as cvxpy finds it with SCS, and how sure SCS is of it."""
    cvxpy: Any = importlib.import_module("cvxpy")
    Y, observed = data.Y.toarray(), data.observed.toarray() > 0
    # ||P - N||_* is the least trace of P + N over positive semidefinite P, N; a pair counts in both its
    # entries.
    P, N = (cvxpy.Variable(Y.shape, PSD=True) for _ in range(2))
    rows, columns = np.nonzero(np.triu(observed))
    values = Y[rows, columns]
    weight = lam * np.where(values >= 0.5, *weights) * np.where(rows == columns, 1, 2)
    errors = cvxpy.abs(values - (P - N)[rows, columns])
    objective = cvxpy.trace(P) + cvxpy.trace(N) + cvxpy.sum(cvxpy.multiply(weight, errors))
    problem = cvxpy.Problem(cvxpy.Minimize(objective))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        limits = {"max_iters": 100_000, "time_limit_secs": SCS_SECONDS}
        problem.solve(solver="SCS", eps_abs=1e-8, eps_rel=1e-8, **limits)
    return float(problem.value), str(problem.status)


def against_scs(quick: bool) -> list[Row]:
    rows = []
    for seed in range(4 if quick else 20):
        generator = np.random.default_rng(seed)
        n = int(generator.integers(20, 41 if quick else 101))
        k = int(generator.integers(2, 5))
        degree, flips = float(generator.uniform(0.2, 0.8) * n), float(generator.uniform(0.0, 0.2))
        weights = (float(generator.uniform(0.7, 1.4)), float(generator.uniform(0.7, 1.4)))
        cuts = np.sort(generator.choice(np.arange(1, n), size=k - 1, replace=False))
        sizes = np.diff([0, *cuts, n]).tolist()
        lam = float(generator.uniform(0.7, 1.4) / np.sqrt(degree))
        data = plant(n, k, degree, flips, seed, sizes=sizes)
        start = time.perf_counter()
        reference, status = solve_with_scs(data, lam, weights)
        reference_s = time.perf_counter() - start
        result, seconds = complete(data, lam, weights=weights, tol=1e-7)
        rows.append(
            {
                "seed": seed,
                "n": n,
                "k": k,
                "rank": result.rank,
                "flips": flips,
                "weights": weights,
                "reference": reference,
                "status": status,
                "objective": result.objective,
                "difference": abs(result.objective - reference) / reference,
                "gap": result.gap,
                "seconds": seconds,
                "reference_s": reference_s,
            }
        )
    return rows


def against_textbook(quick: bool) -> list[Row]:
    rows = []
    for k, flips in ((4, 0.05), (5, 0.1)):
        for seed in range(2 if quick else 5):
            data = plant(1491, k, 67, flips, seed)
            result, seconds = complete(data)
            labels = labels_of(result, k)
            refined = refine_labels(make_problem(data.Y, data.observed), labels)
            row: Row = {
                "k": k,
                "flips": flips,
                "seed": seed,
                "seconds": seconds,
                "gap": result.gap,
                "lam": result.lam,
                "rank": result.rank,
                "method": result.method,
                "ari": float(adjusted_rand_score(data.labels, labels)),
                "ari_refined": float(adjusted_rand_score(data.labels, refined)),
            }
            if seed == 0 and not quick:
                Y, observed = data.Y.toarray(), data.observed.toarray() > 0
                start = time.perf_counter()
                X, rounds = textbook_ialm(Y, observed, result.lam)
                row["textbook_s"] = time.perf_counter() - start
                row["textbook_rounds"] = rounds
                values = np.linalg.svd(X, compute_uv=False)
                objective = float(values.sum() + result.lam * np.abs((Y - X)[observed]).sum())
                row["textbook_excess"] = (objective - result.objective) / result.objective
                row["textbook_rank"] = int(np.count_nonzero(values > 1e-6 * values[0]))
            rows.append(row)
    return rows


def ten_thousand(quick: bool) -> list[Row]:
    rows = []
    n = 10_000
    for flips, tol in ((0.05, 1e-6), (0.1, 1e-4)):
        for seed in range(1 if quick else 3):
            data = plant(n, 5, float(np.log(n) ** 2), flips, seed)
            problem = make_problem(data.Y, data.observed)
            start = time.perf_counter()
            found = first_clustering(problem, None, seed)
            start_s = time.perf_counter() - start
            start = time.perf_counter()
            first_clustering(problem, 5, seed)
            given_s = time.perf_counter() - start
            result, seconds = complete(data, tol=tol, n_threads=2, random_state=seed)
            rows.append(
                {
                    "flips": flips,
                    "seed": seed,
                    "tol": tol,
                    "gap": result.gap,
                    "seconds": seconds,
                    "start_s": start_s,
                    "start_k_given_s": given_s,
                    "found_k": found.n_clusters,
                    "lam": result.lam,
                    "ari": float(adjusted_rand_score(data.labels, labels_of(result, 5))),
                }
            )
    return rows


def growth(quick: bool) -> list[Row]:
    sizes = [1_000, 3_162, 10_000] if quick else [1_000, 3_162, 10_000, 31_623, 100_000]
    rows = []
    for n in sizes:
        command = [sys.executable, "-m", "benchmarks.completion", "--child", str(n)]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append(json.loads(result.stdout))
    return rows


def one_size(n: int) -> Row:
    """Complete one size, in this process."""
    degree = 134.0 if n == 100_000 else float(np.log(n) ** 2)  # 6.7 million pairs for 100,000 tasks
    complete(plant(400, 2, 30, 0.05, 0), method="factored", n_threads=2)
    data = plant(n, 6, degree, 0.05, 0)
    before = peak_gib()
    result, seconds = complete(data, tol=1e-4, n_threads=2, method="factored")
    after = peak_gib()
    problem = make_problem(data.Y, data.observed)
    start = time.perf_counter()
    first_clustering(problem, None, 0)
    return {
        "n": n,
        "seed": 0,
        "pairs": (data.observed.nnz - n) // 2,
        "seconds": seconds,
        "start_s": time.perf_counter() - start,
        "gap": result.gap,
        "rank": result.rank,
        "peak_gib": after,
        "peak_before_gib": before,
        "ari": float(adjusted_rand_score(data.labels, labels_of(result, 6))),
    }


def hard_data(quick: bool) -> list[Row]:
    sizes = [300, 120, 50, 30]
    cases: dict[str, Callable[[int], Planted]] = {
        "imbalanced 300/120/50/30, flips 5 %": lambda seed: plant(500, 4, 60, 0.05, seed, sizes=sizes),
        "only positives observed, flips 0 %": lambda seed: plant(500, 4, 60, 0.0, seed, only_positives=True),
        "only positives observed, flips 5 %": lambda seed: plant(500, 4, 60, 0.05, seed, only_positives=True),
        "10 % of ones lost, 2 % of zeros wrong": lambda seed: plant(500, 5, 40, (0.1, 0.02), seed),
        "2 % of ones lost, 15 % of zeros wrong": lambda seed: plant(500, 5, 40, (0.02, 0.15), seed),
    }
    rows = []
    for name, make in cases.items():
        for seed in range(1 if quick else 5):
            data = make(seed)
            k = int(data.labels.max()) + 1
            rows.append({"case": name, "seed": seed, **three_clusterings(data, k, seed)})
    return rows


def three_clusterings(data: Planted, k: int, seed: int) -> Row:
    """Compare the clusterings on the raw entries, on X, and on X after refinement."""
    problem = make_problem(data.Y, data.observed)
    raw = raw_labels(problem, k, seed)
    result, seconds = complete(data, n_clusters=k, random_state=seed)
    completed = labels_of(result, k)

    def ari(labels: Any) -> float:
        return float(adjusted_rand_score(data.labels, labels))

    return {
        "raw": ari(raw),
        "raw_refined": ari(refine_labels(problem, raw)),
        "X": ari(completed),
        "refined": ari(refine_labels(problem, completed)),
        "method": result.method,
        "doubt": bool(result.message),
        "gap": result.gap,
        "rank": result.rank,
        "seconds": seconds,
    }


def phase_transition(quick: bool) -> list[Row]:
    rows = []
    for k in (3, 5, 10):
        for degree in (15, 40, 100) if quick else (15, 25, 40, 60, 100):
            for flips in (0.05, 0.1, 0.2):
                for seed in range(1 if quick else 5):
                    data = plant(500, k, degree, flips, seed)
                    measured = three_clusterings(data, k, seed)
                    cell = {"k": k, "degree": degree, "flips": flips, "seed": seed}
                    rows.append({**cell, "snr": snr(k, degree, flips), **measured})
    return rows


GROUPS: dict[str, Callable[[bool], list[Row]]] = {
    "scs": against_scs,
    "textbook": against_textbook,
    "ten_thousand": ten_thousand,
    "growth": growth,
    "hard": hard_data,
    "phase": phase_transition,
}


def machine() -> Row:
    """Say what this was run on."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    import numba
    import scipy

    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "load_at_start": os.getloadavg()[0],
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
    }


def summarise(name: str, rows: Sequence[Row]) -> None:
    """Print the rows of a group as they are."""
    columns = list(dict.fromkeys(key for row in rows for key in row))

    def show(value: object) -> str:
        return f"{value:.3g}" if isinstance(value, float) else str(value)

    print(f"\n{name}\n")
    print_table(columns, [[show(row.get(column, "")) for column in columns] for row in rows])
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the groups, print them, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer seeds and sizes")
    parser.add_argument("--json", type=Path, help="write (and add to) the figures in this file")
    parser.add_argument("--only", choices=GROUPS, action="append", help="run this group; may be repeated")
    parser.add_argument("--page", action="store_true", help="only write the results page from its JSON file")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.page:
        from benchmarks.completion_page import write_page

        write_page(RESULTS)
        return 0
    with threadpool_limits(1):
        if options.child:
            print(json.dumps(one_size(options.child)))
            return 0
        figures: dict[str, Any] = {}
        if options.json and options.json.exists():
            figures = json.loads(options.json.read_text())
        figures.setdefault("machine", machine())
        figures |= {"quick": options.quick, "warm_up": warm_up()}
        summarise("warm_up", figures["warm_up"])
        for name in options.only or GROUPS:
            start = time.perf_counter()
            figures[name] = GROUPS[name](options.quick)
            figures.setdefault("seconds", {})[name] = time.perf_counter() - start
            summarise(name, figures[name])
            if options.json:
                options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
