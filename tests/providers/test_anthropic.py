"""Anthropic's Messages API."""

from __future__ import annotations

import gzip
import json

import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st
from providers.fed import fed

from hivemind.providers.anthropic import _MESSAGE, Anthropic, AnthropicReader
from hivemind.providers.base import Facts, StreamForm, Tap
from hivemind.providers.clients import TryAgain
from hivemind.scheduler.types import Failure, FailureKind, Usage

WIRE = Anthropic()
PATH = "/v1/messages"
SSE = [(b"content-type", b"text/event-stream; charset=utf-8")]
STREAM = Facts(stream=True, form=StreamForm.SSE)


def event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def start(**usage: int) -> bytes:
    return event("message_start", message={"id": "msg_1", "usage": usage})


TEXT = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "Hello"})
BLOCK = event("content_block_start", index=0, content_block={"type": "text", "text": ""})


def tapped(*events: bytes) -> Tap:
    return fed(WIRE.tap(SSE, STREAM), events)


def facts(**body: object) -> Facts:
    return WIRE.facts(PATH, "beta=true", [], json.dumps(body).encode())


def test_facts() -> None:
    """Model, stream, size and max_tokens come from the body."""
    body = json.dumps({"model": "claude-opus-4-8", "max_tokens": 64000, "stream": True, "messages": []}).encode()
    assert WIRE.facts(PATH, "", [], body) == Facts(
        "claude-opus-4-8", True, len(body), max_output_tokens=64000, form=StreamForm.SSE
    )
    assert facts(model="m").form is StreamForm.WHOLE


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"model": 5, "stream": "yes", "max_tokens": "x", "metadata": []}']
)
def test_unreadable_requests_keep_defaults(body: bytes) -> None:
    """What can't be read is left at its default."""
    assert WIRE.facts(PATH, "", [], body) == Facts(size_chars=len(body))


@pytest.mark.parametrize(("coding", "pack"), [(b"gzip", gzip.compress), (b"zstd", zstandard.compress)])
def test_compressed_requests(coding: bytes, pack: object) -> None:
    """A compressed body is read in a copy, and counts with its plain size."""
    body = json.dumps({"model": "m", "messages": ["x" * 1000]}).encode()
    assert callable(pack)
    found = WIRE.facts(PATH, "", [(b"content-encoding", coding)], pack(body))
    assert (found.model, found.size_chars) == ("m", len(body))


@pytest.mark.parametrize(
    ("body", "model"),
    [
        (
            {"requests": [{"custom_id": "1", "params": {"model": "claude-opus-4-8"}}, {"params": {"model": "b"}}]},
            "claude-opus-4-8",
        ),
        ({"requests": []}, ""),
        ({"requests": "x"}, ""),
        ([], ""),
    ],
)
def test_batches(body: object, model: str) -> None:
    """A batch costs nothing until its results state what it used; it may not be created twice."""
    data = json.dumps(body).encode()
    found = WIRE.facts("/v1/messages/batches", "", [], data)
    assert found == Facts(model, max_output_tokens=0, continues_state=True, tier="batch", begins="batch")


def test_threads_continue_state() -> None:
    """A continued thread may not be sent twice; a new one may."""
    assert facts(thread={"type": "continue", "previous_message_id": "m"}).continues_state
    assert not facts(thread={"type": "start"}).continues_state
    assert not facts(thread=None).continues_state


@pytest.mark.parametrize(
    ("user_id", "session"),
    [
        ('{"device_id": "d", "account_uuid": "", "session_id": "s-1"}', "s-1"),
        ("user_abc_account_def_session_0a1b-2c", "0a1b-2c"),
        ("somebody", ""),
        ("5", ""),
        (None, ""),
    ],
)
def test_session(user_id: str | None, session: str) -> None:
    """Claude Code's session is in metadata.user_id, as JSON in a string or in its older form."""
    assert facts(metadata={"user_id": user_id}).session == session


def test_a_whole_stream() -> None:
    """Usage starts with message_start and ends, cumulative, with message_delta."""
    tap = tapped(start(input_tokens=10, cache_read_input_tokens=700, cache_creation_input_tokens=30, output_tokens=1))
    assert tap.state.usage == Usage(10, 700, 30, 1)
    assert not tap.state.content_started
    tap.feed(event("ping"))
    assert not tap.state.content_started
    tap.feed(BLOCK)
    assert not tap.state.content_started, "the empty beginning of a block is no content yet"
    tap.feed(TEXT)
    assert tap.state.content_started
    tap.feed(event("content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": "{}x"}))
    tap.feed(event("content_block_delta", index=2, delta={"type": "thinking_delta", "thinking": "hm"}))
    tap.feed(event("content_block_delta", index=2, delta={"type": "signature_delta", "signature": "long" * 100}))
    assert tap.state.output_chars == 10
    assert not tap.state.usage_final
    tap.feed(event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 42}))
    assert (tap.state.usage, tap.state.usage_final) == (Usage(10, 700, 30, 42), True)
    assert not tap.state.complete
    tap.feed(event("message_stop"))
    tap.end()
    assert tap.state.complete
    assert tap.state.error is None


def test_the_last_count_may_repeat_the_input() -> None:
    """Compatible servers know the input only at the end, and repeat zeros for what they don't know."""
    tap = tapped(start(input_tokens=0), event("message_delta", usage={"input_tokens": 12, "output_tokens": 3}))
    assert tap.state.usage == Usage(12, 0, 0, 3)
    tap.feed(event("message_delta", usage={"input_tokens": 0, "output_tokens": 4}))
    assert tap.state.usage == Usage(12, 0, 0, 4)


def test_compaction_is_counted() -> None:
    """Rounds of server-side compaction are charged beside the sums at the top."""
    rounds = [
        {"type": "compaction", "input_tokens": 1000, "output_tokens": 50},
        {"type": "message", "input_tokens": 20, "output_tokens": 5},
    ]
    tap = tapped(event("message_delta", usage={"input_tokens": 20, "output_tokens": 5, "iterations": rounds}))
    assert tap.state.usage == Usage(1020, 0, 0, 55)


@pytest.mark.parametrize(
    ("top", "iterations", "own", "others"),
    [
        # The sums at the top have the first iteration's input alone, and nothing of an advisor.
        (
            (412, 531),
            [("message", "", 412, 89), ("advisor_message", "opus", 823, 1612), ("message", "", 1348, 442)],
            (1760, 531),
            {"opus": (823, 1612)},
        ),
        # Two advisors, and a compaction, which is the model's own.
        (
            (10, 5),
            [
                *[("compaction", "", 1000, 50), ("message", "sonnet-20260101", 10, 5)],
                *[("advisor_message", "opus", 1, 2), ("advisor_message", "opus", 3, 4)],
            ],
            (1010, 55),
            {"opus": (4, 6)},
        ),
        # Another model gave the answer, whatever the top is about.
        ((40, 30), [("message", "sonnet", 20, 1), ("fallback_message", "haiku", 20, 29)], (20, 1), {"haiku": (20, 29)}),
        # Iterations that are missing are in the sums.
        ((100, 50), [("message", "", 10, 5)], (100, 50), {}),
    ],
)
def test_iterations_are_counted_by_model(
    top: tuple[int, int],
    iterations: list[tuple[str, str, int, int]],
    own: tuple[int, int],
    others: dict[str, tuple[int, int]],
) -> None:
    """What other models used in the course of an answer is theirs; the answer's own iterations are all counted."""
    rounds = [
        {"type": kind, "input_tokens": read, "output_tokens": wrote} | ({"model": model} if model else {})
        for kind, model, read, wrote in iterations
    ]
    usage = {"input_tokens": top[0], "output_tokens": top[1], "iterations": rounds}
    tap = WIRE.tap([], Facts("sonnet", stream=True, form=StreamForm.SSE))
    tap.feed(event("message_delta", usage=usage))
    tap.feed(event("message_delta", usage=usage))  # counts are cumulative
    state = tap.state
    assert state.usage is not None
    assert (state.usage.input_tokens, state.usage.output_tokens) == own
    assert {name: (each.input_tokens, each.output_tokens) for name, each in (state.used or {}).items()} == others


def test_an_empty_message_begins_with_its_end() -> None:
    """A message without any block isn't held for ever."""
    assert tapped(start(), event("message_delta", delta={})).state.content_started


def test_truncation_is_incomplete() -> None:
    """Without message_stop a clean end is no end."""
    tap = tapped(start(), BLOCK, TEXT, b"event: message_stop\ndata: {")
    tap.end()
    assert not tap.state.complete


def test_nameless_events_are_told_by_type() -> None:
    """Servers that leave the event line out are understood."""
    assert tapped(b'data: {"type":"content_block_stop"}\n\n').state.content_started


@pytest.mark.parametrize(
    ("kind", "expected"), [("overloaded_error", FailureKind.OVERLOADED), ("rate_limit_error", FailureKind.RATE_LIMITED)]
)
def test_error_events(kind: str, expected: FailureKind) -> None:
    """An error before any content leaves the stream unbegun, so that it can be tried again."""
    state = tapped(start(), event("error", error={"type": kind, "message": "m"})).state
    assert state.error is not None
    assert (state.error.kind, state.error.retryable, state.content_started) == (expected, True, False)


def test_unknown_events_change_nothing() -> None:
    """New event types, odd fields and broken data pass by."""
    state = tapped(event("future", x=1), b"event: message_start\ndata: [\n\n", event("message_start", message=5)).state
    assert (state.usage, state.content_started, state.error) == (None, False, None)


def test_whole_reply() -> None:
    """A reply without streaming is counted at its end."""
    tap = WIRE.tap([(b"content-type", b"application/json")], Facts())
    tap.feed(b'{"type": "message", "content": [], "usage": {"input_tokens": 5,')
    assert tap.state.content_started
    assert not tap.state.complete
    tap.feed(b' "output_tokens": 7}}')
    tap.end()
    assert (tap.state.usage, tap.state.usage_final, tap.state.complete) == (Usage(5, 0, 0, 7), True, True)


@pytest.mark.parametrize("count", ["1000000000000000000000000000000", "-7", '"many"', "1e30"])
@pytest.mark.parametrize("field", ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"])
def test_counts_that_cannot_be_meant(field: str, count: str) -> None:
    """They count as absent; the others stay."""
    body = f'{{"usage": {{"output_tokens": 5, "{field}": {count}}}}}'.encode()
    tap = WIRE.tap([(b"content-type", b"application/json")], Facts())
    tap.feed(body)
    tap.end()
    assert tap.state.usage == Usage(output_tokens=5)


COUNT = st.integers(0, 10**6)
ANY = st.one_of(COUNT, COUNT, COUNT, st.sampled_from([-1, 10**13, "7", 1.5, None, True]))
USAGES = st.fixed_dictionaries(
    {"input_tokens": COUNT, "output_tokens": COUNT, "cache_read_input_tokens": ANY},
    optional={
        "cache_creation_input_tokens": ANY,
        "cache_creation": st.sampled_from([{}, None, {"ephemeral_1h_input_tokens": 9}, {"x": ""}]),
        "service_tier": st.sampled_from(["standard", "priority", None, 5]),
        "speed": st.sampled_from(["fast", None]),
        "iterations": st.sampled_from([[], None, [{"type": "message", "output_tokens": 10**7}]]),
    },
)


@given(usage=USAGES, tier=st.sampled_from(["", "fast"]))
@example({"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 5}, "")
def test_the_usual_usage_is_read_as_any(usage: dict[str, object], tier: str) -> None:
    """A usage as it usually is, is decoded at once, and counts as when its members are read one by one."""
    body = json.dumps({"usage": usage}).encode()
    at_once, singly = AnthropicReader(), AnthropicReader()
    at_once.state.tier = singly.state.tier = tier
    at_once.whole(body)
    singly._count(_MESSAGE.read(body), body)
    assert at_once.state == singly.state


def test_refusal() -> None:
    """An error of our own looks like Anthropic's and says whether and when to come back."""
    headers, body = WIRE.refusal(503, "circuit_open", "upstream is failing", 7.2, TryAgain(20))
    assert dict(headers) == {
        b"content-type": b"application/json",
        b"x-should-retry": b"true",
        b"x-hivemind-refusal": b"circuit_open",
        b"retry-after": b"8",
    }
    assert json.loads(body) == {"type": "error", "error": {"type": "api_error", "message": "upstream is failing"}}
    _, body = WIRE.refusal(418, "odd", "m", None)
    assert json.loads(body)["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("status", "kind"), [(503, "api_error"), (429, "rate_limit_error"), (502, "api_error"), (404, "not_found_error")]
)
def test_stream_error(status: int, kind: str) -> None:
    """What may pass is never told as an overload, at the third of which Claude Code ends, in streams as in heads."""
    data = WIRE.stream_error(status, "r", "two\nlines")
    assert data.startswith(b"event: error\ndata: {")
    assert data.endswith(b"}\n\n")
    assert json.loads(data.split(b"data: ")[1]) == {"type": "error", "error": {"type": kind, "message": "two\nlines"}}


def test_failure_event() -> None:
    """The provider's own object goes on whole; only the type of what may pass changes."""
    limited = b'{"type":"error",\n "error":{"type":"rate_limit_error","message":"slow","details":null}}'
    told = WIRE.failure_event(Failure(FailureKind.RATE_LIMITED, True, 429), limited)
    assert told.count(b"\n") == 3
    error = json.loads(told.split(b"data: ")[1])["error"]
    assert error == {"type": "api_error", "message": "slow", "details": None}
    final = b'{"type":"error","error":{"type":"invalid_request_error","message":"too long"}}'
    told = WIRE.failure_event(Failure(FailureKind.CLIENT_ERROR, False, 400), final)
    assert json.loads(told.split(b"data: ")[1])["error"] == {"type": "invalid_request_error", "message": "too long"}
    told = WIRE.failure_event(Failure(FailureKind.SERVER_ERROR, True, 502, message="502"), b"<html>")
    error = json.loads(told.split(b"data: ")[1])["error"]
    assert error == {"type": "api_error", "message": "HiveMind: the upstream answered 502"}


def test_keepalive_is_no_event_of_ours() -> None:
    """Pings may be repeated before the stream and the tap takes them for nothing."""
    beat = WIRE.keepalive("claude-code")
    assert beat == b'event: ping\ndata: {"type": "ping"}\n\n'
    assert not tapped(beat * 3).state.content_started
    assert dict(WIRE.stream_headers())[b"content-type"].startswith(b"text/event-stream")
