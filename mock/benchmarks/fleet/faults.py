"""Faults under load, one after the other: the store dies, loses its state or fails over; a proxy dies or is cut off."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.fleet import result
from benchmarks.fleet.load import Group, Load
from benchmarks.fleet.network import Network
from benchmarks.fleet.programs import Redis
from benchmarks.fleet.result import Seen
from benchmarks.fleet.runs import DEMAND, LIMITS, RPM, WARM, WARM_S, Scene, scene
from benchmarks.fleet.upstream import Provider
from hivemind_mock.bench.main import show_progress

AWAY_S = 60.0
CUT_OFF_S = 30.0
READONLY_S = 3.0
"""A replica answers at its primary's address for so long before it is promoted."""
BACK_S = 10.0
"""After so long all of the limit is to be in use again."""
RECOVER_S = 75.0
"""After each fault: more than a window, so that the next begins with one that is full."""


@dataclass(slots=True)
class Faults:
    """What can be done to a fleet under load. Each returns when all was as before."""

    here: Scene
    load: Load
    spare: list[Redis]

    @property
    def store(self) -> Redis:
        assert self.here.store is not None
        return self.here.store

    async def redis_killed(self) -> None:
        """Kill Redis, and start it again, empty."""
        await self.store.kill()
        await asyncio.sleep(AWAY_S)
        await self.store.start()

    async def proxy_killed(self) -> None:
        """Kill the proxy with the largest share; its agents wait until it is started again, which counts as part of
        the recovery of the others."""
        proxy = self.here.proxies[0]
        self.load.excuse(proxy)
        await proxy.program.kill()

    async def proxy_started(self) -> None:
        """Start it again."""
        await self.here.proxies[0].start()

    async def cut_off(self) -> None:
        """Drop what goes between one proxy and Redis."""
        host = self.here.proxies[1].host
        host.cut_off(self.store.port)
        try:
            await asyncio.sleep(CUT_OFF_S)
        finally:
            host.reconnect(self.store.port)

    async def flushed(self) -> None:
        """Remove all that Redis knows."""
        self.store.ask("FLUSHALL")

    async def failed_over_empty(self) -> None:
        """Kill Redis; another one without data answers at its address."""
        other = await self._another()
        await self._replace(other)

    async def failed_over_promoted(self) -> None:
        """Kill Redis; its replica answers at its address, at first as a replica."""
        other = await self._another()
        other.ask("REPLICAOF", self.store.host, self.store.port)
        for _ in range(100):
            if other.info("replication").get("master_link_status") == "up":
                break
            await asyncio.sleep(0.1)
        await asyncio.sleep(2)
        await self._replace(other, READONLY_S)

    async def _another(self) -> Redis:
        other = Redis(self.store.host, self.here.folder / f"spare-{len(self.spare)}")
        self.spare.append(other)
        await other.start()
        return other

    async def _replace(self, other: Redis, replica_s: float = 0.0) -> None:
        before = self.store
        await before.kill()
        other.take_over(before)
        self.here.store = other
        if replica_s:
            await asyncio.sleep(replica_s)
            other.ask("REPLICAOF", "NO", "ONE")


def planned(faults: Faults, *, isolated: bool) -> dict[str, Callable[[], Awaitable[None]]]:
    """Return the faults by their names in the table."""
    found = {
        "Redis killed for 60 s": faults.redis_killed,
        "a proxy killed": faults.proxy_killed,
        "that proxy started again": faults.proxy_started,
        "a proxy cut off from Redis for 30 s": faults.cut_off,
        "FLUSHALL": faults.flushed,
        "failover to an empty Redis": faults.failed_over_empty,
        "failover to a promoted replica": faults.failed_over_promoted,
    }
    return {name: do for name, do in found.items() if isolated or do != faults.cut_off}


async def faults(network: Network, folder: Path, only: str = "") -> dict[str, Any]:
    """Do it all to three proxies under load, and tell what each fault did."""
    settings = Provider(host=network.center.address, rpm=RPM)
    spans: list[tuple[str, float, float]] = []
    async with contextlib.AsyncExitStack() as stack:
        here = await stack.enter_async_context(scene(network, folder, settings, LIMITS, fleet=True))
        load, spare = Load(), list[Redis]()
        done = Faults(here, load, spare)
        try:
            async with load.at_work([Group(p, count) for p, count in zip(here.proxies, DEMAND, strict=True)]):
                load.shift(WARM)
                await asyncio.sleep(WARM_S)
                load.shift(DEMAND)
                await asyncio.sleep(RECOVER_S)
                for name, do in planned(done, isolated=network.isolated).items():
                    if only and not any(part in name for part in only.split(";")):
                        continue
                    begun = time.monotonic()
                    await do()
                    spans.append((name, begun, time.monotonic()))
                    show_progress(f"{name}: recovering")
                    await asyncio.sleep(RECOVER_S)
                ended = time.monotonic()
            seen = await here.seen(load, ended, RPM)
        finally:
            for each in spare:
                await each.stop()
    found = result.summary(seen)
    ends = [begin for _, begin, _ in spans[1:]] + [ended]
    found["faults"] = {
        name: of_fault(seen, begin, end, until) for (name, begin, end), until in zip(spans, ends, strict=True)
    }
    return found


def of_fault(seen: Seen, begin: float, end: float, until: float) -> dict[str, Any]:
    """Return what one fault did, which lasted from `begin` to `end` and was felt until `until` at most."""
    near = [each for each in seen.amounts() if begin - result.WINDOW_S <= each[0] < until]
    last_minute = result.LastMinute(seen)
    back_s, least = last_minute.full_after(end), last_minute.least(end + BACK_S, until)
    return {
        "lasted_s": round(end - begin, 1),
        "worst_window": round(result.worst_window(near) / seen.limit, 4),
        "used_meanwhile": round(result.used(seen, begin, end), 4) if end - begin > 5 else None,
        "used_after": round(result.used(seen, end, until), 4),
        "refused": sum(each.status == 429 and begin <= each.at < until for each in seen.arrivals),
        "lost": sum(begin <= each.done < until for each in result.lost(seen)),
        "excused": sum(each.excused and begin <= each.done < until for each in seen.asked),
        "least_later": None if least is None else round(least, 4),
        "back_s": None if back_s is None else round(back_s, 1),
    }


async def short(network: Network, folder: Path) -> dict[str, Any]:
    """Carry out some of the faults within little more than a window, on a small load."""
    rpm = 240
    settings = Provider(host=network.center.address, rpm=rpm, base_s=0.9, jitter_s=0.4)
    flags = ("--rpm", str(rpm), "--tpm", "0", "--max-concurrency", "20")
    async with scene(network, folder, settings, flags, fleet=True) as here:
        load = Load()
        do = Faults(here, load, [])
        # Half as much again as the limit allows.
        async with load.at_work([Group(p, count) for p, count in zip(here.proxies, (3, 2, 1), strict=True)]):
            await asyncio.sleep(8)
            await do.flushed()
            await asyncio.sleep(8)
            await do.store.kill()
            await asyncio.sleep(12)
            await do.store.start()
            await asyncio.sleep(8)
            await do.proxy_killed()
            await asyncio.sleep(4)
            await do.proxy_started()
            await asyncio.sleep(24)
            ended = time.monotonic()
        seen = await here.seen(load, ended, rpm)
    return result.summary(seen)
