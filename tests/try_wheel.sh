#!/usr/bin/env bash
# Builds the wheel, installs it into an empty environment and runs it from another folder: what a user gets.
set -euo pipefail
python=$1
project=$(pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

PIP_CONSTRAINT="$project/constraints.txt" "$python" -m build --wheel --outdir "$place/dist" .
"${PYTHON:-python3}" -m venv "$place/env"
"$place/env/bin/python" -m pip install --quiet --disable-pip-version-check \
  -c "$project/constraints.txt" "$place"/dist/*.whl

cd "$place"
bin=$(readlink -f env/bin/robusttc)
mkdir elsewhere
cd elsewhere
"$bin" --version
"$bin" demo --out demo --tasks 12
grep -q "<!DOCTYPE html>" demo/run/report.html
"$bin" predict demo/run --task new-task demo/new-task-test.csv | head -n 3
"$bin" inspect demo/tasks --json | "$place/env/bin/python" -c '
import json, sys
n_tasks = json.load(sys.stdin)["totals"]["n_tasks"]
assert n_tasks == 12, n_tasks
'
home=$("$place/env/bin/python" -c 'import robusttc; print(robusttc.__file__)')
case "$home" in
  "$place"/*) echo "The wheel works from any folder." ;;
  *) echo "The wheel was not what ran: $home"; exit 1 ;;
esac
