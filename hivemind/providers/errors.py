"""Reading and classifying the errors of every provider.

One reader for all, since gateways answer in another dialect than the request's, and edges (Cloudflare) in none. The
envelopes: Anthropic `{"type":"error","error":{"type","message","details":{"error_code"}}}`, OpenAI
`{"error":{"message","type","param","code"}}`, Google `{"error":{"code","message","status","details":[...]}}` (also as
an array of one), Ollama `{"error":"text"}`, OpenAI's error event `{"type":"error","code","message"}`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hivemind.providers import json_fields
from hivemind.providers.base import Headers
from hivemind.providers.encoding import decode_body, header
from hivemind.providers.json_fields import Members, Shape
from hivemind.providers.times import duration_delay, header_delay, worded_delay
from hivemind.scheduler.types import Failure, FailureKind, WindowKind, WindowReading

ErrorObject = dict[str, object]
MAX_ERROR_BODY = 1024 * 1024
"""Bytes of an error answer that are read."""
_LONGEST_MESSAGE = 4096
"""Characters of a message that are searched for words and delays."""
_LONGEST_NAME = 200
"""Characters of a quota's name; they have some 80."""
_PER_MINUTE = re.compile(r"per_?minute", re.I)
_TOKENS = re.compile(r"token", re.I)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.:\-]{0,79}")

_ENVELOPE = Shape("error type code message")
_ERROR = Shape("type code status reason message details")
_CODED = Shape("error_code")
_DETAIL = Shape("retryDelay reason metadata violations")
_METADATA = Shape("quota_limit")
_VIOLATION = Shape("quotaId quotaMetric quotaValue")


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """The fields of an error object."""

    words: tuple[str, ...] = ()
    """Its type, codes and status names, as written, the most specific first; codes only, no text."""
    message: str = ""
    """The provider's text. It may quote the request, so it is used for classifying, never shown."""
    status: int | None = None
    """The HTTP status inside the object."""
    delay_s: float | None = None
    quotas: str = ""
    """Names of the exhausted quotas, Google's."""
    readings: tuple[WindowReading, ...] = ()
    """Google's exhausted quotas per minute with their limits."""


def read_error(body: bytes) -> ErrorInfo:
    """Read a decoded error body; return an empty ErrorInfo if its format is unknown. Never raises."""
    envelope = _unwrap(body[:MAX_ERROR_BODY])
    if not json_fields.filled(envelope, "error"):
        message = json_fields.text(envelope, "message")[:_LONGEST_MESSAGE]
        return ErrorInfo(_words(envelope, "code", "type"), message, _http_status(envelope), worded_delay(message))
    found = _ERROR.within(envelope, "error")
    if not found:
        message = json_fields.text(envelope, "error")[:_LONGEST_MESSAGE]
        return ErrorInfo(message=message, delay_s=worded_delay(message))
    message = json_fields.text(found, "message")[:_LONGEST_MESSAGE]
    details = _google_details(found)
    codes = _words(_CODED.within(found, "details"), "error_code")
    return ErrorInfo(
        words=(*details.words, *codes, *_words(found, "code", "reason", "type", "status")),
        message=message,
        status=_http_status(found),
        delay_s=details.delay_s if details.delay_s is not None else worded_delay(message),
        quotas=details.quotas,
        readings=details.readings,
    )


def carries_error(body: bytes) -> bool:
    """Whether a body is an object with an error in its `error` field."""
    # The first check spares most replies the parsing.
    return b'"error"' in body and json_fields.filled(_unwrap(body), "error")


def error_object(body: bytes) -> ErrorObject | None:
    """Return the object in the `error` field of an upstream's answer, complete; None if there is none."""
    envelope = json_fields.anything(body)
    if isinstance(envelope, list) and envelope:
        envelope = envelope[0]
    error = envelope.get("error") if isinstance(envelope, dict) else None
    return error if isinstance(error, dict) else None


def _unwrap(body: bytes) -> Members:
    envelope = _ENVELOPE.read(body)
    if not envelope and body.lstrip()[:1] == b"[":
        envelope = next(iter(_ENVELOPE.all_in(body)), {})
    return envelope


def _google_details(error: Members) -> ErrorInfo:
    words: list[str] = []
    quotas: list[str] = []
    limits: dict[WindowKind, int] = {}
    delay_s: float | None = None
    for detail in _DETAIL.items(error, "details"):
        stated = duration_delay(json_fields.text(detail, "retryDelay"))
        delay_s = stated if stated is not None else delay_s
        words += _words(detail, "reason")
        quotas.append(_name(_METADATA.within(detail, "metadata"), "quota_limit"))
        for violation in _VIOLATION.items(detail, "violations"):
            names = [_name(violation, "quotaId"), _name(violation, "quotaMetric")]
            quotas += names
            limit = json_fields.number(violation, "quotaValue")
            if limit and limit > 0 and _PER_MINUTE.search(names[0]):
                kind = WindowKind.INPUT if _TOKENS.search(" ".join(names)) else WindowKind.REQUESTS
                limits[kind] = min(int(limit), limits.get(kind, int(limit)))
    return ErrorInfo(
        words=tuple(words),
        delay_s=delay_s,
        quotas=" ".join(filter(None, quotas[: json_fields.MOST_ITEMS])),
        readings=tuple(WindowReading(kind, limit, 0, delay_s) for kind, limit in limits.items()),
    )


def _name(members: Members, name: str) -> str:
    return json_fields.text(members, name)[:_LONGEST_NAME]


def _http_status(error: Members) -> int | None:
    value = json_fields.count(error, "code")
    return value if value is not None and 400 <= value < 600 else None


def _words(members: Members, *names: str) -> tuple[str, ...]:
    return tuple(word for name in names if _WORD.fullmatch(word := json_fields.text(members, name)))


# --- Classification ---------------------------------------------------------------------------------------------------

LONGEST_RETRY_S = 300.0
"""A delay in Google's error body beyond this means that a long quota is used up (Gemini CLI's own rule)."""

_QUOTA_WORDS = """
    enforced_spend_limit_reached contract_spend_limit_reached billing_error insufficient_quota credit_balance_exhausted
    organization_spend_limit_exceeded project_spend_limit_exceeded organization_usage_limit_exceeded
    billing_hard_limit_reached usage_limit_reached
"""
QUOTA_WORDS = frozenset(_QUOTA_WORDS.split())
_QUOTA_TEXT = re.compile(r"you have reached your specified|credit balance is too low|\blimit:\s*0(?![\d.])", re.I)
_LONG_QUOTA = re.compile(r"per_?day|daily", re.I)
_FULL_WORDS = frozenset({"overloaded_error", "server_is_overloaded", "slow_down", "unavailable", "engine_overloaded"})
_FULL_TEXT = re.compile(r"overloaded|server busy|maximum pending requests|at capacity|no capacity", re.I)
_RETRYABLE_5XX = frozenset({500, 502, 503, 504, 520, 521, 522, 523, 524, 525, 526, 529})
_TIMEOUTS = frozenset({504, 524})

_STATUS_WORDS = {
    400: (
        "invalid_request_error",
        "invalid_argument",
        "failed_precondition",
        "context_length_exceeded",
        "content_filter",
    ),
    401: ("authentication_error", "unauthenticated"),
    402: ("billing_error",),
    403: ("permission_error", "permission_denied"),
    404: ("not_found_error", "not_found", "previous_response_not_found"),
    409: ("conflict_error",),
    413: ("request_too_large",),
    429: ("rate_limit_error", "rate_limit_exceeded", "too_many_requests", "ramp_limit_exceeded", "resource_exhausted"),
    500: ("api_error", "server_error", "internal", "internal_server_error"),
    503: ("unavailable", "server_is_overloaded", "slow_down"),
    504: ("timeout_error", "deadline_exceeded"),
    529: ("overloaded_error",),
}
WORD_STATUS = {word: status for status, words in _STATUS_WORDS.items() for word in words}
"""The status that goes with an error code, for errors inside a stream."""
_FAULT_OF_REQUEST = re.compile(r"invalid|image|unsupported|content_policy|too_large|too_long|not_found", re.I)


def classify(status: int, headers: Headers, body: bytes, now_wall_s: float) -> Failure | None:
    """Classify an answer by its status, headers and (still encoded) body; None for a status below 400. Never raises.

    Reads Retry-After in all its forms, retry-after-ms, x-should-retry, Google's retryDelay and every code that means
    "never retry".
    """
    if status < 400:
        return None
    info = read_error(decode_body(headers, body, MAX_ERROR_BODY))
    hint = header(headers, b"x-should-retry").lower()
    return judge(status, info, delay_s=header_delay(headers, now_wall_s), hint=hint)


def classify_event(data: bytes) -> Failure:
    """Classify an error object inside a stream as if it had come with its own status."""
    info = read_error(data)
    return judge(status_of(info), info)


def kind_of(name: bytes, event: Members) -> str:
    """Return the kind of an event of a dialect whose events state it: by its name, else by its type, else `error` where
    it has one.

    `event` has the members `type` and `error`; `message` is the name of an event that has none (HTML, 9.2.6).
    """
    if name and name != b"message":
        return name.decode("latin-1")
    return json_fields.text(event, "type") or ("error" if json_fields.filled(event, "error") else "")


def status_of(info: ErrorInfo) -> int:
    """Return the status of an error object: its own, otherwise by its codes, otherwise 500."""
    if info.status is not None:
        return info.status
    codes = [word.lower() for word in info.words]
    if known := next((WORD_STATUS[code] for code in codes if code in WORD_STATUS), None):
        return known
    if QUOTA_WORDS.intersection(codes):
        return 429
    return 400 if any(map(_FAULT_OF_REQUEST.search, codes)) else 500


def judge(status: int, info: ErrorInfo, *, delay_s: float | None = None, hint: str = "") -> Failure:
    """Combine status, codes, delay and `x-should-retry`. An exhausted quota isn't retryable, whatever the hint;
    otherwise the hint overrides the status.
    """
    kind, retryable = _by_status(status, info, {word.lower() for word in info.words})
    if kind is FailureKind.QUOTA:
        retryable = False
    elif hint in ("true", "false"):
        retryable = hint == "true"
    return Failure(
        kind=kind,
        retryable=retryable,
        status=status,
        delay_s=delay_s if delay_s is not None else info.delay_s,
        message=" ".join((str(status), *info.words[:1])),
        readings=info.readings if kind is FailureKind.RATE_LIMITED else (),
    )


def _by_status(status: int, info: ErrorInfo, codes: set[str]) -> tuple[FailureKind, bool]:
    if _out_of_quota(status, info, codes):
        return FailureKind.QUOTA, False
    if "model_capacity_exhausted" in codes:
        return FailureKind.OVERLOADED, False
    if status == 429:
        return FailureKind.RATE_LIMITED, True
    if status == 529 or (status == 503 and (codes & _FULL_WORDS or _FULL_TEXT.search(info.message))):
        return FailureKind.OVERLOADED, True
    if status in _TIMEOUTS:
        return FailureKind.TIMEOUT, True
    if status >= 500:
        return FailureKind.SERVER_ERROR, status in _RETRYABLE_5XX
    if status == 499 and "cancelled" in codes:
        return FailureKind.SERVER_ERROR, True  # Google's own abort, not our client's
    # 408: the provider timed out waiting for the request, which says nothing about its load.
    return FailureKind.CLIENT_ERROR, status == 408


def _out_of_quota(status: int, info: ErrorInfo, codes: set[str]) -> bool:
    if status == 402 or codes & QUOTA_WORDS:
        return True
    if status not in (400, 403, 429):
        return False
    if _QUOTA_TEXT.search(info.message) or _LONG_QUOTA.search(info.quotas):
        return True
    return "resource_exhausted" in codes and info.delay_s is not None and info.delay_s > LONGEST_RETRY_S
