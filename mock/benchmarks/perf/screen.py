"""The control room under measurement: what it costs the traffic that shares its event loop.

Streams through it, also while its terminal takes nothing; the same proxy with and without it, in turns, under traffic
like the demo's; and how soon it shows its first frame.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from benchmarks.perf.background import working
from benchmarks.perf.load import Load, put_load
from benchmarks.perf.streams import Streamed, read_streams
from benchmarks.perf.target import PerfError, Target
from benchmarks.perf.terminal import PROGRAM, Held, hivemind_tui, in_terminal
from benchmarks.perf.wire import Pace

CLIENTS = (1, 16)
_COMPLETE = re.compile(rb"HiveMind.*quit", re.DOTALL)
"""The header and the footer, which is painted last."""


@dataclass(frozen=True, slots=True)
class ScreenSizes:
    """How much goes through the proxy while the control room is up."""

    streams: int
    pace: Pace
    skip: int
    """Events at the start of each stream that don't count, while other streams are still being opened."""
    rounds: int
    """With and without a screen, in turns."""
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


async def measure_unread(behind: Target, proxied: Target, sizes: ScreenSizes) -> list[Streamed]:
    """The same streams through the proxy alone (`no screen`), with a control room whose terminal reads (`screen`), and
    with one whose terminal takes nothing from the first event to the last (`unread`).

    Raises: PerfError.
    """
    alone = Target("no screen", proxied.url, proxied.prefix)
    found = [await read_streams(alone, sizes.streams, sizes.pace, skip=sizes.skip)]
    async with hivemind_tui(behind) as (screen, terminal):
        found.append(await read_streams(screen, sizes.streams, sizes.pace, skip=sizes.skip))
        terminal.pause()
        unread = Target("unread", screen.url, screen.prefix)
        found.append(await read_streams(unread, sizes.streams, sizes.pace, skip=sizes.skip))
        terminal.resume()
        terminal.process.terminate()
        if code := await terminal.ended():
            raise PerfError(f"hivemind-tui ended with {code}")
    return found


async def measure_beside(
    behind: Target, proxied: Target, sizes: ScreenSizes, progress: Callable[[str], None]
) -> list[list[Load | Held]]:
    """Clients in a closed loop, through the proxy alone and through one with a control room, in turns: a list for each
    round, and at last what the monitor inside told.

    Raises: PerfError.
    """
    rounds: list[list[Load | Held]] = []
    async with hivemind_tui(behind) as (screen, terminal):
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


async def measure_start() -> Started:
    """Start the program with its demo, and end it.

    Raises: PerfError.
    """
    began = time.monotonic()
    async with in_terminal(PROGRAM, ("--demo", "--port", "0")) as terminal:
        await terminal.until(_COMPLETE)
        return Started("screen", time.monotonic() - began)
