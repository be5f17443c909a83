"""What Prometheus is told: no label names a task, so that ten thousand of them cost nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

__all__ = ["Metrics"]

MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The counters of one process; with several workers, `render` adds up those of all."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "robusttc_requests", "Answered requests", ["route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "robusttc_request_seconds",
            "From the first byte of a request to its answer",
            ["route"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self._texts = Counter("robusttc_texts", "Texts that were predicted", registry=self.registry)
        self._batch_texts = Histogram(
            "robusttc_batch_texts", "Texts in a batch", buckets=TEXTS, registry=self.registry
        )
        self._batch_wait = Histogram(
            "robusttc_batch_wait_seconds",
            "From the arrival of a request to its batch",
            buckets=SECONDS,
            registry=self.registry,
        )
        self._batches = Counter(
            "robusttc_batches",
            "Batches by what released them: the encoder was idle, or the budget of tokens was full",
            ["reason"],
            registry=self.registry,
        )
        self._queued = Gauge(
            "robusttc_queued_tokens",
            "Tokens that wait for the encoder",
            multiprocess_mode="livesum",
            registry=self.registry,
        )
        self._tasks = Gauge(
            "robusttc_tasks", "Tasks that are served", multiprocess_mode="max", registry=self.registry
        )
        self._version = Gauge(
            "robusttc_run_version",
            "The version of the run that answers",
            multiprocess_mode="min",
            registry=self.registry,
        )
        self._refused = Counter(
            "robusttc_refused_versions", "Versions of the run that were damaged", registry=self.registry
        )

    def observe_request(self, route: str, status: int, seconds: float) -> None:
        """Count a request; `route` is the pattern of its path."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def observe_batch(self, *, n_texts: int, waits: Sequence[float], reason: str, queued: int) -> None:
        """Count a batch."""
        self._batches.labels(reason).inc()
        self._batch_texts.observe(n_texts)
        self._texts.inc(n_texts)
        self._queued.set(queued)
        for seconds in waits:
            self._batch_wait.observe(seconds)

    def observe_version(self, version: int, n_tasks: int) -> None:
        """Note which version answers."""
        self._version.set(version)
        self._tasks.set(n_tasks)

    def observe_refused_version(self) -> None:
        """Count a version that could not be read."""
        self._refused.inc()

    def render(self) -> bytes:
        """Return all figures in Prometheus' text format."""
        if MULTIPROCESS not in os.environ:
            return generate_latest(self.registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
