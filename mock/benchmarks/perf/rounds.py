"""The whole measurement: every target in turn, round after round, so that a noisy neighbour disturbs all alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from benchmarks.perf import servers
from benchmarks.perf.fleet import Answered, FleetSizes, measure_fleet
from benchmarks.perf.load import Load, put_load
from benchmarks.perf.recording import RecordingSizes, measure_recording
from benchmarks.perf.screen import ScreenSizes, Started, measure_beside, measure_start, measure_unread
from benchmarks.perf.seeking import Indexed, Seeking, SeekingSizes, Sought, measure_seeking
from benchmarks.perf.streams import Streamed, read_streams
from benchmarks.perf.target import PerfError, Target
from benchmarks.perf.terminal import Held
from benchmarks.perf.wire import Pace
from hivemind.records import replace
from hivemind.text.humanise import plural

CLIENTS = (1, 16, 128)
STREAMS = (100, 500)
CROWD = 1500
_SLOW_S = 0.02
"""What the slowest gateway takes for a request. Until all clients have had an answer, it works and few are counted."""
_WARM_CLIENTS = 16


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    rounds: int
    """With clients in closed loops."""
    warm_s: float
    measure_s: float
    stream_rounds: int
    pace: Pace
    skip: int
    """Events at the start of each stream that don't count, while other streams are still being opened."""
    screen: ScreenSizes
    fleet: FleetSizes | None
    """None: not measured, as with the next two."""
    recording: RecordingSizes | None
    seeking: SeekingSizes | None
    streams: tuple[int, ...] = STREAMS
    crowd: int = CROWD
    """Streams that must come whole, however late."""
    crowd_pace: Pace = Pace(60, 0.05)  # noqa: RUF009  # it is immutable
    other_rounds: int = 2
    """With the other gateways, which are slower: fewer rounds, longer ones, and in the first one few streams and many
    clients."""
    other_measure_s: float = 1.5
    other_streams: int = 20
    clients: tuple[int, ...] = CLIENTS


_SCREEN = ScreenSizes(
    *(500, Pace(60, 0.05), 20),
    unread=50,
    stream_rounds=3,
    rounds=5,
    warm_s=0.2,
    measure_s=0.8,
    agents=11,
    starts=5,
)
_QUICK_SCREEN = replace(_SCREEN, stream_rounds=1, rounds=3, measure_s=0.5, starts=3)
_FLEET = FleetSizes(agents=200, requests=2_000, lessons=2, times=4)
_SEEKING = SeekingSizes(megabytes=700, seeks=100, openings=10)
_RECORDING = RecordingSizes(pairs=3, rounds=9, warm_s=0.03, measure_s=0.25)
FULL = Sizes(
    *(5, 0.2, 1.0),
    stream_rounds=3,
    pace=Pace(60, 0.05),
    skip=20,
    screen=_SCREEN,
    fleet=_FLEET,
    recording=_RECORDING,
    seeking=_SEEKING,
)
QUICK = Sizes(
    *(3, 0.1, 0.6),
    stream_rounds=1,
    pace=Pace(60, 0.05),
    skip=20,
    screen=_QUICK_SCREEN,
    fleet=replace(_FLEET, times=2),
    recording=replace(_RECORDING, measure_s=0.15),
    seeking=SeekingSizes(megabytes=200, seeks=40, openings=5),
    other_rounds=0,
)


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """A load that another gateway didn't carry."""

    target: str
    load: str
    why: str


def data_plane(sizes: Sizes) -> Sizes:
    """Only what requests and streams cost, and what they cost beside a control room."""
    return replace(sizes, screen=replace(sizes.screen, starts=0), fleet=None, recording=None, seeking=None)


Measured = Load | Streamed | Unmeasured | Held | Started | Answered | Seeking


@dataclass(frozen=True, slots=True)
class Round:
    """One round's measurements, each target's once for each size of load."""

    measured: tuple[Measured, ...]

    def load(self, target: str, clients: int) -> Load | None:
        return next(
            (m for m in self.measured if isinstance(m, Load) and (m.target, m.clients) == (target, clients)), None
        )

    def streamed(self, target: str, streams: int) -> Streamed | None:
        return next(
            (m for m in self.measured if isinstance(m, Streamed) and (m.target, m.streams) == (target, streams)), None
        )

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


@dataclass(frozen=True, slots=True)
class Others:
    """The programs of others to compare with; None: do without."""

    nginx: str | None = None
    litellm: str | None = None
    portkey: str | None = None


async def measure(sizes: Sizes, others: Others, *, progress: Callable[[str], None]) -> list[Round]:
    """Start the servers, put load on each in turn, and stop them.

    Raises: PerfError.
    """
    async with AsyncExitStack() as stack:
        direct = await stack.enter_async_context(servers.upstream())
        proxied = await stack.enter_async_context(servers.hivemind(direct))
        targets, slower = [direct, proxied], []
        if others.nginx is not None:
            targets.append(await stack.enter_async_context(servers.nginx(others.nginx, direct)))
        if others.litellm is not None and sizes.other_rounds:
            progress("LiteLLM starts")
            slower.append(await stack.enter_async_context(servers.litellm(others.litellm, direct)))
        if others.portkey is not None and sizes.other_rounds:
            slower.append(await stack.enter_async_context(servers.portkey(others.portkey, direct)))
        for target in slower:
            await put_load(target, _WARM_CLIENTS, warm_s=0.0, measure_s=sizes.other_measure_s)
        rounds = []
        for number in range(max(sizes.rounds, sizes.stream_rounds)):
            progress(f"round {number + 1} of {max(sizes.rounds, sizes.stream_rounds)}")
            # The other way round every other time, so that a drift favours nobody.
            turn = slice(None, None, 1 if number % 2 == 0 else -1)
            measured = await _round(sizes, number, targets[turn], slower[turn])
            rounds.append(Round(tuple(measured)))
        progress(f"{sizes.crowd:,} streams")
        crowd = [
            await read_streams(target, sizes.crowd, sizes.crowd_pace, skip=sizes.skip, tolerant=True)
            for target in (direct, proxied)
        ]
        rounds.append(Round(tuple(crowd)))
        if sizes.recording is not None:
            rounds += [Round(both) for both in await measure_recording(direct, sizes.recording, progress)]
        rounds += await _screen_rounds(direct, proxied, sizes, progress)
    if sizes.seeking is not None:
        rounds.append(Round(tuple(await measure_seeking(sizes.seeking, progress))))
    return rounds


async def _round(sizes: Sizes, number: int, targets: Sequence[Target], slower: Sequence[Target]) -> list[Measured]:
    measured: list[Measured] = []
    for clients in sizes.clients if number < sizes.rounds else ():
        for target in targets:
            measured.append(await put_load(target, clients, warm_s=sizes.warm_s, measure_s=sizes.measure_s))
        for target in slower if number < (sizes.other_rounds if clients <= _WARM_CLIENTS else 1) else ():
            warm_s = sizes.warm_s + clients * _SLOW_S
            measured.append(await put_load(target, clients, warm_s=warm_s, measure_s=sizes.other_measure_s))
    for streams in sizes.streams if number < sizes.stream_rounds else ():
        for target in targets:
            measured.append(await read_streams(target, streams, sizes.pace, skip=sizes.skip))
    for target in (*targets, *slower) if slower and number == 0 else ():
        try:
            measured.append(await read_streams(target, sizes.other_streams, sizes.pace, skip=sizes.skip))
        except PerfError as error:
            if target not in slower:
                raise
            # Of another project's program; ours must be measured all the same.
            measured.append(Unmeasured(target.name, plural(sizes.other_streams, "stream"), str(error)))
    return measured


async def _screen_rounds(direct: Target, proxied: Target, sizes: Sizes, progress: Callable[[str], None]) -> list[Round]:
    """All that has to do with the control room."""
    progress("a terminal that nobody reads")
    rounds = [Round(tuple(one)) for one in await measure_unread(direct, proxied, sizes.screen)]
    rounds += [Round(tuple(one)) for one in await measure_beside(direct, proxied, sizes.screen, progress)]
    for number in range(sizes.screen.starts):
        progress(f"start {number + 1} of {sizes.screen.starts}")
        rounds.append(Round((await measure_start(),)))
    if sizes.fleet is not None:
        rounds.append(Round(tuple(await measure_fleet(direct, sizes.fleet, progress))))
    return rounds
