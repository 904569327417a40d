"""What OpenAI's two APIs share: error bodies, rate-limit headers, and Azure's spelling of them.

Sources: platform.openai.com (Rate limits, Error codes), learn.microsoft.com (Azure OpenAI quotas and limits).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from hivemind_mock.provider.formats.base import Ask, Body, Headers, Problem, Trouble, go_duration
from hivemind_mock.provider.limits import Reading

AZURE = "azure"
"""Variant of a request that came by an Azure path."""

_ERRORS = {
    Trouble.RATE_LIMITED: (429, "requests", "rate_limit_exceeded"),
    Trouble.OVERLOADED: (503, "server_error", "server_is_overloaded"),
    Trouble.BAD_GATEWAY: (502, "server_error", None),
    Trouble.QUOTA: (429, "insufficient_quota", "insufficient_quota"),
    Trouble.BAD_REQUEST: (400, "invalid_request_error", None),
    Trouble.NOT_FOUND: (404, "invalid_request_error", "unknown_url"),
}
_DEPLOYMENT = re.compile(r"/openai/deployments/([^/]+)(/.+)")


def operation(path: str) -> tuple[str, str, str]:
    """Split a path into the operation (`/chat/completions`), the variant and, for a deployment, its name."""
    if match := _DEPLOYMENT.fullmatch(path):
        return match[2], AZURE, match[1]
    if path.startswith("/openai/v1/"):
        return path.removeprefix("/openai/v1"), AZURE, ""
    return path.removeprefix("/v1"), "", ""


def problem(problem: Problem) -> tuple[int, Headers, Body]:
    """Status, headers and body of an error."""
    status, _, _ = _ERRORS[problem.trouble]
    return status, problem.retry_after, {"error": error(problem)}


def error(problem: Problem) -> dict[str, object]:
    """The error object alone."""
    _, kind, code = _ERRORS[problem.trouble]
    return {"message": problem.message, "type": kind, "param": None, "code": code}


def headers(ask: Ask | None, ident: str, readings: Sequence[Reading]) -> Headers:
    """Rate-limit and request-id headers; only requests and tokens have any."""
    azure = ask is not None and ask.variant == AZURE
    found: Headers = [(b"apim-request-id" if azure else b"x-request-id", b"req_" + ident.lower().encode())]
    for reading in readings:
        if reading.kind in ("requests", "tokens"):
            reset = f"{math.ceil(reading.reset_s)}" if azure else go_duration(reading.reset_s)
            kind = reading.kind.encode()
            found += [
                (b"x-ratelimit-limit-" + kind, b"%d" % reading.limit),
                (b"x-ratelimit-remaining-" + kind, b"%d" % reading.remaining),
                (b"x-ratelimit-reset-" + kind, reset.encode()),
            ]
    return found
