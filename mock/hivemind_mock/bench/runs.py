"""One run of one scenario: direct or through the real proxy, with its default settings but for the given changes, in
virtual time."""

from __future__ import annotations

import asyncio
import math
import random
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

import httpx
from msgspec import Struct
from starlette.types import Receive, Scope, Send

from hivemind import __version__
from hivemind.host import server
from hivemind.host.proxy import Proxy
from hivemind.journal.codec import line_of
from hivemind.journal.files import SUFFIX
from hivemind.journal.records import JournalBegan, JournalEnded
from hivemind.lab.simulate.clock import run_virtual
from hivemind.scheduler.events import Event
from hivemind.settings.checks import checked
from hivemind.store.atomic import output_file
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


_USUAL: dict[str, Any] = {"profile": "generic", "max_concurrency": 5}
"""The paper's row for an unknown provider, with its C_max as a limit, whatever address the mock has."""


class Upstream(Protocol):
    """A provider that is an ASGI application and knows the time of day."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def wall(self) -> float:
        """Return the time in seconds since the epoch."""


@asynccontextmanager
async def in_process(
    mock: Upstream, seed: int, changes: dict[str, Any], journal: Path | None = None
) -> AsyncIterator[httpx.AsyncBaseTransport]:
    """Run the proxy in front of a provider in this process, and give the transport that leads to it.

    Raises: UsageError: the journal can't be written.
    """
    settings = checked({"upstream": ("mock=http://mock.invalid",), **_USUAL, **changes})
    async with aclosing(InProcessTransport(mock)) as upstream:
        proxy = Proxy(settings, transports={"mock": upstream}, rng=random.Random(seed), wall=mock.wall)
        await proxy.start()
        async with aclosing(proxy), aclosing(InProcessTransport(proxy.app)) as transport:
            with _recorded(proxy, journal, mock.wall):
                yield transport


@asynccontextmanager
async def on_sockets(
    upstream_url: str, seed: int, changes: dict[str, Any], journal: Path | None = None
) -> AsyncIterator[str]:
    """Run the proxy on a socket in front of a provider on another, and give its base URL.

    Raises: UsageError: the journal can't be written.
    """
    settings = checked({"upstream": (f"mock={upstream_url}",), "port": 0, **_USUAL, **changes})
    proxy = Proxy(settings, rng=random.Random(seed))
    async with server.serve(proxy, settings, durable=False):
        with _recorded(proxy, journal, time.time):
            yield proxy.address


@contextmanager
def _recorded(proxy: Proxy, path: Path | None, wall: Callable[[], float]) -> Iterator[None]:
    """Write the engine's events to a journal at that path; None: nowhere."""
    if path is None:
        yield
        return
    engine = proxy.engine
    began = JournalBegan(
        at=engine.now(),
        wall=wall(),
        journal=path.stem,
        part=1,
        program=f"hivemind {__version__}",
        address=proxy.address,
        upstreams=tuple((origin.name, origin.url) for origin in proxy.settings.origins()),
        config=proxy.settings.scheduler_config(),
    )
    events: list[Event] = [began]
    engine.hooks.record = events.extend
    try:
        yield
    finally:
        engine.hooks.record = None
        events.append(JournalEnded(engine.now()))
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with output_file(path, str(path)) as file:
            file.writelines(map(line_of, events))
