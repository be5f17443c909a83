"""`make bench-data`: loading and tokenizing real tasks, each against the plain way in the same run."""

from __future__ import annotations

from benchmarks import loading, tokens

if __name__ == "__main__":
    loading.main()
    raise SystemExit(tokens.main())
