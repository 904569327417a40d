"""The whole measurement: every target in turn, round after round, so that a noisy neighbour disturbs all alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

from benchmarks.perf import servers
from benchmarks.perf.fleet import Answered, FleetSizes, measure_fleet
from benchmarks.perf.load import Load, put_load
from benchmarks.perf.recording import RecordingSizes, measure_recording
from benchmarks.perf.screen import ScreenSizes, Started, measure_beside, measure_start, measure_unread
from benchmarks.perf.seeking import Indexed, Seeking, SeekingSizes, Sought, measure_seeking
from benchmarks.perf.streams import Streamed, read_streams
from benchmarks.perf.target import Target
from benchmarks.perf.terminal import Held
from benchmarks.perf.wire import Pace

CLIENTS = (1, 16, 128)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    rounds: int
    """With clients in closed loops."""
    warm_s: float
    measure_s: float
    stream_rounds: int
    streams: int
    pace: Pace
    skip: int
    """Events at the start of each stream that don't count, while other streams are still being opened."""
    screen: ScreenSizes
    fleet: FleetSizes
    recording: RecordingSizes
    seeking: SeekingSizes
    clients: tuple[int, ...] = CLIENTS


_SCREEN = ScreenSizes(
    streams=50, pace=Pace(120, 0.05), skip=20, rounds=9, warm_s=0.2, measure_s=0.8, agents=11, starts=5
)
_QUICK_SCREEN = replace(_SCREEN, pace=Pace(80, 0.05), rounds=3, measure_s=0.5, starts=3)
_FLEET = FleetSizes(agents=200, requests=2_000, lessons=2, times=4)
_SEEKING = SeekingSizes(megabytes=1000, seeks=100, openings=10)
_RECORDING = RecordingSizes(pairs=5, rounds=13, warm_s=0.03, measure_s=0.25)
FULL = Sizes(
    *(5, 0.3, 1.7),
    stream_rounds=3,
    streams=200,
    pace=Pace(120, 0.05),
    skip=20,
    screen=_SCREEN,
    fleet=_FLEET,
    recording=_RECORDING,
    seeking=_SEEKING,
)
QUICK = Sizes(
    *(3, 0.1, 0.3),
    stream_rounds=1,
    streams=200,
    pace=Pace(60, 0.05),
    skip=20,
    screen=_QUICK_SCREEN,
    fleet=replace(_FLEET, times=2),
    recording=replace(_RECORDING, pairs=3, rounds=9, measure_s=0.15),
    seeking=SeekingSizes(megabytes=200, seeks=40, openings=5),
)

Measured = Load | Streamed | Held | Started | Answered | Seeking


@dataclass(frozen=True, slots=True)
class Round:
    """One round's measurements, each target's once for each size of load."""

    measured: tuple[Measured, ...]

    def load(self, target: str, clients: int) -> Load | None:
        return next(
            (m for m in self.measured if isinstance(m, Load) and (m.target, m.clients) == (target, clients)), None
        )

    def streamed(self, target: str) -> Streamed | None:
        return next((m for m in self.measured if isinstance(m, Streamed) and m.target == target), None)

    def held(self) -> list[Held]:
        return [m for m in self.measured if isinstance(m, Held)]

    def started(self) -> Started | None:
        return next((m for m in self.measured if isinstance(m, Started)), None)

    def sought(self, kind: str) -> Sought | None:
        return next((m for m in self.measured if isinstance(m, Sought) and m.kind == kind), None)

    def indexed(self) -> Indexed | None:
        return next((m for m in self.measured if isinstance(m, Indexed)), None)

    def answered(self, kind: str) -> Answered | None:
        return next((m for m in self.measured if isinstance(m, Answered) and m.kind == kind), None)


async def measure(sizes: Sizes, *, nginx: str | None, progress: Callable[[str], None]) -> list[Round]:
    """Start the servers, put load on each in turn, and stop them. `nginx` is the program; None: do without.

    Raises: PerfError.
    """
    async with AsyncExitStack() as stack:
        direct = await stack.enter_async_context(servers.upstream())
        proxied = await stack.enter_async_context(servers.hivemind(direct))
        targets = [direct, proxied]
        if nginx is not None:
            targets.append(await stack.enter_async_context(servers.nginx(nginx, direct)))
        rounds = []
        for number in range(max(sizes.rounds, sizes.stream_rounds)):
            progress(f"round {number + 1} of {max(sizes.rounds, sizes.stream_rounds)}")
            # The other way round every other time, so that a drift favours nobody.
            order = targets if number % 2 == 0 else targets[::-1]
            measured: list[Measured] = []
            if number < sizes.rounds:
                for target, clients in _turns(order, sizes.clients):
                    measured.append(await put_load(target, clients, warm_s=sizes.warm_s, measure_s=sizes.measure_s))
            if number < sizes.stream_rounds:
                for target in order:
                    if target.name != "nginx":
                        measured.append(await read_streams(target, sizes.streams, sizes.pace, skip=sizes.skip))
            rounds.append(Round(tuple(measured)))
        rounds += [Round(both) for both in await measure_recording(direct, sizes.recording, progress)]
        rounds += await _screen_rounds(direct, proxied, sizes, progress)
    return [*rounds, Round(tuple(await measure_seeking(sizes.seeking, progress)))]


async def _screen_rounds(direct: Target, proxied: Target, sizes: Sizes, progress: Callable[[str], None]) -> list[Round]:
    """All that has to do with the control room."""
    progress("a terminal that nobody reads")
    rounds = [Round(tuple(await measure_unread(direct, proxied, sizes.screen)))]
    rounds += [Round(tuple(one)) for one in await measure_beside(direct, proxied, sizes.screen, progress)]
    for number in range(sizes.screen.starts):
        progress(f"start {number + 1} of {sizes.screen.starts}")
        rounds.append(Round((await measure_start(),)))
    rounds.append(Round(tuple(await measure_fleet(direct, sizes.fleet, progress))))
    return rounds


def _turns(targets: Sequence[Target], sizes: Sequence[int]) -> Iterator[tuple[Target, int]]:
    for clients in sizes:
        for target in targets:
            yield target, clients
