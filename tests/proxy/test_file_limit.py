"""More connections than files may be open: told, survived, and over when they are gone."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import re
import resource
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from proxy.kit import HANGS_S, Hang, Raw, between, raw, request
from proxy.wire import ANSWER, PLAIN_BODY

from hivemind.proxy import file_limit

FILES = 64
PROGRAM = """
import asyncio, resource, sys
from pathlib import Path
from hivemind.host import server
from hivemind.host.loop import run_loop
from hivemind.proxy import file_limit
from hivemind.settings import Settings

files = int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (files // 2, files))
for spare in file_limit.SPARED_AFTER_S:
    file_limit.SPARED_AFTER_S[spare] *= float(sys.argv[4])
settings = Settings(upstream=("lab=http://127.0.0.1:9",), port=0, state_dir=Path(sys.argv[2]))
(run_loop if sys.argv[1] == "uvloop" else asyncio.run)(server.run(settings))
"""
HARD_LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
IDLE_CLIENTS = {
    "connected": b"",
    "half a head": b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\n",
    "served": request("/_health", b"", method="GET"),
    "half a body": request("/v1/messages", PLAIN_BODY)[:-1],
}


@contextlib.asynccontextmanager
async def program(
    loop: str, folder: Path, files: int = FILES, patience: float = 1
) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """The proxy as a program that may open few files, and its port. It spares connections later by the factor
    `patience`."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, loop, str(folder), str(files), str(patience)), stdout=pipe, stderr=pipe
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(HANGS_S):
            found = re.search(r":(\d+) ->", (await process.stdout.readline()).decode())
            assert found
            yield process, int(found[1])
    finally:
        if process.returncode is None:
            process.kill()


async def _ask(port: int, refusal: asyncio.Event) -> tuple[int, bytes]:
    """Return the status and body one client gets, or status 0 if its connection ends without an answer.

    A client that is served stays connected until `refusal` is set.
    """
    async with raw(port) as direct:
        try:
            status, headers = await direct.ask(request("/_health", b"", method="GET"))
            body = await direct.body(headers)
        except (ConnectionError, asyncio.IncompleteReadError):
            return 0, b""
        if status == 503:
            refusal.set()
        await refusal.wait()
        return status, body


@pytest.mark.e2e
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
async def test_more_clients_than_files(loop: str, tmp_path: Path) -> None:
    """Many are served, the surplus is told so, one line of the log says it, and once they are gone all is as before."""
    clients = FILES + 10
    async with program(loop, tmp_path, patience=1e9) as (process, port):
        refusal = asyncio.Event()
        answers = await asyncio.gather(*(_ask(port, refusal) for _ in range(clients)))
        statuses = [status for status, _ in answers]
        assert statuses.count(200) > FILES // 4
        refused = [body for status, body in answers if status == 503]
        assert refused
        assert all(b"open files" in body for body in refused)
        assert set(statuses) <= {0, 200, 503}
        while (await _ask(port, refusal))[0] != 200:  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.01)
        process.terminate()
        _, errors = await process.communicate()
        lines = errors.decode().splitlines()
        assert len([line for line in lines if "client connections are open" in line]) == 1
        assert len([line for line in lines if "no file is left" in line]) <= 1
        assert "Traceback" not in errors.decode()


async def test_one_connection_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told so, or closed where not even that is possible."""
    async with between([ANSWER]) as (proxy, _):
        monkeypatch.setattr(file_limit.ConnectionLimit, "surplus", lambda *_: 1)
        async with raw(proxy.port) as direct:
            status, headers = await direct.head()
            assert (status, b"open files" in await direct.body(headers)) == (503, True)
            assert await direct.rest() == b""
        monkeypatch.setattr(file_limit.ConnectionLimit, "is_exhausted", lambda *_, **__: True)
        async with raw(proxy.port) as direct:
            assert await direct.rest() == b""


@pytest.mark.e2e
@pytest.mark.parametrize("sent", IDLE_CLIENTS.values(), ids=IDLE_CLIENTS)
@pytest.mark.skipif(HARD_LIMIT < 3_000, reason="this system allows fewer than 3,000 open files")
@pytest.mark.usefixtures("_limit")
async def test_two_thousand_idle_connections(sent: bytes, tmp_path: Path) -> None:
    """Where 1,024 files may be open, each client that sends a request is answered all the same."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (HARD_LIMIT, HARD_LIMIT))
    async with (
        program("uvloop", tmp_path, files=1_024, patience=0.2) as (process, port),
        contextlib.AsyncExitStack() as stack,
    ):

        async def idle() -> None:
            with contextlib.suppress(ConnectionError):
                direct = await stack.enter_async_context(raw(port))
                await direct.send(sent)

        for _ in range(20):
            await asyncio.gather(*(idle() for _ in range(100)))
        served = asyncio.Event()
        served.set()
        while (await _ask(port, served))[0] != 200:  # noqa: ASYNC110 - it is another process, which accepts in order
            await asyncio.sleep(0.01)
        await asyncio.sleep(3 * max(file_limit.SPARED_AFTER_S.values()) * 0.2)  # until all of them may be spared
        answers = await asyncio.gather(*(_ask(port, served) for _ in range(100)))
        assert [status for status, _ in answers] == [200] * 100
        process.terminate()
        _, errors = await process.communicate()
        assert "client connections are open" in errors.decode()
        assert "Traceback" not in errors.decode()


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("connected", b""),
        ("half a head", b"HTTP/1.1 408 "),
        ("served", b"HTTP/1.1 200 "),
        ("half a body", b"HTTP/1.1 408 "),
    ],
)
async def test_idle_connections_make_room(kind: str, told: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a client has sent that is no request, the oldest such connection ends, and the new client is served."""
    monkeypatch.setattr(file_limit, "SPARED_AFTER_S", dict.fromkeys(file_limit.Spare, 0.0))
    monkeypatch.setattr(file_limit, "SEARCH_EVERY_S", 0.0)
    async with contextlib.AsyncExitStack() as stack:
        proxy, upstream = await stack.enter_async_context(between([Hang()], max_connections=3))
        served = await stack.enter_async_context(raw(proxy.port))
        await served.send(request("/v1/messages", PLAIN_BODY))
        await upstream.until(lambda: bool(upstream.requests))
        idle = []
        for _ in range(2):
            idle.append(await stack.enter_async_context(raw(proxy.port)))
            await idle[-1].send(IDLE_CLIENTS[kind])
            await asyncio.sleep(0.01)
        async with raw(proxy.port) as new:
            assert (await new.ask(IDLE_CLIENTS["served"]))[0] == 200
        assert (await idle[0].rest()).startswith(told)
        for direct in (served, idle[1]) if kind != "served" else (served,):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(direct.reader.read(1), 0.02)


def test_which_connection_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one with the best reason, of these the oldest; none of which the client may still be about to send."""
    monkeypatch.setattr(file_limit, "open_file_limit", lambda: 400)
    limit = file_limit.ConnectionLimit()
    kept, unused, newer, slow, needed = (
        End(file_limit.Spare.KEPT, 1.0),
        End(file_limit.Spare.UNUSED, 3.0),
        End(file_limit.Spare.UNUSED, 4.0),
        End(file_limit.Spare.SLOW, 0.0),
        End(),
    )
    recent = End(file_limit.Spare.UNUSED, 9.9)
    everything = [needed, slow, kept, newer, recent, unused]
    order = []
    while limit.make_room(everything, 1, 10.0):
        order.append(next(each for each in everything if each.given_up))
        everything.remove(order[-1])
    assert order == [unused, newer, kept, slow]
    assert not limit.make_room([recent], 2, 10.2)  # it was searched a moment ago
    assert limit.make_room([recent], 2, 10.3)


async def test_most_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more than the setting allows gets a 503; once another is gone, the next is served."""
    monkeypatch.setattr(file_limit, "SPARED_AFTER_S", dict.fromkeys(file_limit.Spare, math.inf))
    async with between([ANSWER], max_connections=2) as (proxy, _), raw(proxy.port) as one:
        async with raw(proxy.port) as two:
            for direct in (one, two):
                assert (await direct.ask(request("/_health", b"", method="GET")))[0] == 200
            async with raw(proxy.port) as three:
                status, headers = await three.head()
                assert (status, b"max_connections" in await three.body(headers)) == (503, True)
                assert await three.rest() == b""
        status = 503
        while status == 503:
            async with raw(proxy.port) as four:
                status, _ = await four.ask(request("/_health", b"", method="GET"))
        assert status == 200


@pytest.mark.parametrize("begun", [b"POST / HT", request("/v1/messages", PLAIN_BODY)[:-1], b""])
async def test_most_without_a_complete_request(begun: bytes) -> None:
    """The one that waits longest makes room; one whose request is being answered isn't counted."""
    async with contextlib.AsyncExitStack() as stack:
        proxy, upstream = await stack.enter_async_context(between([Hang()]))
        proxy.proxy.app.connection_limit._most_unfinished = 2

        async def connected(data: bytes) -> Raw:
            direct = await stack.enter_async_context(raw(proxy.port))
            await direct.send(data)
            await asyncio.sleep(0.01)
            return direct

        served = await connected(request("/v1/messages", PLAIN_BODY))
        await upstream.until(lambda: bool(upstream.requests))
        first, second = await connected(begun), await connected(begun)
        await connected(b"")
        assert (await first.rest()).startswith(b"HTTP/1.1 408 " if begun else b"")
        for direct in (served, second):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(direct.reader.read(1), 0.02)


def test_how_many_may_be_without_a_complete_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as there may be connections, at most some thousands, unless a setting says otherwise."""
    for files, most, most_unfinished, expected in (
        (400, 0, 0, 300),
        (file_limit.WANTED, 0, 0, file_limit.MOST_UNFINISHED),
        (None, 0, 0, file_limit.MOST_UNFINISHED),
        (400, 10, 0, 10),
        (400, 10, 7, 7),
    ):
        monkeypatch.setattr(file_limit, "open_file_limit", lambda files=files: files)
        limit = file_limit.ConnectionLimit(most, most_unfinished)
        ends = [End() for _ in range(expected + 1)]
        for each in ends:
            limit.begin(each)
        assert [each.given_up for each in ends] == [True] + [False] * expected


class End:
    """A connection."""

    def __init__(self, spare: file_limit.Spare | None = None, since: float = 0.0) -> None:
        self.given_up = False
        self._spare = None if spare is None else (spare, since)

    def spare(self) -> tuple[file_limit.Spare, float] | None:
        return self._spare

    def give_up(self) -> None:
        self.given_up = True


async def test_words_for_no_file_left() -> None:
    """Where it lasts, the client reads what the operator can do."""
    async with between([ANSWER], retry={"max_attempts": 1}) as (proxy, _), raw(proxy.port) as direct:
        _, headers = await direct.ask(request("/_health", b"", method="GET"))
        await direct.body(headers)
        with no_file_left():
            status, headers = await direct.ask(request("/v1/messages", PLAIN_BODY))
            assert (status, b"ulimit -n" in await direct.body(headers)) == (502, True)


@contextlib.contextmanager
def no_file_left() -> Iterator[None]:
    """This process can open nothing more."""
    lowest_free = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest_free)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("_limit")
def test_the_limit_is_raised() -> None:
    """As far as the system allows, and no further than is of use."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    file_limit.raise_limit()
    assert file_limit.open_file_limit() == (
        file_limit.WANTED if hard == resource.RLIM_INFINITY else min(hard, file_limit.WANTED)
    )


def test_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """A crowd that stays is told again, but not for each connection."""
    crowd = file_limit.ConnectionLimit()
    for now in (0.0, 1.0, 59.0, 60.5, 61.0):
        crowd.log_full(48, now)
    assert len(caplog.records) == 2


def test_what_asyncio_says_of_it() -> None:
    """Its thousands of lines become one a minute; others of its lines stay."""
    sieve = file_limit.AcceptFilter()
    lines = []
    for seconds in (0.0, 0.1, 30.0, 61.0):
        record = logging.makeLogRecord({"msg": "socket.accept() out of system resource\nsocket: x", "created": seconds})
        lines += [record.getMessage()] if sieve.filter(record) else []
    assert len(lines) == 2
    assert all("ulimit -n" in line for line in lines)
    assert sieve.filter(logging.makeLogRecord({"msg": "Task was destroyed"}))
