"""How far what is simulated can be trusted: runs are recorded, replayed with their own settings, and foretold with
others, which are then really run."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx

from hivemind.lab.simulate.clock import run_virtual
from hivemind.lab.simulate.recording import load
from hivemind.lab.simulate.whatif import Change, parse_changes, simulate
from hivemind_mock.agents.agents import Agent, AgentConfig
from hivemind_mock.bench.inprocess import InProcessTransport
from hivemind_mock.bench.output import tell_progress
from hivemind_mock.bench.scenarios import SCENARIOS
from hivemind_mock.bench.targets import Figure
from hivemind_mock.bench.through import in_process, on_sockets
from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import FaultConfig, LatencyConfig, LimitConfig, MockConfig, ReplyConfig
from hivemind_mock.provider.serve import serving

NAME = "foretold"
_EPOCH = 1_800_000_000.0
_NO_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=None)


@dataclass(frozen=True, slots=True)
class World:
    """Agents, and the provider that they ask."""

    name: str
    agents: tuple[AgentConfig, ...]
    provider: MockConfig
    settings: dict[str, Any] = field(default_factory=dict)


def _agents(
    count: int, turns: int, think_s: float, *, tokens: int = 60, every_streams: int = 2
) -> tuple[AgentConfig, ...]:
    """Some slower than others, some with longer prompts, some more urgent."""
    return tuple(
        AgentConfig(
            f"agent-{number:02}",
            turns,
            think_s * (0.5 + number % 5 / 4),
            stream=number % every_streams == 0,
            prompt_tokens=tokens * (1 + number % 3),
            headers=((("x-hivemind-priority", "high"),) if number % 7 == 3 else ()),
        )
        for number in range(1, count + 1)
    )


def _scenario(name: str) -> World:
    scenario = SCENARIOS[name]
    agents = tuple(
        AgentConfig(f"agent-{number:02}", scenario.turns, stream=number % 2 == 0)
        for number in range(1, scenario.agents + 1)
    )
    return World(name, agents, scenario.provider(1))


WORLDS: tuple[World, ...] = (
    *(_scenario(name) for name in SCENARIOS if name != "micro-5"),
    World(
        "long streams",
        _agents(12, 8, 3.0, tokens=400),
        MockConfig(
            limits=LimitConfig(rpm=90, tpm=60_000, concurrency=6),
            latency=LatencyConfig(0.8, 0.4, token_s=0.03),
            faults=FaultConfig(bad_gateway=0.04, reset_mid=0.0, overloaded=0.04),
            reply=ReplyConfig(tokens=200, spread=150),
        ),
    ),
    World(
        "input windows",
        _agents(20, 6, 2.0, tokens=1500),
        MockConfig(
            limits=LimitConfig(rpm=200, itpm=60_000, otpm=20_000, window="bucket"),
            latency=LatencyConfig(1.2, 0.5, token_s=0.01),
            faults=FaultConfig(reset=0.05),
        ),
    ),
    World(
        "bad day",
        _agents(10, 10, 1.0),
        MockConfig(
            limits=LimitConfig(rpm=120, tpm=200_000),
            latency=LatencyConfig(0.6, 0.3, 0.1, 4.0),
            faults=FaultConfig(bad_gateway=0.1, reset_early=0.05, spell_every_s=40.0, spell_s=6.0),
        ),
    ),
    World(
        "few slots",
        _agents(16, 6, 0.5),
        MockConfig(
            latency=LatencyConfig(1.0, 0.5, token_s=0.02),
            reply=ReplyConfig(tokens=120, spread=60),
        ),
        {"rpm": 0, "tpm": 0},
    ),
)


def record(
    world: World, path: Path, *, settings: dict[str, Any] | None = None, seed: int = 1, real_time: bool = False
) -> None:
    """Run a world through HiveMind, and leave its journal there."""
    chosen = {**world.settings, **(settings or {})}
    provider = replace(world.provider, seed=seed)
    if real_time:
        asyncio.run(_on_sockets(world, provider, chosen, seed, path))
    else:
        run_virtual(_in_process(world, provider, chosen, seed, path))


async def _in_process(world: World, provider: MockConfig, settings: dict[str, Any], seed: int, path: Path) -> None:
    clock = asyncio.get_running_loop().time

    def wall() -> float:
        return _EPOCH + clock()

    upstream = InProcessTransport(MockProvider(provider, clock=clock, wall=wall, sleep=asyncio.sleep))
    try:
        async with in_process(upstream, seed, settings, wall, path) as transport:
            await _work(world, transport, "http://hivemind.localhost")
    finally:
        await upstream.aclose()


async def _on_sockets(world: World, provider: MockConfig, settings: dict[str, Any], seed: int, path: Path) -> None:
    async with (
        serving(MockProvider(provider)) as url,
        on_sockets(url, seed, settings, path) as base_url,
        httpx.AsyncHTTPTransport(limits=_NO_LIMITS) as transport,
    ):
        await _work(world, transport, base_url)


async def _work(world: World, transport: httpx.AsyncBaseTransport, base_url: str) -> None:
    await asyncio.gather(
        *(Agent(config, transport, f"{base_url}/agent/{config.name}").run() for config in world.agents)
    )


FORETOLD = ("max_concurrency=3", "aimd.beta=0.8", "rpm=40")
"""Settings that are foretold and then tried."""
_TRIED_ON = "replay-11"
_HOUR_S = 3600.0


def figures(*, real_time: bool) -> list[Figure]:
    """Run all of it: a minute of work, in real time a quarter of an hour. Must not be called from a running loop."""
    with tempfile.TemporaryDirectory(prefix="hivemind-foretold-") as folder:
        return [
            *(_replayed(world, Path(folder), real_time=real_time) for world in WORLDS),
            *_foretold(Path(folder), real_time=real_time),
            _an_hour(Path(folder)),
        ]


def _replayed(world: World, folder: Path, *, real_time: bool) -> Figure:
    tell_progress(f"{NAME} {world.name}")
    path = folder / f"{world.name}.jsonl"
    record(world, path, real_time=real_time)
    recording = load(path)
    recorded, again = recording.figures, simulate(recording)
    off = max(_off(again.wall_s, recorded.wall_s), _off(again.waited_s, recorded.waited_s))
    return Figure(f"replayed with its own settings, {world.name}: wall time and waits off by", off, 5.0, False, "%")


def _foretold(folder: Path, *, real_time: bool) -> Iterator[Figure]:
    world = next(each for each in WORLDS if each.name == _TRIED_ON)
    recording = load(folder / f"{world.name}.jsonl")
    for number, text in enumerate(FORETOLD):
        tell_progress(f"{NAME} {text}")
        changes = parse_changes([text])
        path = folder / f"tried-{number}.jsonl"
        record(world, path, settings=_as_settings(changes), seed=2, real_time=real_time)
        off = _off(simulate(recording, changes).wall_s, load(path).figures.wall_s)
        yield Figure(f"foretold for {world.name} with {text}: wall time off by", off, 10.0, False, "%")


def _an_hour(folder: Path) -> Figure:
    """How long a simulation of an hour of 50 agents takes, the median of three."""
    tell_progress(f"{NAME} an hour")
    path = folder / "hour.jsonl"
    record(_BUSY, path)
    recording = load(path)
    took = []
    for _ in range(3):
        began = time.perf_counter()
        simulate(recording)
        took.append(time.perf_counter() - began)
    hours = recording.figures.wall_s / _HOUR_S
    what = f"an hour of 50 agents ({recording.figures.requests / hours:,.0f} requests) is simulated in"
    return Figure(what, sorted(took)[1] / hours, 2.0, False, "s")


_BUSY = World(
    "hour",
    _agents(50, 130, 8.0, tokens=300),
    MockConfig(
        limits=LimitConfig(rpm=4_000, tpm=8_000_000),
        latency=LatencyConfig(1.0, 0.5, token_s=0.01),
        faults=FaultConfig(bad_gateway=0.02, reset=0.01),
    ),
    {"max_concurrency": 40, "aimd": {"latency_target_s": 30.0}},
)


def _off(measured: float, real: float) -> float:
    """In percent. What is nothing in both is right."""
    return 100 * abs(measured - real) / max(real, 1.0)


def _as_settings(changes: Sequence[Change]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for change in changes:
        section, _, key = change.name.rpartition(".")
        (settings.setdefault(section, {}) if section else settings)[key] = change.value
    return settings
