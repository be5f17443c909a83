"""Run the commands of a JSON file in one process, a line of JSON for each as soon as it has ended."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from golden_run import run_command


def main() -> None:
    commands, answers, start = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    for arguments in json.loads(commands.read_text(encoding="utf-8"))[start:]:
        ended = asdict(run_command(*arguments))
        with answers.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(ended) + "\n")


if __name__ == "__main__":
    main()
