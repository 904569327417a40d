"""Promises that the taps of all dialects share."""

from __future__ import annotations

import gzip
import itertools
import json
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from hivemind.providers import tapping
from hivemind.providers.base import Facts, Headers, StreamForm, TapState
from hivemind.providers.detect import DIALECTS
from hivemind.scheduler.types import FailureKind, Usage

SSE_HEADERS: Headers = [(b"content-type", b"text/event-stream")]
WHOLE: Headers = [(b"content-type", b"application/json; charset=utf-8")]
ENCODINGS: dict[bytes, Callable[[bytes], bytes]] = {
    b"identity": bytes,
    b"gzip": gzip.compress,
    b"deflate": zlib.compress,
    b"br": brotli.compress,
    b"zstd": zstandard.compress,
    b"gzip, zstd": lambda data: zstandard.compress(gzip.compress(data)),
}


def named(*events: dict[str, object], end: str = "\n") -> bytes:
    lines = [f"event: {event['type']}{end}data: {json.dumps(event)}{end}{end}" for event in events]
    return "".join(lines).encode()


def datas(*events: object, end: str = "\n") -> bytes:
    return "".join(f"data: {e if isinstance(e, str) else json.dumps(e)}{end}{end}" for e in events).encode()


DELTA: dict[str, object] = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Grüße, 世界"}}
REPLIES: dict[str, tuple[str, Facts, Headers, bytes]] = {
    "anthropic": (
        "anthropic",
        Facts(stream=True, form=StreamForm.SSE),
        SSE_HEADERS,
        b": hello\n\n"
        + named(
            {"type": "message_start", "message": {"usage": {"input_tokens": 5, "cache_read_input_tokens": 9}}},
            {"type": "ping"},
            {"type": "content_block_start"},
            DELTA,
            {"type": "message_delta", "usage": {"output_tokens": 4}},
            {"type": "message_stop"},
        ),
    ),
    "anthropic error": (
        "anthropic",
        Facts(stream=True, form=StreamForm.SSE),
        SSE_HEADERS,
        named({"type": "message_start", "message": {}}, {"type": "error", "error": {"type": "overloaded_error"}}),
    ),
    "chat": (
        "openai_chat",
        Facts(stream=True, form=StreamForm.SSE),
        SSE_HEADERS,
        datas(
            {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
            {"choices": [{"delta": {"content": "Grüße"}}]},
            {"choices": [{"delta": {}, "finish_reason": "stop"}]},
            {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
            "[DONE]",
            end="\r\n",
        ),
    ),
    "responses": (
        "openai_responses",
        Facts(stream=True, form=StreamForm.SSE),
        SSE_HEADERS,
        named(
            {"type": "response.created", "response": {}},
            {"type": "response.output_text.delta", "delta": "Hi"},
            {"type": "response.completed", "response": {"usage": {"input_tokens": 8, "output_tokens": 1}}},
            end="\r",
        ),
    ),
    "google": (
        "google",
        Facts(stream=True, form=StreamForm.SSE),
        SSE_HEADERS,
        datas(
            {"candidates": [{"content": {"parts": [{"text": "Hi"}]}}], "usageMetadata": {"promptTokenCount": 2}},
            {"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"candidatesTokenCount": 1}},
            end="\r\n",
        ),
    ),
    "google array": (
        "google",
        Facts(form=StreamForm.JSON_ARRAY),
        WHOLE,
        json.dumps([{"candidates": [{"content": {"parts": [{"text": '}"\\'}]}, "finishReason": "STOP"}]}]).encode(),
    ),
    "ollama": (
        "ollama",
        Facts(stream=True, form=StreamForm.NDJSON),
        [(b"content-type", b"application/x-ndjson")],
        b'{"message":{"content":""}}\n{"message":{"content":"Hi"}}\n{"done":true,"eval_count":3}\n',
    ),
    "whole": ("anthropic", Facts(), WHOLE, b'{"usage": {"input_tokens": 1, "output_tokens": 2}}'),
    "whole error": ("openai_chat", Facts(), WHOLE, b'{"error": {"code": 503, "message": "m"}}'),
    "plain": ("plain", Facts(), WHOLE, b"anything"),
}


def read(name: str, encoding: bytes, cuts: list[int]) -> TapState:
    dialect, facts, headers, plain = REPLIES[name]
    data = ENCODINGS[encoding](plain)
    tap = DIALECTS[dialect].tap(200, [*headers, (b"content-encoding", encoding)], facts)
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in itertools.pairwise(places):
        tap.feed(data[start:end])
    tap.end()
    return tap.state


@pytest.mark.parametrize("name", REPLIES)
def test_samples_say_something(name: str) -> None:
    """Each sample reply is read to its end, or to its error."""
    state = read(name, b"identity", [])
    assert state.complete or state.error
    assert state.usage or state.error or name in ("plain", "google array")


@settings(derandomize=True, deadline=None, max_examples=250)
@given(
    st.sampled_from(sorted(REPLIES)), st.sampled_from(sorted(ENCODINGS)), st.lists(st.integers(0, 5000), max_size=30)
)
def test_neither_cuts_nor_encodings_matter(name: str, encoding: bytes, cuts: list[int]) -> None:
    """A reply read in any pieces and in any content encoding says the same as in one plain piece."""
    assert read(name, encoding, cuts) == read(name, b"identity", [])


@pytest.mark.parametrize("name", REPLIES)
def test_byte_by_byte(name: str) -> None:
    """The finest cuts say the same too."""
    assert read(name, b"identity", list(range(5000))) == read(name, b"identity", [])


WIRE = st.lists(
    st.sampled_from(
        [b"data: ", b"event: error\n", b"\n\n", b"{", b"}", b"[", b"]", b'"error":', b'"usage":{', b"1", b"\xff"]
    )
    | st.binary(max_size=8),
    max_size=20,
).map(b"".join)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    st.sampled_from(sorted(DIALECTS)), st.sampled_from([*ENCODINGS, b"odd"]), st.sampled_from(list(StreamForm)), WIRE
)
def test_garbage_never_raises(dialect: str, encoding: bytes, form: StreamForm, data: bytes) -> None:
    """Bytes that can't be read are ignored, and the reply still ends."""
    tap = DIALECTS[dialect].tap(200, [(b"content-encoding", encoding)], Facts(form=form))
    tap.feed(data[:7])
    tap.feed(data[7:])
    tap.end()


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "plain"])
def test_nothing_is_held_for_ever(dialect: str) -> None:
    """A long stream in which no content is recognised counts as begun."""
    tap = DIALECTS[dialect].tap(200, SSE_HEADERS, Facts(stream=True, form=StreamForm.SSE))
    tap.feed(b": nothing\n\n" * 10)
    assert not tap.state.content_started
    tap.feed(b": " + b"x" * tapping.MAX_PRELUDE)
    assert tap.state.content_started
    assert tap.state.error is None


def test_an_unknown_encoding_flows() -> None:
    """What can't be decoded is neither held nor called truncated: its framing is all that is known of it."""
    tap = DIALECTS["anthropic"].tap(200, [*SSE_HEADERS, (b"content-encoding", b"odd")], Facts(form=StreamForm.SSE))
    tap.feed(b"\x01\x02")
    assert tap.state.content_started
    tap.end()
    assert (tap.state.complete, tap.state.usage) == (True, None)


def test_broken_compression_flows() -> None:
    """A stream whose encoding breaks in the middle keeps what was read of it."""
    packed = gzip.compress(named({"type": "message_start", "message": {"usage": {"input_tokens": 5}}}))
    tap = DIALECTS["anthropic"].tap(200, [*SSE_HEADERS, (b"content-encoding", b"gzip")], Facts(form=StreamForm.SSE))
    tap.feed(packed[:-8])
    assert not tap.state.content_started
    tap.feed(b"\0" * 8)
    assert tap.state.content_started
    assert tap.state.usage == Usage(5)
    tap.end()
    assert tap.state.complete


@pytest.mark.parametrize(
    ("media", "expected", "form"),
    [
        (b"text/event-stream; charset=utf-8", StreamForm.WHOLE, StreamForm.SSE),
        (b"TEXT/EVENT-STREAM", StreamForm.SSE, StreamForm.SSE),
        (b"application/x-ndjson", StreamForm.WHOLE, StreamForm.NDJSON),
        (b"application/json", StreamForm.SSE, StreamForm.WHOLE),
        (b"application/json", StreamForm.JSON_ARRAY, StreamForm.JSON_ARRAY),
        (b"application/json", StreamForm.NDJSON, StreamForm.NDJSON),
        (b"text/plain", StreamForm.SSE, StreamForm.SSE),
        (b"", StreamForm.NDJSON, StreamForm.NDJSON),
        (b"text/plain", StreamForm.WHOLE, StreamForm.WHOLE),
        (b"text/html; charset=utf-8", StreamForm.SSE, StreamForm.WHOLE),
        (b"text/html", StreamForm.NDJSON, StreamForm.WHOLE),
        (b"application/problem+json", StreamForm.SSE, StreamForm.WHOLE),
        (b"text/html", StreamForm.JSON_ARRAY, StreamForm.JSON_ARRAY),
    ],
)
def test_the_content_type_has_the_last_word(media: bytes, expected: StreamForm, form: StreamForm) -> None:
    """A reply is read as what it says it is; where it says nothing, as what was asked for."""
    assert tapping.form_of([(b"content-type", media)], expected) is form


def test_an_error_under_status_200() -> None:
    """A whole reply that is an error is seen, whatever its status."""
    state = read("whole error", b"gzip", [])
    assert state.error is not None
    assert (state.error.kind, state.error.retryable) == (FailureKind.SERVER_ERROR, True)


def test_a_huge_whole_reply_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond its bound a whole reply isn't kept: it goes without usage rather than with the memory."""
    monkeypatch.setattr(tapping, "MAX_WHOLE", 20)
    state = read("whole", b"identity", [10, 20, 30])
    assert (state.usage, state.complete, state.error) == (None, True, None)


def test_an_empty_reply_is_complete() -> None:
    """A reply without a body has nothing to say and no fault."""
    tap = DIALECTS["openai_chat"].tap(200, WHOLE, Facts())
    tap.end()
    assert tap.state == TapState(complete=True)
