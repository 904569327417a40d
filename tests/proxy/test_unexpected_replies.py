"""What comes in place of a stream is passed on as it is, at once, and says nothing of the upstream's load."""

from __future__ import annotations

import asyncio
import json

import pytest
from proxy.kit import Pairs, Play, between, raw, request
from proxy.wire import ANSWER, OLLAMA, PLAIN_BODY, STREAM, STREAM_BODY, chunk, chunked, head, http, line

from hivemind.world.snapshot import LaneView

MESSAGES = "/v1/messages"
HTML = "content-type: text/html; charset=utf-8"
PAGE = b"<!doctype html><title>Log in</title>"
LOCATION = "location: https://elsewhere.invalid/a?b#c"

MISFITS = {
    "301": (http(301, b"moved", LOCATION), 301, b"moved", "301, not a stream"),
    "302": (http(302, b"", LOCATION, "set-cookie: a=b"), 302, b"", "302, not a stream"),
    "303": (http(303, b"", LOCATION), 303, b"", "303, not a stream"),
    "307": (http(307, PAGE, LOCATION, HTML), 307, PAGE, "307, not a stream"),
    "308": (http(308, b"", LOCATION), 308, b"", "308, not a stream"),
    "304": (b'HTTP/1.1 304 -\r\netag: "x"\r\n\r\n', 304, b"", "304, not a stream"),
    "304 with a length": (b"HTTP/1.1 304 -\r\ncontent-length: 40\r\n\r\n", 304, b"", "304, not a stream"),
    "204": (b"HTTP/1.1 204 -\r\nx: y\r\n\r\n", 204, b"", "204, not a stream"),
    "a page": (http(200, PAGE, HTML), 200, PAGE, "200 text/html, not a stream"),
    "a page in chunks": (chunked([PAGE, PAGE], HTML), 200, PAGE + PAGE, "200 text/html, not a stream"),
    "a long page": (http(200, PAGE * 50_000, HTML), 200, PAGE * 50_000, "200 text/html, not a stream"),
    "xml": (http(200, b"<a/>", "content-type: application/xml"), 200, b"<a/>", "200 application/xml, not a stream"),
    "odd": (http(200, b"x", "content-type: a\x80b/c"), 200, b"x", "200, not a stream"),
}
PATHS = {
    "anthropic": (MESSAGES, STREAM_BODY),
    "openai_chat": ("/v1/chat/completions", STREAM_BODY),
    "openai_responses": ("/v1/responses", STREAM_BODY),
    "google": ("/v1beta/models/m:streamGenerateContent?alt=sse", b"{}"),
    "ollama": ("/api/chat", b"{}"),
}


def lane_is_as_before(view: LaneView, floor: float) -> bool:
    """Neither congestion nor a latency was counted, and no failure."""
    state = view.state
    return (state.level, state.mean_ttft_s, state.circuit_results) == (floor, None, 0)


@pytest.mark.parametrize(("answer", "status", "body", "told"), MISFITS.values(), ids=list(MISFITS))
async def test_passed_on_as_it_is(answer: bytes, status: int, body: bytes, told: str) -> None:
    """Once, with its own status, headers and body; the log names what it was."""
    async with between([answer], [STREAM], max_concurrency=4) as (proxy, upstream), raw(proxy.port) as direct:
        level = proxy.snapshot()
        got, headers = await direct.ask(request(MESSAGES, STREAM_BODY))
        assert got == status
        assert without_framing(headers) == without_framing(head_of(answer))
        if status not in (204, 304):
            assert await direct.body(headers) == body
        assert len(upstream.requests) == 1
        world = await proxy.until(lambda world: world.totals.failed == 1)
        assert level.totals.requests == 0
        assert lane_is_as_before(world.lanes[0], 4.0)
        assert any(told in line.text for line in world.lines), [line.text for line in world.lines]
        await direct.send(request(MESSAGES, STREAM_BODY))  # the connection goes on
        assert (await direct.head())[0] == 200


async def test_a_redirect_of_what_is_no_stream() -> None:
    """It isn't an answer of the model's either."""
    async with between([http(302, b"", LOCATION)], max_concurrency=4) as (proxy, _), raw(proxy.port) as direct:
        status, headers = await direct.ask(request(MESSAGES, PLAIN_BODY))
        assert (status, dict(headers)[b"location"]) == (302, LOCATION.partition(" ")[2].encode())
        world = await proxy.until(lambda world: world.totals.failed == 1)
        assert lane_is_as_before(world.lanes[0], 4.0)
        assert any("302, not an answer" in line.text for line in world.lines)


async def test_a_page_flows() -> None:
    """Its first bytes are passed on while it is still written."""
    gate = asyncio.Event()
    page: Play = [head(HTML), chunk(PAGE), gate, chunk(b"rest"), b"0\r\n\r\n"]
    async with between(page) as (proxy, _), raw(proxy.port) as direct:
        _, headers = await direct.ask(request(MESSAGES, STREAM_BODY))
        assert await direct.chunks(len(PAGE)) == PAGE
        gate.set()
        assert await direct.body(headers) == b"rest"


NO_MISFIT = ("ollama", "json")
"""An object of JSON is a line of its stream."""
ENDS = {
    "anthropic": b"event: error\ndata: ",
    "openai_chat": b'data: {"error":',
    "openai_responses": b"event: response.failed\ndata: ",
    "google": b'{"error":{"code":400,',
    "ollama": b'{"error":"HiveMind: the upstream answered ',
}


@pytest.mark.parametrize(
    ("dialect", "name"),
    [(dialect, name) for dialect in PATHS for name in ("302", "204", "a page", "json") if (dialect, name) != NO_MISFIT],
)
async def test_a_stream_that_was_begun_ends_in_an_error(dialect: str, name: str) -> None:
    """Its client, kept alive while it waited, gets an event that it raises, and nothing else in the stream."""
    path, body = PATHS[dialect]
    answer, told = (ANSWER, "200 application/json, not a stream") if name == "json" else MISFITS[name][::3]
    gate = asyncio.Event()
    quick = {"keepalive_after_s": 0.001, "keepalive_every_s": 0.01, "max_concurrency": 1}
    async with between([gate, ANSWER], [answer], **quick) as (proxy, upstream):
        async with raw(proxy.port) as holder, raw(proxy.port) as direct:
            await holder.send(request("/agent/other/v1/messages", PLAIN_BODY))
            await upstream.until(lambda: len(upstream.requests) == 1)
            assert (await direct.ask(request(path, body)))[0] == 200
            beat = await direct.chunk()
            gate.set()
            pieces = []
            while piece := await direct.chunk():
                pieces.append(piece)
            rest = b"".join(piece for piece in pieces if piece != beat)
        assert rest.startswith(ENDS[dialect]), rest
        assert told.encode() in rest
        assert PAGE not in rest
        assert len(upstream.requests) == 2


async def test_whole_json_for_a_stream_is_an_answer() -> None:
    """Some gateways know no streams; their answers are passed on as they are, and counted."""
    async with between([ANSWER]) as (proxy, _), raw(proxy.port) as direct:
        _, headers = await direct.ask(request(MESSAGES, STREAM_BODY))
        assert await direct.body(headers) == ANSWER.partition(b"\r\n\r\n")[2]
        assert proxy.snapshot().totals.usage.total == 7


@pytest.mark.parametrize("label", ["application/json", "text/event-stream", "text/plain", "application/x-ndjson"])
@pytest.mark.parametrize("form", ["length", "chunks", "long"])
async def test_a_document_is_no_cut_stream(label: str, form: str) -> None:
    """JSON without the end marker of the path's dialect is passed on as it is, once, whichever answer it belongs to."""
    padding = "x" * (1 << 21 if form == "long" else 9)
    document = json.dumps({"choices": [{"message": {"content": "ok"}}], "padding": padding}, indent=2).encode()
    media = f"content-type: {label}"
    answer = chunked([document[:9], document[9:]], media) if form == "chunks" else http(200, document, media)
    for path, body in (*PATHS.values(), ("/v1beta/models/g:streamGenerateContent", b"{}")):
        async with between([answer]) as (proxy, upstream), raw(proxy.port) as direct:
            status, headers = await direct.ask(request(path, body))
            assert (status, await direct.body(headers)) == (200, document)
            await proxy.until(lambda snapshot: snapshot.totals.finished == 1)
            assert len(upstream.requests) == 1


@pytest.mark.parametrize("media", ["x: y", "content-type: text/plain", "content-type: application/octet-stream"])
async def test_streams_under_vague_names_are_streams(media: str) -> None:
    """Servers that don't care for the media type are understood all the same, and a cut one is tried again."""
    cut = chunked([line(message={"content": ""}, done=False)], media)
    async with between([cut], [chunked(OLLAMA, media)]) as (proxy, upstream), raw(proxy.port) as direct:
        _, headers = await direct.ask(request("/api/chat", b"{}"))
        assert await direct.body(headers) == b"".join(OLLAMA)
        assert len(upstream.requests) == 2


def head_of(answer: bytes) -> Pairs:
    """The headers of a scripted answer."""
    lines = answer.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    return [(name, value) for name, _, value in (line.partition(b": ") for line in lines)]


def without_framing(headers: Pairs) -> Pairs:
    """What isn't between us and either side."""
    return [pair for pair in headers if pair[0] not in (b"transfer-encoding", b"content-length")]
