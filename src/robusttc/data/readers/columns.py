"""Finding the columns of a table by name."""

from __future__ import annotations

from collections.abc import Sequence

from robusttc.data.options import ReadOptions
from robusttc.data.problems import FileFault
from robusttc.errors import nearest_name, quote

__all__ = ["find_columns"]


def find_columns(header: Sequence[str], options: ReadOptions, *, line: int | None = None) -> dict[str, int]:
    """Give the position of each role's column; ``split`` and ``task`` only where the table has them.

    Raises
    ------
    FileFault
        If a column that must be there is not, or is there twice.
    """
    places: dict[str, int] = {}
    for role, named in options.column_of_role.items():
        column = options.column_for(role)
        if column is None:
            continue
        count = header.count(column)
        if count > 1:
            raise FileFault(f"the column {quote(column)} is there {count} times", line=line)
        if count == 1:
            places[role] = header.index(column)
        elif named is not None:
            nearest = nearest_name(column, header)
            raise FileFault(
                f"missing column {quote(column)} for the {role}",
                line=line,
                got=f"columns {', '.join(map(quote, header[:12]))}" if header else "no columns",
                todo=f"name the column that has the {role} with --{role}-column"
                + (f" (did you mean {quote(nearest)}?)" if nearest else ""),
            )
    return places
