"""How fast the control room answers a key when there is much to show: 200 agents, 2,000 requests remembered.

What a key changes on the screen is learnt first: the agents in whose rows it has something painted every time. Measured
is the time from the key to the last of them.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.perf.load import percentile, put_load
from benchmarks.perf.target import PerfError, Target
from benchmarks.perf.terminal import Held, Terminal, hivemind_tui

_DOWN, _UP, _BACKSPACE, _ESCAPE = b"\x04", b"\x15", b"\x7f", b"\x1b"
_FREEZE = b"v"
"""Until it is pressed again, only keys change what is painted: rows that count seconds by themselves would be taken for
a key's, and waited for."""
_PAGES = (b"2", b"3")
"""The keys that open the lists of agents and of requests."""
_KEYS: dict[str, tuple[bytes, tuple[bytes, ...], bytes]] = {
    "scroll": (b"", (b"G", b"g", _DOWN, _UP, b"j", b"k"), b""),
    "filter": (b"/", (b"1", b"7", _BACKSPACE, _BACKSPACE), _ESCAPE),
    "sort": (b"s", (b"S", b"S"), b""),
}
"""By kind: the keys measured, which lead back to where they began, with what comes before and after them."""
_AGENT = re.compile(rb"perf-\d+")
_STYLE = re.compile(rb"\x1b\[[0-9;]*m")
_SETTLE_S = 0.15
"""Longer than anything should take, and than it is from one frame to the next."""
_CATCH_UP_S = 1.5
"""Requests that are remembered reach the screen a few hundred at a time."""
_PATIENCE_S = 1.0
_LONGEST_S = 5.0
"""For the screen to come to rest, on a busy machine too."""


@dataclass(frozen=True, slots=True)
class FleetSizes:
    """How much there is to show, and how often each key is pressed."""

    agents: int
    requests: int
    lessons: int
    """Times that all keys are pressed to learn what they change."""
    times: int
    """And to measure."""


@dataclass(frozen=True, slots=True)
class Answered:
    """How long keys of one kind took, from being pressed to the last change on the screen."""

    target: str
    kind: str
    keys: int
    p50_ms: float
    p95_ms: float
    worst_ms: float


async def measure_fleet(behind: Target, sizes: FleetSizes, progress: Callable[[str], None]) -> list[Answered | Held]:
    """Fill a control room's lists, then scroll, filter and sort them.

    Raises: PerfError.
    """
    taken: dict[str, list[float]] = {kind: [] for kind in _KEYS}
    async with hivemind_tui(behind) as (screen, terminal):
        await _fill(screen, sizes)
        for page in _PAGES:
            progress(f"a fleet of {sizes.agents}, page {page.decode()}")
            await _settled(terminal, page)
            await asyncio.sleep(_CATCH_UP_S)
            await _settled(terminal, _FREEZE)
            for kind, (before, keys, after) in _KEYS.items():
                await _settled(terminal, before)
                changes = await _learnt(terminal, keys, sizes.lessons)
                for _ in range(sizes.times):
                    for key, changed in zip(keys, changes, strict=True):
                        taken[kind] += await _answer(terminal, key, changed)
                await _settled(terminal, after)
            await _settled(terminal, _FREEZE)
        held = await terminal.left("fleet")
    return [*(_answered(kind, sorted(found)) for kind, found in taken.items()), held]


async def _fill(screen: Target, sizes: FleetSizes) -> None:
    made = 0
    while made < sizes.requests:
        made += (await put_load(screen, sizes.agents, warm_s=0.0, measure_s=1.0)).requests
    await asyncio.sleep(_CATCH_UP_S)


async def _settled(terminal: Terminal, keys: bytes) -> None:
    """Press keys one by one, and let everything be painted, however late it comes on a busy machine."""
    for key in keys:
        terminal.output.clear()
        terminal.type(bytes([key]))
        try:
            async with asyncio.timeout(_PATIENCE_S):
                while not _named(terminal):
                    await terminal.news()
        except TimeoutError:
            pass  # a key that paints no agent's row, such as the one that opens the filter
        await _rested(terminal, _SETTLE_S)


async def _rested(terminal: Terminal, quiet_s: float) -> None:
    """Wait until nothing has been painted for this long."""
    try:
        async with asyncio.timeout(_LONGEST_S):
            while await _more_within(terminal, quiet_s):
                pass
    except TimeoutError:
        pass  # it always paints something


async def _more_within(terminal: Terminal, quiet_s: float) -> bool:
    try:
        async with asyncio.timeout(quiet_s):
            await terminal.news()
    except TimeoutError:
        return False
    return True


async def _learnt(terminal: Terminal, keys: Sequence[bytes], lessons: int) -> list[set[bytes]]:
    """The agents in whose rows each key paints something every time."""
    changes: list[set[bytes]] = []
    for lesson in range(lessons):
        for index, key in enumerate(keys):
            await _settled(terminal, key)
            seen = _named(terminal)
            if lesson == 0:
                changes.append(seen)
            else:
                changes[index] &= seen
    return changes


async def _answer(terminal: Terminal, key: bytes, changed: set[bytes]) -> list[float]:
    """How long it takes until all has changed, in seconds; nothing where the key changes nothing."""
    terminal.output.clear()
    began = time.monotonic()
    terminal.type(key)
    if not changed:
        await _rested(terminal, _SETTLE_S)
        return []
    try:
        async with asyncio.timeout(_PATIENCE_S):
            while not changed <= _named(terminal):
                await terminal.news()
    except TimeoutError:
        pass
    taken = time.monotonic() - began
    await _rested(terminal, _SETTLE_S / 2)  # the next key finds a screen at rest
    return [taken]


def _named(terminal: Terminal) -> set[bytes]:
    return set(_AGENT.findall(_STYLE.sub(b"", terminal.output)))


def _answered(kind: str, taken: Sequence[float]) -> Answered:
    if not taken:
        raise PerfError(f"no key changed anything: {kind}")
    p50, p95 = (percentile(taken, share) * 1e3 for share in (0.5, 0.95))
    return Answered("fleet", kind, len(taken), p50, p95, taken[-1] * 1e3)
