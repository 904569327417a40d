"""The control room under measurement: what it costs the traffic that shares its event loop.

Streams through it, also while its terminal takes nothing; the same proxy with and without it, in turns, under traffic
like the demo's; and how soon it shows its first frame.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.perf.background import working
from benchmarks.perf.load import Load, put_load
from benchmarks.perf.streams import Streamed, read_streams
from benchmarks.perf.target import PerfError, Target
from benchmarks.perf.terminal import PROGRAM, Held, hivemind_tui, in_terminal
from benchmarks.perf.wire import Pace
from hivemind.records import replace

CLIENTS = (1, 16, 128)
_WARM_S = 4.0
_COMPLETE = re.compile(rb"HiveMind.*quit", re.DOTALL)
"""The header and the footer, which is painted last."""


@dataclass(frozen=True, slots=True)
class ScreenSizes:
    """How much goes through the proxy while the control room is up."""

    streams: int
    pace: Pace
    skip: int
    """Events at the start of each stream that don't count, while other streams are still being opened."""
    unread: int
    """Streams while nobody reads the terminal."""
    stream_rounds: int
    """With and without a screen, in turns, as are the others."""
    rounds: int
    warm_s: float
    measure_s: float
    agents: int
    """In the background, as in the demo."""
    starts: int


@dataclass(frozen=True, slots=True)
class Started:
    """One start of the program, in a terminal."""

    target: str
    first_frame_s: float
    """From starting the process to the whole frame's being read."""


async def measure_unread(behind: Target, proxied: Target, sizes: ScreenSizes) -> list[list[Streamed]]:
    """The same streams through the proxy alone (`no screen`) and with a control room whose terminal reads (`screen`),
    in turns: a list for each round. At last with one whose terminal takes nothing from the first event to the last
    (`unread`).

    Raises: PerfError.
    """
    rounds = []
    async with hivemind_tui(behind) as (screen, terminal):
        await _warmed(screen, sizes.agents)
        both = [replace(proxied, name="no screen"), screen]
        for number in range(sizes.stream_rounds):
            turn = both if number % 2 == 0 else both[::-1]
            rounds.append([await read_streams(each, sizes.streams, sizes.pace, skip=sizes.skip) for each in turn])
        terminal.pause()
        unread = replace(screen, name="unread")
        rounds.append([await read_streams(unread, sizes.unread, sizes.pace, skip=sizes.skip)])
        terminal.resume()
        terminal.process.terminate()
        if code := await terminal.ended():
            raise PerfError(f"hivemind-tui ended with {code}")
    return rounds


async def measure_beside(
    behind: Target, proxied: Target, sizes: ScreenSizes, progress: Callable[[str], None]
) -> list[list[Load | Held]]:
    """Clients in a closed loop, through the proxy alone and through one with a control room, in turns: a list for each
    round, and at last what the monitor inside told.

    Raises: PerfError.
    """
    rounds: list[list[Load | Held]] = []
    async with hivemind_tui(behind) as (screen, terminal):
        await _warmed(screen, sizes.agents)
        both = [replace(proxied, name="no screen"), screen]
        for number in range(sizes.rounds):
            progress(f"with and without a screen, {number + 1} of {sizes.rounds}")
            measured: list[Load | Held] = []
            for target in both if number % 2 == 0 else both[::-1]:
                async with working(target, sizes.agents):
                    for clients in CLIENTS:
                        load = await put_load(target, clients, warm_s=sizes.warm_s, measure_s=sizes.measure_s)
                        measured.append(load)
            rounds.append(measured)
        rounds.append([await terminal.left("screen")])
    return rounds


async def _warmed(screen: Target, agents: int) -> None:
    """Let happen what happens once, a little after a start: prices are loaded, and with the first curve a process
    starts, whose processor time would count as the first round's."""
    async with working(screen, agents):
        await asyncio.sleep(_WARM_S)


async def measure_start() -> Started:
    """Start the program with its demo, and end it.

    Raises: PerfError.
    """
    began = time.monotonic()
    async with in_terminal(PROGRAM, ("--demo", "--port", "0")) as terminal:
        await terminal.until(_COMPLETE)
        return Started("screen", time.monotonic() - began)
