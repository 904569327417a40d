"""One run of one scenario: direct or through HiveMind, in virtual time or over sockets."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import httpx

from hivemind.journal.files import SUFFIX
from hivemind.lab.simulate.clock import run_virtual
from hivemind_mock.agents.agents import Agent, AgentConfig, AgentResult
from hivemind_mock.bench.inprocess import InProcessTransport
from hivemind_mock.bench.scenarios import ABLATIONS, Scenario
from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.faults import Fault
from hivemind_mock.provider.serve import serving

_EPOCH = 1_800_000_000.0
"""What the wall clock says when virtual time begins."""
_NO_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=None)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run."""

    scenario: Scenario
    mode: Literal["direct", "hivemind"]
    seed: int
    ablation: str | None = None
    """A row of :data:`hivemind_mock.bench.scenarios.ABLATIONS`; None: not part of the ablation study."""
    journals: Path | None = None
    """Folder in which the proxy's journal is left; None: nowhere."""

    @property
    def journal(self) -> Path | None:
        """Where the journal of this run goes: named by scenario, ablation and seed."""
        if self.journals is None:
            return None
        what = [self.scenario.name, *([] if self.ablation is None else [self.ablation]), str(self.seed)]
        return self.journals / f"{re.sub(r'[^a-z0-9]+', '-', '-'.join(what).lower())}{SUFFIX}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it."""

    plan: Plan
    alive: int
    dead: int
    wasted_tokens: int
    """Used by agents that died."""
    wall_s: float
    """Until the last agent had finished or died."""
    charged: int
    """Calls answered, and repeats forced by injected 502s and resets."""
    attempts: int
    """Requests that reached the provider."""
    deaths: tuple[str, ...]
    """What the dead died of."""

    @property
    def failure_rate(self) -> float:
        """0 to 1."""
        return self.dead / self.plan.scenario.agents

    @property
    def lower_bound_s(self) -> float:
        """The shortest time that a fixed window of a minute allows for what was charged."""
        return 60.0 * max(0, math.ceil(self.charged / self.plan.scenario.rpm) - 1)


def run(plan: Plan, *, real_time: bool = False) -> Outcome:
    """Carry out one plan; blocks until it is done. Must not be called from a running event loop.

    Raises: UsageError: its journal can't be written.
    """
    return asyncio.run(_over_sockets(plan)) if real_time else run_virtual(_in_process(plan))


async def _in_process(plan: Plan) -> Outcome:
    clock = asyncio.get_running_loop().time

    def wall() -> float:
        return _EPOCH + clock()

    mock = MockProvider(plan.scenario.provider(plan.seed), clock=clock, wall=wall, sleep=asyncio.sleep)
    upstream = InProcessTransport(mock)
    try:
        if plan.mode == "direct":
            return await _measure(plan, mock, upstream, "http://mock.invalid")
        from hivemind_mock.bench.through import in_process  # direct runs don't need the proxy, and it is slow to import

        changes = ABLATIONS[plan.ablation or "Full"]
        async with in_process(upstream, plan.seed, changes, wall, plan.journal) as transport:
            return await _measure(plan, mock, transport, "http://hivemind.localhost")
    finally:
        await upstream.aclose()


async def _over_sockets(plan: Plan) -> Outcome:
    mock = MockProvider(plan.scenario.provider(plan.seed))
    async with (
        serving(mock) as mock_url,
        _before(plan, mock_url) as base_url,
        httpx.AsyncHTTPTransport(limits=_NO_LIMITS) as transport,
    ):
        return await _measure(plan, mock, transport, base_url)


@asynccontextmanager
async def _before(plan: Plan, mock_url: str) -> AsyncIterator[str]:
    if plan.mode == "direct":
        yield mock_url
        return
    from hivemind_mock.bench.through import on_sockets

    async with on_sockets(mock_url, plan.seed, ABLATIONS[plan.ablation or "Full"], plan.journal) as url:
        yield url


async def _measure(plan: Plan, mock: MockProvider, transport: httpx.AsyncBaseTransport, base_url: str) -> Outcome:
    loop = asyncio.get_running_loop()
    began = loop.time()
    results = await asyncio.gather(*(agent.run() for agent in _agents(plan, transport, base_url)))
    return _outcome(plan, mock, results, loop.time() - began)


def _agents(plan: Plan, transport: httpx.AsyncBaseTransport, base_url: str) -> list[Agent]:
    """Every other one streams, so that both ways of answering are part of every run."""
    configs = [
        AgentConfig(f"agent-{number:02}", plan.scenario.turns, stream=number % 2 == 0)
        for number in range(1, plan.scenario.agents + 1)
    ]
    return [Agent(config, transport, f"{base_url}/agent/{config.name}") for config in configs]


def _outcome(plan: Plan, mock: MockProvider, results: list[AgentResult], wall_s: float) -> Outcome:
    forced = mock.stats.faults[Fault.BAD_GATEWAY] + mock.stats.faults[Fault.RESET]
    dead = [result for result in results if not result.alive]
    return Outcome(
        plan=plan,
        alive=len(results) - len(dead),
        dead=len(dead),
        wasted_tokens=sum(result.tokens for result in dead),
        wall_s=wall_s,
        charged=sum(result.turns for result in results) + forced,
        attempts=mock.stats.arrived,
        deaths=tuple(result.error for result in dead),
    )
