"""Errors of our own in OpenAI's format, which most compatible servers share."""

from __future__ import annotations

from collections.abc import Mapping

from hivemind.providers import json_fields
from hivemind.providers.dialect import RETRYABLE, encode
from hivemind.scheduler.types import Failure

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
}


def error_object(status: int, reason: str, message: str) -> dict[str, object]:
    """Return the object under `error`."""
    kind = _TYPES.get(status, "server_error" if status in RETRYABLE else "invalid_request_error")
    return {"message": message, "type": kind, "param": None, "code": reason}


def error_body(status: int, reason: str, message: str) -> bytes:
    """Return the complete answer."""
    return encode({"error": error_object(status, reason, message)})


def provider_error(failure: Failure, body: bytes) -> Mapping[str, object]:
    """Return the error object of an upstream's answer, or one made from the failure if the body has none."""
    envelope = json_fields.anything(body)
    if isinstance(envelope, list) and envelope:
        envelope = envelope[0]
    error = envelope.get("error") if isinstance(envelope, dict) else None
    if isinstance(error, dict):
        return error
    status = failure.status if failure.status is not None else 502
    return error_object(status, failure.kind.value, failure.message)
