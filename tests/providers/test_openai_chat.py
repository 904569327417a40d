"""Chat completions, completions and embeddings."""

from __future__ import annotations

import json

import pytest
from providers.fed import fed

from hivemind.providers.base import Facts, StreamForm, Tap
from hivemind.providers.ollama import Ollama
from hivemind.providers.openai import OpenAIChat, OpenAIResponses
from hivemind.providers.taps import end_through, feed_through
from hivemind.scheduler.types import Computed, Failure, FailureKind, Usage

WIRE = OpenAIChat()
PATH = "/v1/chat/completions"
STREAM = Facts(stream=True, form=StreamForm.SSE)
DONE = b"data: [DONE]\n\n"


def chunk(delta: object = None, finish: str | None = None, **fields: object) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + json.dumps({"object": "chat.completion.chunk", "choices": choices, **fields}).encode() + b"\n\n"


def tapped(*events: bytes) -> Tap:
    return fed(WIRE.tap([(b"content-type", b"text/event-stream")], STREAM), events)


def facts(path: str = PATH, **body: object) -> Facts:
    return WIRE.facts(path, "", [], json.dumps(body).encode())


ROLE = chunk({"role": "assistant", "content": "", "refusal": None})


def test_facts() -> None:
    """Model, stream and either limit on the output."""
    found = facts(model="gpt-5.5", stream=True, max_tokens=100, prompt_cache_key="k")
    assert (found.model, found.stream, found.max_output_tokens, found.session) == ("gpt-5.5", True, 100, "k")
    assert found.form is StreamForm.SSE
    assert facts(max_tokens=1, max_completion_tokens=2).max_output_tokens == 2
    assert facts().max_output_tokens is None


def test_azure_names_the_model_in_the_path() -> None:
    """A deployment stands for the model where the body names none."""
    assert facts("/openai/deployments/my-gpt/chat/completions").model == "my-gpt"
    assert facts("/openai/deployments/my-gpt/chat/completions", model="gpt-5").model == "gpt-5"


def test_state_only_when_asked_for() -> None:
    """`store: true` creates state on the server."""
    assert facts(store=True).continues_state
    assert not facts(store=False).continues_state
    assert not facts().continues_state


def test_a_whole_stream() -> None:
    """The role-only chunk is prelude, the extra chunk carries the usage, [DONE] is the end."""
    tap = tapped(ROLE)
    assert not tap.state.content_started
    tap.feed(chunk({"content": "Hello"}, usage=None))
    assert (tap.state.content_started, tap.state.output_chars) == (True, 5)
    tap.feed(chunk({}, "stop"))
    assert not tap.state.complete
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    tap.feed(chunk(usage=usage))
    assert (tap.state.usage, tap.state.usage_final) == (Usage(30, 60, 10, 20), True)
    tap.feed(DONE)
    assert tap.state.complete


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "x"},
        {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]},
        {"function_call": {"name": "f"}},
        {"refusal": "no"},
        {"reasoning": "hm"},
        {"reasoning_content": "hm"},
    ],
)
def test_what_counts_as_content(delta: object) -> None:
    """Text, tool calls, refusals and reasoning begin the stream."""
    assert tapped(chunk(delta)).state.content_started


def test_legacy_completions() -> None:
    """Completions carry their text in the choice."""
    state = tapped(b'data: {"choices":[{"text":"Hi","finish_reason":null}]}\n\n').state
    assert (state.content_started, state.output_chars) == (True, 2)


def test_running_usage_is_not_final() -> None:
    """Servers that count in every chunk are believed at the end."""
    tap = tapped(chunk({"content": "a"}, usage={"prompt_tokens": 5, "completion_tokens": 1}))
    assert (tap.state.usage, tap.state.usage_final) == (Usage(5, 0, 0, 1), False)
    tap.feed(DONE)
    assert tap.state.usage_final


def test_no_usage_unless_asked_for() -> None:
    """A client that didn't ask gets no usage, and none is invented."""
    state = tapped(ROLE, chunk({"content": "a"}), chunk({}, "stop"), DONE).state
    assert (state.usage, state.usage_final, state.complete) == (None, False, True)


def test_ends() -> None:
    """A finish reason and a clean end will do without [DONE]; content alone won't."""
    tap = tapped(chunk({"content": "a"}), chunk({}, "stop"))
    tap.end()
    assert tap.state.complete
    tap = tapped(chunk({"content": "a"}))
    tap.end()
    assert not tap.state.complete
    tap = tapped(chunk({"content": "a"}), b"data: [DONE]")
    tap.end()
    assert tap.state.complete


def test_an_empty_answer_begins_with_its_end() -> None:
    """A finish reason without content isn't held for ever."""
    assert tapped(ROLE, chunk({}, "content_filter")).state.content_started


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "m", "code": "rate_limit_exceeded"}, FailureKind.RATE_LIMITED),
        ({"message": "m", "code": 502}, FailureKind.SERVER_ERROR),
        ("overloaded", FailureKind.OVERLOADED),
    ],
)
def test_error_in_stream(error: object, kind: FailureKind) -> None:
    """Any truthy `error` is an error, as the SDKs take it."""
    state = tapped(ROLE, b"data: " + json.dumps({"error": error}).encode() + b"\n\n").state
    assert state.error is not None
    assert (state.error.kind, state.content_started) == (kind, False)
    assert tapped(chunk({"content": "a"}, error=None)).state.error is None


def test_named_error_in_stream() -> None:
    """Some compatible servers name the event and leave the envelope out."""
    error = tapped(b'event: error\ndata: {"message": "m", "code": "rate_limit_exceeded"}\n\n').state.error
    assert error is not None
    assert error.kind is FailureKind.RATE_LIMITED


def test_broken_chunks_pass_by() -> None:
    """What isn't a chunk changes nothing."""
    state = tapped(b"data: {\n\n", b'data: {"choices": 5}\n\n', b'data: {"choices": null}\n\n', b": hi\n\n").state
    assert (state.content_started, state.error, state.usage) == (False, None, None)


@pytest.mark.parametrize(
    ("body", "usage"),
    [
        ({"usage": {"prompt_tokens": 9, "completion_tokens": 4}}, Usage(9, 0, 0, 4)),
        ({"data": [], "usage": {"prompt_tokens": 9, "total_tokens": 9}}, Usage(9, 0, 0, 0)),
        ({"usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 50}}}, Usage(0, 9, 0, 0)),
        ({"usage": {}}, None),
        ({"usage": None}, None),
    ],
)
def test_whole_replies(body: object, usage: Usage | None) -> None:
    """Replies and embeddings without streaming; cached tokens never exceed the prompt."""
    tap = WIRE.tap([(b"content-type", b"application/json")], Facts())
    tap.feed(json.dumps(body).encode())
    tap.end()
    assert (tap.state.usage, tap.state.complete, tap.state.usage_final) == (usage, True, usage is not None)


def test_refusal_and_stream_error() -> None:
    """Errors of our own in OpenAI's envelope."""
    headers, body = WIRE.refusal(404, "circuit_open", "m", None)
    said = {b"content-type": b"application/json", b"x-should-retry": b"false", b"x-hivemind-refusal": b"circuit_open"}
    assert dict(headers) == said
    headers, body = WIRE.refusal(503, "circuit_open", "m", None)
    assert dict(headers) == {**said, b"x-should-retry": b"true", b"retry-after": b"59"}
    error = {"message": "m", "type": "server_error", "param": None, "code": "circuit_open"}
    assert json.loads(body) == {"error": error}
    data = WIRE.stream_error(503, "circuit_open", "m")
    assert json.loads(data.removeprefix(b"data: ").removesuffix(b"\n\n")) == {"error": error}


@pytest.mark.parametrize("body", [b'{"error": {"code": "x", "n": 1}}', b'[{"error": {"code": "x", "n": 1}}]'])
def test_failure_event_keeps_the_providers_object(body: bytes) -> None:
    """What the provider said goes on as it said it (Google's compatible path wraps it in an array)."""
    data = WIRE.failure_event(Failure(FailureKind.CLIENT_ERROR, False, 400), body)
    assert json.loads(data.removeprefix(b"data: ")) == {"error": {"code": "x", "n": 1}}


def test_failure_event_without_an_object() -> None:
    """Where there is none, one is made."""
    data = WIRE.failure_event(Failure(FailureKind.SERVER_ERROR, True, 502, message="502"), b"<html>")
    error = json.loads(data.removeprefix(b"data: "))["error"]
    assert error["message"] == "HiveMind: the upstream answered 502"
    assert (error["code"], error["type"]) == ("server_error", "server_error")


def test_keepalive() -> None:
    """Only a bare newline is skipped by every client of compatible servers, and by the tap."""
    assert WIRE.keepalive("openai-sdk") == WIRE.keepalive("") == b"\n"
    tap = tapped(b"\n", b"\n", b"\n", chunk({"content": "a"}))
    assert tap.state.output_chars == 1


LLAMACPP = {"cache_n": 122, "prompt_n": 1, "prompt_ms": 250.0, "predicted_n": 4, "predicted_ms": 500}
DURATIONS = {"prompt_eval_count": 1, "prompt_eval_duration": 250_000_000, "eval_count": 4, "eval_duration": 500_000_000}
JSON, NDJSON = [(b"content-type", b"application/json")], [(b"content-type", b"application/x-ndjson")]


@pytest.mark.parametrize(
    ("tap", "data"),
    [
        (tapped(), chunk(usage={"prompt_tokens": 123, "completion_tokens": 4}, timings=LLAMACPP)),
        (tapped(), chunk({}, "stop", timings=LLAMACPP)),
        (
            WIRE.tap([(b"content-type", b"application/json")], Facts()),
            json.dumps({"choices": [], "timings": LLAMACPP}).encode(),
        ),
        (
            OpenAIResponses().tap([(b"content-type", b"text/event-stream")], STREAM),
            b"event: response.completed\ndata: "
            + json.dumps({"type": "response.completed", "response": {}, "timings": LLAMACPP}).encode()
            + b"\n\n",
        ),
        (
            Ollama().tap(NDJSON, Facts(stream=True, form=StreamForm.NDJSON)),
            json.dumps({"done": True, **DURATIONS}).encode() + b"\n",
        ),
    ],
    ids=["usage", "stop", "whole", "responses", "ollama"],
)
def test_what_the_server_says_that_it_took(tap: Tap, data: bytes) -> None:
    """llama.cpp's `timings` and Ollama's durations, in bodies and in the last event of a stream."""
    feed_through(tap, data)
    end_through(tap)
    assert tap.state.computed == Computed(0.25, 0.5)


@pytest.mark.parametrize("timings", [{}, {"prompt_ms": -1, "predicted_ms": 1}, {"prompt_ms": "x"}, 5])
def test_other_timings_tell_nothing(timings: object) -> None:
    """What isn't llama.cpp's, or can't be, is ignored."""
    assert tapped(chunk({}, "stop", timings=timings)).state.computed is None
