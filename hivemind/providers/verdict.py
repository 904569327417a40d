"""Classification of failed answers: the kind of failure, and whether a retry can help and is safe. One function
for all providers, by status, codes of the error object and headers.
"""

from __future__ import annotations

import re

from hivemind.providers.base import Headers
from hivemind.providers.encoding import decode_body, header
from hivemind.providers.errors import MAX_ERROR_BODY, ErrorInfo, read_error
from hivemind.providers.times import header_delay
from hivemind.scheduler.types import Failure, FailureKind

LONGEST_RETRY_S = 300.0
"""A delay in Google's error body beyond this means that a long quota is used up (Gemini CLI's own rule)."""

QUOTA_WORDS = frozenset(
    {
        "enforced_spend_limit_reached",
        "contract_spend_limit_reached",
        "billing_error",
        "insufficient_quota",
        "credit_balance_exhausted",
        "organization_spend_limit_exceeded",
        "project_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
        "billing_hard_limit_reached",
        "usage_limit_reached",
    }
)
_QUOTA_TEXT = re.compile(r"you have reached your specified|credit balance is too low|\blimit:\s*0(?![\d.])", re.I)
_LONG_QUOTA = re.compile(r"per_?day|daily", re.I)
_FULL_WORDS = frozenset({"overloaded_error", "server_is_overloaded", "slow_down", "unavailable", "engine_overloaded"})
_FULL_TEXT = re.compile(r"overloaded|server busy|maximum pending requests|at capacity|no capacity", re.I)
_RETRYABLE_5XX = frozenset({500, 502, 503, 504, 520, 521, 522, 523, 524, 525, 526, 529})
_TIMEOUTS = frozenset({504, 524})

WORD_STATUS = {
    "invalid_request_error": 400,
    "invalid_argument": 400,
    "failed_precondition": 400,
    "context_length_exceeded": 400,
    "content_filter": 400,
    "authentication_error": 401,
    "unauthenticated": 401,
    "billing_error": 402,
    "permission_error": 403,
    "permission_denied": 403,
    "not_found_error": 404,
    "not_found": 404,
    "previous_response_not_found": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "too_many_requests": 429,
    "ramp_limit_exceeded": 429,
    "resource_exhausted": 429,
    "api_error": 500,
    "server_error": 500,
    "internal": 500,
    "internal_server_error": 500,
    "unavailable": 503,
    "server_is_overloaded": 503,
    "slow_down": 503,
    "timeout_error": 504,
    "deadline_exceeded": 504,
    "overloaded_error": 529,
}
"""The status that goes with an error code, for errors inside a stream."""
_FAULT_OF_REQUEST = re.compile(r"invalid|image|unsupported|content_policy|too_large|too_long|not_found", re.I)


def classify(status: int, headers: Headers, body: bytes, now_wall_s: float) -> Failure | None:
    """Classify an answer by its status, headers and (still encoded) body; None below 400. Never raises."""
    if status < 400:
        return None
    info = read_error(decode_body(headers, body, MAX_ERROR_BODY))
    stated = header_delay(headers, now_wall_s)
    hint = header(headers, b"x-should-retry").lower()
    return judge(status, info, delay_s=stated, hint=hint)


def judge_event(info: ErrorInfo) -> Failure:
    """Classify an error object inside a stream as if it had come with its own status."""
    return judge(status_of(info), info)


def status_of(info: ErrorInfo) -> int:
    """Return the status of an error object: its own, otherwise by its codes, otherwise 500."""
    if info.status is not None:
        return info.status
    lowered = [word.lower() for word in info.words]
    if known := next((WORD_STATUS[word] for word in lowered if word in WORD_STATUS), None):
        return known
    if QUOTA_WORDS.intersection(lowered):
        return 429
    return 400 if any(_FAULT_OF_REQUEST.search(word) for word in lowered) else 500


def judge(status: int, info: ErrorInfo, *, delay_s: float | None = None, hint: str = "") -> Failure:
    """Combine status, codes, delay and `x-should-retry`. An exhausted quota isn't retryable, whatever the hint;
    otherwise the hint overrides the status.
    """
    kind, retryable = _by_status(status, info)
    if kind is FailureKind.QUOTA:
        retryable = False
    elif hint in ("true", "false"):
        retryable = hint == "true"
    word = info.word
    return Failure(
        kind=kind,
        retryable=retryable,
        status=status,
        delay_s=delay_s if delay_s is not None else info.delay_s,
        message=f"{status} {word}" if word else str(status),
        readings=info.readings if kind is FailureKind.RATE_LIMITED else (),
    )


def _by_status(status: int, info: ErrorInfo) -> tuple[FailureKind, bool]:
    if _out_of_quota(status, info):
        return FailureKind.QUOTA, False
    words = {word.lower() for word in info.words}
    if "model_capacity_exhausted" in words:
        return FailureKind.OVERLOADED, False
    if status == 429:
        return FailureKind.RATE_LIMITED, True
    if status == 529 or (status == 503 and (words & _FULL_WORDS or _FULL_TEXT.search(info.message))):
        return FailureKind.OVERLOADED, True
    if status in _TIMEOUTS:
        return FailureKind.TIMEOUT, True
    if status >= 500:
        return FailureKind.SERVER_ERROR, status in _RETRYABLE_5XX
    if status == 499 and "cancelled" in words:
        return FailureKind.SERVER_ERROR, True  # Google's own abort, not our client's
    # 408: the provider timed out waiting for the request, which says nothing about its load.
    return FailureKind.CLIENT_ERROR, status == 408


def _out_of_quota(status: int, info: ErrorInfo) -> bool:
    if status == 402 or QUOTA_WORDS.intersection(word.lower() for word in info.words):
        return True
    if status not in (400, 403, 429):
        return False
    if _QUOTA_TEXT.search(info.message) or _LONG_QUOTA.search(info.quotas):
        return True
    asked_by_google = any(word.lower() == "resource_exhausted" for word in info.words)
    return asked_by_google and info.delay_s is not None and info.delay_s > LONGEST_RETRY_S
