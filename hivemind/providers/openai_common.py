"""What OpenAI's APIs share: usage and errors, as most compatible servers have them too.

Cached tokens are part of the input, reasoning is part of the output.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw, Struct

from hivemind.providers import json_fields
from hivemind.providers.dialect import RETRYABLE, encode
from hivemind.scheduler.types import Failure, Usage

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
}


class _Details(Struct):
    cached_tokens: Raw = Raw()
    cache_write_tokens: Raw = Raw()


class _Usage(Struct):
    prompt_tokens: Raw = Raw()
    completion_tokens: Raw = Raw()
    prompt_tokens_details: Raw = Raw()
    input_tokens: Raw = Raw()
    output_tokens: Raw = Raw()
    input_tokens_details: Raw = Raw()


_usage = json_fields.decoder(_Usage)
_details = json_fields.decoder(_Details)


def openai_usage(raw: Raw) -> Usage | None:
    """Read a `usage` object of chat completions (`prompt_tokens` …) or of responses (`input_tokens` …)."""
    found = json_fields.read(_usage, raw)
    if found is None:
        return None
    prompt = _either(found.prompt_tokens, found.input_tokens)
    output = _either(found.completion_tokens, found.output_tokens)
    if prompt is None and output is None:
        return None
    filled = json_fields.filled(found.prompt_tokens_details)
    details = json_fields.read(_details, found.prompt_tokens_details if filled else found.input_tokens_details)
    total = prompt or 0
    cached = min(total, json_fields.count(details.cached_tokens) or 0) if details else 0
    written = min(total - cached, json_fields.count(details.cache_write_tokens) or 0) if details else 0
    return Usage(total - cached - written, cached, written, output or 0)


def _either(first: Raw, second: Raw) -> int | None:
    value = json_fields.count(first)
    return json_fields.count(second) if value is None else value


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
