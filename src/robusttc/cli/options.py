"""The options of commands: those that are settings are generated from `robusttc.run.settings`."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from robusttc.run.settings import OPTION_NAMES, Settings

__all__ = [
    "AllowIncomplete",
    "DeviceOption",
    "GiveUp",
    "JsonOption",
    "LimitOption",
    "MaxFlips",
    "MustPass",
    "QuietOption",
    "RunFolder",
    "SeedOption",
    "TasksPath",
    "with_settings",
]

TasksPath = Annotated[
    Path, typer.Argument(metavar="TASKS", help="A folder of task files, or one file with a task column.")
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")]
DeviceOption = Annotated[
    str,
    typer.Option("--device", metavar="DEVICE", help="Where a sentence model runs: auto, cpu, cuda, mps."),
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]
LimitOption = Annotated[int, typer.Option(min=0, help="How many rows a table has at the most; 0 shows all.")]
AllowIncomplete = Annotated[
    bool,
    typer.Option(
        "--allow-incomplete", help="Keep tasks that cannot be trained as they are, for lack of training rows."
    ),
]
MaxFlips = Annotated[
    int | None,
    typer.Option(
        "--max-flips",
        metavar="N",
        help="Publish no version that labels more held-out texts otherwise than the one before.",
    ),
]
MustPass = Annotated[
    Path | None,
    typer.Option(
        "--must-pass",
        metavar="FILE",
        help="A table with task, text and label: examples that all versions from now on must label so.",
    ),
]
GiveUp = Annotated[bool, typer.Option("--give-up", help="Drop a change that was begun and is not finished.")]
SeedOption = Annotated[int, typer.Option("--seed", help="The seed of everything random.")]

Command = Callable[..., Any]


def with_settings(*kinds: type[Settings], leave_out: Sequence[str] = ()) -> Callable[[Command], Command]:
    """Give a command an option for every setting; it gets those that were given as the mapping `given`.

    An option is None where it was not given: then the environment, the file or the default counts.
    """
    fields = {
        name: field for kind in kinds for name, field in kind.model_fields.items() if name not in leave_out
    }

    def decorate(command: Command) -> Command:
        hints = typing.get_type_hints(command, include_extras=True)
        own = [
            parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
            for name, parameter in inspect.signature(command).parameters.items()
            if name != "given"
        ]
        options = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option_of(name, field)
            )
            for name, field in fields.items()
        ]

        @functools.wraps(command)
        def run(**arguments: Any) -> Any:
            given = {name: arguments.pop(name) for name in fields}
            # An option that can be repeated is an empty list where it was not given.
            return command(**arguments, given={n: v for n, v in given.items() if v is not None and v != []})

        made: Any = run
        made.__signature__ = inspect.Signature([*own, *options])
        made.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *options)}
        return run

    return decorate


def option_of(name: str, field: Any) -> Any:
    """Return the annotation of the option of a setting; values are checked by the setting, not by typer."""
    default, extra = field.get_default(call_default_factory=True), field.json_schema_extra
    flag = "--" + OPTION_NAMES.get(name, name.replace("_", "-"))
    if isinstance(default, bool):
        flags = f"{flag}/--no-{flag.removeprefix('--').removeprefix('use-')}"
        help_text = extra["help"]
        if "[default:" not in help_text:
            help_text += f"  [default: {'yes' if default else 'no'}]"
        return Annotated[bool | None, typer.Option(flags, help=help_text)]
    is_repeated = isinstance(default, dict) or default == ()
    help_text = extra["help"]
    if "[default:" not in help_text and default is not None and not is_repeated:
        shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
        help_text += f"  [default: {shown}]"
    return Annotated[
        list[str] | None if is_repeated else str | None,
        typer.Option(flag, metavar=extra["metavar"] or "NAME", help=help_text),
    ]
