"""`hivemind explore`: on a proxy with traffic; the settings are as they were however it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from commands.kit import Desk, desk, environment
from control.kit import TOKEN
from proxy.kit import client
from proxy.wire import PLAIN_BODY

from hivemind.cli.client import ProxyClient
from hivemind.cli.operator.explore import as_text, sentence
from hivemind.cli.operator.live import Outcome, Trial
from hivemind.control.discovery import Token, parse_address
from hivemind.lab.explore.engine import Experiment, Slice

_BRIEF = ("--for", "6s", "--slice", "1s", "--transition", "0.2s", "--bound", "answered=1")


def knobs(at: Desk) -> tuple[float, float]:
    """Max concurrency and beta, as they are."""
    found = at.proxy.snapshot().lanes[0].state.knobs
    return found["max_concurrency"], found["aimd.beta"]


@contextlib.asynccontextmanager
async def traffic(at: Desk) -> AsyncIterator[None]:
    """An agent that asks again and again."""

    async def ask() -> None:
        async with client() as web:
            while True:
                await web.post(f"{at.proxy.url}/agent/ann/v1/messages", content=PLAIN_BODY)
                await asyncio.sleep(0.02)

    task = asyncio.create_task(ask())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def exploring(at: Desk, folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """The command as a process of its own, which has turned the knob to B."""
    given = environment(folder, {"HIVEMIND_URL": at.proxy.url, "HIVEMIND_CONTROL_TOKEN": TOKEN})
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("hivemind"),
        *("explore", "max_concurrency=8", "--for", "1h", "--slice", "2s", "--bound", "answered=0"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        env=given,
    )
    try:
        async with asyncio.timeout(60):
            await at.proxy.until(lambda world: world.lanes[0].state.knobs["max_concurrency"] == 8)
            yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def test_an_experiment(tmp_path: Path) -> None:
    """It says what it found, in a sentence and as JSON, and leaves the settings as they were."""
    async with desk(tmp_path) as at, traffic(at):
        await at.does("set rpm none")
        ended = await at.run("explore max_concurrency=8 aimd.beta=0.7 --json", *_BRIEF)
        assert ended.code == 0, ended.err
        found = json.loads(ended.out)
        assert found["a"] == {"max_concurrency": 4, "aimd.beta": 0.5}
        assert found["pairs"] == 3
        assert {"answered a minute", "errors %", "wait p95 s"} <= {each["measure"] for each in found["measures"]}
        assert knobs(at) == (4, 0.5)
        assert len(ended.err.splitlines()) == 6
        said = [line.text for line in at.proxy.snapshot().lines]
        assert any("explore begins: max_concurrency 4, aimd.beta 0.5 (A)" in text for text in said)
        assert any("explore ended: A is in force again" in text for text in said)


async def test_a_bound(tmp_path: Path) -> None:
    """What passes one is said by what was tried."""
    async with desk(tmp_path) as at:
        proxy = ProxyClient(parse_address(at.proxy.url), Token(TOKEN, "the test"), "ops")
        experiment = Experiment(3)
        experiment.add(Slice("A", 1, 9, 0, 0, ()))
        experiment.add(Slice("B", 1, 9, 3, 0, ()))
        said = sentence(Trial(proxy, {"max_concurrency": 8}, None, 1, 0), experiment)
        assert said == "Stopped with max_concurrency 8 in force: 25 % of the requests failed (bound: 10 %)."


async def test_turns_that_differ_too_much(tmp_path: Path) -> None:
    """Where the interval would hold everything, it says so, and prints no figure of it."""
    async with desk(tmp_path) as at:
        proxy = ProxyClient(parse_address(at.proxy.url), Token(TOKEN, "the test"), "ops")
        experiment = Experiment(3)
        for a, b in ((30, 1), (1, 30), (30, 1)):
            for _ in range(2):
                side = experiment.side
                experiment.add(Slice(side, 10, a if side == "A" else b, 0, 100, (0.1,) * 3))
        trial = Trial(proxy, {"max_concurrency": 8}, None, 10, 0)
        shown = " ".join(as_text(trial, experiment, Outcome({"max_concurrency": 4}, False, (), 0)))
        assert sentence(trial, experiment).startswith(
            "Nothing can be told about max_concurrency 8, over 3 pairs of 10 s"
        )
        assert "can't be told" in shown


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_it_is_undone(tmp_path: Path, how: signal.Signals) -> None:
    """However the command is ended, even killed."""
    async with desk(tmp_path) as at, exploring(at, tmp_path) as process:
        process.send_signal(how)
        await at.proxy.until(lambda world: world.lanes[0].state.knobs["max_concurrency"] == 4)
        out, _ = await process.communicate()
        assert process.returncode == (-how if how is signal.SIGKILL else 128 + how)
        assert how is signal.SIGKILL or out.decode().startswith("Stopped before anything could be told")


async def test_another_hand(tmp_path: Path) -> None:
    """Two experiments don't run at once; what somebody else sets meanwhile stays, and is said."""
    async with desk(tmp_path) as at, exploring(at, tmp_path) as process:
        second = await at.run("explore aimd.beta=0.7")
        assert (second.code, "another hivemind explore runs" in second.err) == (1, True)
        await at.does("set max_concurrency 6")
        out, _ = await process.communicate()
        assert (process.returncode, knobs(at)[0]) == (0, 6)
        assert "somebody else turned max_concurrency meanwhile" in " ".join(out.decode().split())


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("port=1", "port: no such knob"),
        ("max_concurrency", "say to what, as in max_concurrency=1"),
        ("max_concurrency=x", "must be a whole number"),
        ("max_concurrency=4", "these are the present settings"),
        ("max_concurrency=8 --for 1m", "must be at least 3 pairs"),
        ("max_concurrency=8 --bound speed=1", "must be one of errors"),
        ("max_concurrency=8 --upstream nowhere", "no upstream named 'nowhere'; known: lab"),
    ],
)
async def test_what_cant_be_tried(tmp_path: Path, line: str, said: str) -> None:
    """One line says what can."""
    async with desk(tmp_path) as at:
        ended = await at.run(f"explore {line}")
        assert (ended.code, ended.err.count("\n")) == (2, 1)
        assert said in ended.err
