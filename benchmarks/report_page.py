"""How long the report's page takes to write and to open, and how large it is: 10, 175 and 1,491 tasks.

The runs are put together by hand, in the sizes of real ones; ``--run RUN`` adds the report of a finished one.
Pages are opened by Chromium without a window, three times each; the time is that of the page
itself, from the request until it can be used.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import print_table, worst_and_best

N_TASKS = (10, 175, 1_491)
N_TIMES = 3
# The runs and the browser are those of the tests.
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "report"))


def main() -> None:
    """Measure, and print a table."""
    from browser import WIDTHS, open_browser, open_page, set_screen
    from made_runs import make_large_run

    from robusttc.report import make_document, make_page
    from robusttc.run import open_run

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, action="append", default=[], help="a finished run, too")
    runs = parser.parse_args().run
    rows = []
    browser = open_browser()
    with tempfile.TemporaryDirectory(prefix="bench-page-") as folder:
        page = Path(folder) / "report.html"
        for source in (*N_TASKS, *runs):
            run = open_run(source) if isinstance(source, Path) else make_large_run(source)
            start = time.process_time()
            made = make_document(run)
            facts, start = time.process_time() - start, time.process_time()
            size = page.write_bytes(make_page(made))
            written = time.process_time() - start
            opened = []
            for width in WIDTHS.values():
                set_screen(browser, width)
                opened.append(worst_and_best([open_page(browser, page) for _ in range(N_TIMES)]))
            name = source.name if isinstance(source, Path) else "made"
            tasks = f"{len(made.values['tasks']):,}"
            load = f"{os.getloadavg()[0]:.1f}"
            rows.append([name, tasks, f"{facts:.2f}", f"{written:.2f}", f"{size / 1e6:.2f}", *opened, load])
            print(rows[-1], file=sys.stderr, flush=True)
    browser.quit()
    header = ["document", "tasks", "document in CPU s", "page in CPU s", "MB"]
    print_table([*header, *(f"opens at {width} px in s" for width in WIDTHS.values()), "load"], rows)


if __name__ == "__main__":
    main()
