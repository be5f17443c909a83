"""The table of settings in the documentation, made from the settings themselves; `make golden` writes it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from robusttc.run.settings import ENVIRONMENT_PREFIX, OPTION_NAMES, Execution, FitSettings

PAGE = Path(__file__).parents[2] / "docs" / "runs.md"
MARKED = re.compile(
    r"(?<=<!-- settings: made by `make golden` -->\n).*?(?=<!-- end of settings -->)", re.DOTALL
)
HEADER = "| option | YAML key | environment | default | what it does |\n| --- | --- | --- | --- | --- |\n"
DEFAULT_IN_HELP = re.compile(r"  \[default: (.*)\]$")


def make_table() -> str:
    """Return a row for every setting."""
    fields = FitSettings.model_fields | Execution.model_fields
    return HEADER + "".join(make_row(name, field) for name, field in fields.items())


def make_row(name: str, field: Any) -> str:
    """Return the row of a setting."""
    default, help_text = field.get_default(call_default_factory=True), field.json_schema_extra["help"]
    said = DEFAULT_IN_HELP.search(help_text)
    if said:
        shown = said[1]
    elif isinstance(default, bool):
        shown = "true" if default else "false"
    elif isinstance(default, tuple) and default:
        shown = ",".join(map(str, default))
    else:
        shown = str(default) if default not in (None, (), {}) else "none"
    option = "--" + OPTION_NAMES.get(name, name.replace("_", "-"))
    if isinstance(default, bool):
        option += f"`, `--no-{name.removeprefix('use_').replace('_', '-')}"
    cells = (
        f"`{option}`",
        f"`{name}`",
        f"`{ENVIRONMENT_PREFIX}{name.upper()}`",
        shown,
        DEFAULT_IN_HELP.sub("", help_text),
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def put_table(page: str) -> str:
    """Return a page with the table between its marks."""
    table = make_table()
    changed, n_changed = MARKED.subn(lambda _: table, page)
    if n_changed != 1:
        raise ValueError(f"{PAGE} has {n_changed} places for the table of settings, not one")
    return changed
