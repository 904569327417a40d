"""A plan whose window is used up: what a client is told, and that tasks are paused and go on by themselves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from agents import running
from agents.batches import Bench, bench, killed
from agents.running import before, ended, said

from hivemind.agents.batch_context import caller_of
from hivemind.agents.plans.plan import PlannedTask

ASKS = """\
import os, sys, time, urllib.error, urllib.request
def note(what):
    with open("journal", "a") as file:
        file.write(f"{what} {sys.argv[1]} {time.time()}\\n")
note("begin")
body = b'{"model": "claude-sonnet-4-5", "max_tokens": 99, "messages": []}'
try:
    urllib.request.urlopen(urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", body))
except urllib.error.HTTPError as error:
    open("refusal", "w").write(f"{error.code}\\n{error.headers}\\n{error.read().decode()}")
    sys.exit(f"refused: {error.code}")
note("ok")
"""
REFUSAL = {"type": "rate_limit_error", "message": "no more", "details": {"error_code": "enforced_spend_limit_reached"}}
ANSWER = {
    "type": "message",
    "content": [{"type": "text", "text": "done"}],
    "usage": {"input_tokens": 9, "output_tokens": 9},
}


@dataclass
class Plan:
    """An upstream that refuses from its first request on, until its window is whole again."""

    lasts_s: float
    whole_at: float = math.inf
    asked: list[float] = field(default_factory=list)
    open: dict[asyncio.StreamWriter, asyncio.Task[Any] | None] = field(default_factory=dict)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open[writer] = asyncio.current_task()
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length or 0))
                writer.write(self._answer())
                await writer.drain()
        writer.close()
        del self.open[writer]

    def _answer(self) -> bytes:
        now = time.time()
        self.asked.append(now)
        if self.whole_at == math.inf:
            self.whole_at = math.ceil(now + self.lasts_s)
        rejected = now < self.whole_at
        body = json.dumps({"type": "error", "error": REFUSAL} if rejected else ANSWER).encode()
        window = "anthropic-ratelimit-unified-5h"
        lines = [
            f"HTTP/1.1 {'429 Too Many Requests' if rejected else '200 OK'}",
            "content-type: application/json",
            f"content-length: {len(body)}",
            f"{window}-utilization: {1.0 if rejected else 0.1}",
            f"{window}-status: {'rejected' if rejected else 'allowed'}",
            f"{window}-reset: {self.whole_at + 0 if rejected else self.whole_at + 18000}",
            f"anthropic-ratelimit-unified-reset: {self.whole_at}",
        ]
        return "\r\n".join([*lines, "", ""]).encode() + body


@contextlib.asynccontextmanager
async def served(plan: Plan) -> AsyncIterator[str]:
    """Its URL."""
    server = await asyncio.start_server(plan.serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    for writer, task in [*plan.open.items()]:
        writer.close()
        if task is not None:
            await asyncio.wait((task,))


def moments(folder: Path, what: str) -> list[float]:
    """When the commands noted this."""
    return [float(line.split()[2]) for line in (folder / "journal").read_text().splitlines() if line.startswith(what)]


async def test_a_run_is_paused_until_the_reset(tmp_path: Path) -> None:
    """Its client gets the provider's own words at once, with the reset; the command starts again when that is over."""
    (tmp_path / "asks.py").write_text(ASKS)
    plan = Plan(2.0)

    @contextlib.asynccontextmanager
    async def providing() -> AsyncIterator[tuple[Any, str]]:
        async with served(plan) as url:
            yield None, url

    with mock.patch.object(running, "providing", providing):
        async with before(tmp_path, profile="anthropic") as (_, place):
            ran = await place.called("run", "--name", "al", "--", "python3", "asks.py", "al")
    assert ran.code == 0, ran.err
    assert "al: exit code 1, because a plan's window is used up; it starts again at " in ran.err
    _, again = moments(tmp_path, "begin")
    assert again >= plan.whole_at
    refusal = (tmp_path / "refusal").read_text()
    assert f"anthropic-ratelimit-unified-5h-reset: {plan.whole_at}" in refusal
    assert json.dumps(REFUSAL) in refusal


@pytest.mark.e2e
@pytest.mark.parametrize("runner", ["batch", "work"])
async def test_tasks_go_on_after_the_reset_over_a_kill_of_proxy_and_runner(tmp_path: Path, runner: str) -> None:
    """None is lost or counts as failed; those that ask the same aren't started before the reset, and then all get done.
    One that doesn't, goes on meanwhile."""
    plan, here = Plan(9.0), bench(tmp_path)
    (tmp_path / "asks.py").write_text(ASKS)
    commands = {name: ["python3", "asks.py", name] for name in ("a", "b", "c", "d")}
    commands["free"] = ["sh", "-c", "echo free free $(date +%s.%N) >> journal"]
    tasks = {name: {"command": command} for name, command in commands.items()}
    (tmp_path / here.plan).write_text(json.dumps({"max_agents": 2, "tasks": tasks}))
    async with served(plan) as url:
        here.environ = {"HIVEMIND_UPSTREAM": f"lab={url}", "HIVEMIND_PROFILE": "anthropic"}
        async with contextlib.AsyncExitStack() as stack:
            if runner == "work":
                await stack.enter_async_context(here.proxy())
                for name, command in commands.items():
                    async with here.program("tasks", "submit", name, "--", *command) as submitted:
                        assert (await ended(submitted)).code == 0
            process = await stack.enter_async_context(started(here, runner))
            for _ in range(2):  # one of which nothing was told yet may begin anew at once
                await said(process, "paused until")
            await here.until(lambda: len(plan.asked) >= 2 and bool(moments(tmp_path, "free")))
            await killed(process)
            here.kill_proxy() if runner == "batch" else None
        before_kill = len(moments(tmp_path, "begin"))
        async with contextlib.AsyncExitStack() as stack:
            if runner == "work":
                await stack.enter_async_context(here.proxy())
            ran = await ended(await stack.enter_async_context(started(here, runner, again=True)))
    assert ran.code == 0, ran.err
    assert "failed" not in ran.err
    assert before_kill == 2
    assert moments(tmp_path, "free")[0] < plan.whole_at
    assert all(at >= plan.whole_at for at in moments(tmp_path, "begin")[before_kill:])
    assert len(moments(tmp_path, "ok")) == 4


def started(here: Bench, runner: str, *, again: bool = False) -> Any:
    """The runner, which ends once nothing is left."""
    if runner == "batch":
        return here.batch(*(("--resume",) if again else ()))
    return here.program("work", "--max-agents", "2", *(("--idle-exit", "3") if again else ()))


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (("claude", "-p", "fix a.py"), ("sh", "-c", "claude -p 'do b' | tee log"), True),
        (("claude", "-p", "a"), ("claude", "-p", "a", "--model", "haiku"), False),
        (("claude", "--model", "haiku"), ("claude", "-p", "b", "--model=haiku"), True),
        (("claude", "-p", "a"), ("codex", "exec", "a"), False),
        (("python3", "asks.py", "a"), ("python3", "asks.py", "b"), True),
        (("uv", "run", "asks.py"), ("uv", "run", "other.py"), False),
        (("./agent", "1"), ("./agent", "2"), True),
        (("sh", "-c", "asks a"), ("sh", "-c", "asks b"), False),
    ],
)
def test_what_asks_for_the_same_model_as_far_as_a_command_shows(
    one: tuple[str, ...], other: tuple[str, ...], alike: bool
) -> None:
    """The client or program, and a model that is named; variables count too."""
    first, second = (PlannedTask(command=list(each)) for each in (one, other))  # type: ignore[arg-type]
    assert (caller_of(first) == caller_of(second)) is alike
    assert caller_of(first) != caller_of(first.model_copy(update={"env": {"ANTHROPIC_MODEL": "x"}}))
