"""Many streams at once: how late each event comes, and whether all of them come, in order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.perf import wire
from benchmarks.perf.clients import PATIENCE_S, Client, connected, finished
from benchmarks.perf.load import percentile
from benchmarks.perf.metering import Meter, scraping
from benchmarks.perf.target import PerfError, Target


@dataclass(frozen=True, slots=True)
class Streamed:
    """What the readers of a number of streams saw of one target."""

    target: str
    streams: int
    events: int
    """That came, those of the warm-up included."""
    lost: int
    reordered: int
    """That came after a later one of the same stream, or twice."""
    p50_ms: float
    """From being written by the upstream to being read, as are the others."""
    p90_ms: float
    p99_ms: float
    worst_ms: float
    complete: int
    """Streams that came whole, with every event and their end."""
    cpu_us: float | None = None
    """Processor time of all the target's processes for each event while all streams flow; None where it isn't
    measured."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One event, as it was read."""

    number: int
    late_s: float


async def read_streams(target: Target, streams: int, pace: wire.Pace, *, skip: int, tolerant: bool = False) -> Streamed:
    """Read so many streams to their end, all at once. The first `skip` events of each don't count, nor the last for the
    processor time.

    Raises: PerfError: it can't be reached; unless `tolerant`, it answered anything but 200, or a stream broke off.
    """
    async with connected(target, streams, _Reader, pace) as opened, scraping(target):
        begin_s, end_s = skip * pace.every_s, (pace.events - 1) * pace.every_s
        meter = Meter(target, lambda: sum(len(reader.arrivals) for reader in opened), begin_s, end_s)
        for reader in opened:
            reader.send()
        if tolerant:
            within_s = pace.events * pace.every_s + PATIENCE_S
            for done in (await asyncio.wait([reader.done for reader in opened], timeout=within_s))[0]:
                done.exception()  # how a stream ended is told by its events
        else:
            await finished(target, opened, pace.events * pace.every_s)
        cpu_us = meter.each_us()
    return _summed_up(target.name, [reader.arrivals for reader in opened], pace.events, skip, cpu_us)


def _summed_up(
    target: str, streams: Sequence[Sequence[Arrival]], expected: int, skip: int, cpu_us: float | None
) -> Streamed:
    late = sorted(event.late_s for stream in streams for event in stream if event.number >= skip)
    if not late:
        raise PerfError(f"{target} delivered no event to measure")
    p50, p90, p99 = (percentile(late, share) * 1e3 for share in (0.5, 0.9, 0.99))
    lost = [expected - len({event.number for event in stream}) for stream in streams]
    return Streamed(
        target=target,
        streams=len(streams),
        events=sum(map(len, streams)),
        lost=sum(lost),
        reordered=sum(map(reordered, streams)),
        p50_ms=p50,
        p90_ms=p90,
        p99_ms=p99,
        worst_ms=late[-1] * 1e3,
        complete=lost.count(0),
        cpu_us=cpu_us,
    )


def reordered(stream: Sequence[Arrival]) -> int:
    """Events that came after a later one, or twice."""
    highest, count = -1, 0
    for event in stream:
        if event.number <= highest:
            count += 1
        highest = max(highest, event.number)
    return count


class _Reader(Client):
    def __init__(self, name: str, request: bytes) -> None:
        super().__init__(name, request)
        self.arrivals: list[Arrival] = []
        self._rest = b""

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail("broke a stream off")

    def on_body(self, data: bytes) -> None:
        now_ns = time.monotonic_ns()
        whole, end, self._rest = (self._rest + data).rpartition(b"\n\n")
        if end:
            self.arrivals += [Arrival(number, (now_ns - sent_ns) / 1e9) for number, sent_ns in wire.stamps(whole)]

    def on_message_complete(self) -> None:
        self.finish()
