"""One thread a process, a cache of sentence vectors that belongs to the tests alone, and long files first."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

# Before anything imports NumPy, which reads these once. On shared cores, a second thread makes small linear
# algebra ten times slower.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# The user's own cache is neither read nor filled.
cache = tempfile.mkdtemp(prefix="robusttc-tests-")
os.environ["ROBUSTTC_CACHE"] = cache
atexit.register(shutil.rmtree, cache, ignore_errors=True)

# Files that take longest. Whoever runs tests on several processes, a file at a time, begins with them: begun
# last, one of them would keep a single process busy when all others have ended.
LONG_FILES = (
    "test_docs.py",
    "test_versions.py",
    "test_real_changes.py",
    "test_demo_command.py",
    "test_fit_run.py",
    "test_task_clusters.py",
    "test_multitask_estimator.py",
    "test_ray_cluster.py",
    "test_fit_command.py",
    "test_fine_tuning.py",
    "test_synthetic.py",
    "test_cluster_few_shot.py",
    "test_job_contract.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long files first; within a file, and among all others, the order stays."""
    place = {name: number for number, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: place.get(item.path.name, len(place)))
