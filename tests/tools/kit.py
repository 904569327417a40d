"""Proxies to call tools on, clients of the official SDK to call them with, and a course through all eight."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult
from world.kit import told

from hivemind import __version__
from hivemind.api_types import About, TaskState
from hivemind.host import server
from hivemind.host.proxy import Proxy
from hivemind.scheduler.commands import Command
from hivemind.settings.checks import checked
from hivemind.tools.access import Caller, ProxyAccess
from hivemind.tools.server import call_tool
from hivemind.world.snapshot import Snapshot

ABOUT = About("run-1", __version__, "http://127.0.0.1:8765", (("up", "https://up"),), False, 0, False, None)
LAB = "lab=http://127.0.0.1:9"
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-5",
    "content": [{"type": "text", "text": "hello"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1000, "output_tokens": 200},
}
BIN = Path(sys.executable).parent
PLAIN = {key: value for key, value in os.environ.items() if not key.upper().startswith(("HIVEMIND", "HTTP"))}
HANGS_S = 60
"""What takes longer never ends."""


@dataclass
class FakeProxy:
    """A proxy that is what a test says, and remembers what it was told."""

    world_now: Snapshot = field(default_factory=lambda: told().snapshot(1.0))
    about_now: About = ABOUT
    tasks_now: tuple[TaskState, ...] = ()
    orders: list[tuple[Command, str]] = field(default_factory=list)
    error: Exception | None = None

    async def about(self) -> About:
        self._fail()
        return self.about_now

    async def world(self) -> Snapshot:
        self._fail()
        return self.world_now

    async def tasks(self, batch: str | None = None) -> tuple[TaskState, ...]:
        self._fail()
        return tuple(task for task in self.tasks_now if batch in (None, task.spec.batch))

    async def apply(self, command: Command, who: str) -> None:
        self._fail()
        self.orders.append((command, who))

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error


@contextlib.asynccontextmanager
async def served(folder: Path, **settings: Any) -> AsyncIterator[Proxy]:
    """A proxy on a socket of its own, before an upstream that answers everything at once."""
    chosen = checked({"upstream": (LAB,), "port": 0, "state_dir": folder / "state", **settings})
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=ANSWER))
    proxy = Proxy(chosen, transports={"lab": transport})
    async with server.serve(proxy, chosen):
        yield proxy


def token_of(proxy: Proxy) -> str:
    """What opens its control API."""
    assert proxy.control_key is not None
    return proxy.control_key.token


async def asks(proxy: Proxy, agent: str) -> None:
    """The agent sends a request through the proxy, and is answered."""
    body = {"model": "claude-sonnet-5", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}
    async with httpx.AsyncClient(timeout=60, trust_env=False) as web:
        answer = await web.post(f"{proxy.address}/agent/{agent}/v1/messages", json=body, headers={"x-api-key": "k"})
    assert answer.status_code == 200


@contextlib.asynccontextmanager
async def over_http(proxy: Proxy, mode: str = "auto", agent: str | None = None) -> AsyncIterator[Client]:
    """The SDK's client on the proxy's own socket; `mode` is which revision of the protocol it begins with."""
    place = f"{proxy.address}/agent/{agent}/mcp" if agent else f"{proxy.address}/mcp"
    headers = {"authorization": f"Bearer {token_of(proxy)}"}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60) as web,
        Client(streamable_http_client(place, http_client=web), mode=mode, read_timeout_seconds=HANGS_S) as client,
    ):
        yield client


@contextlib.asynccontextmanager
async def over_stdio(folder: Path, url: str, *flags: str, mode: str = "auto", **environ: str) -> AsyncIterator[Client]:
    """The SDK's client of a `hivemind mcp` that it started."""
    started = StdioServerParameters(
        command=str(BIN / "hivemind"),
        args=["mcp", *(["--attach", url] if url else []), *flags],
        env={**PLAIN, "HIVEMIND_STATE_DIR": str(folder / "state"), **environ},
        cwd=folder,
    )
    transport = stdio_client(started, errlog=sys.stderr)  # by default what it was at import
    async with Client(transport, mode=mode, read_timeout_seconds=HANGS_S) as client:
        yield client


async def said(client: Client, name: str, /, **arguments: Any) -> dict[str, Any]:
    """The structured answer of a call that goes well; the client has held it against the tool's schema."""
    result = await client.call_tool(name, arguments)
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result.content
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def refusal(client: Client, name: str, /, **arguments: Any) -> str:
    """What is said of a call that can't be carried out."""
    return text_of(await client.call_tool(name, arguments))


def text_of(result: Any) -> str:
    """The one line of an error."""
    assert result.is_error
    assert result.structured_content is None
    (content,) = result.content
    assert "\n" not in content.text
    return str(content.text)


async def call(proxy: ProxyAccess, name: str, caller: Caller | None = None, /, **arguments: Any) -> dict[str, Any]:
    """A tool's answer on a proxy of the test's."""
    result = await call_tool(proxy, caller or Caller(), name, arguments)
    assert not result.is_error, result.content
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def complaint(proxy: ProxyAccess, name: str, /, **arguments: Any) -> str:
    """What it says where it can't do what it was asked."""
    return text_of(await call_tool(proxy, Caller(), name, arguments))


NAMES = ("submit", "batch", "status", "priority", "budget", "metrics", "config", "setup")


async def all_eight(client: Client, dot: str = ".") -> Mapping[str, dict[str, Any]]:
    """Call every tool once or twice, as an agent that plans a batch would; gives the last answer of each."""

    async def use(verb: str, **arguments: Any) -> dict[str, Any]:
        return await said(client, f"hm{dot}{verb}", **arguments)

    tasks = [{"name": "lint"}, {"name": "test", "after": ["lint"], "priority": "high", "estimated_tokens": 5000}]
    answers = {
        "setup": await use("setup", client="codex", agent="carol"),
        "batch": await use("batch", batch="nightly", tasks=tasks),
        "submit": await use("submit", name="lint", batch="nightly", outcome="done", note="clean"),
        "priority": await use("priority", task="nightly.test", priority="critical"),
        "budget": await use("budget", agent="alice", tokens=50_000, per="day"),
        "config": await use("config", knob="aimd.beta", value=0.7),
        "metrics": await use("metrics"),
        "status": await use("status", agent="alice", limit=20),
    }
    assert answers["batch"]["ready"] == ["nightly.lint"]
    assert answers["submit"]["task"]["state"] == "done"
    assert answers["budget"]["budgets"][0]["tokens"] == 50_000
    assert answers["metrics"]["totals"]["finished"] == 1
    assert answers["metrics"]["agents"][0]["output_tokens"] == 200
    (lane,) = answers["status"]["lanes"]
    assert lane["upstream"] == "lab"
    assert next(row for row in answers["config"]["knobs"] if row["knob"] == "aimd.beta")["values"] == {"lab": 0.7}
    task = next(row for row in answers["status"]["tasks"] if row["task"] == "nightly.test")
    assert (task["state"], task["priority"]) == ("ready", "critical")
    assert answers["status"]["you"]["agent"] == "alice"
    assert answers["status"]["headroom"]["budget_tokens_left"] == 48_800
    assert any("/agent/carol/v1" in snippet["text"] for snippet in answers["setup"]["snippets"])
    assert sorted(answers) == sorted(NAMES)
    return answers
