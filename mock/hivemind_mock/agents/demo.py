"""The demo: a provider on a bad day, eleven agents that work on through it, and the tasks that some of them work on."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from itertools import cycle, islice

import httpx

from hivemind.records import replace
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.types import Priority, TaskSpec
from hivemind_mock.agents.agent import Agent, AgentConfig, AgentDied
from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import FaultConfig, LatencyConfig, LimitConfig, MockConfig, ReplyConfig
from hivemind_mock.provider.serve import serving

_SONNET, _OPUS, _HAIKU = "claude-sonnet-5", "claude-opus-5-5", "claude-haiku-4-5"
_CAST = (
    ("alice", "high", _OPUS, 900),
    ("bruno", "normal", _SONNET, 400),
    ("chiara", "normal", _SONNET, 700),
    ("dmitri", "low", _HAIKU, 150),
    ("esra", "critical", _OPUS, 300),
    ("farid", "normal", _SONNET, 500),
    ("greta", "normal", _HAIKU, 120),
    ("hugo", "low", _HAIKU, 200),
    ("imani", "high", _SONNET, 600),
    ("jonas", "normal", _SONNET, 350),
    ("kaori", "low", _SONNET, 1200),
)
"""Name, priority, model and prompt size in tokens."""
SEED = 2125
"""Of a day that goes bad at once: a 502 and a reset before ten seconds are over, then a spell of overload."""
_RESTART_S = 4.0
"""From an agent's death to its restart."""


def bad_day(seed: int) -> MockConfig:
    """A provider that is worth watching: tight limits, faults, spells of overload, slow answers, and some that hang."""
    return MockConfig(
        seed=seed,
        limits=LimitConfig(rpm=80, itpm=60_000, otpm=30_000, concurrency=6),
        latency=LatencyConfig(
            base_s=0.5,
            jitter_s=0.3,
            spike=0.05,
            spike_factor=6.0,
            token_s=0.006,
            hang_every_s=120.0,
            hang_first_s=5.0,
            hang_s=85.0,
        ),
        faults=FaultConfig(
            bad_gateway=0.04,
            overloaded=0.01,
            reset=0.025,
            reset_early=0.01,
            error_early=0.01,
            edge=0.5,
            spell_every_s=90.0,
            spell_first_s=12.0,
            spell_s=2.0,
        ),
        reply=ReplyConfig(tokens=280, spread=160, event_tokens=4),
    )


def demo_agents(count: int = len(_CAST)) -> tuple[AgentConfig, ...]:
    """The agents of `hivemind-tui --demo`. Those beyond the cast have a number after their name."""
    return tuple(
        AgentConfig(
            name=name if index < len(_CAST) else f"{name}-{index // len(_CAST) + 1}",
            turns=0,
            think_s=1.5,
            model=model,
            stream=True,
            prompt_tokens=prompt_tokens,
            headers=(("x-hivemind-priority", priority),),
        )
        for index, (name, priority, model, prompt_tokens) in enumerate(islice(cycle(_CAST), count))
    )


def run_demo_provider(config: MockConfig, bound: socket.socket | None = None) -> AbstractAsyncContextManager[str]:
    """The provider on a loopback socket, on `bound` where that is given; gives its base URL."""
    return serving(MockProvider(config), bound=bound)


@asynccontextmanager
async def run_demo_agents(base_url: str, count: int = len(_CAST), seed: int = SEED) -> AsyncIterator[None]:
    """The agents at work against `base_url`, over sockets, for as long as the context lasts."""
    limits = httpx.Limits(max_connections=None)
    async with (
        httpx.AsyncHTTPTransport(limits=limits) as transport,
        at_work(demo_agents(count), transport, base_url, seed),
    ):
        yield


@asynccontextmanager
async def at_work(
    agents: Sequence[AgentConfig], transport: httpx.AsyncBaseTransport, base_url: str, seed: int
) -> AsyncIterator[None]:
    """These agents on any transport; leaving ends them all."""
    lives = [
        asyncio.create_task(_live(config, transport, base_url, random.Random(seed * 1000 + number)))
        for number, config in enumerate(agents)
    ]
    try:
        yield
    finally:
        for life in lives:
            life.cancel()
        ended = await asyncio.gather(*lives, return_exceptions=True)
        failures = [end for end in ended if isinstance(end, Exception)]
        if failures:
            raise ExceptionGroup("demo agents failed", failures)


async def _live(config: AgentConfig, transport: httpx.AsyncBaseTransport, base_url: str, rng: random.Random) -> None:
    """Send requests for ever; after an error restart under the same name a little later."""
    await asyncio.sleep(rng.random() * config.think_s)
    while True:
        size = max(20, round(config.prompt_tokens * rng.uniform(0.6, 1.4)))
        agent = Agent(replace(config, prompt_tokens=size), transport, f"{base_url}/agent/{config.name}")
        with suppress(AgentDied):
            while True:
                await agent.turn()
                await asyncio.sleep(config.think_s * rng.uniform(0.3, 1.7))
        await asyncio.sleep(_RESTART_S * rng.uniform(0.5, 1.5))


BATCH = "sprint"
LEAD, HELPERS = "alice", ("bruno", "chiara")
DOLLARS = 1.5
"""More than the three use in a round, with each of which their runs begin anew."""
WHO = "demo"

Apply = Callable[[cmd.Command, str], object]


def _task(name: str, agent: str, tokens: int, *after: str) -> TaskSpec:
    priority = Priority.HIGH if agent == LEAD else Priority.NORMAL  # as they ask anyway
    before = tuple(f"{BATCH}.{each}" for each in after)
    return TaskSpec(f"{BATCH}.{name}", priority, tokens, before, agent, BATCH)


PLAN = (
    _task("plan", LEAD, 6_000),
    _task("triage", "bruno", 4_000),
    _task("changelog", "chiara", 6_000),
    _task("answers", LEAD, 12_000, "plan"),
    _task("tests", "bruno", 12_000, "plan"),
    _task("docs", "chiara", 8_000, "plan"),
    _task("review", LEAD, 6_000, "tests", "docs"),
    _task("release", LEAD, 4_000, "review", "changelog"),
    _task("announce", LEAD, 2_000, "release"),
)
ROUND: tuple[tuple[float, str], ...] = (
    (0.0, "start plan triage changelog"),
    (20.0, "finish plan"),
    (0.0, "start answers tests docs"),
    (15.0, "finish triage"),
    (15.0, "finish changelog"),
    (10.0, "fail tests"),
    (5.0, "start tests"),
    (10.0, "finish docs"),
    (25.0, "finish tests"),
    (0.0, "start review"),
    (2.0, "finish answers"),
    (25.0, "finish review"),
    (0.0, "start release"),
    (15.0, "finish release"),
    (0.0, "start announce"),
    (10.0, "finish announce"),
    (20.0, "forget"),
)
"""Seconds after the step before, and what happens then."""


@asynccontextmanager
async def at_tasks(
    apply: Apply, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
) -> AsyncIterator[asyncio.Task[None]]:
    """The plan goes round for as long as the context lasts. `apply` carries a command out, and may refuse it."""
    rounds = asyncio.create_task(_rounds(apply, sleep), name="demo-tasks")
    try:
        yield rounds
    finally:
        rounds.cancel()
        with suppress(asyncio.CancelledError):
            await rounds


async def _rounds(apply: Apply, sleep: Callable[[float], Awaitable[object]]) -> None:
    apply(cmd.SetBudget(LEAD, None, DOLLARS, "run", "subtree"), WHO)
    while True:
        apply(cmd.BeginAgent(LEAD), WHO)
        for helper in HELPERS:
            apply(cmd.BeginAgent(helper, LEAD), WHO)
        apply(cmd.SubmitTasks(PLAN), WHO)
        for pause_s, step in ROUND:
            await sleep(pause_s)
            for command in _commands(*step.split()):
                with suppress(cmd.Rejected):  # its agent began it already, or an operator decided otherwise
                    apply(command, WHO)
            if step == "forget":
                await sleep(pause_s)


def _commands(what: str, *names: str) -> list[cmd.Command]:
    if what == "forget":
        return [cmd.ForgetTasks(BATCH)]
    ids = [f"{BATCH}.{name}" for name in names]
    if what == "start":
        return [cmd.ClaimTask(task, WHO) for task in ids]
    if what == "fail":
        return [cmd.FinishTask(task, ok=False, note="exit code 1", again=True) for task in ids]
    return [cmd.FinishTask(task, ok=True) for task in ids]
