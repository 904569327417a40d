"""Requests that cost nothing: polls that are asked again, and uploads that pass as they come."""

from __future__ import annotations

import asyncio
import contextlib
import json

import httpx
import pytest
from proxy.kit import Close, Hang, Play, Raw, Reset, Seen, between, proxying, raw, request
from proxy.test_retry_delays import OK, Stage, play, says
from proxy.wire import ANSWER, JSON, chunk, head, http
from upstream.scripted import Scripted, serving
from waiting import until

from hivemind.host.proxy import Proxy

MIB = 1 << 20
FOUND = http(200, {"id": "resp_1", "status": "completed"})
LIMITED = http(429, {"error": {"message": "Rate limit reached"}})
CUT: Play = [b"HTTP/1.1 200 OK\r\n", Close()]
CUT_IN_BODY: Play = [http(200, b"x" * 99, JSON)[:-50], Reset()]
FULL = http(503, {"error": {"message": "overloaded"}})
BROKEN = http(500, {"error": {"message": "internal"}})
QUOTA = http(429, {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota."}})
LATER = http(429, {"error": {"message": "Rate limit reached"}}, "retry-after: 400")
COUNT = "/v1/messages/count_tokens"
POLL = "/v1/responses/resp_1"


@pytest.mark.parametrize("failure", [[LIMITED], [FULL], [http(502)], CUT, CUT_IN_BODY, [Reset()]])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_what_only_looks_up_or_removes_is_asked_again(method: str, failure: Play) -> None:
    """After any temporary failure, unseen by the client."""
    async with between(failure, failure, [FOUND]) as (proxy, upstream), raw(proxy.port) as direct:
        status, headers = await direct.ask(request(POLL, b"", method=method))
        assert (status, json.loads(await direct.body(headers))["id"]) == (200, "resp_1")
        assert (len(upstream.requests), proxy.snapshot().totals.requests) == (3, 0)


@pytest.mark.parametrize(("failure", "status", "sent"), [
    ([LIMITED], 200, 2), ([FULL], 200, 2), ([BROKEN], 500, 1), (CUT, 502, 1), ([Reset()], 502, 1), ([QUOTA], 429, 1),
])  # fmt: skip
async def test_what_may_create_is_asked_again_only_after_a_refusal(failure: Play, status: int, sent: int) -> None:
    """A count, a file or a cancellation that was refused surely wasn't carried out; after others nobody knows."""
    async with between(failure, [FOUND]) as (proxy, upstream), raw(proxy.port) as direct:
        assert ((await direct.ask(request(COUNT)))[0], len(upstream.requests)) == (status, sent)


@pytest.mark.parametrize("answer", [http(404, {"error": {}}), QUOTA, LATER, http(401, {"error": {}})])
async def test_what_no_attempt_helps_passes_at_once(answer: bytes) -> None:
    """A poll's error that isn't temporary, or too long a wait, is the client's, byte for byte."""
    async with between([answer]) as (proxy, upstream), raw(proxy.port) as direct:
        status, headers = await direct.ask(request(POLL, b"", method="GET"))
        assert answer.endswith(b"\r\n\r\n" + await direct.body(headers))
        assert (status, len(upstream.requests)) == (int(answer[9:12]), 1)


def test_within_the_client_s_patience() -> None:
    """What a client wouldn't wait for is passed on instead."""
    stage = Stage(says(429, retry_after="20"), says(429, retry_after="40"), OK)

    async def work(web: httpx.AsyncClient, _: Proxy) -> None:
        hurried = {"user-agent": "OpenAI/Python 3.57.0", "x-stainless-lang": "python", "x-stainless-read-timeout": "60"}
        answer = await web.get(POLL, headers=hurried)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "40")
        assert (await web.get(POLL)).status_code == 200

    play(stage, work)
    assert stage.times[1] - stage.times[0] == pytest.approx(20, abs=0.1)


def test_polls_come_after_the_agents_own_requests() -> None:
    """While the provider asks to wait, a poll isn't sent; it takes no slot of those that wait for it too."""
    stage = Stage(says(429, retry_after="30"), OK)

    async def work(web: httpx.AsyncClient, _: Proxy) -> None:
        asked = asyncio.create_task(web.post("/v1/messages", content=b'{"model":"m","max_tokens":5,"messages":[]}'))
        await asyncio.sleep(1)
        assert (await web.get(POLL)).status_code == 200
        assert (await asked).status_code == 200

    play(stage, work, max_concurrency=1)
    assert len(stage.times) == 3
    assert stage.times[1] - stage.times[0] == pytest.approx(30, abs=0.2)


# --- Uploads ----------------------------------------------------------------------------------------------------------

LINES = b"POST /agent/ann/v1/uploads/u/parts HTTP/1.1\r\nhost: x\r\nx-kept: 1\r\n"


async def begun(direct: Raw, size: int | None) -> None:
    """Begin an upload of that size; None: in chunks."""
    framing = b"transfer-encoding: chunked" if size is None else b"content-length: %d" % size
    await direct.send(LINES + framing + b"\r\n\r\n")


@pytest.mark.parametrize("via", ["chunks", "a length"])
async def test_an_upload_passes_as_it_comes(via: str) -> None:
    """Its bytes reach the upstream before it is whole, none of them is kept, and no limit of bodies holds for it; its
    connection takes the next request."""
    arrived, size = asyncio.Event(), 24 * MIB
    received = bytearray()

    async def handle(_: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _number in range(2):
            lines = (await reader.readuntil(b"\r\n\r\n")).lower()
            if b"chunked" in lines:
                while length := int(await reader.readline(), 16):
                    received.extend((await reader.readexactly(length + 2))[:-2])
                    arrived.set()
                await reader.readline()
            else:
                left = int(lines.partition(b"content-length: ")[2].split(b"\r")[0])
                while left:
                    part = await reader.read(min(left, 65536))
                    received.extend(part)
                    left -= len(part)
                    arrived.set()
            assert b"x-kept: 1" in lines
            writer.write(ANSWER)

    async with (
        serving(handle) as upstream,
        proxying(f"lab={upstream.url}", max_body_mb=1, max_bodies_mb=1, max_concurrency=1) as proxy,
        raw(proxy.port) as direct,
    ):
        for _ in range(2):
            received.clear()
            arrived.clear()
            await begun(direct, None if via == "chunks" else size)
            part = bytes(range(256)) * 4096
            await direct.send(chunk(part) if via == "chunks" else part)
            await arrived.wait()
            for _ in range(23):
                await direct.send(chunk(part) if via == "chunks" else part)
                assert proxy.proxy.app.body_budget.used <= MIB
            status, headers = await direct.ask(b"0\r\n\r\n" if via == "chunks" else b"")
            await direct.body(headers)
            assert (status, bytes(received)) == (200, part * 24)
        assert (upstream.accepted, proxy.snapshot().totals.requests) == (1, 0)


async def test_a_client_that_leaves_its_upload() -> None:
    """The upstream sees it break off, rather than end."""
    broke_off = asyncio.Event()

    async def handle(_: Scripted, reader: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        lines = await reader.readuntil(b"\r\n\r\n")
        assert b"transfer-encoding: chunked" in lines
        arrived.set()
        with contextlib.suppress(ConnectionError):
            assert not (await reader.read()).endswith(b"0\r\n\r\n")
        broke_off.set()

    arrived = asyncio.Event()
    async with serving(handle) as upstream, proxying(f"lab={upstream.url}") as proxy, raw(proxy.port) as it:
        await begun(it, None)
        await it.send(chunk(b"x" * MIB))
        await arrived.wait()
        it.leave(hard=True)
        await broke_off.wait()
        await until(lambda: not proxy.proxy.app.answering)


@pytest.mark.parametrize("then", [Hang(), Close()])
async def test_an_upload_that_its_upstream_refuses(then: Hang | Close) -> None:
    """The refusal passes at once, to a client that reads nothing before it has sent all as well."""

    async def handle(_: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(http(413, {"error": {"message": "too large"}}))
        await writer.drain()
        if isinstance(then, Hang):
            await reader.read()

    async with serving(handle) as upstream, proxying(f"lab={upstream.url}") as proxy, raw(proxy.port) as it:
        await begun(it, 32 * MIB)
        status, headers = await it.ask(b"x" * (32 * MIB))
        assert (status, dict(headers)[b"connection"]) == (413, b"close")


async def test_who_sends_an_upload_is_checked_before_it_is_sent() -> None:
    """A name that can't be used is refused without a byte of the body."""
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        assert (await direct.ask(LINES.replace(b"ann", b"a" * 500) + b"content-length: 9999999\r\n\r\n"))[0] == 400
        assert not upstream.requests


async def test_a_list_in_pieces_is_held_until_it_is_whole() -> None:
    """A short document that breaks off can be asked for again; a long one is passed on as it comes."""
    long = b"[" + b"1," * MIB + b"1]"
    plays: tuple[Play, ...] = (
        [head(JSON), chunk(b'{"data":'), Reset()],
        [head(JSON), chunk(b'{"data":'), chunk(b"[]}"), b"0\r\n\r\n"],
        [head(JSON), chunk(long), b"0\r\n\r\n"],
    )
    async with between(*plays) as (proxy, upstream), raw(proxy.port) as direct:
        for expected in (b'{"data":[]}', long):
            status, headers = await direct.ask(request("/v1/files", b"", method="GET"))
            assert (status, await direct.body(headers)) == (200, expected)
        assert [Seen.of(each).target for each in upstream.requests] == [b"/v1/files"] * 3
