"""The runs: a fleet at work, with and without a store; a critical request beside many others."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.fleet import result
from benchmarks.fleet.load import Group, Load
from benchmarks.fleet.network import Network
from benchmarks.fleet.programs import Proxy, Redis, arrivals, provider, proxy_on
from benchmarks.fleet.result import Seen
from benchmarks.fleet.upstream import Provider
from hivemind_mock.bench.main import show_progress

RPM = 600
DEMAND = (60, 30, 10)
"""Agents at each proxy, which change places with each phase."""
WARM = (11, 5, 2)
"""And in the first minute, which they fill evenly: a window repeats what it was filled with."""
WARM_S = 60.0
PHASE_S = 120.0
SETTLE_S = 5.0
"""From a shift of the demand to the shares that count."""
LIMITS = ("--rpm", str(RPM), "--tpm", "0", "--max-concurrency", "200")
_LAST_S = 30.0


@dataclass(slots=True)
class Scene:
    """Proxies, their provider, and the store, if they have one."""

    network: Network
    folder: Path
    upstream: str
    proxies: list[Proxy]
    store: Redis | None

    async def seen(self, load: Load, ended: float, limit: float, *, by_tokens: bool = False) -> Seen:
        """Return what both sides noted."""
        log = [each for each in await arrivals(self.upstream) if each.at >= load.begun]
        return Seen(log, load.asked, load.begun, ended, limit, by_tokens)


@contextlib.asynccontextmanager
async def scene(
    network: Network, folder: Path, settings: Provider, flags: Sequence[str], *, fleet: bool
) -> AsyncIterator[Scene]:
    """Start them all, and end them all. Raises: PerfError."""
    async with contextlib.AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(provider(settings, folder))
        store = None
        if fleet:
            store = Redis(network.center.address, folder)
            stack.push_async_callback(store.stop)
            await store.start()
            flags = (*flags, "--fleet", store.url)
        proxies = [proxy_on(host, number + 1, upstream, folder, *flags) for number, host in enumerate(network.hosts)]
        for proxy in proxies:
            stack.push_async_callback(proxy.program.stop)
        await asyncio.gather(*(proxy.start() for proxy in proxies))
        yield Scene(network, folder, upstream, proxies, store)


def phases(minutes: float) -> list[tuple[float, tuple[int, ...]]]:
    """Return when which demand begins."""
    found: list[tuple[float, tuple[int, ...]]] = [(0.0, WARM)]
    at, demand = WARM_S, tuple(DEMAND)
    while at < WARM_S + minutes * 60 - _LAST_S or len(found) == 1:
        found.append((at, demand))
        at, demand = at + PHASE_S, (*demand[-1:], *demand[:-1])
    return found


async def steady(
    network: Network, folder: Path, minutes: float, *, fleet: bool, work: int = 0, stated: bool = True
) -> dict[str, Any]:
    """Load three proxies with a demand that shifts: so long, or until so much work is done. `stated`: the provider's
    headers state the limit, and what remains."""
    settings = Provider(host=network.center.address, rpm=RPM, stated=stated)
    async with scene(network, folder, settings, LIMITS, fleet=fleet) as here:
        most = [max(counts) for counts in zip(*(demand for _, demand in phases(10)), strict=True)]
        groups = [Group(proxy, count) for proxy, count in zip(here.proxies, most, strict=True)]
        load, schedule = Load(), phases(minutes * (3 if work else 1))
        async with load.at_work(groups):
            load.shift(WARM)
            shifts = await _until(load, schedule, WARM_S + minutes * 60, work)
            ended = time.monotonic()
        seen = await here.seen(load, ended, RPM)
        found = result.summary(seen)
        found["wall_s"] = round(ended - load.begun, 1)
        by_phase = [
            result.shares(seen, begin + SETTLE_S, end)
            for begin, end in itertools.pairwise([*shifts[1:], ended])
            if end - begin > PHASE_S / 2
        ]
        found["shares"] = by_phase
        found["worst_share"] = result.worst_share(by_phase)
        found["worst_share_whole"] = result.worst_share([result.shares(seen, load.begun + WARM_S, ended)])
        return found


async def _until(load: Load, schedule: Sequence[tuple[float, tuple[int, ...]]], end_s: float, work: int) -> list[float]:
    """Shift the demand on time, until the end or until the work is done; return when it was shifted."""
    shifts: list[float] = []
    while True:
        at = time.monotonic() - load.begun
        while len(shifts) < len(schedule) and at >= schedule[len(shifts)][0]:
            load.shift(schedule[len(shifts)][1])
            shifts.append(time.monotonic())
        if (load.answered >= work) if work else at >= end_s:
            return shifts
        if work and at > end_s * 3:
            return shifts
        show_progress(f"{at:.0f} s, {load.answered:,} answered, {load.dead} dead")
        await asyncio.sleep(0.1)


async def tokens(network: Network, folder: Path, minutes: float) -> dict[str, Any]:
    """Load three proxies where a limit of input tokens binds that only the provider's headers state."""
    limit = 120_000
    settings = Provider(host=network.center.address, itpm=limit)
    flags = ("--rpm", "0", "--max-concurrency", "200")
    async with scene(network, folder, settings, flags, fleet=True) as here:
        sizes = (3200, 6400, 12800)  # in characters
        groups = [
            Group(proxy, count // 3 or 1, padding="four" * (size // 4))
            for proxy, count in zip(here.proxies, DEMAND, strict=True)
            for size in sizes
        ]
        load = Load()
        async with load.at_work(groups):
            load.shift([1] * len(groups))
            await asyncio.sleep(WARM_S)
            load.shift([group.count for group in groups])
            await asyncio.sleep(minutes * 60)
            ended = time.monotonic()
        seen = await here.seen(load, ended, limit, by_tokens=True)
        return result.summary(seen)


async def critical(network: Network, folder: Path, minutes: float, *, slots: int = 0) -> dict[str, Any]:
    """Load two proxies with 25 LOW agents each, and the third with one CRITICAL; `slots` bind, or else requests."""
    settings = Provider(host=network.center.address, rpm=0 if slots else RPM)
    rpm = ("--rpm", "0" if slots else str(RPM), "--tpm", "0")
    flags = (*rpm, "--max-concurrency", str(slots or 200), "--agents.highest-priority", "critical")
    # Requests bind only if 50 agents ask for more than the limit.
    if not slots:
        settings = Provider(host=network.center.address, rpm=RPM, base_s=0.75, jitter_s=0.25)
    async with scene(network, folder, settings, flags, fleet=True) as here:
        first, second, smallest = here.proxies
        groups = [Group(first, 25, "low"), Group(second, 25, "low"), Group(smallest, 1, "critical", think_s=1.0)]
        load = Load()
        async with load.at_work(groups):
            load.shift((4, 4, 1))
            await asyncio.sleep(WARM_S)
            load.shift((25, 25, 1))
            await asyncio.sleep(minutes * 60)
            ended = time.monotonic()
        seen = await here.seen(load, ended, RPM if not slots else 1e9)
        later = [each for each in load.asked if each.sent >= load.begun + WARM_S + SETTLE_S]
        told = Seen(seen.arrivals, later, seen.begun, ended, seen.limit)
        found = result.summary(seen)
        if slots:
            begin = load.begun + WARM_S + SETTLE_S
            found["slots_used"] = round(result.in_flight(seen, begin, ended) / slots, 4)
        found["critical"] = result.spread(result.waits(told, lambda word: "-critical" in word))
        found["low"] = result.spread(result.waits(told, lambda word: "-low" in word))
        return found
