"""The real program: its ready line, its ports, and how it stops."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from control.processes import Program, program
from proxy.kit import Play, client, playing, raw, request
from proxy.wire import END, MESSAGE, PLAIN_BODY, SSE, STREAM_BODY, chunk, head
from upstream.scripted import Scripted, serving

MESSAGES = "/v1/messages"
pytestmark = pytest.mark.e2e  # test_server.py does the same in one process


@contextlib.asynccontextmanager
async def streaming(tmp_path: Path, *flags: str) -> AsyncIterator[tuple[Program, Scripted, asyncio.Event]]:
    """The program before an upstream that stops in the middle of a stream until the event is set."""
    gate = asyncio.Event()
    play: Play = [head(SSE) + chunk(b"".join(MESSAGE[:3])), gate, chunk(b"".join(MESSAGE[3:])), END]
    async with (
        serving(playing(play)) as upstream,
        program(tmp_path, "--max-concurrency", "2", *flags, upstream=f"lab={upstream.url}") as running,
    ):
        yield running, upstream, gate


async def test_ready_line(tmp_path: Path) -> None:
    """The one line on standard output says where it is and where it leads, and it is there."""
    async with serving(playing([END])) as upstream, program(tmp_path, upstream=f"lab={upstream.url}") as running:
        assert running.line == f"hivemind: ready on http://127.0.0.1:{running.port} -> lab {upstream.url}\n"
        async with client() as web:
            health = (await web.get(f"http://127.0.0.1:{running.port}/_health")).json()
        assert health["status"] == "serving"
        code, told = await running.ends()
        assert (code, {line.split(": ", 1)[0][9:] for line in told.splitlines()}) == (0, {"INFO hivemind"})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_drain(tmp_path: Path, number: signal.Signals) -> None:
    """On a signal, streams in flight finish, waiting and new requests are refused in shape, and it exits with 0."""
    async with streaming(tmp_path) as (running, upstream, gate), contextlib.AsyncExitStack() as stack:
        one, two, waiting, new = [await stack.enter_async_context(raw(running.port)) for _ in range(4)]
        for in_flight in (one, two):
            _, headers = await in_flight.ask(request(MESSAGES, STREAM_BODY))
        await upstream.until(lambda: len(upstream.requests) == 2)
        await waiting.send(request(MESSAGES, PLAIN_BODY))
        async with client() as web:
            stats = f"http://127.0.0.1:{running.port}/_stats"
            while not (await web.get(stats)).json()["queued"]:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.005)
        running.process.send_signal(number)
        status, said = await waiting.head()
        assert (status, dict(said)[b"x-should-retry"]) == (503, b"true")
        assert b"shutting down" in await waiting.body(said)
        assert (await new.ask(request(MESSAGES, PLAIN_BODY)))[0] == 503
        gate.set()
        for in_flight in (one, two):
            assert await in_flight.body(headers) == b"".join(MESSAGE)
        code, told = await running.ends(None)
        assert code == 0
        warned = [line.split(": ", 1)[1] for line in told.splitlines() if " WARNING " in line]
        assert warned == ["503 key-anonymous: refused: draining"] * 2
        assert len(upstream.requests) == 2


async def test_drain_has_an_end(tmp_path: Path) -> None:
    """A stream that outlasts `--drain-s` is cut off, not finished, and the program exits with 0 all the same."""
    async with streaming(tmp_path, "--drain-s", "0.1") as (running, upstream, _), raw(running.port) as in_flight:
        await in_flight.ask(request(MESSAGES, STREAM_BODY))
        running.process.send_signal(signal.SIGTERM)
        assert await in_flight.rest() == chunk(b"".join(MESSAGE[:3]))
        assert (await running.ends(None))[0] == 0
        await upstream.until(lambda: not upstream.open)


async def test_second_signal(tmp_path: Path) -> None:
    """A second signal ends it at once, streams or not."""
    async with streaming(tmp_path) as (running, _, _), raw(running.port) as in_flight:
        await in_flight.ask(request(MESSAGES, STREAM_BODY))
        running.process.send_signal(signal.SIGTERM)
        async with client() as web:
            health = f"http://127.0.0.1:{running.port}/_health"
            while (await web.get(health)).json()["status"] != "draining":  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.005)
        assert (await running.ends())[0] == -signal.SIGTERM


async def test_port_in_use(tmp_path: Path) -> None:
    """A port that is taken is one line on standard error, and exit code 2 or 1, without a traceback."""
    async with serving(playing([END])) as taken, program(tmp_path, port=taken.port) as p:
        assert p.line == ""
        code, errors = await p.ends(None)
        assert code in (1, 2)
        assert errors.count("\n") == 1
        assert f"port {taken.port}" in errors


async def test_no_secret_in_its_output(tmp_path: Path) -> None:
    """Served in earnest, at log level debug, it prints no credential."""
    key = "sk-ant-api03-VERYSECRET0123456789"
    flags = ("--log-level", "debug", "--retry.max-attempts", "1")
    async with program(tmp_path, *flags) as running, client() as web:
        url = f"http://127.0.0.1:{running.port}{MESSAGES}?key={key}"
        answer = await web.post(url, content=PLAIN_BODY, headers={"x-api-key": key, "authorization": f"Bearer {key}"})
        assert answer.status_code == 502
        code, errors = await running.ends()
        assert (code, key in errors + running.line + answer.text) == (0, False)
