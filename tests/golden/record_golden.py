"""Write the records of the public surface and the table of settings: `make golden`.

With `--out FOLDER` only the records are written, to another place.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path

from golden_run import fix_terminal
from golden_surface import Section, collect_surface, describe_options

RECORDS = Path(__file__).parent / "records"


def write_records(out: Path, sections: dict[str, Section], helps: dict[str, str]) -> None:
    """Write a text file a section and a help text; files of commands that are gone are removed."""
    shutil.rmtree(out, ignore_errors=True)
    for name, section in sections.items():
        write_text(out / f"{name}.txt", "".join(f"{key}: {said}\n" for key, said in section.items()))
    for name, text in helps.items():
        write_text(out / "help" / f"{name}.txt", text)


def write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RECORDS, help="the folder that is replaced")
    out = parser.parse_args().out
    if out == RECORDS:
        # Here, for version 0.1, which is recorded for comparison, has no such settings.
        from settings_table import PAGE, put_table

        write_text(PAGE, put_table(PAGE.read_text(encoding="utf-8")))
    fix_terminal()
    with tempfile.TemporaryDirectory(prefix="robusttc-golden-") as folder:
        # The user's cache is neither read nor filled.
        os.environ["ROBUSTTC_CACHE"] = str(Path(folder) / "cache")
        (Path(folder) / "work").mkdir()
        sections, helps = collect_surface(Path(folder) / "work")
    write_records(out, sections | {"options": describe_options(helps)}, helps)


# Worker processes import this file again.
if __name__ == "__main__":
    main()
