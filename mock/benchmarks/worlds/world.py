"""A world: a provider with hidden parameters, agents, the proxy's settings, and settings to change, all from a seed."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.worlds.agents import Ended, Habits, WorldAgent
from benchmarks.worlds.kinds import Traffic, kinds_of, rules_of
from benchmarks.worlds.provider import Rules, WorldProvider
from hivemind.lab.simulate.clock import run_virtual
from hivemind.records import replace
from hivemind_mock.bench.runs import in_process, on_sockets
from hivemind_mock.provider.serve import serving

_SHORTER = 0.4
"""The share of turns that is left of a world for real time."""
_NO_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=None)
_LONGEST_S = 4 * 3600.0
"""Virtual time after which a run is given up."""


@dataclass(frozen=True, slots=True)
class World:
    """Agents, their provider, and the proxy's settings while it is recorded."""

    name: str
    seed: int
    rules: Rules
    agents: tuple[Habits, ...]
    settings: Mapping[str, Any]
    changes: tuple[str, ...]
    """Settings whose effect is foretold, as `NAME=VALUE`."""


def world(seed: int, kinds: Sequence[str] | None = None) -> World:
    """Return the world of a seed, of the kinds that are its turn or of these."""
    chosen = kinds_of(seed) if kinds is None else kinds
    rng = random.Random(f"world {seed}")
    return drawn_world(f"{seed:03d}-{'-'.join(chosen)}", seed, rng, lambda traffic: rules_of(chosen, rng, traffic))


def drawn_world(name: str, seed: int, rng: random.Random, rules: Callable[[Traffic], Rules]) -> World:
    """Return a world whose agents and settings are drawn, with a provider for the traffic of these agents."""
    agents = tuple(_agents(rng))
    concurrency = rng.choice((4, 6, 8, 10, 12))
    settings = {"max_concurrency": concurrency, "aimd": {"latency_target_s": rng.choice((5.0, 10.0, 30.0))}}
    return World(name, seed, rules(_traffic(agents, rng)), agents, settings, _changes(rng, concurrency))


def _agents(rng: random.Random) -> list[Habits]:
    count = rng.randint(6, 20)
    turns = max(4, round(rng.uniform(90, 220) / count))
    base = rng.uniform(200, 1500)
    made = []
    for number in range(count):
        made.append(
            Habits(
                name=f"agent-{number + 1:02d}",
                starts_s=0.0 if rng.random() < 0.7 else rng.uniform(1.0, 40.0),
                turns=max(3, round(turns * rng.uniform(0.6, 1.4))),
                think_s=rng.uniform(0.3, 4.0),
                prompt_tokens=round(base * rng.uniform(0.3, 2.0)),
                growth_tokens=round(base * rng.uniform(0.05, 0.4)),
                max_tokens=rng.choice((60, 120, 250, 400)),
                stream=rng.random() < 0.5,
                at_once=rng.choice((2, 3)) if rng.random() < 0.15 else 1,
                patience_s=rng.uniform(20.0, 60.0) if rng.random() < 0.15 else None,
                retries=rng.choice((0, 0, 2)),
            )
        )
    return made


def _traffic(agents: Sequence[Habits], rng: random.Random) -> Traffic:
    """Return about what the agents ask for when nothing holds them."""
    requests_per_s = tokens_per_s = longest_s = 0.0
    for each in agents:
        grown = each.prompt_tokens + each.turns / 2 * (each.growth_tokens + each.max_tokens * 0.75)
        turn_s = each.think_s * 1.13 + 1.0 + 0.012 * each.max_tokens * 0.75 + 0.0002 * grown
        requests = 1 + (each.at_once - 1) / 3
        requests_per_s += requests / turn_s
        tokens_per_s += requests * (grown + each.max_tokens * 0.75) / turn_s
        longest_s = max(longest_s, turn_s * each.turns)
    return Traffic(requests_per_s * 60, tokens_per_s * 60, len(agents), longest_s)


def _changes(rng: random.Random, concurrency: int) -> tuple[str, ...]:
    """Return three changes that an operator might think of."""
    others = [
        f"rpm={rng.choice((20, 40, 60, 90))}",
        f"aimd.beta={rng.choice((0.3, 0.7, 0.85))}",
        f"aimd.alpha={rng.choice((0.2, 1.0, 2.0))}",
        f"aimd.latency_target_s={rng.choice((2.0, 4.0, 60.0))}",
        f"circuit.cooldown_s={rng.choice((3.0, 25.0))}",
        f"circuit.threshold={rng.choice((0.3, 0.9))}",
        f"retry.base_s={rng.choice((0.3, 3.0))}",
        "features.backpressure=off",
    ]
    down, up = max(2, concurrency // 2), concurrency * 2
    return (f"max_concurrency={down}", f"max_concurrency={up}", rng.choice(others))


async def _run(world: World, luck: int, settings: Mapping[str, Any], path: Path | None) -> list[Ended]:
    provider = _provider(world, luck)
    async with in_process(provider, luck, dict(settings), path) as transport:
        return await _work(world, luck, transport, "http://hivemind.localhost")


def _provider(world: World, luck: int, **wall: float) -> WorldProvider:
    return WorldProvider(world.rules, random.Random(f"provider {world.seed} {luck}"), **wall)


async def _work(world: World, luck: int, transport: httpx.AsyncBaseTransport, base_url: str) -> list[Ended]:
    agents = [
        WorldAgent(each, random.Random(f"{each.name} {world.seed} {luck}"), transport, f"{base_url}/agent/{each.name}")
        for each in world.agents
    ]
    async with asyncio.timeout(_LONGEST_S):
        return list(await asyncio.gather(*(agent.run() for agent in agents)))


def run(world: World, luck: int, changes: Sequence[str] = (), path: Path | None = None) -> list[Ended]:
    """Run a world through HiveMind in virtual time, with these settings changed, and write its journal to `path`."""
    return run_virtual(_run(world, luck, with_changes(world.settings, changes), path))


async def run_on_sockets(world: World, luck: int, changes: Sequence[str], path: Path) -> list[Ended]:
    """Run a world like :func:`run`, but in real time and over sockets of the loopback interface."""
    provider = _provider(world, luck, wall=time.time() - asyncio.get_running_loop().time())
    settings = with_changes(world.settings, changes)
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(serving(provider))
        url = await stack.enter_async_context(on_sockets(upstream, luck, settings, path))
        # Nothing here is encrypted, and reading certificates would hold the loop.
        transport = await stack.enter_async_context(httpx.AsyncHTTPTransport(verify=False, limits=_NO_LIMITS))
        return await _work(world, luck, transport, url)


def shortened(world: World) -> World:
    """Return the world with agents that do less, for real time."""
    agents = tuple(replace(each, turns=max(3, round(each.turns * _SHORTER))) for each in world.agents)
    return replace(world, name=f"{world.name}-on-sockets", agents=agents)


def with_changes(settings: Mapping[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """Return settings with changes of the form `NAME=VALUE`."""
    made = {name: dict(value) if isinstance(value, dict) else value for name, value in settings.items()}
    for change in changes:
        name, _, value = change.partition("=")
        section, _, key = name.rpartition(".")
        # Settings check and convert the text.
        (made.setdefault(section, {}) if section else made)[key] = value
    return made
