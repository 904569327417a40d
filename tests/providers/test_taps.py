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
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from hivemind.providers import taps as tapping
from hivemind.providers.base import Facts, Headers, StreamForm, TapState
from hivemind.providers.encoding import decoder_for
from hivemind.providers.openai import ChatReader
from hivemind.providers.paths import DIALECTS
from hivemind.providers.sse import SseSplitter
from hivemind.providers.taps import end_through, feed_through
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


SSE = Facts(stream=True, form=StreamForm.SSE), SSE_HEADERS
DELTA: dict[str, object] = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Grüße, 世界"}}
REPLIES: dict[str, tuple[str, Facts, Headers, bytes]] = {
    "anthropic": (
        "anthropic",
        *SSE,
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
        *SSE,
        named({"type": "message_start", "message": {}}, {"type": "error", "error": {"type": "overloaded_error"}}),
    ),
    "chat": (
        "openai_chat",
        *SSE,
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
        *SSE,
        named(
            {"type": "response.created", "response": {}},
            {"type": "response.output_text.delta", "delta": "Hi"},
            {"type": "response.completed", "response": {"usage": {"input_tokens": 8, "output_tokens": 1}}},
            end="\r",
        ),
    ),
    "google": (
        "google",
        *SSE,
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
    tap = DIALECTS[dialect].tap([*headers, (b"content-encoding", encoding)], facts)
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in itertools.pairwise(places):
        feed_through(tap, data[start:end])
    end_through(tap)
    return tap.state


@pytest.mark.parametrize("name", REPLIES)
def test_samples_say_something(name: str) -> None:
    """Each sample reply is read to its end, or to its error."""
    state = read(name, b"identity", [])
    assert state.complete or state.error
    assert state.usage or state.error or name in ("plain", "google array")


@settings(derandomize=True, deadline=None, max_examples=examples(250))
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


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name not in ("plain", "stateless")])
def test_nothing_is_held_for_ever(dialect: str) -> None:
    """A long stream in which no content is recognised counts as begun."""
    tap = DIALECTS[dialect].tap(SSE_HEADERS, Facts(stream=True, form=StreamForm.SSE))
    feed_through(tap, b": nothing\n\n" * 10)
    assert not tap.state.content_started
    feed_through(tap, b": " + b"x" * tapping.MAX_PRELUDE)
    assert tap.state.content_started
    assert tap.state.error is None


def test_an_unknown_encoding_flows() -> None:
    """What can't be decoded is neither held nor called truncated: its framing is all that is known of it."""
    tap = DIALECTS["anthropic"].tap([*SSE_HEADERS, (b"content-encoding", b"odd")], Facts(form=StreamForm.SSE))
    feed_through(tap, b"\x01\x02")
    assert tap.state.content_started
    end_through(tap)
    assert (tap.state.complete, tap.state.usage) == (True, None)
    assert tap.state.gave_up == "the content encoding isn't one of gzip, deflate, br and zstd"


def test_broken_compression_flows() -> None:
    """A stream whose encoding breaks in the middle keeps what was read of it."""
    packed = gzip.compress(named({"type": "message_start", "message": {"usage": {"input_tokens": 5}}}))
    tap = DIALECTS["anthropic"].tap([*SSE_HEADERS, (b"content-encoding", b"gzip")], Facts(form=StreamForm.SSE))
    feed_through(tap, packed[:-8])
    assert not tap.state.content_started
    feed_through(tap, b"\0" * 8)
    assert tap.state.content_started
    assert tap.state.usage == Usage(5)
    end_through(tap)
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


@pytest.mark.parametrize("encoding", [b"identity", b"gzip, zstd"])
def test_a_long_whole_reply_isnt_kept(encoding: bytes) -> None:
    """Of megabytes that a picture takes nothing is kept, and its usage is read all the same."""
    picture = b'{"data":[{"b64_json":"' + b"QUJD" * 1_000_000 + b'"}],'
    plain = picture + b'"usage":{"prompt_tokens":3,"completion_tokens":4}}'
    tap = DIALECTS["openai_chat"].tap([*WHOLE, (b"content-encoding", encoding)], Facts())
    data = ENCODINGS[encoding](plain)
    for at in range(0, len(data), 200_000):
        feed_through(tap, data[at : at + 200_000])
        assert isinstance(tap, tapping.UnsureTap)
        assert isinstance(tap._inner, tapping.WholeTap)
        assert len(b"".join(tap._inner._parts)) <= tapping.SHORT_WHOLE
    end_through(tap)
    assert tap.state == TapState(Usage(3, 0, 0, 4), True, True, complete=True)


def test_a_long_error_under_status_200() -> None:
    """It is seen in a long reply too."""
    tap = DIALECTS["openai_chat"].tap(WHOLE, Facts())
    feed_through(tap, b'{"echo":"' + b"x" * tapping.SHORT_WHOLE + b'","error":{"code":503}}')
    end_through(tap)
    assert tap.state.error is not None


def test_a_long_event_is_read_as_its_outline() -> None:
    """A closing event with a picture in it, megabytes long, still says what was used, in each form."""
    picture = "QUJD" * 1_000_000
    done: dict[str, object] = {
        "type": "response.completed",
        "response": {"output": [{"result": picture}], "usage": {"output_tokens": 7}},
    }
    tap = DIALECTS["openai_responses"].tap(SSE_HEADERS, Facts(stream=True, form=StreamForm.SSE))
    feed_through(tap, named(done))
    assert tap.state.complete
    assert tap.state.usage == Usage(output_tokens=7)
    chunk = {
        "candidates": [{"content": {"parts": [{"inlineData": {"data": picture}}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 2},
    }
    for form, data in ((StreamForm.SSE, datas(chunk)), (StreamForm.JSON_ARRAY, json.dumps([chunk]).encode())):
        tap = DIALECTS["google"].tap([], Facts(form=form))
        feed_through(tap, data)
        assert (tap.state.complete, tap.state.usage) == (True, Usage(2))


HOSTILE: dict[str, tuple[bytes, bytes, int]] = {
    "comments": (b"", b":\n\n", 1_000_000),
    "comments of two lines": (b"", b":\n:\n\n", 300_000),
    "carriage returns": (b"", b":\r\r", 1_000_000),
    "events": (b"", b"data:{}\n\n", 200_000),
    "an event of lines": (b"", b"data:\n", 1_000_000),
    "an event of choices": (b'data: {"choices":[', b"{},", 1_000_000),
    "brackets": (b"data: ", b"[{", 1_000_000),
}


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        pytest.param(name, encoding, marks=() if encoding in quick else pytest.mark.slow)
        for name in HOSTILE
        for quick in [[b"identity", b"gzip, zstd"] if name in ("comments", "an event of lines") else [b"identity"]]
        for encoding in ENCODINGS
    ],
)
def test_no_step_is_long(name: str, encoding: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever an upstream sends, between two steps a bounded number of bytes is split and of records is read."""
    start, unit, size = HOSTILE[name]
    reads = splits = most_reads = most_splits = 0
    split, read_one = SseSplitter.feed, ChatReader.record

    def counting_split(self: SseSplitter, data: bytes) -> list[bytes]:
        nonlocal splits
        splits += len(data)
        return split(self, data)

    def counting_read(self: ChatReader, record: bytes) -> None:
        nonlocal reads
        assert len(record) <= tapping.LONG_RECORD
        reads += 1
        read_one(self, record)

    monkeypatch.setattr(SseSplitter, "feed", counting_split)
    monkeypatch.setattr(ChatReader, "record", counting_read)
    headers = [*SSE_HEADERS, (b"content-encoding", encoding)]
    tap = DIALECTS["openai_chat"].tap(headers, Facts(form=StreamForm.SSE))
    for steps in (tap.feed(ENCODINGS[encoding](start + unit * (size // len(unit)))), tap.end()):
        for _ in steps or ():
            most_reads, most_splits = max(most_reads, reads), max(most_splits, splits)
            reads = splits = 0
    assert 0 < most_splits <= 2 * SseSplitter().slice_bytes
    assert most_reads <= tapping.STEP_RECORDS
    assert not tap.state.gave_up


def test_a_stream_of_events_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It flows, unread, from some number of events on."""
    monkeypatch.setattr(tapping, "MOST_RECORDS", 5000)
    tap = DIALECTS["openai_chat"].tap(SSE_HEADERS, Facts(form=StreamForm.SSE))
    feed_through(tap, b"data:{}\n\n" * 4000)
    assert not tap.state.gave_up
    feed_through(tap, b"data:{}\n\n" * 4000)
    feed_through(tap, datas({"choices": [{"delta": {"content": "hello"}}]}))
    end_through(tap)
    assert (tap.state.gave_up, tap.state.complete) == ("the stream has too many events", True)
    assert (tap.state.content_started, tap.state.output_chars) == (True, 0)


def test_a_whole_reply_of_sound() -> None:
    """Megabytes that aren't JSON have no usage, and that is nothing to speak of."""
    tap = DIALECTS["openai_chat"].tap([], Facts())
    feed_through(tap, b"ID3" + bytes(tapping.SHORT_WHOLE))
    feed_through(tap, b"more")
    end_through(tap)
    assert tap.state == TapState(content_started=True, complete=True)


def test_a_bomb_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply that unpacks without end is looked at no further: it flows, ends as it ends, and says why."""
    monkeypatch.setattr(tapping, "decoder_for", lambda headers: decoder_for(headers, 3 << 20))
    bomb = gzip.compress(b'{"a":"' + bytes(4 << 20))
    for form in (StreamForm.SSE, StreamForm.WHOLE):
        tap = DIALECTS["anthropic"].tap([(b"content-encoding", b"gzip")], Facts(form=form))
        feed_through(tap, bomb)
        feed_through(tap, b"more")
        end_through(tap)
        assert (tap.state.gave_up, tap.state.complete) == ("the body unpacks to more than 3 MiB", True)
        assert tap.state.content_started


def test_an_empty_reply_is_complete() -> None:
    """A reply without a body has nothing to say and no fault."""
    tap = DIALECTS["openai_chat"].tap(WHOLE, Facts())
    end_through(tap)
    assert tap.state == TapState(complete=True)


@pytest.mark.parametrize("encoding", [b"identity", b"gzip"])
@pytest.mark.parametrize("first", [b"", b"\n\n", b"\xef\xbb\xbf", b": hello\n\n", b"event: message\n", b"id: 1\n"])
@pytest.mark.parametrize("step", [1, 3, 4000])
@pytest.mark.parametrize("stream", [True, False])
def test_an_event_stream_under_a_label_of_json(first: bytes, step: int, encoding: bytes, stream: bool) -> None:
    """Its first bytes tell what it is, however they are cut, and it is read as one."""
    form = StreamForm.SSE if stream else StreamForm.WHOLE
    tap = DIALECTS["openai_chat"].tap([*WHOLE, (b"content-encoding", encoding)], Facts(stream=stream, form=form))
    data = first + b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n'
    data += b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\ndata: [DONE]\n\n'
    data = gzip.compress(data) if encoding == b"gzip" else data
    for at in range(0, len(data), step):
        feed_through(tap, data[at : at + step])
    end_through(tap)
    assert (tap.state.streamed, tap.state.complete, tap.state.usage) == (True, True, Usage(3, 0, 0, 4))


@pytest.mark.parametrize("body", [b" {}", b"\n[1]", b"true", b"error", b"e", b'"data: x"', b"12:30"])
def test_a_document_is_no_event_stream(body: bytes) -> None:
    """Nor is a word that begins like the name of a field."""
    tap = DIALECTS["openai_chat"].tap(WHOLE, Facts())
    for at in range(len(body)):
        feed_through(tap, body[at : at + 1])
    end_through(tap)
    assert (tap.state.streamed, tap.state.complete, tap.state.error) == (False, True, None)
