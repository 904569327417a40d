"""Many streams at once: how late each event comes, and whether all of them come, in order."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.perf import wire
from benchmarks.perf.clients import Client, connected, finished
from benchmarks.perf.load import percentile
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


@dataclass(frozen=True, slots=True)
class Arrival:
    """One event, as it was read."""

    number: int
    late_s: float


async def read_streams(target: Target, streams: int, pace: wire.Pace, *, skip: int) -> Streamed:
    """Read so many streams to their end, all at once. The first `skip` events of each don't count for the delays.

    Raises: PerfError: it can't be reached, answered anything but 200, or a stream broke off.
    """
    async with connected(target, streams, _Reader, pace) as opened:
        for reader in opened:
            reader.send()
        await finished(target, opened, pace.events * pace.every_s)
    return _summed_up(target.name, [reader.arrivals for reader in opened], pace.events, skip)


def _summed_up(target: str, streams: Sequence[Sequence[Arrival]], expected: int, skip: int) -> Streamed:
    late = sorted(event.late_s for stream in streams for event in stream if event.number >= skip)
    if not late:
        raise PerfError(f"{target} delivered no event to measure")
    p50, p90, p99 = (percentile(late, share) * 1e3 for share in (0.5, 0.9, 0.99))
    return Streamed(
        target=target,
        streams=len(streams),
        events=sum(map(len, streams)),
        lost=sum(expected - len({event.number for event in stream}) for stream in streams),
        reordered=sum(map(reordered, streams)),
        p50_ms=p50,
        p90_ms=p90,
        p99_ms=p99,
        worst_ms=late[-1] * 1e3,
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
