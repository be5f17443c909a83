"""The command line: one file a command. Nothing below this package prints."""

from __future__ import annotations

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and give its exit code; see `robusttc.cli.app`."""
    from robusttc.cli.app import run

    return run(arguments)
