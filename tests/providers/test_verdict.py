"""What failed answers mean, provider by provider."""

from __future__ import annotations

import gzip
import json

import pytest

from hivemind.providers.dialect import Dialect
from hivemind.providers.errors import classify, classify_event, read_error, status_of
from hivemind.providers.paths import DIALECTS
from hivemind.scheduler.types import Failure, FailureKind

NOW = 1_790_000_000.0
LIMITED, FULL, BROKEN = FailureKind.RATE_LIMITED, FailureKind.OVERLOADED, FailureKind.SERVER_ERROR
QUOTA, FAULT, TIMEOUT = FailureKind.QUOTA, FailureKind.CLIENT_ERROR, FailureKind.TIMEOUT


def verdict(status: int, error: object = None, **headers: str) -> Failure:
    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    body = b"" if error is None else json.dumps({"error": error}).encode()
    failure = classify(status, given, body, NOW)
    assert failure is not None
    return failure


def anthropic(kind: str, message: str = "", code: str | None = None) -> object:
    return {"type": kind, "message": message, "details": {"error_code": code} if code else None}


def google(status: str, message: str = "", *details: object) -> object:
    return {"code": 429, "status": status, "message": message, "details": details}


def violation(quota: str) -> object:
    return {"@type": "x.QuotaFailure", "violations": [{"quotaId": quota, "quotaMetric": "m"}]}


FAULTS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 409: "conflict_error"}
SPENT_LIMITS = "organization_spend", "project_spend", "organization_usage"
SPENT = "You have reached your specified API usage limits. You will regain access on 2027-01-01"
GONE = "You exceeded your current quota, please check your plan and billing details."

TABLE: list[tuple[int, object, FailureKind, bool]] = [
    # Anthropic
    (400, anthropic("invalid_request_error", "prompt is too long"), FAULT, False),
    (400, anthropic("invalid_request_error", SPENT), QUOTA, False),
    (400, anthropic("invalid_request_error", "Your credit balance is too low"), QUOTA, False),
    (400, anthropic("invalid_request_error", "", "thread_already_continued"), FAULT, False),
    (413, anthropic("request_too_large"), FAULT, False),
    *[(status, anthropic(kind), FAULT, False) for status, kind in FAULTS.items()],
    (401, anthropic("CreditsError", "Insufficient balance. Manage your billing here: https://x.example"), QUOTA, False),
    (401, {"code": "", "message": "该令牌额度已用尽", "type": "new_api_error"}, QUOTA, False),
    (401, {"code": "", "message": "该令牌已过期", "type": "new_api_error"}, FAULT, False),
    (401, {"message": "Access denied due to invalid subscription key."}, FAULT, False),
    (402, anthropic("billing_error"), QUOTA, False),
    *[(429, anthropic("rate_limit_error", "", code), LIMITED, True) for code in (None, "ramp_limit_exceeded")],
    *[(429, anthropic("x", "", f"{what}_spend_limit_reached"), QUOTA, False) for what in ("enforced", "contract")],
    (500, anthropic("api_error"), BROKEN, True),
    (504, anthropic("timeout_error"), TIMEOUT, True),
    *[(529, anthropic("overloaded_error", "", code), FULL, True) for code in (None, "compaction_unavailable")],
    # OpenAI and compatible servers
    *[(400, {"code": code}, FAULT, False) for code in ("context_length_exceeded", "content_filter")],
    (402, {"code": 402, "message": "no credits"}, QUOTA, False),
    (429, {"code": "rate_limit_exceeded", "type": "requests", "message": "Limit: 10000 / min."}, LIMITED, True),
    (429, {"code": "slow_down", "type": "rate_limit_error"}, LIMITED, True),
    (429, {"code": None, "type": "insufficient_quota"}, QUOTA, False),
    (429, {"code": "credit_balance_exhausted"}, QUOTA, False),
    *[(429, {"code": f"{what}_limit_exceeded"}, QUOTA, False) for what in SPENT_LIMITS],
    (429, {"type": "rate_limit_error", "message": GONE}, QUOTA, False),  # NeMo Guardrails', before streams
    (429, {"type": "rate_limit_error", "message": f"{GONE} See x. Quota exceeded"}, LIMITED, True),
    (429, {"code": "Throttling.AllocationQuota", "message": GONE}, LIMITED, True),
    (429, {"code": "ServerOverloaded", "message": "unable to handle requests due to server overload."}, FULL, True),
    (503, {"message": "m is currently over capacity. Please try again and back off"}, FULL, True),  # Groq
    *[(503, {"code": code}, FULL, True) for code in ("server_is_overloaded", "slow_down")],
    (503, {"message": "The engine is currently overloaded"}, FULL, True),
    # Google
    (400, {"status": "INVALID_ARGUMENT"}, FAULT, False),
    (429, google("RESOURCE_EXHAUSTED", GONE, violation("GenerateRequestsPerMinutePerProject")), LIMITED, True),
    (429, google("RESOURCE_EXHAUSTED", "", violation("GenerateRequestsPerDayPerProject")), QUOTA, False),
    (429, google("RESOURCE_EXHAUSTED", "", {"metadata": {"quota_limit": "RequestsPerDay"}}), QUOTA, False),
    (429, google("RESOURCE_EXHAUSTED", "Quota exceeded for metric: m, limit: 0, model: x"), QUOTA, False),
    (429, google("RESOURCE_EXHAUSTED", "Quota exceeded for metric: m, limit: 0.5"), LIMITED, True),
    (429, google("RESOURCE_EXHAUSTED", "", {"retryDelay": "301s"}), QUOTA, False),
    (429, google("RESOURCE_EXHAUSTED", "", {"retryDelay": "300s"}), LIMITED, True),
    (429, google("RESOURCE_EXHAUSTED", "", {"reason": "MODEL_CAPACITY_EXHAUSTED"}), FULL, False),
    (499, {"status": "CANCELLED"}, BROKEN, True),
    (503, {"status": "UNAVAILABLE", "message": "The model is overloaded."}, FULL, True),
    (504, {"status": "DEADLINE_EXCEEDED"}, TIMEOUT, True),
    # Ollama
    (503, "server busy, please try again. maximum pending requests exceeded", FULL, True),
    (404, "model 'x' not found", FAULT, False),
    # Edges, without a body
    *[(status, None, FAULT, True) for status in (408, 425)],
    *[(status, None, FAULT, False) for status in (499, 501)],
    *[(status, None, BROKEN, True) for status in (500, 502, 503, 520, 521, 522, 523, 525, 526)],
    (524, None, TIMEOUT, True),
]


@pytest.mark.parametrize(("status", "error", "kind", "retryable"), TABLE)
def test_table(status: int, error: object, kind: FailureKind, retryable: bool) -> None:
    """Every documented error is told apart by status and code, never-retry codes first."""
    failure = verdict(status, error)
    assert (failure.kind, failure.retryable, failure.status) == (kind, retryable, status)


AWS = {
    "ServiceQuotaExceededException": (400, QUOTA, False),
    **dict.fromkeys(("ModelErrorException", "ModelStreamErrorException"), (424, BROKEN, True)),
    "ModelNotReadyException": (429, FULL, True),
    "ThrottlingException": (429, LIMITED, True),
}


@pytest.mark.parametrize("end", ["", ":http://internal.amazon.com/coral/com.amazon.bedrock/"])
@pytest.mark.parametrize("name", AWS)
def test_the_name_in_a_header(name: str, end: str) -> None:
    """AWS names an error in a header, maybe with a URI behind it, where its body has a message alone."""
    status, kind, retryable = AWS[name]
    failure = classify(status, [(b"x-amzn-errortype", (name + end).encode())], b'{"message":"x"}', NOW)
    assert failure is not None
    assert (failure.kind, failure.retryable, failure.message[: 4 + len(name)]) == (kind, retryable, f"{status} {name}")


TOLD = {
    **dict.fromkeys((GONE, f"Error code: 429 - {GONE}"), (429, QUOTA)),
    "Error code: 429 - Rate limit reached for m. Please try again in 7s.": (429, LIMITED),
    **dict.fromkeys((f"{e}This model's maximum context length is" for e in ("Error code: 400 - ", "")), (400, FAULT)),
    "litellm.X: Error code: 503 - {'error': {'message': 'Overloaded'}}": (503, FULL),
    "Error code: 500 - {'error': {'message': 'The server had an error'}}": (500, BROKEN),
    **dict.fromkeys(("Client error '401 U' for url 'x/v1/messages'", "Incorrect API key provided"), (401, FAULT)),
    "Server error '502 Bad Gateway' for url 'http://x/v1beta/models/m:generateContent'": (502, BROKEN),
    **dict.fromkeys(("Request failed with status code 429", "Rate limit reached", "429 R_E. {'e': 1}"), (429, LIMITED)),
    "Request failed with status code 404": (500, BROKEN),  # as of a server that is started anew
    'all 1 channels failed, the last: HTTP 429: {"error": {"code": "rate_limit_exceeded"}}': (429, LIMITED),
    '[x/m] [400]: {"error": {"message": "maximum context length is 9 tokens"}} (reset after 2s)': (400, FAULT),
    '[x/m] [400]: {"error": {"message": "maximum context (reset after 2s)': (500, BROKEN),  # it was of another request
    '[x/m] [404]: {"type": "error", "error": {"type": "not_found_error"}} (reset after 1m 5s)': (404, FAULT),
    '[x/m] [429]: {"error": {"message": "Rate limit reached for m in organi (reset after 2s)': (429, LIMITED),
    '[x/m] [429]: {"error": {"code": "insufficient_quota"}} (reset after 2s)': (429, QUOTA),
    f'[g/x] [429]: {{"error": {{"message": "{GONE[:-20]} (reset after 2s)': (429, LIMITED),  # of a minute, if Google's
    "[x/m] [502]: fetch failed (cause: ECONNRESET: read ECONNRESET) (reset after 8s)": (500, BROKEN),
    "The engine is currently overloaded, please try again later": (529, FULL),
    "Client error '403 Forbidden' for url 'http://x/cat.png'": (500, BROKEN),
    **dict.fromkeys(("Tool f failed: Error code: 403", "my.tool: Error code: 403", "No overload of f"), (500, BROKEN)),
    **dict.fromkeys(('Tool f: HTTP 401: {"error": {}}', "Tool: rate limit reached", "500 tokens"), (500, BROKEN)),
}


@pytest.mark.parametrize(("words", "expected"), TOLD.items())
def test_a_500_that_tells_its_providers_status(words: str, expected: tuple[int, FailureKind]) -> None:
    """OptiLLM and llms-py answer 500 with their SDK's or provider's words, hubrelay and 9router 50x with its JSON."""
    failure = verdict(500, words)
    assert (failure.status, failure.kind) == expected


def test_success_is_no_failure() -> None:
    """Below 400 there is nothing to judge."""
    assert classify(200, [], b'{"error": {"type": "overloaded_error"}}', NOW) is None
    assert classify(304, [], b"", NOW) is None


@pytest.mark.parametrize(
    ("status", "error", "hint", "retryable"),
    [
        (503, None, "false", False),
        (529, anthropic("overloaded_error"), "false", False),
        (400, anthropic("invalid_request_error"), "true", True),
        (409, None, "TRUE", True),
        (429, {"code": "insufficient_quota"}, "true", False),
        (503, None, "perhaps", True),
    ],
)
def test_x_should_retry(status: int, error: object, hint: str, retryable: bool) -> None:
    """The provider's own hint wins over the status, both ways, but can't refill a quota."""
    assert verdict(status, error, x_should_retry=hint).retryable is retryable


def test_delays() -> None:
    """Headers before the body; every form counts."""
    assert verdict(429, None, retry_after="7").delay_s == 7
    assert verdict(429, None, retry_after_ms="250", retry_after="7").delay_s == 0.25
    assert verdict(503, None, retry_after="Mon, 21 Sep 2026 14:14:20 GMT").delay_s == 60
    assert verdict(429, google("RESOURCE_EXHAUSTED", "", {"retryDelay": "34.5s"})).delay_s == 34.5
    assert verdict(429, google("RESOURCE_EXHAUSTED", "Please retry in 12.5s.")).delay_s == 12.5
    assert verdict(429, google("X", "Please retry in 12.5s."), retry_after="3").delay_s == 3
    assert verdict(429).delay_s is None


def test_a_long_wait_is_a_quota() -> None:
    """More than five minutes, wherever they are stated, aren't a rate limit that is waited for."""
    failure = verdict(429, {"code": "rate_limit_exceeded", "message": "Please try again in 7m12s."}, retry_after="432")
    assert (failure.kind, failure.retryable, failure.delay_s) == (QUOTA, False, 432)


def test_the_message_shows_no_provider_text() -> None:
    """Providers quote keys and prompts in their messages, so people see the status and the code alone."""
    failure = verdict(401, {"code": "invalid_api_key", "message": "Incorrect API key provided: sk-secret"})
    assert failure.message == "401 invalid_api_key"
    assert verdict(502).message == "502"


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
def test_every_dialect_reads_compressed_bodies(dialect: Dialect) -> None:
    """Error bodies come encoded as the client asked, and any dialect understands any provider's error."""
    body = gzip.compress(json.dumps({"error": {"code": "insufficient_quota"}}).encode())
    failure = classify(429, [(b"content-encoding", b"gzip")], body, NOW)
    assert failure is not None
    assert failure.kind is QUOTA


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff\x00", b"[" * 5000, b'{"error": ' + b"1" * 5000 + b"}"])
@pytest.mark.parametrize("encoding", [b"", b"gzip", b"nonsense"])
def test_broken_bodies_leave_the_status(body: bytes, encoding: bytes) -> None:
    """Where the body says nothing the status decides."""
    failure = classify(503, [(b"content-encoding", encoding)], body, NOW)
    assert failure is not None
    assert (failure.kind, failure.retryable) == (BROKEN, True)


@pytest.mark.parametrize(
    ("error", "status", "kind", "retryable"),
    [
        (anthropic("overloaded_error"), 529, FULL, True),
        (anthropic("rate_limit_error"), 429, LIMITED, True),
        (anthropic("api_error"), 500, BROKEN, True),
        (anthropic("invalid_request_error"), 400, FAULT, False),
        ({"code": "rate_limit_exceeded"}, 429, LIMITED, True),
        ({"code": "server_error"}, 500, BROKEN, True),
        ({"code": "insufficient_quota"}, 429, QUOTA, False),
        *[({"code": code}, 400, FAULT, False) for code in ("invalid_prompt", "image_too_large")],
        ({"code": 502, "message": "Provider error"}, 502, BROKEN, True),
        ({"code": 503, "status": "UNAVAILABLE"}, 503, FULL, True),
        ({"status": "DEADLINE_EXCEEDED"}, 504, TIMEOUT, True),
        ("an error was encountered while running the model", 500, BROKEN, True),
        ({}, 500, BROKEN, True),
        ("Upstream error from Alibaba: Request rate increased too quickly.", 429, LIMITED, True),
    ],
)
def test_events_are_judged_as_statuses(error: object, status: int, kind: FailureKind, retryable: bool) -> None:
    """An error inside a stream means what the same error means as an answer."""
    data = json.dumps({"error": error}).encode()
    assert status_of(read_error(data)) == status
    failure = classify_event(data)
    assert (failure.kind, failure.retryable, failure.status) == (kind, retryable, status)
