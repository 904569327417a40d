"""Reading and classifying the errors of every provider.

One reader for all, since gateways answer in another dialect than the request's, and edges (Cloudflare) in none. The
envelopes: Anthropic `{"type":"error","error":{"type","message","details":{"error_code"}}}`, OpenAI
`{"error":{"message","type","param","code"}}`, Google `{"error":{"code","message","status","details":[...]}}` (also as
an array of one), Ollama `{"error":"text"}`, OpenAI's error event `{"type":"error","code","message"}`.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from itertools import islice

from hivemind.providers import json_fields
from hivemind.providers.base import Headers
from hivemind.providers.encoding import decode_body, header
from hivemind.providers.json_fields import Members, Shape
from hivemind.providers.known import provider_of, refusal_of
from hivemind.providers.meaning import meaning_of, plain_words
from hivemind.providers.table import SEARCHED, Meaning, Provider, compiled
from hivemind.providers.times import duration_delay
from hivemind.providers.waits import Leaf, leaves, stated_wait
from hivemind.records import replace
from hivemind.redaction.text import redact, shortened
from hivemind.scheduler.types import Failure, FailureKind, WindowKind, WindowReading

ErrorObject = dict[str, object]
MAX_ERROR_BODY = 1024 * 1024
"""Bytes of an error answer that are read."""
_LONGEST_MESSAGE = 4096
"""Characters of a message that are searched for words and delays."""
_LONGEST_NAME = 200
"""Characters of a quota's name; they have some 80."""
_LONGEST_QUOTE = 160
"""Characters of a provider's words that are shown."""
_MOST_LEAVES = 256
_MESSAGES = ("message", "msg", "status_msg", "detail", "error", "error_description", "reason", "title", "error_message")
_CODES = ("code", "error_code", "errorcode", "__type", "type", "error_type", "status", "reason", "status_code")
_PER_MINUTE = re.compile(r"per_?minute", re.I)
_TOKENS = re.compile(r"token", re.I)
_WORD = re.compile(r"(?![1-5]\d\d$)[A-Za-z0-9][A-Za-z0-9_.:\-]{0,79}")
"""A code; an HTTP status is none."""

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
    """The provider's text. It may quote the request; of a refusal the beginning is shown, redacted."""
    status: int | None = None
    """The HTTP status inside the object."""
    quotas: str = ""
    """Names of the exhausted quotas, Google's."""
    readings: tuple[WindowReading, ...] = ()
    """Google's exhausted quotas per minute with their limits."""
    found: tuple[Leaf, ...] = field(default=(), compare=False)
    """All members at any depth."""
    text: str = field(default="", compare=False)
    """All texts of the body, for searching."""

    @property
    def codes(self) -> frozenset[str]:
        """All codes at any depth, in lower case."""
        nested = (str(value) for name, value, _ in self.found if name.lower() in _CODES)
        return frozenset(word.lower() for word in (*self.words, *filter(_WORD.fullmatch, nested)))


def read_error(body: bytes) -> ErrorInfo:
    """Read a decoded error body; return an empty ErrorInfo if its format is unknown. Never raises."""
    info = _read_envelope(body[:MAX_ERROR_BODY])
    document = json_fields.anything(body)
    found = tuple(islice(leaves(document), _MOST_LEAVES))
    if document is None:
        start = body[:_LONGEST_MESSAGE].decode("utf-8", "replace").strip()
        return info if start[:1] in ("{", "[", "<") else replace(info, text=start[: 2 * SEARCHED])
    by_name = {name.lower(): value for name, value, _ in reversed(found) if isinstance(value, str)}
    return replace(
        info,
        words=info.words or tuple(filter(_WORD.fullmatch, (by_name.get(each, "") for each in _CODES))),
        message=info.message or next(filter(None, map(by_name.get, _MESSAGES)), "")[:_LONGEST_MESSAGE],
        found=found,
        text=" ; ".join(value for _, value, _ in found if isinstance(value, str))[: 2 * SEARCHED],
    )


def _read_envelope(body: bytes) -> ErrorInfo:
    envelope = _unwrap(body)
    if not json_fields.filled(envelope, "error"):
        message = json_fields.text(envelope, "message")[:_LONGEST_MESSAGE]
        return ErrorInfo(_words(envelope, "code", "type"), message, _http_status(envelope))
    found = _ERROR.within(envelope, "error")
    if not found:
        message = json_fields.text(envelope, "error")[:_LONGEST_MESSAGE]
        return ErrorInfo(_words(envelope, "code"), message)
    message = json_fields.text(found, "message")[:_LONGEST_MESSAGE]
    words, quotas, readings = _google_details(found)
    codes = _words(_CODED.within(found, "details"), "error_code")
    return ErrorInfo(
        words=(*words, *codes, *_words(found, "code", "reason", "type", "status")),
        message=message,
        status=_http_status(found),
        quotas=quotas,
        readings=readings,
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


def _google_details(error: Members) -> tuple[tuple[str, ...], str, tuple[WindowReading, ...]]:
    """Return codes, names of exhausted quotas, and those per minute with their limits."""
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
    readings = (WindowReading(kind, limit, 0, delay_s) for kind, limit in limits.items())
    return tuple(words), " ".join(filter(None, quotas[: json_fields.MOST_ITEMS])), tuple(readings)


def _name(members: Members, name: str) -> str:
    return json_fields.text(members, name)[:_LONGEST_NAME]


def _http_status(error: Members) -> int | None:
    value = json_fields.count(error, "code")
    return value if value is not None and 400 <= value < 600 else None


def _words(members: Members, *names: str) -> tuple[str, ...]:
    return tuple(word for name in names if _WORD.fullmatch(word := json_fields.text(members, name)))


# --- Classification ---------------------------------------------------------------------------------------------------

LONGEST_WAIT_S = 300.0
"""A longer stated wait means that a long quota is used up (Gemini CLI's own rule)."""

_QUOTA_WORDS = """
    enforced_spend_limit_reached contract_spend_limit_reached billing_error insufficient_quota credit_balance_exhausted
    organization_spend_limit_exceeded project_spend_limit_exceeded organization_usage_limit_exceeded
    billing_hard_limit_reached usage_limit_reached servicequotaexceededexception
"""
QUOTA_WORDS = frozenset(_QUOTA_WORDS.split())
_UNSURE_WORDS = frozenset({"insufficient_quota", "usage_limit_reached"})
"""Of these, the ones that some use of a minute's limit, and then state a wait."""
_QUOTA_TEXT = re.compile(r"you have reached your specified|credit balance is too low|\blimit:\s*0(?![\d.])", re.I)
_GONE_TEXT = re.compile(r"current quota, please check your plan and billing details\.(?: For more .*openai\.com\S*)?$")
"""OpenAI's, of which gateways make a rate limit (NeMo Guardrails); Google says it of a minute, and names that."""
_EXPIRED = re.compile(r"expired|过期|到期", re.I)
_LONG_QUOTA = re.compile(r"per_?day|daily", re.I)
_FULL_WORDS = frozenset({"overloaded_error", "server_is_overloaded", "slow_down", "unavailable", "engine_overloaded"})
_FULL_TEXT = re.compile(r"overload|server busy|maximum pending requests|\b(?:at|over|no) capacity", re.I)
_REFUSED = frozenset({400, 403, 429})
"""Statuses of used-up quotas, beside 402."""

_STATUS_WORDS = {
    400: "invalid_request_error invalid_argument failed_precondition context_length_exceeded content_filter",
    401: "authentication_error unauthenticated",
    402: "billing_error",
    403: "permission_error permission_denied",
    404: "not_found_error not_found previous_response_not_found",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error rate_limit_exceeded too_many_requests ramp_limit_exceeded resource_exhausted",
    500: "api_error server_error internal internal_server_error",
    503: "unavailable server_is_overloaded slow_down",
    504: "timeout_error deadline_exceeded",
    529: "overloaded_error",
}
WORD_STATUS = {word: status for status, words in _STATUS_WORDS.items() for word in words.split()}
"""The status that goes with an error code, for errors inside a stream."""
_STATUS_TEXT = {
    429: r"too (?:quick|fast|many (?:request|token))|(?:rate|qps|request) ?limit|throttl|频率|并发|限流",
    529: r"overload|\bbusy\b|capacity|繁忙",
    503: r"unavailable|loading model",
    504: r"tim(?:ed|e) ?out|deadline",
    401: r"\b(?:api|access) ?(?:key|token)\b|unauthori[sz]ed|authenticat",
    400: r"\binvalid (?:param|arg|request)|\bbad request|context length|too long|not support|sensitive",
}
"""Words that tell the status of an error that states none."""
_QUOTED_STATUS = re.compile(
    r"^(?:(?:(?![\w.]*(?i:tool|mcp|upload))[\w.]+(?::| -) )*(?:(?=\d{3} [A-Z{])|Error code: |Request failed with status"
    r" code |[CS]\w+ error '(?=[^']+' for url '\S*(?:/(?:completions|messages|responses|embeddings)|[cC]ontent)\b))"
    r"|(?![^{]*(?i:tool|mcp|upload))(?:[^{]*\W)?HTTP (?=\d+: \{\"(?:error|type)\"))(4(?:0[0-3]|13|22|29)|50[234]|529)\b"
    r"|^\[\S+\] \[(429|(?:4(?:0[0-4]|13|22)|529)(?=\]: \{.*\}(?: \([^()]*\))?$))\]: \{"
)
"""A status that tells more than a 5xx, in the words of an error of OpenAI's and Anthropic's SDKs, axios' or httpx's, or
before the provider's own JSON (OptiLLM, hubrelay, 9router, which repeats the beginning of that to others' requests);
not what a tool or an upload was told."""
_OWN_WAIT = re.compile(r"\} \(reset after [^()]*\)$")
"""How long a gateway itself won't ask its provider again (9router), which tells nothing of its provider's quota; a mere
beginning of the provider's words may lack the minute of which they are."""
_SAYS_OF_ITSELF = re.compile(
    r"(?i)(?P<_400>this model's maximum context length is|prompt is too long:)"
    r"|(?P<_401>incorrect api key provided|invalid x-api-key)|(?P<_529>overloaded\b|th\w+ \w+ is (?:\w+ )?overloaded)"
    r"|(?P<_429>(?:requests )?rate limit (?:reached|exceeded)|(?:this request would|number of \w+ tokens has) exceed"
    r"|you exceeded your current quota|your credit balance is too low|resource has been exhausted)"
)
"""How what providers say begins: llms-py answers 500 with these words alone, and Anthropic itself with `Overloaded`."""
LOST_CONNECTION = re.compile(
    rb"(?i)error sending request for url|connection (?:error|refused|reset)|econnre|fetch failed|server disconnected"
    rb"|connect call failed|\bis in (?:error|stopped|stopping) state|\bcode = unavailable\b|error code: 500"
    rb"|error from provider|typeerror: terminated"
)
"""What a gateway's error says of a server that it doesn't reach, in the words of its HTTP client (reqwest's, Node's,
aiohttp's, httpx's) or gRPC's, or starts anew: no fault of a request, though smg, vllm-router, Xinference, LocalAI
and claude-code-router answer 500."""
_FAULT_OF_REQUEST = re.compile(r"invalid|image|unsupported|content_policy|too_large|too_long|not_found", re.I)


def classify(status: int, headers: Headers, body: bytes, now_wall_s: float, host: str = "") -> Failure | None:
    """Classify an answer by its status, headers and (still encoded) body; None for a status below 400. Never raises.

    Waits are read wherever they are stated (:mod:`.waits`); meaning comes from what is known of the provider (by the
    upstream's `host`, else by the form of the error), else from the words (:mod:`.meaning`).
    """
    if status < 400:
        return None
    body = decode_body(headers, body, MAX_ERROR_BODY)
    info = read_error(body)
    told = _told_status(status, info.message)
    if not info.words and (name := _WORD.match(header(headers, b"x-amzn-errortype"))):
        info = replace(info, words=(name[0].partition(":")[0],))  # AWS's, which its body lacks
    provider = provider_of(host, headers, body[:_LONGEST_MESSAGE])
    wait_s = stated_wait(headers, info.found, info.text, now_wall_s, provider)
    own_s = None if told != status and _OWN_WAIT.search(info.message) else wait_s
    failure = judge(told, info, delay_s=own_s, hint=header(headers, b"x-should-retry").lower(), provider=provider)
    return replace(failure, delay_s=wait_s)


def _told_status(status: int, message: str) -> int:
    """Return the status of its provider that the message of a gateway's 5xx tells, else the gateway's."""
    if status >= 500 and (quoted_status := _QUOTED_STATUS.search(message)):
        return int(quoted_status[quoted_status.lastindex or 1])
    told = _SAYS_OF_ITSELF.match(message) if status in (500, 502) else None
    return int(told.lastgroup[1:]) if told and told.lastgroup else status


def prepare() -> None:
    """Compile what errors are read by, and load what is known, which takes longer than a request may be held up."""
    classify(429, (), b'{"error":"x in 1 s on 2026-01-01"}', 0.0)


def classify_event(data: bytes) -> Failure:
    """Classify an error object inside a stream as if it had come now, with its own status."""
    info = read_error(data)
    provider = provider_of("", (), data[:_LONGEST_MESSAGE])
    wait_s = stated_wait((), info.found, info.text, time.time(), provider)
    return judge(_told_status(status_of(info, provider), info.message), info, delay_s=wait_s, provider=provider)


def kind_of(name: bytes, event: Members) -> str:
    """Return the kind of an event of a dialect whose events state it: `error` where it has one, else by its name, else
    by its type.

    `event` has the members `type` and `error`; `message` is the name of an event that has none (HTML, 9.2.6).
    """
    if "error" in event and json_fields.filled(event, "error"):
        return "error"
    return name.decode("latin-1") if name and name != b"message" else json_fields.text(event, "type")


def is_error(name: bytes, event: Members) -> bool:
    """Return whether an event is an error of any dialect, which gateways send into streams of another; `event` has the
    members `type` and `error`."""
    if name == b"error" or json_fields.filled(event, "error"):
        return True
    return "type" in event and json_fields.text(event, "type") in ("error", "response.failed")


def status_of(info: ErrorInfo, provider: Provider | None = None) -> int:
    """Return the status of an error object: its own, otherwise by its codes, otherwise 500."""
    if info.status is not None:
        return info.status
    codes = [*(word.lower() for word in info.words), *sorted(info.codes)]
    if known := next((WORD_STATUS[code] for code in codes if code in WORD_STATUS), None):
        return known
    if QUOTA_WORDS.intersection(codes) or refusal_of(provider, info.codes, info.text) is not None:
        return 429
    if any(map(_FAULT_OF_REQUEST.search, codes)):
        return 400
    words = plain_words(info.text, *info.words)
    if meaning_of(words) is Meaning.USED_UP:
        return 429
    return next((status for status, text in _STATUS_TEXT.items() if compiled(text).search(words)), 500)


def judge(
    status: int, info: ErrorInfo, *, delay_s: float | None = None, hint: str = "", provider: Provider | None = None
) -> Failure:
    """Combine status, codes, delay and `x-should-retry`, which overrides the status but refills no quota."""
    codes = info.codes
    meaning = _meaning(status, info, codes, delay_s, provider)
    kind, retryable = _by_status(status, info, codes, meaning)
    if kind is FailureKind.QUOTA or meaning is Meaning.TOO_LARGE:
        retryable = False
    elif hint in ("true", "false"):
        retryable = hint == "true"
    message = " ".join((str(status), *info.words[:1]))
    return Failure(
        kind=kind,
        retryable=retryable,
        status=status,
        delay_s=delay_s,
        message=message if kind not in _QUOTED else quoted(message, info),
        readings=info.readings if kind is FailureKind.RATE_LIMITED else (),
    )


_QUOTED = frozenset({FailureKind.RATE_LIMITED, FailureKind.QUOTA, FailureKind.OVERLOADED})
"""Refusals, which don't quote the request."""


def quoted(message: str, info: ErrorInfo) -> str:
    """Return the message with the provider's own words after it, on one line, bounded and without keys."""
    said = " ".join((info.message or ("" if info.found else info.text)).split())
    said = "".join(each for each in shortened(redact(said), _LONGEST_QUOTE) if each.isprintable())
    return f"{message}: {said}" if said else message


def _meaning(
    status: int, info: ErrorInfo, codes: frozenset[str], delay_s: float | None, provider: Provider | None
) -> Meaning | None:
    """Return what a refusal means. What is known of the provider comes first, then a stated wait, then the words."""
    sure = codes & QUOTA_WORDS - _UNSURE_WORDS or (
        status in _REFUSED and (_QUOTA_TEXT.search(info.message) or _LONG_QUOTA.search(info.quotas))
    )
    row = refusal_of(provider, codes, info.text)
    # 402 is money, but what is reserved for requests in flight (OpenRouter) comes back when they end.
    waits = status == 402 and (row is Meaning.THROTTLED or 0.0 < (delay_s or 0.0) <= LONGEST_WAIT_S)
    if sure or row is Meaning.FORBIDDEN or (status == 402 and not waits):
        return Meaning.USED_UP
    if row in (Meaning.FULL, Meaning.TOO_LARGE):
        return row
    words = plain_words(info.text, *info.words)
    if _GONE_TEXT.search(info.message):
        words = words.replace("rate limit", "")
    worded = meaning_of(words) if status in (401, 403, 429) else None
    if status not in _REFUSED:
        # Credit that a key lacks comes as 401 too (opencode Zen, new-api); an expired key is a wrong one.
        gone = worded is Meaning.USED_UP and not _EXPIRED.search(info.text)
        return Meaning.USED_UP if row is Meaning.USED_UP or codes & QUOTA_WORDS or gone else None
    if delay_s and worded is not Meaning.TOO_LARGE:
        return Meaning.USED_UP if delay_s > LONGEST_WAIT_S else None
    return row or (Meaning.USED_UP if codes & QUOTA_WORDS else worded)


def _by_status(
    status: int, info: ErrorInfo, codes: frozenset[str], meaning: Meaning | None
) -> tuple[FailureKind, bool]:
    if meaning is Meaning.USED_UP:
        return FailureKind.QUOTA, False
    if meaning is Meaning.TOO_LARGE:
        return FailureKind.CLIENT_ERROR, False
    if "model_capacity_exhausted" in codes:
        return FailureKind.OVERLOADED, False
    full = status in (429, 503) and _FULL_TEXT.search(info.message) and meaning is not Meaning.THROTTLED
    if meaning is Meaning.FULL or full or status == 529 or (status == 503 and codes & _FULL_WORDS):
        return FailureKind.OVERLOADED, True
    if status in (402, 429):
        return FailureKind.RATE_LIMITED, True
    if status in (504, 524):
        return FailureKind.TIMEOUT, True
    if status >= 500 and status != 501:
        return FailureKind.SERVER_ERROR, status in (500, 502, 503, 504, 507, 529) or 520 <= status <= 526
    words = "modelerrorexception modelstreamerrorexception generation backend" if status == 424 else "cancelled"
    if status in (424, 499) and codes.intersection(words.split()):  # of Bedrock, TGI, TEI, or Google's own abort
        return FailureKind.SERVER_ERROR, True
    # 408 and 425 (RFC 8470): the request wasn't taken, and may be sent anew. They and 501 say nothing of the load.
    return FailureKind.CLIENT_ERROR, status in (408, 425)
