"""`robusttc serve`: one server for all tasks of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from robusttc.cli.options import RunFolder, with_settings
from robusttc.errors import UsageError
from robusttc.serve.settings import ServeSettings

__all__ = ["keys", "serve"]

KeyFileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="The file of keys; it holds hashes only.")
]

keys = typer.Typer(help="Issue, list and revoke the keys of a server.", no_args_is_help=True)


@with_settings(ServeSettings)
def serve(run: RunFolder, *, given: dict[str, Any]) -> None:
    """Answer for all tasks of a run over HTTP, with a page to look at and an API.

    The API is described at /openapi.json. Changes of the run, also by other commands, are served at once.
    """
    from robusttc.run.settings import read_settings

    settings, _ = read_settings(ServeSettings, environment={}, options=given)
    try:
        from robusttc.serve.process import run_server
    except ImportError as error:
        raise UsageError(
            "the server needs more packages",
            got=str(error),
            todo="install them: pip install 'robusttc[serve]'",
        ) from None
    run_server(run, settings)


@keys.command()
def issue(
    file: KeyFileArgument,
    task: Annotated[
        str | None, typer.Option(metavar="ID", help="The only task that the key is for; see --admin.")
    ] = None,
    admin: Annotated[bool, typer.Option("--admin", help="A key for everything.")] = False,
) -> None:
    """Issue a key, and print it; it is stored nowhere, so it cannot be printed again."""
    from robusttc.serve.keys import issue_key

    if admin == (task is not None):
        raise UsageError("who the key is for is not clear", expected="either --task ID or --admin")
    typer.echo(issue_key(file, task=task))


@keys.command("list")
def list_all(file: KeyFileArgument) -> None:
    """List the keys: id, what they are for, when they were issued."""
    from robusttc.serve.keys import list_keys

    for key in list_keys(file):
        typer.echo(f"{key.id}\t{'admin' if key.is_admin else key.task}\t{key.made}")


@keys.command()
def revoke(
    file: KeyFileArgument, key_id: Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it.")]
) -> None:
    """Revoke a key; running servers refuse it from the next request on."""
    from robusttc.serve.keys import revoke_key

    revoke_key(file, key_id)


@keys.command()
def rotate(
    file: KeyFileArgument, key_id: Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it.")]
) -> None:
    """Issue a new key for the same task, print it, and revoke the old one."""
    from robusttc.serve.keys import issue_key, list_keys, revoke_key

    found = {key.id: key for key in list_keys(file)}
    if key_id not in found:
        raise UsageError("there is no such key", got=repr(key_id), todo=f"see robusttc keys list {file}")
    typer.echo(issue_key(file, task=found[key_id].task))
    revoke_key(file, key_id)
