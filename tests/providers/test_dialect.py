"""What all dialects do alike."""

from __future__ import annotations

import json

import pytest

from hivemind.providers.clients import UNKNOWN
from hivemind.providers.dialect import Dialect
from hivemind.providers.errors import classify
from hivemind.providers.paths import DIALECTS
from hivemind.scheduler.types import Failure, FailureKind

ALL = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))


@ALL
@pytest.mark.parametrize(
    ("status", "given", "hint"),
    [(503, 5.0, b"true"), (502, None, b"true"), (429, None, b"true"), (404, None, b"false"), (401, None, b"false")],
)
def test_refusals_say_whether_to_come_back(dialect: Dialect, status: int, given: float | None, hint: bytes) -> None:
    """Every refusal is JSON with the hint that official SDKs obey first, and is understood by our own reading of it."""
    headers, body = dialect.refusal(status, "reason", 'a "message"', given)
    assert dict(headers)[b"x-should-retry"] == hint
    assert dict(headers)[b"content-type"] == b"application/json"
    assert 'a "message"' in str(json.loads(body))
    failure = classify(status, headers, body, 0.0)
    assert failure is not None
    assert failure.retryable is (hint == b"true")
    assert failure.delay_s == (UNKNOWN.delay_s(given) if hint == b"true" else None)


@ALL
def test_errors_in_streams_hold_hostile_text(dialect: Dialect) -> None:
    """Line breaks in a message can't end an event early."""
    text = "one\r\n\r\ndata: two\n\n\u2028"
    failure = Failure(FailureKind.SERVER_ERROR, True, 500, message=text)
    for data in (dialect.stream_error(500, "r", text), dialect.failure_event(failure, b"")):
        assert b"data: two\n" not in data.replace(b"\\n", b"")
        assert data.rstrip(b"\n").count(b"\n") <= 1


@ALL
def test_keepalives_are_never_content(dialect: Dialect) -> None:
    """What is sent to keep a client waiting is read as nothing by a tap of the same dialect."""
    for client in ("", "claude-code", "codex", "gemini-cli", "ollama-sdk"):
        assert len(dialect.keepalive(client).strip().splitlines()) in (0, 2)
    headers = dict(dialect.stream_headers())
    assert headers[b"cache-control"] == b"no-cache"
