"""Whatever may cost goes through the scheduler, under whichever name; what is known to be free passes by it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product

import pytest
from proxy.kit import Running, Seen, between, playing, proxying, raw, request
from proxy.wire import ANSWER, JSON, PLAIN_BODY, SSE, chunk, data, head, http
from upstream.scripted import Scripted, serving

from hivemind.proxy.calls import MOST_SHAPES, OddPaths, shape_of
from hivemind.scheduler.commands import SetBudget, StopAgent
from hivemind.scheduler.types import Request, Usage

USED = Usage(1, 0, 0, 1)
PAID = [
    "/v1/messages",
    "/v1/messages/batches",
    "/v1/complete",
    "/v1/images/generations",
    "/v1/audio/transcriptions",
    "/v1/audio/speech",
    "/v1/threads/runs",
    "/v1/batches",
    "/v1beta/models/imagen-4:predict",
    "/of/some/other/server",
    "/V1/messages",
    "/v1//messages",
    "//v1/messages",
    "/v1/%6dessages",
    "/v1%2Fmessages",
    "/v1/messages;x=1",
    "/v1/messages%3f/v1/files",
]
AMBIGUOUS = [
    "/v1/./messages",
    "/v1/x/../messages",
    "/../admin",
    "/..",
    "/v1/%2e%2e/%2E./admin",
    "/v1/..%2fadmin",
    "/v1/..;/admin",
    "/v1/%252e%252e/admin",
    "/..//_control",
    "/v1/..%5cadmin",
    "/v1\\messages",
    "/v1/messages%00",
    "/v1/messages%0d%0a",
]
FREE = [
    ("GET", "/v1/models"),
    ("HEAD", "/v1/models"),
    ("OPTIONS", "/v1/messages"),
    ("DELETE", "/v1/files/f_1"),
    ("POST", "/v1/messages/count_tokens"),
    ("POST", "/v1/files"),
]


async def say(proxy: Running, path: str, body: bytes = PLAIN_BODY, *headers: str, method: str = "POST") -> int:
    """The status of one request."""
    return (await asked(proxy, path, body, *headers, method=method))[0]


async def asked(
    proxy: Running, path: str, body: bytes = PLAIN_BODY, *headers: str, method: str = "POST"
) -> tuple[int, str]:
    """The status of one request, and the reason if the proxy refused it."""
    async with raw(proxy.port) as direct:
        status, found = await direct.ask(request(path, body, *headers, method=method))
        if method != "HEAD":
            await direct.body(found)
        return status, dict(found).get(b"x-hivemind-refusal", b"").decode()


@asynccontextmanager
async def with_one_stopped(**values: object) -> AsyncIterator[tuple[Running, Scripted]]:
    """An agent called `a` that the operator stopped, and an upstream that counts what reaches it."""
    async with between([ANSWER], **values) as (proxy, upstream):
        assert await say(proxy, "/agent/a/v1/messages") == 200
        proxy.proxy.apply(StopAgent("a", True))
        upstream.requests.clear()
        yield proxy, upstream


async def test_a_stopped_agent_is_refused_whatever_may_cost() -> None:
    """By every path and in every spelling; PUT and PATCH too, and a GET that says it is a POST."""
    async with with_one_stopped() as (proxy, upstream):
        stopped = (400, "agent_stopped")
        assert {path: await asked(proxy, f"/agent/a{path}") for path in PAID} == dict.fromkeys(PAID, stopped)
        assert await asked(proxy, "/agent/a/v1/files", method="PUT") == stopped
        assert await asked(proxy, "/agent/a/v1/anything", method="PATCH") == stopped
        assert await asked(proxy, "/agent/a/v1/messages", method="GET") == stopped
        override = "x-http-method-override: POST"
        assert await asked(proxy, "/agent/a/v1/messages", b"", override, method="GET") == stopped
        assert upstream.requests == []


async def test_what_is_free_passes_all_the_same() -> None:
    """A stopped agent may look things up, and is charged for nothing."""
    async with with_one_stopped() as (proxy, upstream):
        for method, path in FREE:
            assert await say(proxy, f"/agent/a{path}", PLAIN_BODY if method == "POST" else b"", method=method) == 200
        assert [Seen.of(each).target.decode() for each in upstream.requests] == [path for _, path in FREE]
        assert proxy.snapshot().totals.requests == 1


async def test_ambiguous_paths_are_refused() -> None:
    """What servers would take for different things, some of them outside the base path, is one clear 400."""
    async with serving(playing([ANSWER])) as upstream, proxying(f"lab={upstream.url}/api/v1") as proxy:
        for prefix, path in product(("", "/agent/x", "/to/lab", "/agent/x/to/lab"), AMBIGUOUS):
            async with raw(proxy.port) as direct:
                status, headers = await direct.ask(request(prefix + path, PLAIN_BODY))
                said = json.loads(await direct.body(headers))["error"]["message"]
            assert status == 400, path
            assert said.startswith("HiveMind: the path must not hold "), path
        assert upstream.requests == []


@pytest.mark.parametrize("path", ["/agent//v1/messages", "/to//v1/messages", "/agent/x/to//v1/messages"])
async def test_a_prefix_without_its_name(path: str) -> None:
    """An unset variable in a base URL is told, rather than that the path's next segment became the name."""
    async with between([ANSWER]) as (proxy, upstream):
        assert await say(proxy, path) == 400
        assert upstream.requests == []


@pytest.mark.parametrize(
    ("sent", "reaches"),
    [
        ("/v1//messages", "/v1/messages"),
        ("//v1///messages//", "/v1/messages/"),
        ("//agent/x//v1/messages", "/v1/messages"),
        ("/agent/x//to/lab//v1/messages", "/v1/messages"),
        ("/v1/%6dessages?a=//&b=..", "/v1/%6dessages?a=//&b=.."),
        ("/v1/files/a%2Fb;c=d", "/v1/files/a%2Fb;c=d"),
        ("/.well-known/x", "/.well-known/x"),
        ("/v1/a..b/...", "/v1/a..b/..."),
    ],
)
async def test_what_was_understood_is_what_is_sent(sent: str, reaches: str) -> None:
    """Empty segments are left out; everything else goes on byte for byte."""
    async with serving(playing([ANSWER])) as upstream, proxying(f"lab={upstream.url}/api/v1") as proxy:
        assert await say(proxy, sent) == 200
        assert Seen.of(upstream.requests[0]).target.decode() == "/api/v1" + reaches


async def test_unknown_paths_are_estimated_and_charged() -> None:
    """By the size of what is sent, unless the answer says what was used."""
    told = http(200, {"usage": {"input_tokens": 50, "output_tokens": 4000}})
    async with between([http(200, {"created": 1})], [told], [http(400, {})]) as (proxy, _):
        await say(proxy, "/agent/silent/v1/complete", b'{"prompt":"%s","max_tokens_to_sample":9}' % (b"x" * 4000))
        await say(proxy, "/agent/telling/v1/images/generations")
        await say(proxy, "/agent/refused/v1/images/generations")
        used = {agent.name: (agent.usage.total_input, agent.usage.output_tokens) for agent in proxy.snapshot().agents}
        assert used["silent"][0] in range(1000, 1020)
        assert used["silent"][1] == 9
        assert used["telling"] == (50, 4000)
        assert used["refused"] == (0, 0)


async def test_a_batch_needs_a_budget_that_is_left() -> None:
    """It is refused like any other request, though it costs nothing until its results are known."""
    async with between([http(200, {"id": "msgbatch_1", "processing_status": "in_progress"})]) as (proxy, upstream):
        assert await say(proxy, "/agent/a/v1/messages/batches") == 200
        proxy.proxy.apply(SetBudget("a", tokens=1))
        proxy.proxy.engine.book(Request("a", proxy.snapshot().lanes[0].state.lane, "", "", 0, None, False), "m", USED)
        for path in ("/agent/a/v1/messages/batches", "/agent/a/v1/batches"):
            assert await asked(proxy, path, b"{}") == (400, "budget")
        assert len(upstream.requests) == 1


async def test_unknown_requests_take_slots() -> None:
    """They wait for one as any other request does."""
    gate = asyncio.Event()
    async with between([gate, ANSWER], [ANSWER], max_concurrency=1) as (proxy, upstream):
        first = asyncio.create_task(say(proxy, "/agent/a/v1/messages"))
        await upstream.until(lambda: len(upstream.requests) == 1)
        second = asyncio.create_task(say(proxy, "/agent/b/v1/images/generations"))
        await proxy.until(lambda world: world.queued == 1)
        gate.set()
        assert (await first, await second) == (200, 200)


MULTIPART = b'--x\r\ncontent-disposition: form-data; name="file"; filename="a.mp3"\r\n\r\n' + bytes(range(256)) * 5000


async def test_binary_bodies_go_both_ways() -> None:
    """Forms with files, and sound, byte for byte; their size doesn't count as if it were text."""
    sound = bytes(range(256)) * 12_000
    body = MULTIPART + b"\r\n--x--\r\n"
    async with between([http(200, sound, "content-type: audio/mpeg")]) as (proxy, upstream):
        async with raw(proxy.port, limit=8 << 20) as direct:
            media = "content-type: multipart/form-data; boundary=x"
            status, headers = await direct.ask(request("/agent/a/v1/audio/transcriptions", body, media))
            assert (status, await direct.body(headers)) == (200, sound)
        assert Seen.of(upstream.requests[0]).body == body
        (agent,) = proxy.snapshot().agents
        assert 1000 < agent.usage.total_input < 2000


@pytest.mark.parametrize("media", [SSE, "content-type: audio/mpeg", JSON, "content-type: text/html"])
async def test_unknown_answers_flow_at_once(media: str) -> None:
    """Nothing is held: the client has the first bytes while the upstream still works on the next."""
    gate = asyncio.Event()
    first = data(delta="hello")
    async with between([head(media), chunk(first), gate, chunk(b"rest"), b"0\r\n\r\n"]) as (proxy, _):
        async with raw(proxy.port) as direct:
            status, headers = await direct.ask(request("/v1/threads/runs", b'{"stream":true}'))
            assert (status, await direct.chunks(len(first))) == (200, first)
            gate.set()
            assert await direct.body(headers) == b"rest"
        await proxy.until(lambda world: world.totals.finished == 1)


@pytest.mark.parametrize("status", [500, 503])
async def test_unknown_requests_are_not_repeated(status: int) -> None:
    """Nobody knows what an attempt did there that wasn't refused; its error is the client's."""
    async with between([http(status, {"error": "x"}, "retry-after: 0")], [ANSWER]) as (proxy, upstream):
        assert await say(proxy, "/v1/images/generations") == status
        assert len(upstream.requests) == 1


async def test_what_is_known_and_not_scheduled_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """A path that a dialect knows passes by the scheduler with a line in the log."""
    caplog.set_level(logging.INFO, "hivemind.proxy.calls")
    async with between([ANSWER]) as (proxy, _):
        for _ in range(2):
            await say(proxy, "/v1/messages/count_tokens")
            await say(proxy, "/v1/messages/batches", b"", method="GET")
        await say(proxy, "/v1/models", b"", method="GET")
        assert proxy.snapshot().totals.requests == 0
    assert [record.getMessage() for record in caplog.records] == [
        "POST /v1/messages/count_tokens: costs nothing, forwarded without being scheduled",
        "GET /v1/messages/batches: costs nothing, forwarded without being scheduled",
    ]


@pytest.mark.parametrize(
    "path", ["/messages", "/anthropic/messages", "/chat/completions", "/responses", "/models/m:generateContent"]
)
async def test_paths_without_a_version_are_scheduled(path: str) -> None:
    """By their dialect, for the agent that sent them; a stopped one is refused."""
    async with between([ANSWER]) as (proxy, upstream):
        await say(proxy, f"/agent/a{path}")
        assert proxy.snapshot().totals.requests == 1
        proxy.proxy.apply(StopAgent("a", True))
        assert await asked(proxy, f"/agent/a{path}") == (400, "agent_stopped")
        assert len(upstream.requests) == 1


async def test_each_unknown_path_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """By its shape, without ids; what is known or free isn't told."""
    caplog.set_level(logging.INFO, "hivemind.proxy.calls")
    async with between([ANSWER]) as (proxy, _):
        for path in ("/v1/things/thing_a1/answers", "/v1/things/thing_b2/answers", "/v1/messages", "/v1/files"):
            await say(proxy, path)
        await say(proxy, "/v1/models", b"", method="GET")
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["POST /v1/things/*/answers"]


def test_shapes() -> None:
    """Ids, keys and odd characters have no place in a line of the log, and neither have endless paths."""
    assert shape_of("/v1beta/models/imagen-4.0:predict") == "/v1beta/models/*"
    assert shape_of("/v1/images/edits") == "/v1/images/edits"
    assert shape_of("/x/sk-ant-api03-abcdefghij0123456789/\x1b[31m/" + "y/" * 99) == "/x/*/*/y/y/y/y/y/*"


def test_only_so_many_are_told(caplog: pytest.LogCaptureFixture) -> None:
    """A program that invents paths fills neither log nor memory."""
    caplog.set_level(logging.INFO, "hivemind.proxy.calls")
    odd = OddPaths()
    for first in range(26):
        for second in range(26):
            odd.report("POST", f"/{chr(97 + first)}/{chr(97 + second)}", known=False)
    assert len(caplog.records) == MOST_SHAPES + 1
