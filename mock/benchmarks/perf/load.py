"""Clients in a closed loop: each sends its next request when the answer to the last one is complete."""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.perf.clients import Client, connected, finished
from benchmarks.perf.metering import Meter, scraping
from benchmarks.perf.target import Target


@dataclass(frozen=True, slots=True)
class Load:
    """What a number of clients saw of one target."""

    target: str
    clients: int
    requests: int
    per_s: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    cpu_us: float | None = None
    """Processor time of all the target's processes for each request; None where it isn't measured."""


async def put_load(target: Target, clients: int, *, warm_s: float, measure_s: float) -> Load:
    """Load a target for `warm_s` that don't count and `measure_s` that do, on as many connections as clients.

    Raises: PerfError: it can't be reached, or answered anything but 200.
    """
    async with connected(target, clients, _Looping) as opened, scraping(target):
        meter = Meter(target, lambda: sum(client.answered for client in opened), warm_s, warm_s + measure_s)
        begin = time.monotonic() + warm_s
        span = _Span(begin, begin + measure_s)
        for client in opened:
            client.start(span)
        await finished(target, opened, warm_s + measure_s)
        cpu_us = meter.each_us()
    taken = sorted(seconds for client in opened for seconds in client.taken_s)
    p50, p90, p99 = (percentile(taken, share) * 1e3 for share in (0.5, 0.9, 0.99))
    return Load(target.name, clients, len(taken), len(taken) / measure_s, p50, p90, p99, cpu_us)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which this share of the values lies; there is at least one, and they ascend."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass(frozen=True, slots=True)
class _Span:
    """When to measure, on the monotonic clock, and so when to stop."""

    begin: float
    end: float


class _Looping(Client):
    def __init__(self, name: str, request: bytes) -> None:
        super().__init__(name, request)
        self.taken_s = array("d")
        """Of each request that was answered while measuring."""
        self.answered = 0
        """Requests in all."""
        self._span = _Span(0.0, 0.0)
        self._sent_at = 0.0

    def start(self, span: _Span) -> None:
        self._span = span
        self._again(time.monotonic())

    def on_message_complete(self) -> None:
        now = time.monotonic()
        self.answered += 1
        if not self.parser.should_keep_alive():
            self.fail("doesn't keep connections")
            return
        if self._span.begin <= now and self._measuring(now):
            self.taken_s.append(now - self._sent_at)
        self._again(now)

    def _measuring(self, now: float) -> bool:
        # On a busy machine the span may pass before the first answer, which is measured all the same.
        return now < self._span.end or not self.taken_s

    def _again(self, now: float) -> None:
        if self._measuring(now):
            self._sent_at = now
            self.send()
        else:
            self.finish()
