"""The Responses API."""

from __future__ import annotations

import json

import pytest
from providers.fed import fed

from hivemind.providers.base import Facts, StreamForm, Tap
from hivemind.providers.clients import TryAgain
from hivemind.providers.openai import OpenAIResponses
from hivemind.scheduler.types import Failure, FailureKind, Usage

WIRE = OpenAIResponses()
PATH = "/v1/responses"
USAGE = {
    "input_tokens": 50,
    "input_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 5},
    "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 3},
}


def event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def tapped(*events: bytes) -> Tap:
    return fed(WIRE.tap([(b"content-type", b"text/event-stream")], Facts(stream=True, form=StreamForm.SSE)), events)


def facts(path: str = PATH, **body: object) -> Facts:
    return WIRE.facts(path, "", [], json.dumps(body).encode())


def told(data: bytes) -> dict[str, object]:
    assert data.startswith(b"event: response.failed\ndata: ")
    assert data.endswith(b"}\n\n")
    event: dict[str, object] = json.loads(data.split(b"data: ")[1])
    return event


PRELUDE = (
    event("response.created", response={"status": "queued"}),
    event("response.queued", response={}),
    event("response.in_progress", response={"usage": None}),
)


def test_facts() -> None:
    """Model, stream, limit and Codex's session."""
    found = facts(model="gpt-6", stream=True, max_output_tokens=100, prompt_cache_key="s", store=False)
    assert (found.model, found.stream, found.max_output_tokens, found.session) == ("gpt-6", True, 100, "s")
    assert not found.continues_state


@pytest.mark.parametrize(
    "body", [{"previous_response_id": "resp_1"}, {"conversation": "c"}, {"conversation": {"id": "c"}}, {"store": True}]
)
def test_state(body: dict[str, object]) -> None:
    """Whatever continues or creates state on the server may not be sent twice."""
    assert WIRE.facts(PATH, "", [], json.dumps(body).encode()).continues_state


@pytest.mark.parametrize("body", [{}, {"previous_response_id": None}, {"conversation": None}, {"store": False}])
def test_no_state(body: dict[str, object]) -> None:
    """Absent or null continues nothing."""
    assert not WIRE.facts(PATH, "", [], json.dumps(body).encode()).continues_state


def test_a_whole_stream() -> None:
    """Created, queued and in progress are prelude; the first item is content; the closing event counts."""
    tap = tapped(*PRELUDE)
    assert not tap.state.content_started
    tap.feed(event("response.output_item.done", item={"type": "message"}))
    assert tap.state.content_started
    tap.feed(event("response.output_text.delta", delta="Hello", obfuscation="xxxxxxxx"))
    assert tap.state.output_chars == 5
    assert not tap.state.complete
    tap.feed(event("response.completed", response={"status": "completed", "error": None, "usage": USAGE}))
    assert (tap.state.usage, tap.state.usage_final, tap.state.complete) == (Usage(25, 20, 5, 9), True, True)
    assert tap.state.error is None


def test_any_delta_begins() -> None:
    """A server that leaves the item event out begins with its first delta."""
    assert tapped(event("response.reasoning_summary_text.delta", delta="hm")).state.content_started


def test_incomplete_is_an_end() -> None:
    """A response cut by its own limit is whole."""
    state = tapped(event("response.incomplete", response={"usage": USAGE})).state
    assert (state.complete, state.content_started, state.error) == (True, True, None)


@pytest.mark.parametrize(
    ("data", "kind", "retryable"),
    [
        (event("response.failed", response={"error": {"code": "server_error"}}), FailureKind.SERVER_ERROR, True),
        (
            event("response.failed", response={"error": {"code": "rate_limit_exceeded", "message": "try again in 2s"}}),
            FailureKind.RATE_LIMITED,
            True,
        ),
        (event("response.failed", response={"error": {"code": "invalid_prompt"}}), FailureKind.CLIENT_ERROR, False),
        (event("error", code="server_error", message="m", param=None), FailureKind.SERVER_ERROR, True),
        (event("error", error={"code": "insufficient_quota"}), FailureKind.QUOTA, False),
    ],
)
def test_failures(data: bytes, kind: FailureKind, retryable: bool) -> None:
    """Failures after a 200, in both of their forms, leave the stream unbegun."""
    state = tapped(*PRELUDE, data).state
    assert state.error is not None
    assert (state.error.kind, state.error.retryable, state.content_started) == (kind, retryable, False)


def test_the_delay_inside_a_failure() -> None:
    """The wait that the message names is understood."""
    failed = event("response.failed", response={"error": {"code": "rate_limit_exceeded", "message": "try again in 2s"}})
    error = tapped(failed).state.error
    assert error is not None
    assert error.delay_s == 2.0


def test_truncation_and_nameless_events() -> None:
    """Only a closing event completes; events are told by their type where they have no name."""
    tap = tapped(b'data: {"type":"response.output_text.delta","delta":"x"}\n\n')
    tap.end()
    assert (tap.state.output_chars, tap.state.complete) == (1, False)


def test_whole_reply() -> None:
    """A response without streaming; a failed one carries its error under status 200."""
    tap = WIRE.tap([(b"content-type", b"application/json")], Facts())
    tap.feed(json.dumps({"status": "completed", "error": None, "usage": USAGE}).encode())
    tap.end()
    assert (tap.state.usage, tap.state.error) == (Usage(25, 20, 5, 9), None)
    tap = WIRE.tap([(b"content-type", b"application/json")], Facts())
    tap.feed(b'{"status": "failed", "error": {"code": "server_error", "message": "m"}}')
    tap.end()
    assert tap.state.error is not None


def test_stream_error_is_raised_by_sdks_and_tried_again_by_codex() -> None:
    """One event serves both: Codex reads response.error, the SDKs raise on a top-level error."""
    event = told(WIRE.stream_error(503, "queue_full", "m"))
    error = {"code": "server_error", "message": "m", "type": "server_error"}
    assert event["type"] == "response.failed"
    assert event["error"] == error
    response = event["response"]
    assert isinstance(response, dict)
    assert (response["error"], response["status"]) == (error, "failed")


def test_codex_is_told_in_words_when_to_ask_again() -> None:
    """Without a delay in the message of a `rate_limit_exceeded` Codex asks five times within seconds, then ends."""
    codex = TryAgain(5, 120.0, reads_text=True)
    event = told(WIRE.stream_error(503, "queue_full", "m", codex))
    assert event["error"] == {
        "code": "rate_limit_exceeded",
        "message": "m (Please try again in 26s.)",
        "type": "server_error",
    }
    body = b'{"error": {"code": "server_is_overloaded", "message": "busy"}}'
    failure = Failure(FailureKind.OVERLOADED, True, 503, delay_s=90.0)
    error = told(WIRE.failure_event(failure, body, codex))["error"]
    assert error == {"code": "rate_limit_exceeded", "message": "busy (Please try again in 90s.)"}


def test_final_stream_error_ends_codex() -> None:
    """Codex asks again after any code but a few, and of those shows the text of one; the SDKs get the reason."""
    event = told(WIRE.stream_error(400, "agent_stopped", "m"))
    response = event["response"]
    assert isinstance(response, dict)
    assert response["error"] == {"code": "invalid_prompt", "message": "m", "type": "invalid_request_error"}
    assert event["error"] == {**response["error"], "code": "agent_stopped"}
    long = b'{"error": {"message": "m", "type": "invalid_request_error", "code": "context_length_exceeded"}}'
    own = told(WIRE.failure_event(Failure(FailureKind.CLIENT_ERROR, False, 400), long))["response"]
    assert isinstance(own, dict)
    assert own["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize(
    ("failure", "error", "code"),
    [
        (Failure(FailureKind.RATE_LIMITED, True, 429), {"code": "rate_limit_exceeded"}, "rate_limit_exceeded"),
        (Failure(FailureKind.OVERLOADED, True, 503), {"code": "server_is_overloaded"}, "server_error"),
        (Failure(FailureKind.QUOTA, False, 429), {"code": "insufficient_quota"}, "insufficient_quota"),
        (Failure(FailureKind.CLIENT_ERROR, False, 400), {"code": None, "type": "invalid_request_error"}, None),
    ],
)
def test_failure_event(failure: Failure, error: dict[str, object], code: str | None) -> None:
    """The provider's object goes on, under a code after which Codex does what the failure allows."""
    found = told(WIRE.failure_event(failure, json.dumps({"error": {**error, "message": "m"}}).encode()))["error"]
    assert isinstance(found, dict)
    assert found["code"] == (code or "invalid_request_error")
    assert found["message"] == "m"


def test_keepalive_by_client() -> None:
    """Codex counts parsed events alone; everybody else gets a newline."""
    assert WIRE.keepalive("codex") == b'event: ping\ndata: {"type":"ping"}\n\n'
    assert WIRE.keepalive("openai-sdk") == b"\n"
    assert not tapped(WIRE.keepalive("codex")).state.content_started


def test_refusal() -> None:
    """Errors of our own in OpenAI's envelope; a 429 always has a Retry-After, without which Codex gives up."""
    headers, body = WIRE.refusal(429, "too_many_agents", "m", None)
    assert dict(headers)[b"retry-after"] == b"59"
    assert json.loads(body)["error"]["type"] == "rate_limit_error"
