"""The settings of a server, each with a limit: nothing that a client can ask for is unbounded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import model_validator

from robusttc.run.settings import Settings, setting

__all__ = ["LOOPBACK", "ServeSettings"]

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def at_least(low: float, help_text: str, *, metavar: str = "N", high: float | None = None) -> Any:
    """Describe a number of the settings."""
    expected = f"a number of at least {low:g}" + ("" if high is None else f" and at most {high:g}")
    return setting(expected, help_text, metavar=metavar, ge=low, le=high)


class ServeSettings(Settings):
    """How a run is served; every value is an option of ``robusttc serve``."""

    host: Annotated[
        str, setting("an address", "The address to listen on; any but loopback needs --key-file.")
    ] = "127.0.0.1"
    port: Annotated[int, at_least(0, "The port; 0 takes a free one.", high=65535)] = 8080
    workers: Annotated[int, at_least(1, "How many processes answer.", high=256)] = 1
    key_file: Annotated[
        Path | None,
        setting("a file", "The keys that may ask, made by `robusttc keys`.", metavar="FILE"),
    ] = None
    device: Annotated[str, setting("a device", "Where a sentence model runs: auto, cpu, cuda, mps.")] = "auto"
    allowed_hosts: Annotated[
        tuple[str, ...],
        setting(
            "host names", "A host name that requests may be addressed to; may be repeated.", metavar="HOST"
        ),
    ] = ()
    max_body_bytes: Annotated[int, at_least(1024, "Bytes in the body of a request.")] = 2**20
    max_texts: Annotated[int, at_least(1, "Texts in a request.", high=100_000)] = 256
    max_characters: Annotated[int, at_least(1, "Characters in a text.")] = 20_000
    max_examples: Annotated[int, at_least(1, "Examples of a new task.")] = 1_000
    max_requests: Annotated[int, at_least(1, "Requests that are worked on at a time.")] = 512
    max_queued_tokens: Annotated[int, at_least(1, "Tokens that wait for the encoder, of all tasks.")] = 65_536
    max_task_share: Annotated[
        float, at_least(0.01, "The share of that queue that one task may fill.", metavar="P", high=1)
    ] = 0.5
    batch_tokens: Annotated[int, at_least(16, "Tokens that are encoded at a time.")] = 1_024
    read_seconds: Annotated[
        float, at_least(0.1, "Seconds within which a request must have arrived.", metavar="SECONDS")
    ] = 10.0
    request_seconds: Annotated[
        float,
        at_least(0.1, "Seconds after which a request is given up, and its work stopped.", metavar="SECONDS"),
    ] = 30.0
    drain_seconds: Annotated[
        float,
        at_least(0, "Seconds that requests in flight have left when the server stops.", metavar="SECONDS"),
    ] = 30.0
    cached_vectors: Annotated[
        int, at_least(0, "Sentence vectors kept in memory; 0 keeps none. Texts are never kept.")
    ] = 10_000

    @model_validator(mode="after")
    def refuse_open_address(self) -> Self:
        """Refuse to answer the network without keys."""
        if self.host not in LOOPBACK and self.key_file is None:
            raise ValueError(f"{self.host} can be reached from other machines: name a --key-file")
        return self
