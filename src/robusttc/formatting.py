"""How numbers are said in sentences, and how commands are written for people to run."""

from __future__ import annotations

import shlex
from pathlib import PurePath

__all__ = ["command_line", "count", "shell_word"]


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Give a number with its noun; `plural` where that is more than an s.

    >>> count(1, "task"), count(1200, "task"), count(2, "entry", "entries")
    ('1 task', '1,200 tasks', '2 entries')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def command_line(*words: str | PurePath | tuple[str, str]) -> str:
    r"""Write a command of robusttc so that a shell takes every word as it is.

    Parameters
    ----------
    words
        What comes after the name of the program: words, paths, and options with what somebody else has named.

    Examples
    --------
    >>> command_line("predict", PurePath("my run"), ("--task", "it's `x`"), "TEXTS.txt")
    'robusttc predict \'my run\' --task \'it\'"\'"\'s `x`\' TEXTS.txt'
    >>> command_line("explain", PurePath("-run"), ("--task", "-x"))
    'robusttc explain ./-run --task=-x'
    """
    return " ".join(["robusttc", *(shell_word(word) for word in words)])


def shell_word(word: str | PurePath | tuple[str, str]) -> str:
    """Write a word of `command_line`."""
    if isinstance(word, tuple):
        option, value = word
        # A value that begins with a dash would be taken for another option, and so would a path.
        return f"{option}{'=' if value.startswith('-') else ' '}{shlex.quote(value)}"
    text = str(word)
    return shlex.quote(f"./{text}" if isinstance(word, PurePath) and text.startswith("-") else text)
