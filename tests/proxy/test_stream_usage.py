"""Usage that a chat stream is asked for in its client's place: counted, and taken out again."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proxy.kit import Play, Reset, Seen, between, client, raw, request
from proxy.wire import CHAT, END, MESSAGE, SSE, STREAM_BODY, chunk, chunked, data, event, head, http

from hivemind.proxy.streaming import UsageHold

PATH = "/v1/chat/completions"
ASKING = b'{"stream_options":{"include_usage":true},' + STREAM_BODY[1:]
NULLS = [data(id="c", choices=[{"index": 0, "delta": {"content": "hello"}}], usage=None), *CHAT[2:]]
AZURE = [data(choices=[], prompt_filter_results=[{}], usage=None), *CHAT[1:]]
"""Azure's first chunk has no choices."""
TIGHT = [each.replace(b": ", b":").replace(b", ", b",") for each in CHAT]
LINES = [each.replace(b"\n", b"\r\n") for each in CHAT]
ENCODED = [
    data(id="c", choices=[{"index": 0, "delta": {"content": '"choices":[] "usage":{}\n\ndata: {"choices":[]}'}}]),
    *CHAT[2:],
]
NO_END = CHAT[:-1]
TOGETHER = [*CHAT[:2], data(choices=[{"delta": {}, "finish_reason": "stop"}], usage={"prompt_tokens": 12}), CHAT[4]]
ANSWERS = {
    "plain": CHAT,
    "nulls": NULLS,
    "azure": AZURE,
    "tight": TIGHT,
    "crlf": LINES,
    "told of in the text": ENCODED,
    "without [DONE]": NO_END,
    "beside the end": TOGETHER,
}


def kept(events: Iterable[bytes]) -> bytes:
    """All but the event that has nothing but usage."""
    return b"".join(
        each for each in events if b'"total_tokens"' not in each or json.loads(each.partition(b"data:")[2])["choices"]
    )


@pytest.mark.parametrize("holds", ["false", "true"])
@pytest.mark.parametrize("answer", ANSWERS)
async def test_usage_is_taken_out(answer: str, holds: str) -> None:
    """The stream is asked for its usage, which is counted; its client gets all events but that one, byte by byte."""
    events = ANSWERS[answer]
    async with between([chunked(events, SSE)], stream_usage=True) as (proxy, upstream), client() as http:
        got = await http.post(proxy.url + PATH, content=STREAM_BODY, headers={"x-hivemind-hold-answers": holds})
        assert (got.status_code, got.content) == (200, kept(events))
        seen = Seen.of(upstream.requests[0])
        assert (seen.body, seen.values(b"accept-encoding")) == (ASKING, [b"identity"])
        usage = proxy.snapshot().totals.usage
        assert (usage.input_tokens, usage.estimated_tokens) == (12, 0)


NOTHING = {"input_tokens": 0, "output_tokens": 0}
UNCOUNTED: dict[str, tuple[str, bytes]] = {
    "messages": (
        "/v1/messages",
        chunked(
            [
                event("message_start", message={"id": "m", "usage": NOTHING}),
                *MESSAGE[1:5],
                event(
                    "message_delta", delta={"stop_reason": "end_turn"}, usage={**NOTHING, "cache_read_input_tokens": 0}
                ),
                MESSAGE[-1],
            ],
            SSE,
        ),
    ),
    "chat": (PATH, chunked([*CHAT[:3], data(choices=[], usage={"prompt_tokens": 0, "completion_tokens": 0})], SSE)),
    "input": (PATH, chunked([*CHAT[:2], *CHAT[1:3], data(usage={"prompt_tokens": 0, "completion_tokens": 1})], SSE)),
    "whole": (PATH, http(200, {"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]})),
}


@pytest.mark.parametrize(("path", "answer"), UNCOUNTED.values(), ids=list(UNCOUNTED))
async def test_what_nobody_counted(path: str, answer: bytes) -> None:
    """What a gateway states as 0 (claude-code-router; hubrelay, the input) or not at all (LM-Proxy) is estimated."""
    asked, stated = STREAM_BODY if b"event-stream" in answer else b"{}", answer.count(b'"completion_tokens": 1')
    async with between([answer]) as (proxy, _), client() as web:
        assert (await web.post(proxy.url + path, content=asked)).status_code == 200
        usage = proxy.snapshot().totals.usage
        assert usage.total == usage.estimated_tokens + stated > stated


UNCHANGED: dict[str, tuple[str, bytes, dict[str, str]]] = {
    "wants it": (PATH, ASKING, {}),
    "doesn't want it": (PATH, b'{"stream": true, "stream_options": {"include_usage": false}}', {}),
    "says null": (PATH, b'{"stream": true, "stream_options": null}', {}),
    "no stream": (PATH, b'{"model": "m"}', {}),
    "another dialect": ("/v1/messages", STREAM_BODY, {}),
    "compressed": (PATH, gzip.compress(STREAM_BODY), {"content-encoding": "gzip"}),
    "not JSON": (PATH, b"hello", {}),
}


@pytest.mark.parametrize(("path", "body", "said"), UNCHANGED.values(), ids=list(UNCHANGED))
async def test_all_others_pass_unchanged(path: str, body: bytes, said: dict[str, str]) -> None:
    """A client that says itself what it wants gets that, and what isn't a chat stream is asked for nothing more."""
    events = CHAT if path == PATH else MESSAGE
    async with between([chunked(events, SSE)], stream_usage=True) as (proxy, upstream), client() as http:
        got = await http.post(proxy.url + path, content=body, headers=said)
        assert Seen.of(upstream.requests[0]).body == body
        assert got.content == b"".join(events)


async def test_off_by_default() -> None:
    """Without the setting nothing is asked for."""
    async with between([chunked(CHAT, SSE)]) as (proxy, upstream), client() as http:
        got = await http.post(proxy.url + PATH, content=STREAM_BODY)
        assert (Seen.of(upstream.requests[0]).body, got.content) == (STREAM_BODY, b"".join(CHAT))


async def test_a_stated_length_is_dropped() -> None:
    """A stream whose length is stated is shorter without the event, so its length isn't."""
    body = b"".join(CHAT)
    play: Play = [f"HTTP/1.1 200 -\r\n{SSE}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body]
    async with between(play, stream_usage=True) as (proxy, _), client() as http:
        got = await http.post(proxy.url + PATH, content=STREAM_BODY)
        assert (got.content, "content-length" in got.headers) == (kept(CHAT), False)


async def test_cut_and_repeated() -> None:
    """A retry asks again, and nothing is asked for twice."""
    cut: Play = [head(SSE) + chunk(CHAT[0]), Reset()]
    async with between(cut, [head(SSE), *map(chunk, CHAT), END], stream_usage=True) as (proxy, upstream):
        async with raw(proxy.port) as direct:
            _, headers = await direct.ask(request(PATH, STREAM_BODY))
            assert await direct.body(headers) == kept(CHAT)
        assert [Seen.of(each).body for each in upstream.requests] == [ASKING] * 2


@given(st.sampled_from(sorted(ANSWERS)), st.lists(st.integers(0, 10_000), max_size=12))
def test_however_it_is_cut(answer: str, cuts: list[int]) -> None:
    """The same is left of a stream in whatever pieces it comes."""
    whole = b"".join(ANSWERS[answer])
    places = [0, *sorted({cut % (len(whole) + 1) for cut in cuts}), len(whole)]
    hold = UsageHold((b"\n\n", b"\r\n\r\n", b"\r\r"), is_between=True)
    passed = b"".join(hold.passed(whole[a:b]) for a, b in pairwise(places))
    assert passed + hold.held == kept(ANSWERS[answer])
