"""Everything else."""

from __future__ import annotations

import json

from hivemind.providers.base import Facts
from hivemind.providers.plain import Plain
from hivemind.scheduler.types import Failure, FailureKind

WIRE = Plain()


def test_nothing_is_generated() -> None:
    """An unknown path takes no slot, whatever it carries."""
    assert WIRE.facts("/v1/files", "", [], b'{"model": "m", "stream": true}') == Facts(size_chars=30, inference=False)


def test_bytes_flow_at_once() -> None:
    """Nothing is held, counted or judged."""
    tap = WIRE.tap(200, [(b"content-type", b"application/json"), (b"content-encoding", b"odd")], Facts())
    assert not tap.state.content_started
    tap.feed(b'{"error": "x"}')
    assert (tap.state.content_started, tap.state.complete) == (True, False)
    tap.end()
    assert (tap.state.complete, tap.state.error, tap.state.usage) == (True, None, None)


def test_errors_of_our_own() -> None:
    """In the envelope that most servers share; final unless they may pass."""
    headers, body = WIRE.refusal(404, "unknown_route", "m", None)
    assert dict(headers)[b"x-should-retry"] == b"false"
    assert json.loads(body)["error"]["code"] == "unknown_route"
    assert WIRE.stream_error(502, "upstream_unreachable", "m").startswith(b'data: {"error":')
    event = WIRE.failure_event(Failure(FailureKind.CONNECT, True, message="refused"), b"")
    assert json.loads(event.removeprefix(b"data: "))["error"]["message"] == "refused"
    assert WIRE.keepalive("") == b"\n"
