"""Reading the error bodies of every provider. One reader for all, since gateways answer in another dialect than
the request's, and edges (Cloudflare) in none. The
envelopes: Anthropic `{"type":"error","error":{"type","message","details":{"error_code"}}}`, OpenAI
`{"error":{"message","type","param","code"}}`, Google `{"error":{"code","message","status","details":[...]}}` (also as
an array of one), Ollama `{"error":"text"}`, OpenAI's error event `{"type":"error","code","message"}`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from msgspec import Raw, Struct

from hivemind.providers import json_fields
from hivemind.providers.times import duration_delay, worded_delay
from hivemind.scheduler.types import WindowKind, WindowReading

MAX_ERROR_BODY = 1024 * 1024
"""Bytes of an error answer that are read."""
_LONGEST_MESSAGE = 4096
"""Characters of a message that are searched for words and delays."""
_LONGEST_NAME = 200
"""Characters of a quota's name; they have some 80."""
_PER_MINUTE = re.compile(r"per_?minute", re.I)
_TOKENS = re.compile(r"token", re.I)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.:\-]{0,79}")


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """The fields of an error object."""

    words: tuple[str, ...] = ()
    """Its type, codes and status names, as written; codes only, no text."""
    message: str = ""
    """The provider's text. It may quote the request, so it is used for classifying, never shown."""
    status: int | None = None
    """The HTTP status inside the object."""
    delay_s: float | None = None
    quotas: str = ""
    """Names of the exhausted quotas, Google's."""
    readings: tuple[WindowReading, ...] = ()
    """Google's exhausted quotas per minute with their limits."""

    @property
    def word(self) -> str:
        """The most specific code."""
        return self.words[0] if self.words else ""


class _Envelope(Struct):
    error: Raw = Raw()
    type: Raw = Raw()
    code: Raw = Raw()
    message: Raw = Raw()


class _ErrorObject(Struct):
    type: Raw = Raw()
    code: Raw = Raw()
    status: Raw = Raw()
    reason: Raw = Raw()
    message: Raw = Raw()
    details: Raw = Raw()


class _Coded(Struct):
    error_code: Raw = Raw()


class _Metadata(Struct):
    quota_limit: Raw = Raw()


class _Violation(Struct):
    quotaId: Raw = Raw()
    quotaMetric: Raw = Raw()
    quotaValue: Raw = Raw()


class _Detail(Struct):
    retryDelay: Raw = Raw()
    reason: Raw = Raw()
    metadata: Raw = Raw()
    violations: Raw = Raw()


_envelope = json_fields.decoder(_Envelope)
_envelopes = json_fields.decoder(list[_Envelope])
_object = json_fields.decoder(_ErrorObject)
_coded = json_fields.decoder(_Coded)
_metadata = json_fields.decoder(_Metadata)
_details = json_fields.decoder(list[_Detail])
_violations = json_fields.decoder(list[_Violation])


def read_error(body: bytes) -> ErrorInfo:
    """Read a decoded error body; return an empty ErrorInfo if its format is unknown. Never raises."""
    envelope = _unwrap(body[:MAX_ERROR_BODY])
    if envelope is None:
        return ErrorInfo()
    if json_fields.filled(envelope.error):
        return read_error_object(envelope.error)
    return _plain(envelope)


def carries_error(body: bytes) -> bool:
    """Whether a body is an object with an error in its `error` field."""
    if b'"error"' not in body:
        return False  # most replies, without parsing
    envelope = _unwrap(body)
    return envelope is not None and json_fields.filled(envelope.error)


def read_error_object(raw: Raw) -> ErrorInfo:
    """Read the object (or the bare text) in an `error` field."""
    found = json_fields.read(_object, raw)
    if found is None:
        message = json_fields.text(raw)[:_LONGEST_MESSAGE]
        return ErrorInfo(message=message, delay_s=worded_delay(message))
    message = json_fields.text(found.message)[:_LONGEST_MESSAGE]
    coded = json_fields.read(_coded, found.details)
    detail_words, delay_s, quotas, readings = _google_details(found.details)
    code = coded.error_code if coded else Raw()
    return ErrorInfo(
        words=_words(*detail_words, *map(json_fields.text, (code, found.code, found.reason, found.type, found.status))),
        message=message,
        status=_http_status(found.code),
        delay_s=delay_s if delay_s is not None else worded_delay(message),
        quotas=quotas,
        readings=readings,
    )


def _unwrap(body: bytes) -> _Envelope | None:
    envelope = json_fields.read(_envelope, body)
    if envelope is None and body.lstrip()[:1] == b"[":
        several = json_fields.several(_envelopes, body)
        envelope = several[0] if several else None
    return envelope


def _plain(envelope: _Envelope) -> ErrorInfo:
    message = json_fields.text(envelope.message)[:_LONGEST_MESSAGE]
    words = _words(json_fields.text(envelope.code), json_fields.text(envelope.type))
    return ErrorInfo(words, message, _http_status(envelope.code), worded_delay(message))


def _google_details(raw: Raw) -> tuple[list[str], float | None, str, tuple[WindowReading, ...]]:
    reasons: list[str] = []
    quotas: list[str] = []
    limits: dict[WindowKind, int] = {}
    delay_s: float | None = None
    for detail in json_fields.several(_details, raw):
        stated = duration_delay(json_fields.text(detail.retryDelay))
        delay_s = stated if stated is not None else delay_s
        reasons.append(json_fields.text(detail.reason))
        metadata = json_fields.read(_metadata, detail.metadata)
        if metadata:
            quotas.append(json_fields.text(metadata.quota_limit)[:_LONGEST_NAME])
        for violation in json_fields.several(_violations, detail.violations):
            names = [json_fields.text(name)[:_LONGEST_NAME] for name in (violation.quotaId, violation.quotaMetric)]
            quotas += names
            limit = json_fields.number(violation.quotaValue)
            if limit and limit > 0 and _PER_MINUTE.search(names[0]):
                kind = WindowKind.INPUT if _TOKENS.search(" ".join(names)) else WindowKind.REQUESTS
                limits[kind] = min(int(limit), limits.get(kind, int(limit)))
    readings = tuple(WindowReading(kind, limit, 0, delay_s) for kind, limit in limits.items())
    return reasons, delay_s, " ".join(filter(None, quotas[: json_fields.MOST_ITEMS])), readings


def _http_status(raw: Raw) -> int | None:
    value = json_fields.count(raw)
    return value if value is not None and 400 <= value < 600 else None


def _words(*candidates: str) -> tuple[str, ...]:
    return tuple(word for word in candidates if _WORD.fullmatch(word))
