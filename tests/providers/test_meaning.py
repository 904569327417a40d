"""Used-up plans, credits and days in the providers' own words, and throttles of a minute that resemble them."""

from __future__ import annotations

import json
from time import thread_time, time
from types import SimpleNamespace

import pytest

from hivemind.providers import errors
from hivemind.providers.errors import classify, classify_event
from hivemind.providers.meaning import meaning_of, plain_words
from hivemind.providers.table import Meaning
from hivemind.scheduler.types import Failure, FailureKind

NOW = 1_795_893_000.0  # 2026-11-28T19:10:00Z
PLAN = "You exceeded your current quota, please check your plan and billing details."


def said(body: object, headers: dict[str, str] | None = None, status: int = 429) -> Failure:
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    pairs = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    failure = classify(status, pairs, data, NOW)
    assert failure is not None
    return failure


def error(message: str, **more: object) -> object:
    return {"error": {"message": message, **more}}


USED_UP: dict[str, object] = {
    # https://developers.cloudflare.com/workers-ai/platform/errors/
    "cloudflare": error(
        "you have used up your daily free allocation of 10,000 neurons, please upgrade to the Workers Paid plan"
    ),
    # https://github.com/huggingface/huggingface_hub/issues
    "hugging face": {"error": "You have exceeded your monthly included credits for Inference Providers."},
    # https://github.com/github/copilot-cli/issues/730
    "copilot": error("You have exhausted your premium model quota", code="quota_exceeded"),
    # https://docs.cohere.com/docs/rate-limits
    "cohere": {"message": "You are using a Trial key, which is limited to 1000 API calls / month."},
    # https://inference-docs.cerebras.ai/support/error
    "cerebras": error(
        "Tokens per day limit exceeded - too many tokens processed.",
        type="too_many_tokens_error",
        code="token_quota_exceeded",
    ),
    # https://docs.anthropic.com/en/api/errors
    "anthropic": error("Extra usage is required for long context requests.", type="rate_limit_error"),
    # https://docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes.html
    "bedrock": {"message": "Too many tokens per day, please wait before trying again."},
    # https://docs.z.ai/api-reference/api-code
    "zhipu": error("已达到 5 小时的使用上限。您的限额将在 2026-11-29 07:41:44 重置。", code="1308"),
    # https://github.com/QuantumNous/new-api
    "new-api": error("用户额度不足, 剩余额度: 0", type="new_api_error"),
    "new-api code": error("Aufgebraucht", code="insufficient_user_quota"),
    # https://docs.litellm.ai/docs/proxy/users
    "litellm": error("Budget has been exceeded! Current cost: 0.02, Max budget: 0.01", type="budget_exceeded"),
    # https://openrouter.ai/docs/api-reference/limits
    "openrouter": error("Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 requests per day"),
    "openrouter key": error("Key limit exceeded (total limit). Manage it using https://openrouter.ai/settings/keys"),
    "volcengine": error("reached the set inference limit for the model, and the model service has been paused."),
    "xai": {"error": "Your team has either used all available credits or reached its monthly spending limit."},
    # Of no table: the words alone tell.
    "text": "Daily limit reached",
    "wallet": error("Wallet empty. Please add funds."),
    "team": {"error": "Your team has run out of credits"},
    "cycle": error("Quota for this billing cycle is exhausted"),
    "tomorrow": error("Please come back tomorrow"),
    "subscription": error("Your subscription has expired"),
    "cap": error("You have reached your plan's message cap"),
    "hours": error("Request limit reached, resets in 58 hours"),
    "a field": error("Limit reached", resetsAt="2026-11-30T00:00:00Z"),
    "balance": error("token balance depleted"),
    "chinese": error("账户余额不足，请充值"),
    "seat": error("Monthly request allotment is spent"),
    "claude": error("You've hit your limit · resets 10am (Asia/Seoul)"),
    "a zero before a date": error("You've hit your limit · resets Nov 30 at 5pm (UTC)"),
    "next year": error("Limited. Resets Jan 2"),
    "opencode": {"error": {"type": "FreeUsageLimitError", "message": "Rate limit exceeded. Please try again later."}},
    "copilot's premium": {"detail": "You have used all your fast premium requests. Enable usage-based pricing."},
    "included": error("You've consumed 100% of your included requests; enable on-demand usage"),
    "a code alone": error("x", code="MONTHLY_REQUEST_COUNT"),
    "a code of a budget": error("x", type="credits_exhausted"),
    "below nothing": error("Account balance is -0.35 USD"),
    "flask": error("50 per 1 day"),
    "a day's hours": error("API rate limit exceeded: limit 1000 requests/24h"),
    "azure's gateway": error("Out of call volume quota. Quota will be replenished in 2.08:18:14."),
    "new-api's key": error("token quota is not enough, token remain quota: ＄0.0, need quota: ＄0.1"),
    "german": error("Ihr Guthaben ist aufgebraucht."),
    "french": error("Votre quota mensuel est épuisé"),
    "japanese": error("今月の利用上限に達しました"),
    "korean": error("잔액이 부족합니다"),
}

THROTTLES: dict[str, tuple[object, dict[str, str]]] = {
    "another header": (error(PLAN, code="insufficient_quota"), {"retry-after": "20"}),
    "another date": (error("Usage limit reached. Your limit will reset at 2026-11-28 19:10:40", code="1308"), {}),
    "a field": (error("Usage limit reached", reset="2026-11-28T19:10:50Z"), {}),
    "codex": (error("The usage limit has been reached", type="usage_limit_reached", resets_in_seconds=40), {}),
    # https://inference-docs.cerebras.ai/support/error
    "cerebras": (error("Tokens per minute limit exceeded - too many tokens.", code="token_quota_exceeded"), {}),
    # https://docs.z.ai/api-reference/api-code; zai-org/GLM-4 #802
    "another code": (error("Usage limit reached", code="1302"), {}),
    "google": (error("Resource has been exhausted (e.g. check quota).", status="RESOURCE_EXHAUSTED"), {}),
    "vertex": (error("Quota exceeded for aiplatform.googleapis.com/x. Please submit a quota increase request."), {}),
    # learn.microsoft.com, azure-openai-429-token-rate-limit
    "azure": (error("Requests have exceeded token rate limit of your current OpenAI S0 pricing tier."), {}),
    # https://docs.cohere.com/docs/rate-limits
    "cohere": ({"message": "You are using a Trial key, which is limited to 10 API calls / minute. Upgrade"}, {}),
    # https://docs.voyageai.com/docs/rate-limits
    "voyage": ({"detail": "You have not yet added your payment method and will have reduced rate limits of 3 RPM"}, {}),
    "openrouter": (error("Rate limit exceeded: free-models-per-min. Add credits for more"), {}),
    "concurrency": (error("limited to 3 concurrent requests on the free plan; upgrade for more"), {}),
    "a limit's reset": (error("Insufficient credits"), {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "12"}),
    "draft": (error("Usage limit reached"), {"ratelimit": '"burst";r=0;t=30, "day";r=900;t=80000'}),
    "a day's window beside": (error("Rate limit"), {"x-ratelimit-remaining-day": "9", "x-ratelimit-reset-day": "4e4"}),
    # https://docs.anthropic.com/en/api/rate-limits
    "anthropic": (
        error("exceed your rate limit of 30,000 input tokens per minute. Please reduce the prompt length"),
        {},
    ),
    "minute": (error("Minute quota exhausted"), {}),
    "a gateway": (error("No available accounts: all accounts cooling down, daily quota fine, retry after 12s"), {}),
    "a subscription's": (error("Too many concurrent requests for your subscription tier"), {}),
    "azure's gateway": (error("Out of call volume quota. Quota will be replenished in 00:00:14."), {}),
    "just passed": (error("You've hit your limit · resets 7:10pm (UTC)"), {}),
    "other dates": (error("too many requests", subscription_renews_at="2026-12-30", model="m-20261201"), {}),
    "a model's date": (error("rate limited, please retry with model foo-2026-12-31"), {}),
    "a page's date": (error("rate limited", next="https://x.y/page?after=2026-12-01"), {}),
    "tokens' reset": (
        error("Your plan's limit"),
        {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "20s", "x-ratelimit-reset-tokens": "1d"},
    ),
    "minutes in japanese": (error("1分あたりの利用上限を超えました"), {}),
    "nothing": ({}, {}),
    "a page": ("<html>monthly</html>", {}),
}

TOO_LARGE = (
    "Request too large for m on tokens per min (TPM): Limit 30000, Requested 37313. The input must be reduced",
    "Rate limit reached on TPM: Limit 30,000, Used 0, Requested 40,000. Please try again in 20s",
)


@pytest.mark.parametrize("name", USED_UP)
def test_what_is_used_up_is_final(name: str) -> None:
    """No code has to be known: words of money, plans and long windows tell, and a wait of more than five minutes."""
    failure = said(USED_UP[name])
    assert (failure.kind, failure.retryable) == (FailureKind.QUOTA, False)


@pytest.mark.parametrize("name", THROTTLES)
def test_throttles_are_waited_for(name: str) -> None:
    """A nearer wait, a short window or a known code beside the words makes a throttle of them."""
    failure = said(*THROTTLES[name])
    assert (failure.kind, failure.retryable) == (FailureKind.RATE_LIMITED, True)


def test_payment_that_is_required_for_a_moment() -> None:
    """A 402 with a near wait is waited for, one without any, or with a far one, is final."""
    waits = [{"retry-after": "12"}, {}, {"retry-after": "7200"}]
    kinds = [said(error("This would exceed your credits"), each, 402).kind for each in waits]
    assert kinds == [FailureKind.RATE_LIMITED, FailureKind.QUOTA, FailureKind.QUOTA]


@pytest.mark.parametrize("message", TOO_LARGE)
def test_a_request_that_can_never_pass(message: str) -> None:
    """More than the whole limit is the request's own fault, so it says nothing of the provider's load."""
    failure = said(error(message, code="rate_limit_exceeded"))
    assert (failure.kind, failure.retryable) == (FailureKind.CLIENT_ERROR, False)


@pytest.mark.parametrize("name", ["copilot", "hugging face", "wallet", "zhipu", "cerebras"])
def test_events_mean_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error inside a stream without a status is booked as the refusal that it is."""
    monkeypatch.setattr(errors, "time", SimpleNamespace(time=lambda: NOW))
    failure = classify_event(json.dumps(USED_UP[name]).encode())
    assert (failure.kind, failure.status, failure.retryable) == (FailureKind.QUOTA, 429, False)


@pytest.mark.parametrize(("in_s", "kind"), [(30, FailureKind.RATE_LIMITED), (9000, FailureKind.QUOTA)])
def test_moments_in_events_count_from_now(in_s: int, kind: FailureKind) -> None:
    """A reset in seconds is no plan's, though an event has no date."""
    data = error("Usage limit reached", type="rate_limit_error", resets_at=time() + in_s)
    failure = classify_event(json.dumps(data).encode())
    assert failure.kind is kind
    assert failure.delay_s == pytest.approx(in_s, abs=5)


def test_a_refusal_is_quoted_without_keys() -> None:
    """The provider's words are shown on one line, bounded and redacted."""
    failure = said(error("No credits\nfor sk-ant-REDACTED " + "x " * 200, code="broke"))
    assert failure.message.startswith("429 broke: No credits for *** x x")
    assert len(failure.message) < 180


HOSTILE = ("no ", "plan a b ", "exceeded ", "1", "wait 1 ", "请在", "retry", "a_b-", "reset at nov ", "2026-11-2", "{")


@pytest.mark.parametrize("text", ["", *HOSTILE])
def test_any_words_take_no_time(text: str) -> None:
    """However many there are, and whatever they nearly say; of processor time, which other programs don't take."""
    began = thread_time()
    said(error(text * 9999))
    assert meaning_of(plain_words(text * 9999)) in (None, *Meaning)
    assert thread_time() - began < 0.2
