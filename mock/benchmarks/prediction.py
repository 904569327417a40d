"""`python -m benchmarks.prediction`: compare what-if predictions with real runs.

Runs are recorded, simulated with their own settings, and predicted with others, which are then really run.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, run
from hivemind.lab.simulate.clock import run_virtual
from hivemind.lab.simulate.overrides import Change, parse_changes
from hivemind.lab.simulate.recording import load
from hivemind.lab.simulate.simulation import simulate
from hivemind.records import replace
from hivemind_mock.agents.agent import Agent, AgentConfig
from hivemind_mock.bench.main import show_progress
from hivemind_mock.bench.runs import in_process, scenario_agents
from hivemind_mock.provider.config import SCENARIOS, FaultConfig, LatencyConfig, LimitConfig, MockConfig, ReplyConfig
from hivemind_mock.provider.inprocess import provider_in_loop_time


@dataclass(frozen=True, slots=True)
class World:
    """Agents, their provider and the proxy's settings."""

    name: str
    agents: tuple[AgentConfig, ...]
    provider: MockConfig
    settings: dict[str, Any] = field(default_factory=dict)


def _agents(count: int, turns: int, think_s: float, *, tokens: int = 60) -> tuple[AgentConfig, ...]:
    """Return agents that differ in pace, prompt length and priority."""
    return tuple(
        AgentConfig(
            f"agent-{number:02}",
            turns,
            think_s * (0.5 + number % 5 / 4),
            stream=number % 2 == 0,
            prompt_tokens=tokens * (1 + number % 3),
            headers=((("x-hivemind-priority", "high"),) if number % 7 == 3 else ()),
        )
        for number in range(1, count + 1)
    )


WORLDS: tuple[World, ...] = (
    *(
        World(each.name, scenario_agents(each), each.provider(1))
        for each in SCENARIOS.values()
        if each.name != "micro-5"
    ),
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


def record(world: World, path: Path, *, settings: dict[str, Any] | None = None, seed: int = 1) -> None:
    """Run a world through HiveMind in virtual time, and write its journal to `path`."""

    async def main() -> None:
        mock = provider_in_loop_time(replace(world.provider, seed=seed))
        async with in_process(mock, seed, {**world.settings, **(settings or {})}, path) as transport:
            agents = (Agent(each, transport, f"http://hivemind.localhost/agent/{each.name}") for each in world.agents)
            await asyncio.gather(*(agent.run() for agent in agents))

    run_virtual(main())


def record_apart(world: World, paths: Sequence[Path]) -> None:
    """Run a world whose agents take turns to use proxies that share the provider's limits and know nothing of each
    other. Each writes its journal to one of `paths`."""

    async def main() -> None:
        mock = provider_in_loop_time(replace(world.provider, seed=1))
        async with AsyncExitStack() as proxies:
            transports = [
                await proxies.enter_async_context(in_process(mock, number, world.settings, path))
                for number, path in enumerate(paths, 1)
            ]
            agents = (
                Agent(each, transports[number % len(paths)], f"http://hivemind.localhost/agent/{each.name}")
                for number, each in enumerate(world.agents)
            )
            await asyncio.gather(*(agent.run() for agent in agents))

    run_virtual(main())


CHANGES = ("max_concurrency=3", "aimd.beta=0.8", "rpm=40")
"""Settings whose effect is predicted and then measured."""
_CHANGED_WORLD = "replay-11"
_HOUR_S = 3600.0


def figures() -> list[Figure]:
    """Measure every figure, which takes a minute. Must not be called from a running loop."""
    with tempfile.TemporaryDirectory(prefix="hivemind-prediction-") as folder:
        return [
            *(_simulated(world, Path(folder)) for world in WORLDS),
            *_predicted(Path(folder)),
            _as_one(Path(folder)),
            _an_hour(Path(folder)),
        ]


def _simulated(world: World, folder: Path) -> Figure:
    show_progress(f"prediction: {world.name}")
    path = folder / f"{world.name}.jsonl"
    record(world, path)
    recording = load(path)
    recorded, again = recording.figures, simulate(recording)
    error = max(_error(again.wall_s, recorded.wall_s), _error(again.waited_s, recorded.waited_s))
    what = f"simulated with its own settings, {world.name}: error of wall time and waits"
    return Figure(what, error, 5.0, False, "%")


def _predicted(folder: Path) -> Iterator[Figure]:
    world = next(each for each in WORLDS if each.name == _CHANGED_WORLD)
    recording = load(folder / f"{world.name}.jsonl")
    for number, text in enumerate(CHANGES):
        show_progress(f"prediction: {text}")
        changes = parse_changes([text])
        path = folder / f"changed-{number}.jsonl"
        record(world, path, settings=_as_settings(changes), seed=2)
        error = _error(simulate(recording, changes).wall_s, load(path).figures.wall_s)
        yield Figure(f"predicted for {world.name} with {text}: error of wall time", error, 10.0, False, "%")


def _as_one(folder: Path) -> Figure:
    """Predict from two proxies' journals what one scheduler does, which was recorded too."""
    show_progress("prediction: two proxies as one")
    world = next(each for each in WORLDS if each.name == _CHANGED_WORLD)
    paths = [folder / f"apart-{number}.jsonl" for number in range(2)]
    record_apart(world, paths)
    error = _error(simulate(load(paths)).wall_s, load(folder / f"{world.name}.jsonl").figures.wall_s)
    return Figure(f"predicted for {world.name} of two proxies as one: error of wall time", error, 10.0, False, "%")


def _an_hour(folder: Path) -> Figure:
    """Time the simulation of an hour of 50 agents; the median of three."""
    show_progress("prediction: an hour")
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


def _error(measured: float, real: float) -> float:
    """Return the relative error in percent, of at least one second."""
    return 100 * abs(measured - real) / max(real, 1.0)


def _as_settings(changes: Sequence[Change]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for change in changes:
        section, _, key = change.name.rpartition(".")
        (settings.setdefault(section, {}) if section else settings)[key] = change.value
    return settings


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    return run("prediction", __doc__, figures, argv)


if __name__ == "__main__":
    sys.exit(main())
