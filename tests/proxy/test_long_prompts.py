"""Prompts that take long to compute, through the whole proxy in virtual time."""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing

from hivemind.host.proxy import Proxy
from hivemind.lab.simulate.clock import run_virtual
from hivemind.records import replace
from hivemind.scheduler.events import LevelChanged
from hivemind.settings import Settings
from hivemind_mock.agents.agent import Agent, AgentConfig
from hivemind_mock.provider.config import LatencyConfig, MockConfig, ReplyConfig
from hivemind_mock.provider.inprocess import InProcessTransport, provider_in_loop_time

LONG = 14_000
ONE_SLOT = LatencyConfig(base_s=0.1, jitter_s=0.02, input_token_s=0.001, slots=1)
AGENTS = [AgentConfig(f"a{number}", 3, stream=True, prompt_tokens=LONG) for number in range(4)]


def served(latency: LatencyConfig, *groups: list[AgentConfig]) -> tuple[list[LevelChanged], float]:
    """Have groups of agents do their work, one after the other. Return the changes of the level, and the seconds."""

    async def run() -> tuple[list[LevelChanged], float]:
        mock = provider_in_loop_time(MockConfig(latency=latency, reply=ReplyConfig(tokens=20, spread=0)))
        settings = Settings(upstream=("mock=http://mock.invalid",), max_concurrency=5, rpm=0, tpm=0)
        changes: list[LevelChanged] = []
        async with aclosing(InProcessTransport(mock)) as upstream:
            proxy = Proxy(settings, transports={"mock": upstream}, rng=random.Random(1), wall=mock.wall)
            await proxy.start()
            proxy.engine.hooks.watched[LevelChanged] = changes.append
            async with aclosing(proxy), aclosing(InProcessTransport(proxy.app)) as transport:
                began = asyncio.get_running_loop().time()
                for group in groups:
                    agents = [Agent(each, transport, f"http://hivemind.localhost/agent/{each.name}") for each in group]
                    assert all(result.alive for result in await asyncio.gather(*(agent.run() for agent in agents)))
                return changes, asyncio.get_running_loop().time() - began

    return run_virtual(run())


def test_one_at_a_time() -> None:
    """A long prompt is no congestion, before short ones and after them, streamed or not."""
    groups = [[replace(each, stream=stream, prompt_tokens=tokens)] for each in AGENTS[:2] for stream in (True, False)
              for tokens in (60, LONG)]  # fmt: skip
    changes, took_s = served(ONE_SLOT, *groups)
    assert took_s > 12 * 14
    assert not changes


def test_at_once_where_there_is_room() -> None:
    """Nor are several, on a server that computes them beside each other as fast as each alone."""
    short = [replace(each, name=f"s{each.name}", turns=40, prompt_tokens=60) for each in AGENTS[:1]]
    changes, _ = served(replace(ONE_SLOT, slots=0), AGENTS[:1], [*AGENTS, *short])
    assert not changes


def test_beyond_the_knee() -> None:
    """On a server that computes one at a time the level falls, which costs no time: the others wait here, not there."""
    changes, took_s = served(ONE_SLOT, AGENTS[:1], AGENTS)
    assert {change.cause for change in changes if change.level < 5} >= {"latency"}
    assert took_s < 1.02 * 15 * 14.1
