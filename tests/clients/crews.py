"""Crews of real clients at work at once, without HiveMind or through it, against a mock provider with limits."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agents.running import PLAIN, TOKEN
from clients.installed import PATH
from clients.kit import SUB_AGENT
from clients.known import KEYS, PROMPT

from benchmarks.planned.plan import Plan, Step
from benchmarks.planned.provider import PlannedProvider
from hivemind.host.proxy import Kept, Proxy
from hivemind.prices import Prices
from hivemind.proxy.server_protocol import ClientProtocol
from hivemind.settings import Settings
from hivemind.store.token_file import ControlKey
from hivemind_mock.provider.config import LatencyConfig, LimitConfig, MockConfig, ReplyConfig
from hivemind_mock.provider.serve import serving

CLAUDE = ("claude", "-p", PROMPT, "--model", "claude-sonnet-4-5", "--allowedTools", "Bash", "Agent")
CODEX = ("codex", "exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "-m", "gpt-5.4", PROMPT)
_USUAL = LatencyConfig(base_s=1.0, jitter_s=0.5)
_EVERY_S = 0.3
"""Between the starts of two clients."""
_UNUSED = {"rpm": 4000, "itpm": 10_000_000, "otpm": 1_000_000, "tpm": 0}
"""Anthropic states all of its limits, so HiveMind assumes none."""


@dataclass(frozen=True)
class Crew:
    """So many copies of a client, what they do, and what limits them."""

    name: str
    command: tuple[str, ...]
    agents: int
    turns: int
    limits: LimitConfig
    latency: LatencyConfig = _USUAL

    @property
    def provider(self) -> PlannedProvider:
        """A new one, with a plan of shell commands and one sub-agent."""
        kind = "default" if self.command is CODEX else "general-purpose"
        steps = [Step(run=f"sleep 0.5; echo {turn}") for turn in range(self.turns)]
        steps.insert(1, Step(agent=SUB_AGENT, kind=kind))
        reply = ReplyConfig(tokens=60, spread=30, cache_read=0.8, cache_write=0.1)
        config = MockConfig(seed=7, limits=self.limits, latency=self.latency, reply=reply)
        return PlannedProvider(config, plan=Plan((*steps, Step(say="All done."))))


def limited(**limits: object) -> LimitConfig:
    """These limits, and others that are never used up."""
    return LimitConfig(**{"window": "bucket", **_UNUSED, **limits})  # type: ignore[arg-type]  # of a config


CREWS = (
    Crew("tide", CLAUDE, 5, 6, limited(rpm=24)),
    Crew("burst", CLAUDE, 5, 6, limited(rpm=40, burst=4)),
    Crew("input", CLAUDE, 4, 7, limited(itpm=300_000)),
    Crew("places", CLAUDE, 5, 5, limited(concurrency=2), LatencyConfig(base_s=2.5, jitter_s=1.0)),
    Crew("codex", CODEX, 4, 5, limited(rpm=20, itpm=0, otpm=0, tpm=10_000_000)),
)


async def alone(crew: Crew, folder: Path) -> Path:
    """Let a crew work without HiveMind; return its home, where its clients wrote what they saw."""
    async with serving(crew.provider) as upstream:
        variables = {"ANTHROPIC_BASE_URL": upstream}
        first, *rest = crew.command
        command = (first, "-c", f'openai_base_url="{upstream}/v1"', *rest) if first == "codex" else crew.command
        await _work(folder, [command] * crew.agents, variables)
    return folder / "home"


async def with_hivemind(crew: Crew, folder: Path) -> Path:
    """Let it work through HiveMind with its usual settings; return the folder of the journal."""
    async with serving(crew.provider) as upstream, _proxy(upstream, folder / "state") as url:
        variables = {"HIVEMIND_URL": url, "HIVEMIND_CONTROL_TOKEN": TOKEN, "HIVEMIND_STATE_DIR": str(folder / "state")}
        names = [f"a{number}" for number in range(crew.agents)]
        await _work(folder, [("hivemind", "run", "--name", name, "--", *crew.command) for name in names], variables)
    return folder / "state" / "journals"


@asynccontextmanager
async def _proxy(upstream: str, state: Path) -> AsyncIterator[str]:
    settings = Settings(upstream=(f"anthropic={upstream}", f"openai={upstream}"), port=0)
    proxy = Proxy(settings, rng=random.Random(1), prices=Prices())
    proxy.control_key = ControlKey("run-1", TOKEN)
    await proxy.start(Kept(checkpoints=state / "checkpoints", journals=state / "journals"))
    try:
        async with serving(proxy.app, protocol=ClientProtocol) as url:
            proxy.address = url
            yield url
    finally:
        await proxy.aclose()


async def _work(folder: Path, commands: Sequence[tuple[str, ...]], variables: dict[str, str]) -> None:
    """Run commands at once, each in a folder of its own, to their ends; some may die of their refusals."""
    (folder / "home").mkdir(parents=True)
    path = f"{PLAIN['PATH'].partition(os.pathsep)[0]}{os.pathsep}{PATH}"
    environ = {**PLAIN, "PATH": path, "HOME": str(folder / "home"), "TERM": "dumb", "CI": "1", **KEYS, **variables}

    async def work(number: int, command: tuple[str, ...]) -> None:
        await asyncio.sleep(_EVERY_S * number)
        place = folder / f"work-{number}"
        place.mkdir()
        devnull = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *command, cwd=place, env=environ, stdin=devnull, stdout=devnull, stderr=devnull, start_new_session=True
        )
        try:
            await process.wait()
        finally:
            if process.returncode is None:
                os.killpg(process.pid, 9)

    async with asyncio.TaskGroup() as group:
        for number, command in enumerate(commands):
            group.create_task(work(number, command))
