"""Cerebras."""

from hivemind.providers.table import Limit, Meaning, Provider, Refusal

PROVIDER = Provider(
    name="cerebras",
    hosts=("api.cerebras.ai",),
    headers=("x-ratelimit-limit-requests-day", "x-ratelimit-limit-tokens-minute"),
    refusals=(
        Refusal(
            meaning=Meaning.USED_UP,
            code="token_quota_exceeded",
            text="per day",
            example=(
                '{"message":"Tokens per day limit exceeded - too many tokens '
                'processed.","type":"too_many_tokens_error","param":"quota","code":"token_quota_exceeded"}'
            ),
            source="https://inference-docs.cerebras.ai/support/error",
            seen="2026-06",
        ),
        Refusal(
            meaning=Meaning.THROTTLED,
            code="token_quota_exceeded",
            text="per minute",
            example=(
                '{"message":"Tokens per minute limit exceeded - too many tokens '
                'processed.","type":"too_many_tokens_error","param":"quota","code":"token_quota_exceeded"}'
            ),
            source="https://inference-docs.cerebras.ai/support/error",
            seen="2026-06",
        ),
        Refusal(
            meaning=Meaning.THROTTLED,
            code="request_quota_exceeded",
            text="per minute",
            example=(
                '{"message":"Requests per minute limit exceeded - too many requests sent.",'
                '"type":"too_many_requests_error","param":"quota","code":"request_quota_exceeded"}'
            ),
            source="https://github.com/nminaya/grammar-nazi-bot/issues/958",
            seen="2026-08",
        ),
        Refusal(
            meaning=Meaning.THROTTLED,
            code="queue_exceeded",
            example=(
                '{"message":"We\'re experiencing high traffic right now! Please try again '
                'soon.","type":"too_many_requests_error","param":"queue","code":"queue_exceeded"}'
            ),
            source="https://inference-docs.cerebras.ai/support/error",
            seen="2026-03",
        ),
    ),
    limits=(
        Limit(
            example=(
                ("x-ratelimit-limit-requests-day", "1000"),
                ("x-ratelimit-remaining-requests-day", "999"),
                ("x-ratelimit-reset-requests-day", "33011.38"),
                ("x-ratelimit-limit-tokens-minute", "60000"),
                ("x-ratelimit-remaining-tokens-minute", "58000"),
                ("x-ratelimit-reset-tokens-minute", "11.38"),
            ),
            says=(("requests_day", 1000, 999), ("tokens", 60000, 58000)),
            used=(),
            source="https://inference-docs.cerebras.ai/support/rate-limits",
            seen="2026-06",
        ),
    ),
)
