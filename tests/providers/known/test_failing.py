"""Failures that come with status 200: the recorded ones, and others that no row has."""

from __future__ import annotations

import pytest

from hivemind.providers.base import Facts, Headers, StreamForm, TapState
from hivemind.providers.failing import failure_in_reply
from hivemind.providers.known import providers
from hivemind.providers.paths import DIALECTS
from hivemind.providers.table import Failing
from hivemind.providers.taps import end_through, feed_through
from hivemind.scheduler.types import FailureKind

ROWS = [
    pytest.param(row, id=f"{provider.name}-{number}")
    for provider in providers()
    for number, row in enumerate(provider.failing)
]
ROLE = b'data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
HELLO = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
LINE = b"\n\n"
SSE: Headers = [(b"content-type", b"text/event-stream")]
JSON: Headers = [(b"content-type", b"application/json")]


def tapped(pieces: list[bytes], dialect: str = "openai_chat", *, stream: bool = True) -> TapState:
    """What a tap makes of a reply that comes in these pieces."""
    form = StreamForm.SSE if stream else StreamForm.WHOLE
    tap = DIALECTS[dialect].tap(SSE if stream else JSON, Facts(stream=stream, form=form))
    for piece in pieces:
        feed_through(tap, piece)
    end_through(tap)
    return tap.state


def thirds(data: bytes) -> list[bytes]:
    """One event in three reads."""
    return [data[: len(data) // 3], data[len(data) // 3 : -1], data[-1:]]


@pytest.mark.parametrize("row", ROWS)
def test_each_row(row: Failing) -> None:
    """It fails before any content, in one read with what is around it, or in three; after content it is noted."""
    example = row.example.encode()
    if not row.stream:
        states = [tapped([example], stream=False), tapped(thirds(example), stream=False)]
    else:
        block = example + LINE
        states = [tapped([ROLE + block + DONE]), tapped([ROLE, *thirds(block), DONE])]
        late = tapped([ROLE, HELLO + block + DONE])
        assert late.error is not None
        assert not late.failed
        assert all(state.failed for state in states)
    for state in states:
        if not example.strip():
            assert not state.complete
        else:
            assert state.error is not None
            assert state.error.status == row.status


UNSEEN = {
    "a flat code": b'{"error_code":18,"error_msg":"Open api qps request limit reached"}',
    "a code and words": b'{"code":10013,"message":"busy, try later","sid":"x"}',
    "a header of its own": b'{"header":{"code":11200,"message":"license exhausted","sid":"x"}}',
    "a wrapper": b'{"Response":{"Error":{"Code":"FailedOperation","Message":"engine"},"RequestId":"r"}}',
    "a list of errors": b'{"result":null,"success":false,"errors":[{"code":7003,"message":"no route"}]}',
    "words alone": b'{"message":"Internal server error"}',
    "a type": b'{"__type":"com.amazon.coral.service#InternalFailure"}',
    "a type in a wrapper": b'{"Output":{"__type":"coral#UnknownOperationException"},"Version":"1.0"}',
    "a status": b'{"status":"failed","reason":"x"}',
    "an exception": b'{"type":"exception","text":"x"}',
    "a detail": b'{"detail":"Upstream provider unavailable"}',
}
GOOD = {
    "a message": b'{"id":"m","type":"message","content":[],"usage":{"input_tokens":3,"output_tokens":0}}',
    "a batch": b'{"id":"b","type":"message_batch","processing_status":"in_progress","request_counts":{"errored":0}}',
    "a response that is queued": b'{"id":"r","status":"queued","error":null,"output":[],"metadata":{"code":"5"}}',
    "a success with a status": b'{"code":0,"message":"Success","sid":"x"}',
    "no error": b'{"error":false,"message":{"content":"hi"}}',
    "an answer about errors": b'{"choices":[{"message":{"content":"the error"},"finish_reason":"stop"}]}',
    "an operation": b'{"name":"operations/1","metadata":{"state":"PENDING"}}',
    "nothing of note": b"{}",
    "no object": b"[1]",
}


@pytest.mark.parametrize("body", UNSEEN.values(), ids=list(UNSEEN))
@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic", "openai_responses", "google", "ollama"])
def test_forms_in_no_row(body: bytes, dialect: str) -> None:
    """What has nothing of an answer and says that it failed is a failure, whole or as an event, in every dialect."""
    assert tapped([body], dialect, stream=False).error is not None
    assert tapped([b"data: " + body + LINE], dialect).failed or dialect == "ollama"


@pytest.mark.parametrize("body", GOOD.values(), ids=list(GOOD))
def test_what_is_no_failure(body: bytes) -> None:
    """An answer isn't one, however little it says."""
    assert failure_in_reply(body) is None


@pytest.mark.parametrize(
    ("pieces", "failed"),
    [
        ([DONE], True),
        ([ROLE + DONE], True),
        ([b": hello\n\n", b'data: {"choices":[]}\n\n', DONE], True),
        ([ROLE, HELLO, DONE], False),
        ([b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n', DONE], False),
        ([b'data: {"choices":[{"delta":{},"finish_reason":"content_filter"}]}\n\n', DONE], False),
        ([b'data: {"choices":[],"prompt_filter_results":[{"index":0}]}\n\n', HELLO, DONE], False),
    ],
)
def test_streams_with_nothing_in_them(pieces: list[bytes], failed: bool) -> None:
    """An end without content or a reason to end isn't an answer."""
    for state in (tapped(pieces), tapped([b"".join(pieces)])):
        assert state.failed is failed
        assert state.complete is not failed


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("rate limit exceeded(RPM)", FailureKind.RATE_LIMITED),
        ("server is busy", FailureKind.OVERLOADED),
        ("invalid params", FailureKind.CLIENT_ERROR),
        ("model stream timed out", FailureKind.TIMEOUT),
        ("boom", FailureKind.SERVER_ERROR),
    ],
)
def test_words_tell_the_status(text: str, kind: FailureKind) -> None:
    """Where no status stands in it, the words decide whether it is tried again."""
    state = tapped([b'{"code":7,"msg":"%b"}' % text.encode()], stream=False)
    assert state.error is not None
    assert state.error.kind is kind
