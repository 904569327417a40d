"""Ollama's own API."""

from __future__ import annotations

import json

import pytest
from providers.fed import fed

from hivemind.providers.base import Facts, StreamForm, Tap
from hivemind.providers.ollama import Ollama
from hivemind.scheduler.types import Failure, FailureKind, Usage

WIRE = Ollama()


def line(**fields: object) -> bytes:
    return json.dumps({"model": "llama3.2", **fields}).encode() + b"\n"


def tapped(*lines: bytes) -> Tap:
    facts = Facts(stream=True, form=StreamForm.NDJSON)
    return fed(WIRE.tap([(b"content-type", b"application/x-ndjson")], facts), lines)


def facts(path: str, **body: object) -> Facts:
    return WIRE.facts(path, "", [], json.dumps(body).encode())


@pytest.mark.parametrize(
    ("path", "body", "stream"),
    [
        ("/api/chat", {}, True),
        ("/api/generate", {"stream": True}, True),
        ("/api/chat", {"stream": False}, False),
        ("/api/embed", {}, False),
    ],
)
def test_it_streams_unless_told_otherwise(path: str, body: dict[str, object], stream: bool) -> None:
    """Chat and generate stream by default; embeddings never do."""
    found = WIRE.facts(path, "", [], json.dumps({"model": "m", **body}).encode())
    assert (found.model, found.stream) == ("m", stream)
    assert found.form is (StreamForm.NDJSON if stream else StreamForm.WHOLE)


@pytest.mark.parametrize(("options", "most"), [({"num_predict": 50}, 50), ({"num_predict": -1}, None), (None, None)])
def test_output_limit(options: object, most: int | None) -> None:
    """num_predict; negative means no limit."""
    assert facts("/api/chat", options=options).max_output_tokens == most


def test_a_whole_stream() -> None:
    """An empty first object is prelude; the object with `done` counts."""
    tap = tapped(line(message={"role": "assistant", "content": ""}, done=False))
    assert not tap.state.content_started
    tap.feed(line(message={"content": "Hello"}, done=False))
    assert (tap.state.content_started, tap.state.output_chars) == (True, 5)
    tap.feed(line(message={"content": ""}, done=True, prompt_eval_count=26, eval_count=298))
    assert (tap.state.usage, tap.state.usage_final, tap.state.complete) == (Usage(26, 0, 0, 298), True, True)


@pytest.mark.parametrize(
    "fields",
    [{"response": "x"}, {"message": {"thinking": "x"}}, {"message": {"tool_calls": [{"f": 1}]}}, {"thinking": "x"}],
)
def test_what_counts_as_content(fields: dict[str, object]) -> None:
    """Text, thinking and tool calls of both endpoints."""
    data = json.dumps({**fields, "done": False}).encode() + b"\n"
    assert tapped(data).state.content_started


def test_counts_are_optional() -> None:
    """A cached prompt isn't counted by Ollama, and a reply without counts has no usage."""
    assert tapped(line(done=True, eval_count=3)).state.usage == Usage(0, 0, 0, 3)
    state = tapped(line(done=True)).state
    assert (state.usage, state.usage_final, state.complete) == (None, False, True)


def test_errors_and_ends() -> None:
    """An error line after a 200; a stream without `done` was cut; a last line may lack its newline."""
    state = tapped(line(error="an error was encountered while running the model")).state
    assert state.error is not None
    assert (state.error.kind, state.content_started) == (FailureKind.SERVER_ERROR, False)
    tap = tapped(line(response="x"))
    tap.end()
    assert not tap.state.complete
    tap = tapped(line(done=True).rstrip())
    tap.end()
    assert tap.state.complete


def test_whole_replies() -> None:
    """Replies without streaming and embeddings."""
    tap = WIRE.tap([(b"content-type", b"application/json")], Facts())
    tap.feed(line(message={"content": "x"}, done=True, prompt_eval_count=4, eval_count=1))
    tap.end()
    assert (tap.state.usage, tap.state.complete) == (Usage(4, 0, 0, 1), True)


def test_errors_of_our_own() -> None:
    """An object with the text under `error`, and the same as a line."""
    _, body = WIRE.refusal(503, "queue_full", "m", 3.0)
    assert json.loads(body) == {"error": "m"}
    assert WIRE.stream_error(503, "queue_full", "m") == b'{"error":"m"}\n'


def test_failure_event_keeps_the_text() -> None:
    """What Ollama said goes on."""
    failure = Failure(FailureKind.OVERLOADED, True, 503, message="503")
    assert WIRE.failure_event(failure, b'{"error": "server busy"}') == b'{"error":"server busy"}\n'
    assert WIRE.failure_event(failure, b"<html>") == b'{"error":"HiveMind: the upstream answered 503"}\n'


def test_keepalive_is_never_a_line() -> None:
    """Ollama's Python client parses every line, so what keeps the stream alive stands before the next object."""
    beat = WIRE.keepalive("ollama-sdk")
    stream = beat * 3 + line(response="x", done=False)
    assert [json.loads(part)["response"] for part in stream.splitlines()] == ["x"]
    assert tapped(stream).state.output_chars == 1
    assert dict(WIRE.stream_headers())[b"content-type"] == b"application/x-ndjson"
