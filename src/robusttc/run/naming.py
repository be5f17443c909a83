"""A workshop under whose names the same computation can be done twice with different inputs.

What a unit's key does not tell, the stage's inputs, is put into the key here: clusters that are found anew
after units were tried again must not get the models of the old ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from robusttc.files import encode_json
from robusttc.progress import Progress
from robusttc.work.units import Handle, Payload, Unit, Workshop

__all__ = ["Named", "digest_values"]


def digest_values(*values: Any) -> str:
    """Give a short name for JSON values.

    >>> digest_values({"a": 0, "b": 1}) == digest_values({"b": 1, "a": 0})
    True
    """
    return hashlib.sha256(encode_json(list(values), where="a stage's inputs").encode()).hexdigest()[:12]


class Named:
    """Passes units on with a name in their keys: ``multitask/own/3`` becomes ``multitask/NAME/own/3``.

    Parameters
    ----------
    workshop
        Who does the work.
    name
        What to put into the keys.
    stage
        The stage that units are a part of, in place of the one that the computation gives; None keeps it.
    paid_by
        The stage that units which are not there yet are booked to; None books them to their own.

    Examples
    --------
    >>> from robusttc.work.units import HERE
    >>> def answer(data, argument):
    ...     return Payload({"answer": 42})
    >>> seen = []
    >>> unit = Unit("multitask/own", answer)
    >>> done = Named(HERE, "1f").do("multitask", [unit], when_done=lambda unit, _: seen.append(unit.key))
    >>> done[0].values["answer"], seen
    (42, ['multitask/own'])
    """

    def __init__(
        self, workshop: Workshop, name: str, *, stage: str | None = None, paid_by: str | None = None
    ) -> None:
        self.workshop = workshop
        self.name = name
        self.stage = stage
        self.paid_by = paid_by

    def put(self, data: Any) -> Handle:
        """Pass on."""
        return self.workshop.put(data)

    def drop(self, handle: Handle) -> None:
        """Pass on."""
        self.workshop.drop(handle)

    def do(
        self,
        stage: str,
        units: Sequence[Unit],
        data: Handle | None = None,
        *,
        when_done: Callable[[Unit, Payload], None] | None = None,
        progress: Progress | None = None,
        noun: str = "units",
    ) -> list[Payload | None]:
        """Pass on, with other keys; who listens hears the keys that the computation gave."""
        own_stage = stage if self.stage is None else self.stage
        renamed = [replace(unit, key=self.rename(own_stage, stage, unit.key)) for unit in units]
        given = {new.key: old for new, old in zip(renamed, units, strict=True)}

        def tell(unit: Unit, payload: Payload) -> None:
            if when_done is not None:
                when_done(given[unit.key], payload)

        booked = own_stage if self.paid_by is None else self.paid_by
        return self.workshop.do(booked, renamed, data, when_done=tell, progress=progress, noun=noun)

    def rename(self, own_stage: str, stage: str, key: str) -> str:
        """Put the name into a key."""
        return f"{own_stage}/{self.name}/{key.removeprefix(f'{stage}/')}"
