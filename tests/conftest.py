"""One thread a process: on shared cores, a second one makes small linear algebra ten times slower."""

from __future__ import annotations

import os

# Before anything imports NumPy, which reads these once.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
