"""One thread a process, and a cache of sentence vectors that belongs to the tests alone."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

# Before anything imports NumPy, which reads these once. On shared cores, a second thread makes small linear
# algebra ten times slower.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# The user's own cache is neither read nor filled.
cache = tempfile.mkdtemp(prefix="robusttc-tests-")
os.environ["ROBUSTTC_CACHE"] = cache
atexit.register(shutil.rmtree, cache, ignore_errors=True)
