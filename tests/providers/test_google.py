"""Google's Gemini API."""

from __future__ import annotations

import json

import pytest
from providers.fed import fed

from hivemind.providers.base import Facts, StreamForm, Tap
from hivemind.providers.errors import classify
from hivemind.providers.google import Google
from hivemind.scheduler.types import Failure, FailureKind, Usage, WindowKind, WindowReading

WIRE = Google()
MODEL = "/v1beta/models/gemini-2.5-flash"
USAGE = {
    "promptTokenCount": 100,
    "cachedContentTokenCount": 40,
    "candidatesTokenCount": 7,
    "thoughtsTokenCount": 5,
    "toolUsePromptTokenCount": 3,
    "totalTokenCount": 115,
}


def chunk(parts: object = None, finish: str | None = None, **fields: object) -> dict[str, object]:
    candidate = {"content": {"parts": parts, "role": "model"}, "finishReason": finish}
    return {"candidates": [candidate], **fields}


def sse(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\r\n\r\n"


def tapped(*events: bytes, form: StreamForm = StreamForm.SSE) -> Tap:
    media = b"text/event-stream" if form is StreamForm.SSE else b"application/json; charset=UTF-8"
    return fed(WIRE.tap([(b"content-type", media)], Facts(form=form)), events)


def facts(path: str, query: str = "", **body: object) -> Facts:
    return WIRE.facts(path, query, [], json.dumps(body).encode())


@pytest.mark.parametrize(
    ("path", "query", "stream", "form", "batch"),
    [
        (f"{MODEL}:generateContent", "", False, StreamForm.WHOLE, False),
        (f"{MODEL}:streamGenerateContent", "alt=sse", True, StreamForm.SSE, False),
        (f"{MODEL}:streamGenerateContent", "key=k&alt=sse", True, StreamForm.SSE, False),
        (f"{MODEL}:streamGenerateContent", "", False, StreamForm.JSON_ARRAY, False),
        ("/v1/models/gemini-2.5-flash:embedContent", "", False, StreamForm.WHOLE, False),
        (f"{MODEL}:countTokens", "", False, StreamForm.WHOLE, False),
        (f"{MODEL}:batchGenerateContent", "", False, StreamForm.WHOLE, True),
        ("/v1beta/models/gemini-2.5-flash:asyncBatchEmbedContent", "", False, StreamForm.WHOLE, True),
    ],
)
def test_the_path_says_it(path: str, query: str, stream: bool, form: StreamForm, batch: bool) -> None:
    """Model, method and form of the reply are in the path and the query. A batch may not be created twice,
    and costs nothing until its results state what it used."""
    found = facts(path, query, contents=[])
    assert (found.model, found.stream, found.form) == ("gemini-2.5-flash", stream, form)
    assert (found.begins == "batch", found.continues_state, found.unmetered) == (batch, batch, False)


def test_output_limit() -> None:
    """In the generation config, in either spelling."""
    path = f"{MODEL}:generateContent"
    assert facts(path, generationConfig={"maxOutputTokens": 100}).max_output_tokens == 100
    assert facts(path, generation_config={"max_output_tokens": 5}).max_output_tokens == 5
    assert facts(path).max_output_tokens is None


def test_interaction_facts() -> None:
    """Interactions name model and stream in the body and may continue state."""
    found = facts("/v1beta/interactions", model="gemini-3.8-flash", stream=True, previous_interaction_id="i")
    assert (found.model, found.stream, found.continues_state) == ("gemini-3.8-flash", True, True)
    assert not facts("/v1beta/interactions", model="m").continues_state


def test_a_whole_stream() -> None:
    """The last usage wins; the finish reason is the end, for there is no other marker."""
    tap = tapped(sse({"usageMetadata": {"promptTokenCount": 100}, "modelVersion": "m"}))
    assert not tap.state.content_started
    tap.feed(sse(chunk([{"text": "Hello"}], usageMetadata={"promptTokenCount": 100, "candidatesTokenCount": 1})))
    assert (tap.state.content_started, tap.state.output_chars, tap.state.usage) == (True, 5, Usage(100, 0, 0, 1))
    assert not tap.state.usage_final
    tap.feed(sse(chunk([{"text": ""}], "STOP", usageMetadata=USAGE)))
    assert (tap.state.usage, tap.state.usage_final, tap.state.complete) == (Usage(63, 40, 0, 12), True, True)


@pytest.mark.parametrize(
    ("parts", "begins"),
    [
        ([{"functionCall": {"name": "f"}}], True),
        ([{"inlineData": {"data": "x"}}], True),
        ([{"text": ""}], False),
        ([], False),
    ],
)
def test_what_counts_as_content(parts: object, begins: bool) -> None:
    """Any part that holds something."""
    assert tapped(sse(chunk(parts))).state.content_started is begins


def test_a_blocked_prompt_is_an_answer() -> None:
    """A prompt that is blocked has no candidates and yet its reply is whole."""
    state = tapped(sse({"promptFeedback": {"blockReason": "SAFETY"}})).state
    assert (state.complete, state.content_started) == (True, True)


def test_truncation_is_incomplete() -> None:
    """Content without a finish reason was cut."""
    tap = tapped(sse(chunk([{"text": "a"}])))
    tap.end()
    assert not tap.state.complete


ERROR = {"error": {"code": 503, "message": "The model is overloaded", "status": "UNAVAILABLE"}}


@pytest.mark.parametrize("data", [sse(ERROR), json.dumps(ERROR, indent=2).encode(), json.dumps(ERROR).encode() + b"\n"])
def test_errors_in_stream(data: bytes) -> None:
    """An error comes as data, or as bare JSON in the middle of the stream."""
    tap = tapped(data)
    tap.end()
    assert tap.state.error is not None
    assert (tap.state.error.kind, tap.state.error.retryable) == (FailureKind.OVERLOADED, True)
    assert not tap.state.content_started


def test_json_array_stream() -> None:
    """Without alt=sse the same chunks come as the objects of one array."""
    chunks = [chunk([{"text": "a{"}]), chunk([{"text": "b"}], "STOP", usageMetadata=USAGE)]
    data = json.dumps(chunks, indent=2).encode()
    tap = tapped(data[:40], form=StreamForm.JSON_ARRAY)
    assert not tap.state.content_started
    tap.feed(data[40:])
    tap.end()
    assert (tap.state.output_chars, tap.state.complete, tap.state.usage) == (3, True, Usage(63, 40, 0, 12))


def test_interaction_stream() -> None:
    """Interactions: created is prelude, steps and deltas are content, completed counts."""
    tap = tapped(sse({"event_type": "interaction.created", "interaction": {"id": "i"}}))
    assert not tap.state.content_started
    tap.feed(sse({"event_type": "step.start"}))
    assert tap.state.content_started
    tap.feed(sse({"event_type": "step.delta", "delta": {"text": "x"}}))
    assert tap.state.output_chars > 0
    usage = {"total_input_tokens": 10, "total_cached_tokens": 4, "total_output_tokens": 5, "total_thought_tokens": 1}
    tap.feed(sse({"event_type": "interaction.completed", "interaction": {"usage": usage}}))
    assert (tap.state.usage, tap.state.usage_final, tap.state.complete) == (Usage(6, 4, 0, 6), True, True)


@pytest.mark.parametrize("fields", [{}, {"error": {"code": "internal", "message": "m"}}])
def test_interaction_error(fields: dict[str, object]) -> None:
    """Their error events, with or without an object."""
    state = tapped(sse({"event_type": "error", **fields})).state
    assert state.error is not None
    assert state.error.kind is FailureKind.SERVER_ERROR


@pytest.mark.parametrize(
    ("body", "usage"),
    [
        (chunk([{"text": "x"}], "STOP", usageMetadata=USAGE), Usage(63, 40, 0, 12)),
        ([chunk([{"text": "x"}]), chunk([], "STOP", usageMetadata=USAGE)], Usage(63, 40, 0, 12)),
        ({"usage": {"total_input_tokens": 3, "total_output_tokens": 2}}, Usage(3, 0, 0, 2)),
        ({"embedding": {"values": [0.1]}}, None),
        ({"candidates": 5}, None),
    ],
)
def test_whole_replies(body: object, usage: Usage | None) -> None:
    """Replies without streaming, also an array that came whole."""
    tap = tapped(json.dumps(body).encode(), form=StreamForm.WHOLE)
    tap.end()
    assert (tap.state.usage, tap.state.complete) == (usage, True)


def test_refusal() -> None:
    """The delay is in the body too, where Google's clients look for it."""
    headers, body = WIRE.refusal(503, "circuit_open", "m", 100.0)
    assert dict(headers)[b"retry-after"] == b"59"
    error = json.loads(body)["error"]
    assert (error["code"], error["status"], error["message"]) == (503, "UNAVAILABLE", "m")
    assert error["details"][1]["retryDelay"] == "59s"
    failure = classify(503, headers, body, 0.0)
    assert failure is not None
    assert (failure.retryable, failure.delay_s) == (True, 59.0)


def test_stream_error_is_bare_json() -> None:
    """Google's JavaScript SDK raises an error only where it stands alone, without `data:` and without a blank line."""
    data = WIRE.stream_error(503, "queue_full", "m")
    assert json.loads(data)["error"]["code"] == 503
    assert data.endswith(b"}\n")
    assert data.count(b"\n") == 1
    assert tapped(b"\n", data).state.error is None  # the record ends with the stream
    tap = tapped(b"\n", data)
    tap.end()
    assert tap.state.error is not None


@pytest.mark.parametrize("body", [json.dumps(ERROR, indent=1), json.dumps([ERROR])])
def test_failure_event_keeps_the_providers_object(body: str) -> None:
    """On one line, as the array's or the envelope's own object."""
    data = WIRE.failure_event(Failure(FailureKind.OVERLOADED, True, 503), body.encode())
    assert json.loads(data) == ERROR
    assert data.count(b"\n") == 1


def test_failure_event_without_a_status() -> None:
    """Google's SDKs raise by a numeric code alone."""
    data = WIRE.failure_event(Failure(FailureKind.SERVER_ERROR, True, 500), b'{"error": {"code": "internal"}}')
    assert json.loads(data) == {"error": {"code": 500}}
    data = WIRE.failure_event(Failure(FailureKind.SERVER_ERROR, True, 502, message="502"), b"<html>")
    assert json.loads(data)["error"]["code"] == 502


def test_keepalive() -> None:
    """A bare newline, the only thing that Google's parsers skip."""
    assert WIRE.keepalive("gemini-cli") == b"\n"
    assert tapped(b"\n\n\n", sse(chunk([{"text": "a"}]))).state.output_chars == 1


def test_a_quota_a_minute_tells_its_limit() -> None:
    """A 429 names the quota, its limit and the wait: Google's only word on its rate windows."""
    quota = {"@type": "type.googleapis.com/google.rpc.QuotaFailure"}
    requests = {"quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "quotaValue": "15"}
    tokens = {"quotaId": "GenerateContentInputTokensPerModelPerMinute-FreeTier", "quotaValue": "250000"}
    retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}
    error = {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Quota exceeded"}
    details = [quota | {"violations": [requests, tokens]}, retry]
    body = json.dumps({"error": error | {"details": details}}).encode()
    failure = classify(429, [], body, 0.0)
    assert failure is not None
    assert failure.delay_s == 34
    assert failure.readings == (
        WindowReading(WindowKind.REQUESTS, 15, 0, 34.0),
        WindowReading(WindowKind.INPUT, 250_000, 0, 34.0),
    )
