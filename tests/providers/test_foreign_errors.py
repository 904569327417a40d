"""Errors of one dialect inside a stream of another, as gateways send them."""

from __future__ import annotations

import json

import pytest

from hivemind.providers.base import Facts, StreamForm
from hivemind.providers.paths import DIALECTS
from hivemind.providers.taps import end_through, feed_through
from hivemind.scheduler.types import FailureKind

ERRORS = {
    "openai": {"error": {"message": "Provider returned error", "code": 502}},
    "anthropic": {"type": "error", "error": {"type": "api_error", "message": "m"}},
    "with another type": {"type": "upstream", "error": {"message": "m"}},
    "responses": {"type": "error", "code": "server_error", "message": "m"},
    "failed": {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "m"}}},
    "google": {"error": {"code": 503, "status": "UNAVAILABLE", "message": "m"}},
    "ollama": {"error": "m"},
}


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("name", [name for name in DIALECTS if name not in ("plain", "stateless")])
def test_any_dialects_error_is_one(name: str, error: str) -> None:
    """It is booked as the provider's failure, not as a stream that broke off."""
    dialect = DIALECTS[name]
    data = json.dumps(ERRORS[error]).encode()
    sent = data + b"\n" if dialect.form is StreamForm.NDJSON else b"data: " + data + b"\n\n"
    tap = dialect.tap([], Facts(stream=True, form=dialect.form))
    feed_through(tap, sent)
    end_through(tap)
    failure = tap.state.error
    assert failure is not None
    assert failure.retryable
    assert failure.kind in (FailureKind.SERVER_ERROR, FailureKind.OVERLOADED)
