"""Errors of our own: in the provider's shape, and so that clients come back when that can help."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from proxy.kit import HANGS_S, between, client, raw, request
from proxy.wire import ANSWER, PLAIN_BODY

from hivemind.scheduler.commands import Drain, Rejected
from hivemind.store.token_file import ControlKey

WHOLE = b'{"model":"m","stream":false}'
DIALECTS = {
    "/v1/messages": ("error", "type", "api_error"),
    "/v1/chat/completions": ("error", "code", "draining"),
    "/v1/responses": ("error", "code", "draining"),
    "/v1beta/models/g:generateContent": ("error", "status", "UNAVAILABLE"),
}


@pytest.mark.parametrize("path", [*DIALECTS, "/api/chat"])
async def test_shutting_down(path: str) -> None:
    """Who comes while the proxy shuts down is told so in its own dialect, and asked to come back soon."""
    async with between([ANSWER]) as (proxy, upstream), client() as web:
        await proxy.proxy.drain(0)
        answer = await web.post(proxy.url + path, content=WHOLE)
        assert (answer.status_code, answer.headers["x-should-retry"]) == (503, "true")
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        body: dict[str, Any] = answer.json()
        if path in DIALECTS:
            outer, field, value = DIALECTS[path]
            assert body[outer][field] == value
            assert "HiveMind: " in body[outer]["message"]
        else:
            assert body["error"].startswith("HiveMind: ")
        assert not upstream.requests


async def test_google_s_clients_find_the_delay_in_the_body() -> None:
    """For Google's clients, which don't look at headers, the delay is in the body."""
    async with between([ANSWER]) as (proxy, _), client() as web:
        await proxy.proxy.drain(0)
        answer = await web.post(f"{proxy.url}/v1beta/models/g:generateContent", content=WHOLE)
        delays = [d["retryDelay"] for d in answer.json()["error"]["details"] if d["@type"].endswith("RetryInfo")]
        assert delays == [answer.headers["retry-after"] + "s"]


async def test_longest_wait() -> None:
    """A request that waited as long as it may is refused, and leaves the queue."""
    gate = asyncio.Event()
    async with (
        between([gate, ANSWER], max_concurrency=1, queue={"max_wait_s": 0.05}) as (proxy, upstream),
        raw(proxy.port) as first,
        client() as web,
    ):
        await first.send(request("/v1/messages", PLAIN_BODY))
        await upstream.until(lambda: len(upstream.requests) == 1)
        answer = await web.post(f"{proxy.url}/v1/messages", content=PLAIN_BODY)
        assert (answer.status_code, answer.headers["x-should-retry"]) == (503, "true")
        assert "as long as queue.max_wait_s allows; every slot is taken" in answer.json()["error"]["message"]
        assert proxy.snapshot().queued == 0
        gate.set()
        assert (await first.head())[0] == 200


@pytest.mark.parametrize("target", ["/v1/messages", "/_control/commands"])
async def test_drain_waits_for_no_request_that_has_not_come_whole(target: str) -> None:
    """It would be refused anyway, and might never come."""
    async with between([ANSWER]) as (proxy, _), raw(proxy.port) as slow, client() as web:
        proxy.proxy.control_key = ControlKey("run", "control-token")
        await slow.send(request(target, PLAIN_BODY, "authorization: Bearer control-token")[:-5])
        await web.get(f"{proxy.url}/_health")
        await proxy.proxy.drain(2 * HANGS_S)


async def test_draining_that_is_taken_back() -> None:
    """An operator's drain ends when he says so; the one of a proxy that shuts down doesn't."""
    async with between([ANSWER]) as (proxy, _), client() as web:
        statuses = []
        for draining in (True, False):
            proxy.proxy.apply(Drain(draining))
            statuses.append((await web.post(f"{proxy.url}/v1/messages", content=PLAIN_BODY)).status_code)
        assert statuses == [503, 200]
        await proxy.proxy.drain(0)
        proxy.proxy.apply(Drain(True))
        with pytest.raises(Rejected, match="the proxy is shutting down, which can't be taken back"):
            proxy.proxy.apply(Drain(False))
        assert (await web.post(f"{proxy.url}/v1/messages", content=PLAIN_BODY)).status_code == 503
