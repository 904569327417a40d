"""One run of one scenario: direct or through HiveMind, in virtual time."""

from __future__ import annotations

import asyncio
import math
import re
from contextlib import aclosing
from pathlib import Path
from typing import Any, Literal

import httpx
from msgspec import Struct

from hivemind.journal.files import SUFFIX
from hivemind.lab.simulate.clock import run_virtual
from hivemind_mock.agents.agent import Agent, AgentConfig
from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import Scenario
from hivemind_mock.provider.faults import Fault
from hivemind_mock.provider.inprocess import InProcessTransport, provider_in_loop_time

ABLATION = "replay-11"
"""The scenario of the ablation study."""

ABLATIONS: dict[str, dict[str, Any]] = {
    "Full": {},
    "No admission": {"features": {"admission": False}},
    "No rate limit": {"features": {"rate_windows": False}},
    "No backpressure": {"features": {"backpressure": False}},
    "No retry": {"retry": {"max_attempts": 1}},
    "Adm. only": {"features": {"rate_windows": False, "backpressure": False}, "retry": {"max_attempts": 1}},
}
"""The rows of the ablation study (paper, Table of the ablation), and the settings that make each."""


class BenchRun(Struct, frozen=True):
    """What to run."""

    scenario: Scenario
    mode: Literal["direct", "hivemind"]
    seed: int
    ablation: str | None = None
    """A row of `ABLATIONS`; None: not part of the ablation study."""
    journals: Path | None = None
    """Folder for the proxy's journal; None: none is written."""

    @property
    def journal(self) -> Path | None:
        """Path of this run's journal: named by scenario, ablation and seed."""
        if self.journals is None:
            return None
        what = [self.scenario.name, *([] if self.ablation is None else [self.ablation]), str(self.seed)]
        return self.journals / f"{re.sub(r'[^a-z0-9]+', '-', '-'.join(what).lower())}{SUFFIX}"

    @property
    def changes(self) -> dict[str, Any]:
        """Settings that differ from their default."""
        return ABLATIONS[self.ablation or "Full"]


class RunResult(Struct, frozen=True):
    """What a run gave."""

    run: BenchRun
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
    errors: tuple[str, ...]
    """The error that each dead agent saw."""

    @property
    def failure_rate(self) -> float:
        """Share of the agents that died, 0 to 1."""
        return self.dead / self.run.scenario.agents

    @property
    def lower_bound_s(self) -> float:
        """The shortest time that a fixed window of a minute allows for what was charged."""
        return 60.0 * max(0, math.ceil(self.charged / self.run.scenario.rpm) - 1)


def execute_run(run: BenchRun) -> RunResult:
    """Execute one run; blocks until it is done. Must not be called from a running event loop.

    Raises: UsageError: its journal can't be written.
    """
    return run_virtual(_in_process(run))


async def _in_process(run: BenchRun) -> RunResult:
    mock = provider_in_loop_time(run.scenario.provider(run.seed))
    if run.mode == "direct":
        async with aclosing(InProcessTransport(mock)) as transport:
            return await _measure(run, mock, transport, "http://mock.invalid")
    from hivemind_mock.bench.proxied import in_process  # direct runs don't need the proxy, and it is slow to import

    async with in_process(mock, run.seed, run.changes, run.journal) as transport:
        return await _measure(run, mock, transport, "http://hivemind.localhost")


async def _measure(run: BenchRun, mock: MockProvider, transport: httpx.AsyncBaseTransport, base_url: str) -> RunResult:
    loop = asyncio.get_running_loop()
    began = loop.time()
    agents = (Agent(config, transport, f"{base_url}/agent/{config.name}") for config in scenario_agents(run.scenario))
    results = await asyncio.gather(*(agent.run() for agent in agents))
    dead = [result for result in results if not result.alive]
    forced = mock.stats.faults[Fault.BAD_GATEWAY] + mock.stats.faults[Fault.RESET]
    return RunResult(
        run=run,
        alive=len(results) - len(dead),
        dead=len(dead),
        wasted_tokens=sum(result.tokens for result in dead),
        wall_s=loop.time() - began,
        charged=sum(result.turns for result in results) + forced,
        attempts=mock.stats.arrived,
        errors=tuple(result.error for result in dead),
    )


def scenario_agents(scenario: Scenario) -> tuple[AgentConfig, ...]:
    """Return the scenario's agents. Every second one streams, so that both kinds of answer are part of every run."""
    return tuple(
        AgentConfig(f"agent-{number:02}", scenario.turns, stream=number % 2 == 0)
        for number in range(1, scenario.agents + 1)
    )
