"""Transparent retry on real sockets: which endings are made good unseen, and which are the client's to see."""

from __future__ import annotations

import json

import pytest
from ports import unused_port
from proxy.kit import Close, Hang, Play, Reset, Seen, between, client, playing, proxying, raw, request
from proxy.wire import (
    ANSWER,
    CHAT,
    END,
    FRAMED_CLAUDE,
    FRAMES,
    GEMINI,
    JSON,
    MESSAGE,
    MESSAGE_START,
    NDJSON,
    OLLAMA,
    OVERLOADED,
    PLAIN_BODY,
    RESPONSE,
    SSE,
    STREAM,
    STREAM_BODY,
    THROTTLED,
    anthropic_error,
    chunk,
    chunked,
    data,
    event,
    head,
    http,
    line,
)
from upstream.scripted import serving

MESSAGES = "/v1/messages"
BUSY = http(529, anthropic_error("overloaded_error"))
ENDINGS: dict[str, Play] = {
    "429": [http(429, anthropic_error("rate_limit_error"), "retry-after: 0")],
    "429 in milliseconds": [http(429, anthropic_error("rate_limit_error"), "retry-after-ms: 1")],
    "500": [http(500, anthropic_error("api_error"))],
    "502": [http(502, b"<html>Bad Gateway</html>", "content-type: text/html")],
    "503": [http(503)],
    "504": [http(504, anthropic_error("timeout_error"))],
    "520": [http(520, b"<html>cloudflare</html>", "content-type: text/html")],
    "529": [BUSY],
    "an odd status with x-should-retry: true": [http(418, b"{}", "x-should-retry: true")],
    "an error body that breaks off": [http(502, b"x" * 100)[:-10], Close()],
    "reset": [Reset()],
    "closed without an answer": [Close()],
    "reset in the head": [b"HTTP/1.1 200 -\r\ncontent-le", Reset()],
    "not HTTP": [b"SSH-2.0-OpenSSH\r\n", Close()],
}
WHOLE_ENDINGS: dict[str, Play] = {
    "truncated": [ANSWER[:-5], Close()],
    "reset in the body": [ANSWER[:-5], Reset()],
    "truncated chunks": [head() + chunk(b'{"id":'), Close()],
}
STREAM_ENDINGS: dict[str, Play] = {
    "reset after the head": [head(SSE), Reset()],
    "closed after the head": [head(SSE), Close()],
    "reset before content": [head(SSE) + chunk(MESSAGE_START), Reset()],
    "closed before content": [head(SSE) + chunk(MESSAGE_START), Close()],
    "a clean end before content": [chunked([MESSAGE_START], SSE)],
    "an empty stream": [chunked([], SSE)],
    "an error event before content": [chunked([MESSAGE_START, event("ping"), OVERLOADED], SSE)],
    "an error event at once": [chunked([OVERLOADED], SSE)],
}


@pytest.mark.parametrize("play", [*ENDINGS.values(), *WHOLE_ENDINGS.values()], ids=[*ENDINGS, *WHOLE_ENDINGS])
async def test_whole_answer(play: Play) -> None:
    """The client of a whole answer never learns of an attempt that came to this end."""
    async with between(play, [ANSWER]) as (proxy, upstream), client() as http_client:
        answer = await http_client.post(proxy.url + MESSAGES, content=PLAIN_BODY)
        assert (answer.status_code, answer.content) == (200, ANSWER.partition(b"\r\n\r\n")[2])
        assert [Seen.of(raw_request) for raw_request in upstream.requests] == [Seen.of(upstream.requests[0])] * 2
        totals = proxy.snapshot().totals
        assert (totals.retries, totals.retried_ok, totals.failed, totals.finished) == (1, 1, 0, 1)


@pytest.mark.parametrize("play", [*ENDINGS.values(), *STREAM_ENDINGS.values()], ids=[*ENDINGS, *STREAM_ENDINGS])
async def test_stream(play: Play) -> None:
    """Nor does the client of a stream: it gets the second attempt's bytes, and no byte of the first's."""
    async with between(play, [STREAM]) as (proxy, upstream), client() as http_client:
        answer = await http_client.post(proxy.url + MESSAGES, content=STREAM_BODY)
        assert (answer.status_code, answer.content) == (200, b"".join(MESSAGE))
        assert len(upstream.requests) == 2
        assert proxy.snapshot().totals.retried_ok == 1


DIALECTS: dict[str, tuple[str, bytes, Play, bytes]] = {
    "chat": (
        "/v1/chat/completions",
        STREAM_BODY,
        [chunked([CHAT[0], data(error={"message": "busy", "code": "server_error"})], SSE)],
        chunked(CHAT, SSE),
    ),
    "chat, cut": ("/v1/chat/completions", STREAM_BODY, [chunked([CHAT[0]], SSE)], chunked(CHAT, SSE)),
    "responses": (
        "/v1/responses",
        STREAM_BODY,
        [
            chunked(
                [RESPONSE[0], event("response.failed", response={"error": {"code": "server_error", "message": "x"}})],
                SSE,
            )
        ],
        chunked(RESPONSE, SSE),
    ),
    "responses, bare error": (
        "/v1/responses",
        STREAM_BODY,
        [chunked([RESPONSE[0], event("error", code="server_error", message="x")], SSE)],
        chunked(RESPONSE, SSE),
    ),
    "google": (
        "/v1beta/models/g:streamGenerateContent?alt=sse",
        b'{"contents":[]}',
        [chunked([data(error={"code": 503, "status": "UNAVAILABLE", "message": "x"})], SSE)],
        chunked(GEMINI, SSE),
    ),
    "ollama": ("/api/chat", b'{"model":"m"}', [chunked([line(error="server busy")], NDJSON)], chunked(OLLAMA, NDJSON)),
}


@pytest.mark.parametrize(("path", "body", "play", "good"), DIALECTS.values(), ids=list(DIALECTS))
async def test_error_event_of_every_dialect(path: str, body: bytes, play: Play, good: bytes) -> None:
    """An error inside a 200 stream before the first content is made good, whoever's dialect it is told in."""
    async with between(play, [good]) as (proxy, upstream), client() as http_client, raw(proxy.port) as direct:
        answer = await http_client.post(proxy.url + path, content=body)
        status, headers = await direct.ask(request(path, body))
        assert (answer.status_code, status) == (200, 200)
        assert answer.content == await direct.body(headers)
        assert len(upstream.requests) == 3


FOLLOWED: dict[str, tuple[str, bytes, str, bytes, tuple[bytes, ...]]] = {
    "anthropic": ("/v1/messages", STREAM_BODY, SSE, OVERLOADED, MESSAGE),
    "chat": ("/v1/chat/completions", STREAM_BODY, SSE, data(error={"message": "x", "code": 500}), CHAT),
    "responses": ("/v1/responses", STREAM_BODY, SSE, data(error={"message": "x", "code": 500}), RESPONSE),
    "google": (DIALECTS["google"][0], b"{}", SSE, data(error={"code": 503, "message": "x"}), GEMINI),
    "ollama": ("/api/chat", b"{}", NDJSON, line(error="server busy"), OLLAMA),
}


@pytest.mark.parametrize("name", FOLLOWED)
@pytest.mark.parametrize("rest", [0, -1], ids=["whole answer", "end marker"])
async def test_what_follows_an_error_in_one_read(name: str, rest: int) -> None:
    """An error is made good also where the end marker, or even content, comes in the same piece."""
    path, body, form, error, good = FOLLOWED[name]
    together = chunked([error + b"".join(good[rest:])], form)
    async with between([together], [chunked(good, form)]) as (proxy, upstream), client() as http_client:
        answer = await http_client.post(proxy.url + path, content=body)
        assert (answer.status_code, answer.content) == (200, b"".join(good))
        assert len(upstream.requests) == 2
        assert proxy.snapshot().totals.retried_ok == 1


@pytest.mark.parametrize("control", ["\0", "\x01", "\x1b", "\x7f"])
@pytest.mark.parametrize(("body", "good"), [(PLAIN_BODY, ANSWER), (STREAM_BODY, STREAM)], ids=["whole", "stream"])
async def test_a_head_that_cannot_be_passed_on(
    control: str, body: bytes, good: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """A control character in a header of the answer makes it a failed attempt, of a stream as of a whole answer; the
    last one is told in words."""
    bad = good.replace(b"\r\n", f"\r\nx-bad: a{control}b\r\n".encode(), 1)
    async with between([bad], [good], [bad]) as (proxy, upstream), client() as web:
        answer = await web.post(proxy.url + MESSAGES, content=body)
        assert (answer.status_code, len(upstream.requests)) == (200, 2)
    async with between([bad], retry={"max_attempts": 1}) as (proxy, _), client() as web:
        answer = await web.post(proxy.url + MESSAGES, content=body)
        assert (answer.status_code, answer.json()["type"]) == (502, "error")
        assert "control character" in answer.json()["error"]["message"]
    assert not caplog.records


FINAL: dict[str, bytes] = {
    "x-should-retry: false": http(529, anthropic_error("overloaded_error"), "x-should-retry: false"),
    "Anthropic's spend limit": http(
        429, anthropic_error("rate_limit_error", details={"error_code": "enforced_spend_limit_reached"})
    ),
    "Anthropic's own limit": http(
        400, anthropic_error("invalid_request_error", "You have reached your specified API usage limits.")
    ),
    "OpenAI's quota": http(429, {"error": {"type": "insufficient_quota", "code": "insufficient_quota"}}),
    "no money": http(402, {"error": {"message": "pay"}}),
    "Google's day": http(
        429,
        {
            "error": {
                "code": 429,
                "status": "RESOURCE_EXHAUSTED",
                "details": [
                    {
                        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                        "violations": [{"quotaId": "GenerateRequestsPerDayPerProject"}],
                    }
                ],
            }
        },
    ),
    "a pause of hours": http(429, anthropic_error("rate_limit_error"), "retry-after: 7200"),
    "400": http(400, anthropic_error("invalid_request_error")),
    "401": http(401, anthropic_error("authentication_error")),
    "404": http(404, anthropic_error("not_found_error")),
    "413": http(413, anthropic_error("request_too_large")),
}


@pytest.mark.parametrize("answer", FINAL.values(), ids=list(FINAL))
@pytest.mark.parametrize("body", [PLAIN_BODY, STREAM_BODY], ids=["whole", "stream"])
async def test_final_answers(answer: bytes, body: bytes) -> None:
    """An answer that another try can't better goes to the client at once and word for word, also to one for which
    temporary failures are rewritten."""
    async with between([answer], [STREAM]) as (proxy, upstream), raw(proxy.port) as direct:
        await direct.send(request(MESSAGES, body, "user-agent: claude-cli/2.1.332 (external, sdk-cli)"))
        status, headers = await direct.head()
        expected, _, payload = answer.partition(b"\r\n\r\n")
        assert (b"%d" % status, await direct.body(headers)) == (expected.split(b" ")[1], payload)
        said = [tuple(each.split(b": ", 1)) for each in expected.split(b"\r\n")[1:]]
        said = [each for each in said if each[0] not in (b"retry-after", b"x-should-retry")]
        assert sorted(each for each in headers if each[0] != b"x-should-retry") == sorted(said)
        assert len(upstream.requests) == 1


async def test_last_attempt_is_told() -> None:
    """When the attempts are used up, the client gets the upstream's last words."""
    async with between([http(503)], [BUSY], retry={"max_attempts": 2}) as (proxy, upstream), client() as http_client:
        answer = await http_client.post(proxy.url + MESSAGES, content=PLAIN_BODY)
        assert (answer.status_code, answer.json()) == (529, anthropic_error("overloaded_error"))
        assert len(upstream.requests) == 2


async def test_last_failed_stream_is_told() -> None:
    """A stream whose last attempt fails before content is told by a status, in the provider's words: most SDKs ask
    again after that, but not after an event."""
    failing = [chunked([MESSAGE_START, OVERLOADED], SSE)]
    async with between(failing, retry={"max_attempts": 2}) as (proxy, upstream), client() as http_client:
        answer = await http_client.post(proxy.url + MESSAGES, content=STREAM_BODY)
        assert (answer.status_code, answer.headers["retry-after"]) == (529, "59")
        assert answer.content == OVERLOADED.partition(b"data: ")[2].strip()
        assert answer.headers["content-type"] == "application/json"
        assert len(upstream.requests) == 2


async def test_last_cut_stream_is_an_error() -> None:
    """One that ended before its first content is an error: nothing of it has been passed on yet."""
    async with between([chunked([MESSAGE_START], SSE)], retry={"max_attempts": 1}) as (proxy, _), client() as web:
        answer = await web.post(proxy.url + MESSAGES, content=STREAM_BODY)
        assert (answer.status_code, answer.json()["error"]["type"]) == (502, "api_error")
        assert answer.json()["error"]["message"] == "HiveMind: it ended before its own end marker"


HALVES: dict[str, bytes] = {
    "half its JSON": chunked([ANSWER.partition(b"\r\n\r\n")[2][:-1]], JSON),
    "nothing": http(200),
    "no JSON": http(200, b"", JSON),
    "half an array": chunked([b'[{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}\n'], JSON),
}


@pytest.mark.parametrize("half", HALVES.values(), ids=list(HALVES))
async def test_half_an_answer_that_ends_cleanly(half: bytes) -> None:
    """A whole answer that ends within its JSON is tried again, however well its end is framed."""
    path, good = MESSAGES, ANSWER
    if b"candidates" in half:
        path, good = (
            "/v1beta/models/g:streamGenerateContent",
            http(200, b'[{"candidates":[{"finishReason":"STOP"}]}]', JSON),
        )
    async with between([half], [good]) as (proxy, upstream), client() as web:
        answer = await web.post(proxy.url + path, content=PLAIN_BODY)
        assert (answer.status_code, answer.content) == (200, good.partition(b"\r\n\r\n")[2])
        assert len(upstream.requests) == 2


@pytest.mark.parametrize("odd", [b'{"a":NaN}', b"{} {}", b"text", b"[1]"])
async def test_odd_whole_answers_are_passed_on(odd: bytes) -> None:
    """What isn't JSON, or not quite, is no half of it."""
    async with between([http(200, odd, JSON)]) as (proxy, upstream), client() as web:
        answer = await web.post(proxy.url + MESSAGES, content=PLAIN_BODY)
        assert (answer.status_code, answer.content, len(upstream.requests)) == (200, odd, 1)


STATEFUL: dict[str, tuple[str, dict[str, object]]] = {
    "thread": (MESSAGES, {"thread": {"type": "continue", "previous_message_id": "x"}}),
    "previous response": ("/v1/responses", {"previous_response_id": "resp_1"}),
    "conversation": ("/v1/responses", {"conversation": "conv_1"}),
    "store": ("/v1/responses", {"store": True}),
    "index": ("/documents/7/embed", {}),
}


@pytest.mark.parametrize(("path", "fields"), STATEFUL.values(), ids=list(STATEFUL))
@pytest.mark.parametrize("play", [[Reset()], [http(502)], [ANSWER[:-5], Close()]], ids=["reset", "502", "cut"])
async def test_state_on_the_server_isn_t_advanced_twice(path: str, fields: dict[str, object], play: Play) -> None:
    """A request that continues state on the server isn't sent again once it may have arrived and run."""
    async with between(play, [ANSWER]) as (proxy, upstream), client() as http_client:
        answer = await http_client.post(proxy.url + path, content=json.dumps({"model": "m", **fields}))
        assert (answer.status_code, len(upstream.requests)) == (502, 1)


UNKNOWN = {
    "a path of Vertex": ("/v1/projects/p/publishers/anthropic/models/m:rawPredict", {"max_tokens": 9}),
    "a path of Bedrock": ("/model/m/invoke", {"max_tokens": 9}),
    "a path of nobody": ("/serve/this", {"messages": []}),
}
BUSY_503 = http(503, b'{"error":{"message":"The model is overloaded."}}', "retry-after: 0")


@pytest.mark.parametrize(("path", "fields"), [*STATEFUL.values(), *UNKNOWN.values()], ids=[*STATEFUL, *UNKNOWN])
@pytest.mark.parametrize("play", [ENDINGS["429"], [BUSY], [BUSY_503]], ids=["429", "529", "503"])
async def test_a_refusal_is_certainty_that_nothing_ran(path: str, fields: dict[str, object], play: Play) -> None:
    """So it is asked again, whatever state the server keeps, on unknown paths too."""
    async with between(play, [ANSWER]) as (proxy, upstream), client() as http_client:
        answer = await http_client.post(proxy.url + path, content=json.dumps({"model": "m", **fields}))
        assert (answer.status_code, len(upstream.requests)) == (200, 2)


@pytest.mark.parametrize("path", ["/v2/chat", "/rerank", "/v4/ai/language-model", "/api/v1/presets/careful/messages"])
@pytest.mark.parametrize("play", [[Reset()], [http(502)]], ids=["reset", "502"])
async def test_what_keeps_no_state_is_sent_again(path: str, play: Play) -> None:
    """Cohere's chat, Vercel's gateway and OpenRouter's presets, for the model that a header names too."""
    async with between(play, [ANSWER]) as (proxy, upstream), client() as http_client:
        proxy.proxy.engine.price_by(lambda provider, model, usage: 1.0)
        answer = await http_client.post(proxy.url + path, json={}, headers={"ai-language-model-id": "maker/m"})
        assert (answer.status_code, len(upstream.requests)) == (200, 2)
        assert [(each.model, each.usage.total) for each in proxy.snapshot().models] == [("maker/m", 7)]


async def test_a_refusal_within_an_answer_is_none() -> None:
    """There the server has begun, and may keep what it has."""
    begun = event("response.created", response={"id": "r"})
    full = event("error", code="server_is_overloaded", message="overloaded")
    play = [head(SSE) + chunk(begun) + chunk(full) + chunk(b"")]
    async with between(play, [ANSWER]) as (proxy, upstream), client() as http_client:
        body = json.dumps({"model": "m", "stream": True, "store": True})
        await http_client.post(f"{proxy.url}/v1/responses", content=body)
        assert len(upstream.requests) == 1


async def test_state_on_a_kept_connection() -> None:
    """Not even on a kept connection that dies under it, where any other request would be sent once more."""
    async with between([ANSWER], [Reset()], [ANSWER]) as (proxy, upstream), client() as http_client:
        for expected in (200, 502):
            body = b'{"model":"m","store":true}' if expected == 502 else b'{"model":"m"}'
            answer = await http_client.post(f"{proxy.url}/v1/responses", content=body)
            assert answer.status_code == expected
        assert len(upstream.requests) == 2


async def test_state_may_be_sent_again_where_nothing_arrived() -> None:
    """If it surely never arrived, because nobody listened, it is sent again."""
    port = unused_port()
    async with proxying(f"lab=http://127.0.0.1:{port}") as proxy, raw(proxy.port) as direct:
        await direct.send(request("/v1/responses", b'{"model":"m","store":true}'))
        await proxy.until(lambda world: world.totals.retries > 0)
        async with serving(playing([ANSWER]), port=port):
            assert (await direct.head())[0] == 200


async def test_upstream_that_never_answers() -> None:
    """No response head in the time allowed counts as a failed attempt, and is made good."""
    async with between([Hang()], [ANSWER], headers_timeout_s=0.05) as (proxy, upstream), client() as http_client:
        answer = await http_client.post(proxy.url + MESSAGES, content=PLAIN_BODY)
        assert (answer.status_code, len(upstream.requests)) == (200, 2)


async def test_nobody_at_the_upstream() -> None:
    """If nobody answers in the end, the client gets a 502 in its provider's shape, which says that it may come back."""
    url = f"lab=http://127.0.0.1:{unused_port()}"
    async with proxying(url, retry={"max_attempts": 1}) as proxy, client() as http_client:
        answer = await http_client.post(proxy.url + MESSAGES, content=PLAIN_BODY)
        assert (answer.status_code, answer.headers["x-should-retry"]) == (502, "true")
        assert answer.json()["error"]["type"] == "api_error"
        assert "HiveMind" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "failing", [[THROTTLED], [FRAMED_CLAUDE[0], THROTTLED], [FRAMED_CLAUDE[0]]], ids=["at once", "later", "cut"]
)
async def test_a_stream_of_frames(failing: list[bytes]) -> None:
    """Bedrock's binary streams are held to their first content and made good like any other."""
    good = chunked(FRAMED_CLAUDE, FRAMES)
    async with between([chunked(failing, FRAMES)], [good]) as (proxy, upstream), client() as web:
        path = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke-with-response-stream"
        answer = await web.post(proxy.url + path, content=b'{"anthropic_version":"bedrock-2023-05-31","messages":[]}')
        assert (answer.status_code, answer.content) == (200, b"".join(FRAMED_CLAUDE))
        assert len(upstream.requests) == 2
        totals = proxy.snapshot().totals
        assert (totals.retried_ok, totals.usage.input_tokens, totals.usage.output_tokens) == (1, 30, 20)


@pytest.mark.parametrize("end", [END, Reset()], ids=["clean", "reset"])
async def test_a_stream_of_frames_that_is_cut(end: bytes | Reset) -> None:
    """Behind its content it is cut for the client too, after a frame that tells why."""
    play: Play = [head(FRAMES) + chunk(FRAMED_CLAUDE[0] + FRAMED_CLAUDE[1]), end]
    async with between(play) as (proxy, _), raw(proxy.port) as direct:
        assert (await direct.ask(request("/model/anthropic.claude-x/invoke-with-response-stream", b"{}")))[0] == 200
        rest = await direct.rest()
        assert b"internalServerException" in rest
        assert not rest.endswith(END)
        assert (await proxy.until(lambda world: world.totals.failed == 1)).totals.finished == 0
