"""What a fleet costs: twenty proxies on one Redis, and a request through a proxy with and without a fleet."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from benchmarks.fleet import result
from benchmarks.fleet.load import Group
from benchmarks.fleet.load import Load as Agents
from benchmarks.fleet.network import Host, Network
from benchmarks.fleet.programs import TOKEN, Proxy, Redis
from benchmarks.fleet.runs import WARM_S, scene
from benchmarks.fleet.upstream import Provider
from benchmarks.perf import servers
from benchmarks.perf.load import Load, put_load
from benchmarks.perf.metering import cpu_s

PROXIES = 20
_AGENTS = 5
"""At each proxy."""
_RPM = 1_200
_CLIENTS = (1, 16)
_WITH, _WITHOUT = "with", ("without", "without too")
_UNMET = ("--rpm", "6000000", "--max-concurrency", "256")
"""Limits that are never met, but have to be leased."""
_SYNCS = re.compile(r"^hivemind_fleet_(syncs|sync_seconds)_total (\S+)$", re.MULTILINE)


async def crowd(network: Network, folder: Path, minutes: float) -> dict[str, Any]:
    """Run twenty proxies on one Redis, and read what they and it use."""
    center = Network(network.center, [Host(network.center.address) for _ in range(PROXIES)])
    settings = Provider(host=network.center.address, rpm=_RPM)
    flags = ("--rpm", str(_RPM), "--tpm", "0", "--max-concurrency", "200")
    async with scene(center, folder, settings, flags, fleet=True) as here:
        assert here.store is not None
        load = Agents()
        async with load.at_work([Group(proxy, _AGENTS) for proxy in here.proxies]):
            load.shift([2] * PROXIES)
            await asyncio.sleep(WARM_S)
            load.shift([_AGENTS] * PROXIES)
            before, syncs = _used(here.store, here.proxies), await _syncs(here.proxies)
            await asyncio.sleep(minutes * 60)
            after = _used(here.store, here.proxies)
            ended = time.monotonic()
            later = await _syncs(here.proxies)
        seen = await here.seen(load, ended, _RPM)
    found = result.summary(seen)
    span_s, scripts = after["at"] - before["at"], after["scripts"] - before["scripts"]
    found |= {
        "proxies": PROXIES,
        "syncs_per_s": round(scripts / span_s, 1),
        "redis_cpu_share": round((after["redis_cpu_s"] - before["redis_cpu_s"]) / span_s, 4),
        "redis_us": round((after["redis_cpu_s"] - before["redis_cpu_s"]) / max(1, scripts) * 1e6, 1),
        "redis_mb": round(after["redis_mb"], 1),
        "proxy_cpu_share": round((after["proxy_cpu_s"] - before["proxy_cpu_s"]) / span_s / PROXIES, 4),
        "proxy_mb": round(after["proxy_mb"], 1),
        "sync_ms": round((later[1] - syncs[1]) / max(1.0, later[0] - syncs[0]) * 1000, 2),
    }
    return found


def _used(store: Redis, proxies: Sequence[Proxy]) -> dict[str, float]:
    stats = store.info("commandstats")
    scripts = [stats.get(f"cmdstat_{name}") for name in ("evalsha", "eval")]
    counted = [each for each in scripts if isinstance(each, dict)]
    return {
        "at": time.monotonic(),
        "scripts": sum(each["calls"] for each in counted),
        "redis_cpu_s": cpu_s(store.pid),
        "redis_mb": _memory_mb(store.pid),
        "proxy_cpu_s": sum(cpu_s(proxy.program.pid) for proxy in proxies),
        "proxy_mb": median(_memory_mb(proxy.program.pid) for proxy in proxies),
    }


def _memory_mb(pid: int) -> float:
    found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


async def _syncs(proxies: Sequence[Proxy]) -> tuple[float, float]:
    """Return how often they synced, and how long that took them, by their metrics."""
    sums = {"syncs": 0.0, "sync_seconds": 0.0}
    async with httpx.AsyncClient(timeout=30, trust_env=False, headers={"x-hivemind-token": TOKEN}) as http:
        for proxy in proxies:
            host, port = proxy.address
            text = (await http.get(f"http://{host}:{port}/metrics")).text
            for name, value in _SYNCS.findall(text):
                sums[name] += float(value)
    return sums["syncs"], sums["sync_seconds"]


async def overhead(folder: Path, rounds: int, *, measure_s: float = 0.25, groups: int = 3) -> dict[str, Any]:
    """Put a load on a proxy with a fleet and on two without, turn and turn about; the two tell what is noise."""
    store = Redis("127.0.0.1", folder)
    loads: dict[int, list[dict[str, Load]]] = {clients: [] for clients in _CLIENTS}
    try:
        await store.start()
        for _ in range(groups):
            async with contextlib.AsyncExitStack() as stack:
                direct = await stack.enter_async_context(servers.upstream())
                flags = {name: ("--fleet", store.url) if name == _WITH else () for name in (_WITH, *_WITHOUT)}
                targets = [
                    await stack.enter_async_context(servers.hivemind(direct, name, *_UNMET, *more))
                    for name, more in flags.items()
                ]
                for clients, found in loads.items():
                    for number in range(rounds + 1):
                        turn = targets[number % 3 :] + targets[: number % 3]
                        both = {
                            each.name: await put_load(each, clients, warm_s=0.05, measure_s=measure_s) for each in turn
                        }
                        if number:  # the first warms up
                            found.append(both)
    finally:
        await store.stop()
    return {
        "rounds": rounds * groups,
        "clients": {str(clients): _compared(found) for clients, found in loads.items()},
    }


def _compared(rounds: Sequence[Mapping[str, Load]]) -> dict[str, float]:
    """Return the median of each proxy, and the median over rounds of one's ratio to another."""

    def ratio(one: str, other: str, of: Callable[[Load], float | None]) -> float:
        found = [(of(each[one]), of(each[other])) for each in rounds]
        return round(median(a / b for a, b in found if a and b), 4)

    first, second = _WITHOUT
    return {
        "with_ms": round(median(each[_WITH].p50_ms for each in rounds), 4),
        "without_ms": round(median(each[name].p50_ms for each in rounds for name in _WITHOUT), 4),
        "p50_ratio": ratio(_WITH, first, lambda load: load.p50_ms),
        "p50_noise": ratio(second, first, lambda load: load.p50_ms),
        "cpu_ratio": ratio(_WITH, first, lambda load: load.cpu_us),
        "cpu_noise": ratio(second, first, lambda load: load.cpu_us),
    }
