"""Error bodies of every provider."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hivemind.providers import json_fields
from hivemind.providers.errors import ErrorInfo, carries_error, read_error

GOOGLE = {
    "error": {
        "code": 429,
        "message": "Quota exceeded for metric: x, limit: 20",
        "status": "RESOURCE_EXHAUSTED",
        "details": [
            {
                "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                "violations": [{"quotaMetric": "free_tier_requests", "quotaId": "RequestsPerMinute"}],
            },
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"},
            {"@type": "x.ErrorInfo", "reason": "RATE_LIMIT_EXCEEDED", "metadata": {"quota_limit": "PerMinute"}},
        ],
    }
}

BODIES: dict[str, tuple[object, ErrorInfo]] = {
    "anthropic": (
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "r"},
        ErrorInfo(("overloaded_error",), "Overloaded"),
    ),
    "anthropic code": (
        {"type": "error", "error": {"type": "rate_limit_error", "details": {"error_code": "ramp_limit_exceeded"}}},
        ErrorInfo(("ramp_limit_exceeded", "rate_limit_error")),
    ),
    "openai": (
        {"error": {"message": "m", "type": "tokens", "param": None, "code": "rate_limit_exceeded"}},
        ErrorInfo(("rate_limit_exceeded", "tokens"), "m"),
    ),
    "azure": (
        {"error": {"code": "429", "message": "Please retry after 26 seconds."}},
        ErrorInfo((), "Please retry after 26 seconds.", 429),
    ),
    "openrouter": ({"error": {"code": 502, "message": "m"}}, ErrorInfo((), "m", 502)),
    "google": (
        GOOGLE,
        ErrorInfo(
            ("RATE_LIMIT_EXCEEDED", "RESOURCE_EXHAUSTED"),
            "Quota exceeded for metric: x, limit: 20",
            429,
            "RequestsPerMinute free_tier_requests PerMinute",
        ),
    ),
    "google array": ([{"error": {"code": 503, "status": "UNAVAILABLE"}}], ErrorInfo(("UNAVAILABLE",), status=503)),
    "ollama": ({"error": "server busy"}, ErrorInfo(message="server busy")),
    "event": (
        {"type": "error", "code": "server_error", "message": "m", "param": None},
        ErrorInfo(("server_error", "error"), "m"),
    ),
    "fastapi": ({"detail": {"message": "m", "code": "busy"}}, ErrorInfo(("busy",), "m")),
    "xai": ({"code": "exhausted", "error": "m"}, ErrorInfo(("exhausted",), "m")),
    "minimax": ({"base_resp": {"status_code": 1002, "status_msg": "m"}}, ErrorInfo(message="m")),
    "aws": ({"__type": "ThrottlingException", "message": "m"}, ErrorInfo(("ThrottlingException",), "m")),
    "another": ({"detail": "x"}, ErrorInfo(message="x")),
    "odd": ({"error": {"type": 5, "message": [5], "details": "y", "code": {}}}, ErrorInfo()),
}


@pytest.mark.parametrize("name", BODIES)
def test_envelopes(name: str) -> None:
    """Each provider's envelope gives its words, status and quotas."""
    body, expected = BODIES[name]
    assert read_error(json.dumps(body).encode()) == expected


def test_words_are_machine_words() -> None:
    """Text where a code is expected isn't taken for one, so that nothing of a request or a key can be shown."""
    assert read_error(b'{"error": {"type": "no such key: abc", "code": "' + b"x" * 200 + b'"}}').words == ()


@pytest.mark.parametrize("body", [b"", b"<html>502 Bad Gateway</html>", b"[]", b"null", b'"x"', b"\x00\xff"])
def test_no_envelope(body: bytes) -> None:
    """HTML and other bodies say nothing."""
    assert read_error(body) == ErrorInfo()
    assert not carries_error(body)


def test_carries_error() -> None:
    """Only a filled `error` field makes an error of a body."""
    assert carries_error(b'{"error": {"message": "x"}}')
    assert not carries_error(b'{"id": "resp_1", "error": null, "usage": {}}')


HOSTILE = {
    "details": b'{"error":{"details":[' + b"{}," * 340_000 + b"{}]}}",
    "violations": b'{"error":{"details":[{"violations":[' + b'{"quotaId":"perMinute"},' * 5000 + b"{}]}]}}",
    "errors": b"[" + b"{}," * 340_000 + b"{}]",
    "depth": b'{"error":' + b"[" * 900_000,
    "message": b'{"error":{"message":"' + b"try again in 1" * 70_000 + b'"}}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_error_is_read_in_part(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a megabyte that should be an error a bounded number of fields is read, and of a message its beginning."""
    fields = 0
    decode = json_fields.decoded

    def counting(reader: Any, data: Any) -> Any:
        nonlocal fields
        fields += 1
        return decode(reader, data)

    monkeypatch.setattr(json_fields, "decoded", counting)
    info = read_error(HOSTILE[name])
    assert fields < 2000
    assert len(info.message) <= 4096
    assert len(info.quotas) < 100_000
