"""Known dialects under other providers' paths, and in their envelopes."""

from __future__ import annotations

import json
from urllib.parse import unquote

import pytest
from proxy.wire import FRAMED_CLAUDE as CLAUDE
from proxy.wire import THROTTLED, framed, wrapped

from hivemind.providers.base import Facts, StreamForm, TapState
from hivemind.providers.dialect import Dialect
from hivemind.providers.frames import FrameSplitter, frame
from hivemind.providers.known import providers
from hivemind.providers.paths import DIALECTS, dialect_for, is_free
from hivemind.providers.profiles import family
from hivemind.providers.table import Path
from hivemind.providers.taps import FRAMES_TYPE, end_through, feed_through
from hivemind.scheduler.types import FailureKind, Usage

ROWS = [
    pytest.param(row, id=f"{provider.name}-{number}")
    for provider in providers()
    for number, row in enumerate(provider.paths)
]


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("end", ["", "/"])
def test_each_row(row: Path, end: str) -> None:
    """Its example is of its dialect and names the model, or is free."""
    assert is_free("POST", (row.example + end).encode(), b"{}") is not bool(row.dialect)
    if row.dialect:
        for path in (row.example, unquote(row.example)):
            dialect = dialect_for(path + end)
            assert dialect is DIALECTS[row.dialect]
            facts = dialect.facts(path, "", [], b'{"model":""}')
            assert (facts.model, facts.stream) == (row.model, row.stream is True)


def read(dialect: Dialect, facts: Facts, media: str, pieces: list[bytes]) -> TapState:
    tap = dialect.tap([(b"content-type", media.encode())], facts)
    for piece in pieces:
        feed_through(tap, piece)
    end_through(tap)
    return tap.state


CONVERSE = (
    framed("messageStart", role="assistant"),
    framed("contentBlockDelta", contentBlockIndex=0, delta={"text": "hello"}),
    framed("contentBlockStop", contentBlockIndex=0),
    framed("messageStop", stopReason="end_turn"),
    framed("metadata", usage={"inputTokens": 30, "outputTokens": 20, "totalTokens": 50}, metrics={"latencyMs": 1}),
)
NOVA = (
    wrapped(messageStart={"role": "assistant"}),
    wrapped(contentBlockDelta={"delta": {"text": "hello"}, "contentBlockIndex": 0}),
    wrapped(messageStop={"stopReason": "end_turn"}),
    wrapped(metadata={"usage": {"inputTokens": 30, "outputTokens": 20}}),
)
BEDROCK = DIALECTS["bedrock"]
STREAM = Facts(stream=True, form=StreamForm.FRAMES)


@pytest.mark.parametrize("frames", [CLAUDE, CONVERSE, NOVA], ids=["claude", "converse", "nova"])
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_frames(frames: tuple[bytes, ...], step: int) -> None:
    """A stream of Bedrock's is read however it is cut: its beginning, its usage and its end."""
    data = b"".join(frames)
    state = read(BEDROCK, STREAM, FRAMES_TYPE, [data[at : at + step] for at in range(0, len(data), step)])
    assert (state.complete, state.error, state.usage) == (True, None, Usage(30, 0, 0, 20))
    assert state.usage_final
    assert state.output_chars >= 5


@pytest.mark.parametrize("frames", [CLAUDE, CONVERSE], ids=["claude", "converse"])
def test_cut_frames(frames: tuple[bytes, ...]) -> None:
    """What ends before it says why is incomplete; nothing before the first content counts as begun."""
    assert not read(BEDROCK, STREAM, FRAMES_TYPE, [frames[0]]).content_started
    assert not read(BEDROCK, STREAM, FRAMES_TYPE, [*frames[:2], frames[2][:-3]]).complete
    decided = read(BEDROCK, STREAM, FRAMES_TYPE, list(frames[:-1]))
    assert decided.complete


def test_an_exception() -> None:
    """It is classified like the same answer with a status."""
    state = read(BEDROCK, STREAM, FRAMES_TYPE, [CLAUDE[0] + THROTTLED])
    assert state.error is not None
    assert (state.failed, state.error.kind, state.error.retryable) == (True, FailureKind.RATE_LIMITED, True)


def test_our_own_exception_is_read_as_one() -> None:
    """An error of ours in such a stream has the provider's form."""
    state = read(BEDROCK, STREAM, FRAMES_TYPE, [BEDROCK.stream_error(503, "draining", "HiveMind: draining")])
    assert state.failed
    (block,) = FrameSplitter().feed(BEDROCK.stream_error(503, "draining", "HiveMind: draining"))
    assert block.startswith(b"event: error\ndata: ")
    assert b"HiveMind: draining" in block


@pytest.mark.parametrize(
    ("data", "known"),
    [
        (
            "0000003d0000002007fd83960c636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e"
            "7b27666f6f273a27626172277d8d9c08b1",
            ({"content-type": "application/json"}, b"{'foo':'bar'}"),
        ),
        ("000000100000000005c248eb7d98c8ff", ({}, b"")),
    ],
)
def test_the_encoding_is_amazon_s(data: str, known: tuple[dict[str, str], bytes]) -> None:
    """Two of the frames by which Amazon's SDKs test theirs (awslabs/aws-c-event-stream, tests)."""
    assert frame(*known).hex() == data


@pytest.mark.parametrize("data", [b"\xff" * 64, b"\0" * 64, b"data: x\n\n" * 4, b"\0\0\0\x20\0\0\0\x10" + b"\xff" * 24])
def test_bytes_that_are_no_frames(data: bytes) -> None:
    """They end the reading, and nothing raises."""
    read(BEDROCK, STREAM, FRAMES_TYPE, [data, data])


def test_whole_answers_of_bedrock() -> None:
    """Claude's format and converse's state their usage, and long ones are no failures."""
    claude = {"type": "message", "content": [{"text": "a"}], "usage": {"input_tokens": 30, "output_tokens": 20}}
    converse = {"output": {"message": {"content": [{"text": "a"}]}}, "usage": {"inputTokens": 30, "outputTokens": 20}}
    for body in (claude, converse):
        state = read(BEDROCK, Facts(), "application/json", [json.dumps(body).encode()])
        assert (state.usage, state.error, state.complete) == (Usage(30, 0, 0, 20), None, True)


def test_code_assist() -> None:
    """Request and reply are wrapped, and the model stands in the body."""
    path = "/v1internal:streamGenerateContent"
    dialect = dialect_for(path)
    body = {"model": "gemini-2.5-pro", "project": "p", "request": {"generationConfig": {"maxOutputTokens": 9}}}
    facts = dialect.facts(path, "alt=sse", [], json.dumps(body).encode())
    assert (facts.model, facts.max_output_tokens, facts.stream) == ("gemini-2.5-pro", 9, True)
    candidate = {"content": {"parts": [{"text": "hello"}]}, "finishReason": "STOP"}
    reply = {
        "response": {"candidates": [candidate], "usageMetadata": {"promptTokenCount": 30, "candidatesTokenCount": 20}}
    }
    text = json.dumps(reply).encode()
    streamed = read(dialect, facts, "text/event-stream", [b"data: " + text + b"\r\n\r\n"])
    whole = read(dialect, Facts(), "application/json", [text])
    assert streamed.usage == whole.usage == Usage(30, 0, 0, 20)
    assert streamed.complete
    assert not dialect.facts("/v1internal:generateContent", "", [], json.dumps(body).encode()).stream


def test_a_stream_of_vertex() -> None:
    """Its request names the model in the path and the stream in the body."""
    path = "/v1/projects/p/locations/l/publishers/anthropic/models/claude-opus-4-5@20251101:streamRawPredict"
    facts = dialect_for(path).facts(path, "", [], b'{"anthropic_version":"vertex-2023-10-16","stream":true}')
    assert (facts.model, facts.stream, facts.form) == ("claude-opus-4-5@20251101", True, StreamForm.SSE)


@pytest.mark.parametrize(
    "model",
    [
        "us.anthropic.claude-haiku-4-5-20251001-v1:0",
        "anthropic.claude-haiku-4-5-20251001-v1:0",
        "arn:aws:bedrock:us-east-1:1:inference-profile/global.anthropic.claude-haiku-4-5-20251001-v1:0",
        "databricks-claude-haiku-4-5",
        "claude-haiku-4-5@20251001",
    ],
)
def test_a_model_s_family_is_the_maker_s(model: str) -> None:
    """However a gateway writes it."""
    assert family(model) == "claude-haiku-4-5"
