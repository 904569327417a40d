"""Everything else."""

from __future__ import annotations

import json

import pytest

from hivemind.providers.base import Facts, StreamForm
from hivemind.providers.plain import Plain
from hivemind.providers.taps import end_through, feed_through
from hivemind.scheduler.types import Failure, FailureKind, Usage

WIRE = Plain()


JSON: list[tuple[bytes, bytes]] = [(b"content-type", b"application/json")]


def test_facts() -> None:
    """Model and limit are read where the body names them; nothing that reached the upstream is sent twice."""
    body = b'{"model": "m", "stream": true, "max_tokens_to_sample": 9}'
    expected = Facts(
        "m", size_chars=len(body), max_output_tokens=9, continues_state=True, unmetered=True, form=StreamForm.ANY
    )
    assert WIRE.facts("/v1/complete", "", [], body) == expected
    assert WIRE.facts("/v1/complete", "", JSON, body) == expected


@pytest.mark.parametrize("media", [b"multipart/form-data; boundary=x", b"audio/mpeg", b"application/octet-stream"])
def test_a_megabyte_of_sound_is_no_quarter_of_a_million_tokens(media: bytes) -> None:
    """What isn't text is estimated by other rules."""
    found = WIRE.facts("/v1/audio/transcriptions", "", [(b"content-type", media)], b"\0" * 1_000_000)
    assert (found.model, found.size_chars, found.unmetered) == ("", 4000, True)


@pytest.mark.parametrize("coding", [b"odd", b"identity"])
def test_bytes_flow_at_once(coding: bytes) -> None:
    """Nothing is held or judged."""
    tap = WIRE.tap([*JSON, (b"content-encoding", coding)], Facts(form=StreamForm.ANY))
    assert not tap.state.content_started
    tap.feed(b'{"error": "x"}')
    assert (tap.state.content_started, tap.state.complete) == (True, False)
    tap.end()
    assert (tap.state.complete, tap.state.error, tap.state.usage) == (True, None, None)


USAGE = {
    "openai": ({"usage": {"prompt_tokens": 7, "completion_tokens": 5}}, Usage(7, 0, 0, 5)),
    "images": ({"data": [], "usage": {"input_tokens": 50, "output_tokens": 4000}}, Usage(50, 0, 0, 4000)),
    "anthropic": (
        {
            "usage": {
                "input_tokens": 3,
                "cache_read_input_tokens": 20,
                "cache_creation_input_tokens": 4,
                "output_tokens": 2,
            }
        },
        Usage(3, 20, 4, 2),
    ),
    "cached": (
        {"usage": {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 8}}},
        Usage(1, 8, 0, 1),
    ),
    "in a response": ({"type": "x", "response": {"usage": {"input_tokens": 1, "output_tokens": 2}}}, Usage(1, 0, 0, 2)),
    "none": ({"created": 1}, None),
    "odd": ({"usage": "much"}, None),
}


@pytest.mark.parametrize(("reply", "usage"), USAGE.values(), ids=list(USAGE))
@pytest.mark.parametrize("stream", [False, True])
def test_usage_is_read_where_it_has_a_known_form(reply: dict[str, object], usage: Usage | None, stream: bool) -> None:
    """In a whole reply and in the events of a stream."""
    body = json.dumps(reply).encode()
    media = b"text/event-stream" if stream else b"application/json; charset=utf-8"
    tap = WIRE.tap([(b"content-type", media)], Facts(form=StreamForm.ANY))
    for data in (b"event: x\ndata: " + body + b"\n\ndata: [DONE]\n\n",) if stream else (body[:5], body[5:]):
        tap.feed(data)
    tap.end()
    assert (tap.state.usage, tap.state.complete) == (usage, True)


def test_errors_of_our_own() -> None:
    """In the envelope that most servers share; final unless they may pass."""
    headers, body = WIRE.refusal(404, "unknown_route", "m", None)
    assert dict(headers)[b"x-should-retry"] == b"false"
    assert json.loads(body)["error"]["code"] == "unknown_route"
    assert WIRE.stream_error(502, "upstream_unreachable", "m").startswith(b'data: {"error":')
    event = WIRE.failure_event(Failure(FailureKind.SERVER_ERROR, True, 503, message="503"), b"")
    assert json.loads(event.removeprefix(b"data: "))["error"]["message"] == "HiveMind: the upstream answered 503"
    assert WIRE.keepalive("") == b"\n"


CLAUDE = (
    b'event: message_start\ndata: {"type":"message_start","message":'
    b'{"usage":{"input_tokens":30,"output_tokens":1}}}\n\n',
    b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":"hi"}}\n\n',
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},'
    b'"usage":{"output_tokens":20}}\n\n',
)
CHAT = (
    b'data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n',
    b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop",'
    b'"usage":{"prompt_tokens":30,"completion_tokens":20}}]}\n\n',
)
RESPONSES = (
    b'event: response.created\ndata: {"type":"response.created","response":{}}\n\n',
    b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"hi"}\n\n',
    b'data: {"type":"response.completed","response":{"usage":{"input_tokens":30,"output_tokens":20}}}\n\n',
)


@pytest.mark.parametrize("events", [CLAUDE, CHAT, RESPONSES], ids=["anthropic", "chat", "responses"])
@pytest.mark.parametrize("label", [b"text/event-stream", b"application/json"])
def test_a_known_stream_on_an_unknown_path(events: tuple[bytes, ...], label: bytes) -> None:
    """Its events tell its dialect, so its usage is whole, and its end is told from a cut."""
    for whole in (True, False):
        tap = WIRE.tap([(b"content-type", label)], Facts(form=StreamForm.ANY))
        for event in events[: None if whole else -1]:
            feed_through(tap, event)
        end_through(tap)
        assert (tap.state.recognised, tap.state.complete) == (True, whole)
    tap = WIRE.tap([(b"content-type", label)], Facts(form=StreamForm.ANY))
    feed_through(tap, b": hello\n\n" + b"".join(events))
    end_through(tap)
    assert tap.state.usage == Usage(30, 0, 0, 20)
