"""Limits of request bodies: of one, and of all that are in memory."""

from __future__ import annotations

import json
from unittest.mock import Mock

import pytest
from proxy.kit import Hang, Raw, Running, between, raw, request
from proxy.wire import ANSWER, chunk

from hivemind.proxy import body_budget, server_protocol
from hivemind.proxy.body_budget import BodyBudget
from hivemind.wire.request_head import RequestRefused

MESSAGES = "/v1/messages"
MIB = 1 << 20


def used(proxy: Running) -> int:
    """Bytes that count as in memory."""
    return proxy.proxy.app._body_budget.used


async def refusal(direct: Raw) -> tuple[int, dict[bytes, bytes], str]:
    """Status, headers and message of an answer that is an error."""
    status, headers = await direct.head()
    error = json.loads(await direct.body(headers))["error"]
    return status, dict(headers), error["message"]


def head(size: int, *headers: str) -> bytes:
    """Of a request with a body of that size."""
    return request(MESSAGES, b"", *headers).replace(b"content-length: 0", b"content-length: %d" % size)


@pytest.mark.parametrize("expects", [(), ("expect: 100-continue",)], ids=["sends", "asks first"])
async def test_too_large_by_its_length(expects: tuple[str, ...]) -> None:
    """It is refused before any of it is sent, and without being asked for."""
    async with between([ANSWER], max_body_mb=1) as (proxy, upstream), raw(proxy.port) as direct:
        await direct.send(head(MIB + 1, *expects))
        status, headers, message = await refusal(direct)
        assert (status, headers[b"connection"], headers[b"x-should-retry"]) == (413, b"close", b"false")
        assert "max_body_mb" in message
        assert await direct.rest() == b""
        assert not upstream.requests


async def test_a_client_that_sends_all_before_it_reads() -> None:
    """It gets its refusal as soon as it has sent a body that was refused, as Python's SDKs and http.client need it."""
    async with between([ANSWER], max_body_mb=1) as (proxy, _), raw(proxy.port) as direct:
        await direct.send(head(32 * MIB) + b"x" * (32 * MIB))
        assert (await refusal(direct))[0] == 413


async def test_a_refused_body_is_not_read_on_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that sends too much of it can't: its connection ends."""
    monkeypatch.setattr(server_protocol, "LINGER_BODY", MIB)
    monkeypatch.setattr(server_protocol, "REST_S", 0.05)
    async with between([ANSWER], max_body_mb=1) as (proxy, _), raw(proxy.port) as direct:
        await direct.send(head(1 << 30))
        direct.writer.write(b"x" * (64 * MIB))
        with pytest.raises(ConnectionError):
            await direct.writer.drain()


async def test_too_large_without_a_length() -> None:
    """A body in chunks is read no further than its limit."""
    lines = f"POST {MESSAGES} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    async with between([ANSWER], max_body_mb=1) as (proxy, upstream), raw(proxy.port) as direct:
        await direct.send(lines + chunk(b"x" * (MIB + 1)))
        status, headers, _ = await refusal(direct)
        assert (status, headers[b"connection"]) == (413, b"close")
        assert await direct.rest() == b""
        assert not upstream.requests
        assert used(proxy) == 0


async def test_no_room() -> None:
    """What waits and what is in flight count; what doesn't fit is told to come again, and does once there is room."""
    body = b"x" * (MIB - 1000)
    async with (
        between([Hang()], [ANSWER], max_body_mb=1, max_bodies_mb=2, max_concurrency=1) as (proxy, upstream),
        raw(proxy.port) as first,
        raw(proxy.port) as second,
    ):
        await first.send(request(MESSAGES, body))
        await upstream.until(lambda: len(upstream.requests) == 1)
        await second.send(request(MESSAGES, body))
        await proxy.until(lambda world: world.queued == 1)
        for expects in ((), ("expect: 100-continue",)):
            async with raw(proxy.port) as third:
                await third.send(head(len(body), *expects))
                status, headers, message = await refusal(third)
                assert (status, headers[b"retry-after"], headers[b"connection"]) == (503, b"59", b"close")
                assert "max_bodies_mb" in message
        async with raw(proxy.port) as small:  # which does fit
            assert (await small.ask(request("/v1/models", b"", method="GET")))[0] == 200
        first.leave()
        assert (await second.head())[0] == 200
        async with raw(proxy.port) as third:
            assert (await third.ask(request(MESSAGES, body)))[0] == 200


async def test_no_room_for_the_rest() -> None:
    """A body in chunks counts as it comes, and is refused where there is no room for more."""
    lines = f"POST {MESSAGES} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    async with between([Hang()], max_body_mb=2, max_bodies_mb=2) as (proxy, upstream):
        async with raw(proxy.port) as first, raw(proxy.port) as second:
            await first.send(request(MESSAGES, b"x" * MIB))
            await upstream.until(lambda: len(upstream.requests) == 1)
            await second.send(lines + chunk(b"x" * (MIB + 1)))
            status, _, message = await refusal(second)
            assert (status, "max_bodies_mb" in message, used(proxy)) == (503, True, MIB)
        await proxy.until(lambda world: not world.slots)
        assert used(proxy) == 0


async def test_no_memory(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A body for which the system has none, as under `ulimit -v`, is told to come again in its API's format."""
    monkeypatch.setattr(body_budget, "BytesIO", Mock(**{"return_value.write.side_effect": MemoryError}))
    async with between([ANSWER], max_body_mb=1) as (proxy, upstream), raw(proxy.port) as direct:
        await direct.send(request(MESSAGES, b"x" * (MIB // 2)))
        status, headers, message = await refusal(direct)
        assert (status, b"retry-after" in headers, "no more memory" in message) == (503, True, True)
        assert (used(proxy), upstream.requests) == (0, [])
    assert [each.levelname for each in caplog.records] == ["WARNING"]


async def test_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """Not for every request that is refused."""
    budget = BodyBudget(1, 1)

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"x" * (MIB - 1)}

    body = await budget.read(receive, None)
    assert body is not None
    for _ in range(3):
        with pytest.raises(RequestRefused):
            await budget.read(receive, None)
    assert (budget.used, len(caplog.records)) == (len(body), 1)
    budget.release(body)
    assert budget.used == 0
