"""The demo's world."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from hivemind.lab.simulate.clock import run_virtual
from hivemind_mock.agents import demo
from hivemind_mock.agents.agent import Agent, AgentDied
from hivemind_mock.agents.demo import SEED, at_work, bad_day, demo_agents, run_demo_agents, run_demo_provider
from hivemind_mock.bench.runs import in_process
from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.faults import Fault


def test_the_cast_is_varied_and_repeatable() -> None:
    """Eleven agents with names, priorities, sizes and models of their own; the same seed gives the same world."""
    agents = demo_agents()
    assert len({agent.name for agent in agents}) == 11
    assert len({dict(agent.headers)["x-hivemind-priority"] for agent in agents}) == 4
    assert len({agent.model for agent in agents}) == 3


@dataclass
class Tally:
    """What the agents saw."""

    turns: int = 0
    tokens: int = 0
    dead_agents: int = 0
    wasted_tokens: int = 0
    causes: Counter[str] = field(default_factory=Counter)


@pytest.fixture(autouse=True)
def tally(monkeypatch: pytest.MonkeyPatch) -> Tally:
    """Counts of the demo's agents."""
    tally = Tally()

    class CountedAgent(Agent):
        used = 0

        async def turn(self) -> int:
            try:
                spent = await super().turn()
            except AgentDied as death:
                tally.dead_agents += 1
                tally.wasted_tokens += self.used + death.tokens
                tally.causes[str(death)] += 1
                raise
            self.used += spent
            tally.turns += 1
            tally.tokens += spent
            return spent

    monkeypatch.setattr(demo, "Agent", CountedAgent)
    return tally


def test_an_upstream_hangs_within_the_first_minute(tally: Tally) -> None:
    """Somebody who watches for that long sees what a hung agent looks like, while the others go on, and nobody dies."""
    _, seen = spend_through_hivemind(45)
    assert "hung" in {agent["state"] for agent in seen["agents"]}
    assert tally.turns > 20
    assert tally.dead_agents == 0


def spend_through_hivemind(seconds: float, seed: int = SEED) -> tuple[MockProvider, dict[str, Any]]:
    """So much virtual time with the proxy between the agents and their provider, and what the proxy saw of it."""

    async def main() -> tuple[MockProvider, dict[str, Any]]:
        loop = asyncio.get_running_loop()
        mock = MockProvider(bad_day(seed), clock=loop.time, wall=loop.time)
        async with (
            in_process(mock, seed, {"profile": "anthropic", "aimd": {"floor": 2}}) as transport,
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
            at_work(demo_agents(), transport, "http://localhost", seed=seed),
        ):
            await asyncio.sleep(seconds)
            return mock, (await client.get("/_stats")).json()

    return run_virtual(main())


def test_the_first_seconds_show_what_it_is_for(tally: Tally) -> None:
    """Somebody who watches for twenty seconds sees a queue, faults made good, an overload and a cut, and nobody die."""
    mock, seen = spend_through_hivemind(20)
    assert mock.stats.faults[Fault.BAD_GATEWAY]
    assert mock.stats.faults[Fault.RESET_EARLY]
    assert {"aimd", "retried", "502", "529"} <= {line["tag"] for line in seen["lines"]}
    assert seen["totals"]["retried_ok"] >= 2
    assert seen["queued"]
    windows = seen["lanes"][0]["state"]["windows"]
    assert min(window["remaining"] / window["limit"] for window in windows) < 0.8
    assert tally.dead_agents == 0


@pytest.mark.slow
def test_nobody_dies_through_hivemind(tally: Tally) -> None:
    """Resets and error events before the first content, spells of overload, slow answers: no agent ever knows."""
    mock, _ = spend_through_hivemind(180, SEED)
    assert tally.dead_agents == 0
    assert tally.turns > 60
    assert mock.stats.faults[Fault.RESET] + mock.stats.faults[Fault.ERROR_EARLY] + mock.stats.over_capacity > 3


async def test_it_runs_on_sockets_and_cleans_up(tally: Tally) -> None:
    """Provider and agents start on loopback; leaving ends every task."""
    before = asyncio.all_tasks()
    async with asyncio.timeout(30), run_demo_provider(bad_day(1)) as url, run_demo_agents(url, count=3):
        assert url.startswith("http://127.0.0.1:")
        assert tally.dead_agents == 0
    assert asyncio.all_tasks() == before
