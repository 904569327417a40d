"""A mock provider with a plan, a proxy before it, and a client that `hivemind run` starts in some way."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import shlex
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from agents.running import PLAIN, TOKEN, Place, Ran, at, ended
from clients.installed import PATH, missing, node_modules, version
from clients.known import KEYS, Tried
from proxy.kit import Running, settings_for
from starlette.types import ASGIApp

from benchmarks.planned.plan import Plan, Step
from benchmarks.planned.provider import PlannedProvider
from hivemind.host.proxy import Kept, Proxy
from hivemind.prices import Prices
from hivemind.proxy.server_protocol import ClientProtocol
from hivemind.store.token_file import ControlKey
from hivemind_mock.provider.config import LatencyConfig, MockConfig, ReplyConfig
from hivemind_mock.provider.serve import serving

STARTS = ("direct", "sh -c", "wrapper", "npx")
"""How a client is started: by its name, in a shell, by a script of the user's, by npx."""
SETTINGS, PRIVATE, BESIDE = "settings", "private", "beside"
"""By its name, but Claude Code with another base URL in its settings file; before a proxy that wants a token; and in
a script with another client."""
CREW = "crew"
"""Three copies of a framework's program."""
END = "All done, as planned."
SUB_AGENT = "Count the files of this folder."
USUAL = MockConfig(
    seed=3,
    latency=LatencyConfig(base_s=0.02, jitter_s=0.01),
    reply=ReplyConfig(tokens=40, spread=20, cache_read=0.6, cache_write=0.2, cache_1h=0.5),
)
SHOWN = 400
"""Characters of a client's output that a failure shows."""


@dataclass
class Cells:
    """What is found out about one client that is started in one way, a cell of the table each."""

    client: Tried
    way: str
    found: dict[str, str] = field(default_factory=dict)
    """By what was looked at: empty where it is as it must be, else what is wrong."""

    def note(self, what: str, wrong: str) -> None:
        """Note a cell."""
        self.found[what] = wrong

    @property
    def record(self) -> dict[str, object]:
        """The cells for the table."""
        known = version(self.client.program, self.client.package)
        return {"client": self.client.name, "version": known, "way": self.way, "found": self.found}

    def check(self) -> None:
        """Fail if a cell does."""
        wrong = [f"{what}: {why}" for what, why in self.found.items() if why]
        assert not wrong, f"{self.client.name}, {self.way}: " + "; ".join(wrong)


@dataclass
class Scene:
    """Everything that one try needs."""

    mock: PlannedProvider
    upstream: str
    proxy: Running
    place: Place
    home: Path

    async def tally(self) -> list[dict[str, Any]]:
        """What the provider has announced."""
        return await asyncio.to_thread(self.mock.tally.views)

    async def run(self, client: Tried, way: str, *flags: str, name: str = "ann") -> tuple[Ran, dict[str, Any]]:
        """Run a client as an agent, and return its report too."""
        report = self.place.folder / "report.json"
        command = self._command(client, way)
        ran = await self.place.ran(
            "--name", name, "--report", str(report), *flags, "--", *command, **self.environ(client)
        )
        return ran, json.loads(report.read_text()) if report.exists() else {}

    async def hivemind(self, client: Tried, *words: str) -> Ran:
        """Another command of ours, with the client's environment."""
        return await ended(await self.place.start("hivemind", *words, **self.environ(client)))

    async def spend(self, name: str) -> None:
        """Use some of an agent's budget."""
        body = {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
        async with httpx.AsyncClient(trust_env=False) as http:
            reply = await http.post(f"{self.proxy.url}/agent/{name}/v1/messages", json=body, headers={"x-api-key": "k"})
        assert reply.status_code == 200

    def environ(self, client: Tried) -> dict[str, str]:
        """What a client is started with."""
        bins = self.place.environ["PATH"]
        return {"HOME": str(self.home), "TERM": "dumb", "PATH": bins, "CI": "1", **KEYS, **client.environ}

    def _command(self, client: Tried, way: str) -> tuple[str, ...]:
        words = client.command
        if way == "npx":
            words = ("npx", "--no-install", client.package, *client.arguments)
        if way == "sh -c":
            return "sh", "-c", f"cd . && {shlex.join(words)}"
        if way == "wrapper":
            script = self.place.folder / "agent.sh"
            script.write_text(f'#!/bin/sh\nset -e\n{shlex.join(words)} "$@"\n')
            script.chmod(0o755)
            return (str(script),)
        if way == SETTINGS:
            (self.home / ".claude").mkdir()
            settings = {"env": {"ANTHROPIC_BASE_URL": self.upstream}}
            (self.home / ".claude" / "settings.json").write_text(json.dumps(settings))
        return words


@contextlib.asynccontextmanager
async def scene(
    client: Tried,
    folder: Path,
    way: str = "",
    *,
    config: MockConfig = USUAL,
    plan: Plan | None = None,
    wrapped: Callable[[ASGIApp], ASGIApp] = lambda app: app,
    **settings: Any,
) -> AsyncIterator[Scene]:
    """A try of a client, in a folder of its own; `wrapped` puts something in front of the provider."""
    token = "the-agents-token-of-the-tests" if way == PRIVATE else None
    steps = [Step(run="echo one > made.txt"), Step(say=END)]
    if client.kind is not None:
        steps[1:1] = [Step(agent=SUB_AGENT, kind=client.kind), Step(run="sleep 1")]
    mock = PlannedProvider(config, plan or Plan(tuple(steps)))
    work, home = folder / "work", folder / "home"
    work.mkdir()
    home.mkdir()
    client.prepare(home)
    modules = node_modules()
    if modules is not None:
        (work / "node_modules").symlink_to(modules)
    if client.script:
        (work / client.arguments[0]).write_text(client.script)
    async with serving(wrapped(mock)) as upstream:
        proxy = Proxy(
            settings_for(
                *(f"{each}={upstream}" for each in ("anthropic", "openai", "google")), token=token, **settings
            ),
            rng=random.Random(1),
            prices=Prices(),
        )
        proxy.control_key = ControlKey("run-1", TOKEN)
        await proxy.start(Kept(checkpoints=work / "state" / "checkpoints"))
        try:
            async with serving(proxy.app, protocol=ClientProtocol) as url:
                proxy.address = url
                running = Running(proxy, url, int(url.rpartition(":")[2]))
                async with at(work, HIVEMIND_URL=url, HIVEMIND_CONTROL_TOKEN=TOKEN) as place:
                    place.environ |= {} if token is None else {"HIVEMIND_TOKEN": token}
                    place.environ["PATH"] = f"{PLAIN['PATH'].partition(':')[0]}:{PATH}"
                    yield Scene(mock, upstream, running, place, home)
        finally:
            await proxy.aclose()


def why_not(client: Tried, way: str) -> str:
    """Return why a client can't be tried in this way here; empty: it can."""
    needs = "" if client.tools or client.program == "aider" else client.package
    if (why := missing(client.program, needs)) or way != "npx":
        return why
    return missing("npx")


def said(ran: Ran) -> str:
    """What the client printed, without our own lines."""
    lines = ran.err.splitlines()
    return "\n".join([ran.out, *(line for line in lines if not line.startswith("hivemind:"))])
