"""Kills the stub run again and again: at random moments, or at every named point and again while it recovers.

``python crash_program.py random --seed 7 --kills 50`` prints what was found as JSON, and every kill with its
time. The same seed draws the same moments. ``--fault NAME`` plants a bug (see `crash_faults`).
"""

from __future__ import annotations

if __name__ == "__main__":
    # Not above: the worker processes load this file too.
    from crash_ways import main

    main()
