"""`hivemind run --restarts`: what crashes is started again, what somebody ended isn't."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from agents.running import before, ended
from agents.test_resume import stage
from agents.test_resume_session import install, said
from waiting import until

from hivemind.agents.clients.facts import GO_ON
from hivemind.scheduler.commands import StopAgent

COUNTS = 'echo x >> starts; [ $(wc -l < starts) -gt {} ] || exit 3; echo "$(wc -l < starts) starts"'
BUDGET = """\
import os, sys, urllib.error, urllib.request
open("starts", "a").write("x\\n")
body = b'{"model": "claude-sonnet-4-5", "max_tokens": 99, "messages": []}'
for _ in range(5):
    urllib.request.urlopen(urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", body))
"""


@pytest.fixture(autouse=True)
def at_once() -> Iterator[None]:
    """Without pauses, in this process."""
    with mock.patch("hivemind.agents.restarts.run_with_restarts.__kwdefaults__", {"delay_s": 0.0}):
        yield


def starts(folder: Path) -> int:
    return (folder / "starts").read_text().count("x")


async def test_started_again_until_it_ends_well(tmp_path: Path) -> None:
    """As one run of one agent, and an operator's changes since its start hold."""
    async with before(tmp_path) as (running, place):
        flags = ("--name", "alice", "--restarts", "5", "--priority", "high", "--report", "report.json")
        ran = await place.called("run", *flags, "--", "sh", "-c", COUNTS.format(2))
        orders = [line.text for line in running.snapshot().lines if "priority" in line.text]
    assert (ran.code, starts(tmp_path)) == (0, 3), ran.err
    first, second, end, without_requests = ran.err.splitlines()
    assert "no request" in without_requests
    assert first == "hivemind: alice: exit code 3; it starts again in 0s (1 of 5)"
    assert second == "hivemind: alice: exit code 3; it starts again in 0s (2 of 5)"
    assert end.startswith("hivemind: alice: exit code 0 after ")
    assert " and 2 restarts, 0 tokens" in end
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["exit_code"], report["restarts"]) == (0, 2)
    assert len(orders) == 1


async def test_as_often_as_allowed(tmp_path: Path) -> None:
    async with before(tmp_path) as (_, place):
        ran = await place.called("run", "--restarts", "2", "--", "sh", "-c", COUNTS.format(9))
        assert (ran.code, starts(tmp_path)) == (3, 3)
        wrong = await place.called("run", "--restarts", "-1", "--", "true")
    assert wrong.err == "hivemind: --restarts -1: must be a whole number from 0 to 1,000\n"


@pytest.mark.e2e
async def test_not_after_a_used_up_budget(tmp_path: Path) -> None:
    """Its requests would be refused again."""
    (tmp_path / "asks.py").write_text(BUDGET)
    async with before(tmp_path) as (_, place):
        ran = await place.called("run", "--name", "al", "--budget", "60", "--restarts", "5", "--", "python3", "asks.py")
    assert (ran.code, starts(tmp_path)) == (1, 1)
    assert "al's budget is used up" in ran.err


async def test_not_after_a_stop_by_an_operator(tmp_path: Path) -> None:
    script = "echo x >> starts; while [ ! -e stopped ]; do sleep 0.05; done; exit 3"
    async with before(tmp_path) as (running, place):
        run = asyncio.create_task(
            place.called("run", "--name", "bob", "--restarts", "5", "--", "sh", "-c", script), name="run"
        )
        await until((tmp_path / "starts").exists)
        running.proxy.apply(StopAgent("bob", True), "test")
        (tmp_path / "stopped").touch()
        ran = await run
    assert (ran.code, starts(tmp_path)) == (3, 1), ran.err


@pytest.mark.e2e
async def test_not_after_a_signal(tmp_path: Path) -> None:
    """Ctrl-C ends it, whatever exit code the command makes of that, also between two starts."""
    async with before(tmp_path) as (_, place):
        script = "trap 'exit 5' INT; echo x >> starts; while :; do sleep 0.05; done"
        run = await place.run("--name", "carl", "--restarts", "5", "--", "sh", "-c", script)
        await until((tmp_path / "starts").exists)
        run.send_signal(signal.SIGINT)
        ran = await ended(run)
        assert (ran.code, starts(tmp_path)) == (5, 1)
        run = await place.run("--name", "carl", "--restarts", "5", "--", "sh", "-c", "echo x >> starts; exit 3")
        await until(lambda: starts(tmp_path) == 2)
        run.send_signal(signal.SIGTERM)
        ran = await ended(run)
        assert ran.code in (3, 143)
        assert starts(tmp_path) == 2


@pytest.mark.e2e
async def test_the_client_goes_on_in_its_session(tmp_path: Path) -> None:
    """Of a run and of a batch's task: what was said before the crash is there, and isn't asked again."""
    script = "claude -p hello; [ -e $HIVEMIND_AGENT ] || { touch $HIVEMIND_AGENT; exit 3; }"
    command = ("sh", "-c", script)
    (tmp_path / "work.yaml").write_text(json.dumps({"restarts": 1, "tasks": {"a": command}}))
    async with stage(tmp_path) as on:
        on.place.environ |= install(tmp_path)
        ran = await on.place.called("run", "--name", "alice", "--restarts", "1", "--", *command)
        with mock.patch("signal.getsignal", return_value=signal.SIG_IGN):
            batch = await on.place.called("batch", "work.yaml")
        lines = [json.loads(line) for line in said(on.place)]
    assert (ran.code, batch.code) == (0, 0), ran.err + batch.err
    assert [line[0] for line in lines] == [200] * 4
    for first, second in (lines[:2], lines[2:]):
        assert first[1:] == ["new", "hello"]
        assert second[1] != "new"
        assert second[2:] == ["hello", GO_ON]
