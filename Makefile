# Every target sets up what it needs: a virtual environment in .venv, installed once and again when the
# requirements change.
PYTHON ?= python3
BIN := .venv/bin
# One thread a process: on shared cores, two threads of linear algebra get in each other's way.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export MKL_NUM_THREADS := 1
export TOKENIZERS_PARALLELISM := false

.PHONY: help demo test test-browser test-slow golden compare-old check format wheel clean

help:
	@echo "make demo         the whole journey on planted tasks, in ./demo"
	@echo "make test         all tests but the slow ones and those in a browser"
	@echo "make test-browser the tests of the report in a real browser; needs chromium and chromedriver"
	@echo "make test-slow    the slow tests"
	@echo "make golden       write the records of the public surface again, after an intended change"
	@echo "make compare-old  list every difference from version 0.1; ARGUMENTS=--quick for a part of it"
	@echo "make check        format, lint, types, spelling"
	@echo "make format       mend format and lint where a tool can"
	@echo "make bench-NAME   a benchmark, for instance make bench-ground"
	@echo "make table-NAME   a table of docs/results, for instance make table-intents-mtl; docs/results says which"
	@echo "make table-pages  make the pages of docs/results again from their JSON files"
	@echo "make wheel        build the wheel and try it in an empty environment"

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "robusttc needs Python 3.11 or later; name one: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv

# In one command, so that torch is resolved together with what needs it.
.venv/installed: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e .
	@touch $@

.venv/installed-dev: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@ .venv/installed

demo: .venv/installed
	$(BIN)/robusttc demo --out demo

# Without those in a browser, so that it is green on a machine that has none; .ci/run runs both.
test: .venv/installed-dev
	$(BIN)/python -m pytest -m "not slow and not browser" -n 2 --dist loadfile --no-loadscope-reorder
	@echo "LEFT OUT: the tests of the report in a real browser. Run them with: make test-browser"

test-browser: .venv/installed-dev
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { \
	  echo "The report is tried in a real browser: install chromium and chromedriver first"; \
	  echo "(Debian and Ubuntu: .ci/install-browser, or apt-get install chromium chromium-driver)."; exit 1; }
	$(BIN)/python -m pytest -m browser

test-slow: .venv/installed-dev
	$(BIN)/python -m pytest -m "slow and not browser"

golden: .venv/installed-dev
	PYTHONPATH=src $(BIN)/python tests/golden/record_golden.py

# For instance: make compare-old ARGUMENTS="--quick --sets diverse"
compare-old: .venv/installed-dev
	$(BIN)/python -m benchmarks.compare_old $(ARGUMENTS)

check: .venv/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/codespell

format: .venv/installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench-%: .venv/installed-dev
	$(BIN)/python -m benchmarks.$* $(ARGUMENTS)

# For instance: make table-diverse ARGUMENTS=--quick
table-%: .venv/installed-dev
	$(BIN)/python -m benchmarks.paper.$(subst -,_,$*) $(ARGUMENTS)

wheel: .venv/installed-dev
	PYTHON="$(PYTHON)" bash tests/try_wheel.sh $(BIN)/python

clean:
	rm -rf .venv build dist demo .compare-old .mypy_cache .pytest_cache .ruff_cache .hypothesis
