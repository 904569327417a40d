"""Together."""

from hivemind.providers.table import Limit, Meaning, Provider, Refusal

PROVIDER = Provider(
    name="together",
    hosts=("api.together.xyz", "api.together.ai"),
    errors=r"api.together.(?:xyz|ai)",
    refusals=(
        Refusal(
            meaning=Meaning.USED_UP,
            code="credit_limit",
            status=402,
            example=(
                '{"error":{"message":"Credit limit exceeded, please navigate to '
                "https://api.together.ai/settings/billing to "
                'increase","type":"credit_limit","code":"credit_limit"}}'
            ),
            source="https://docs.together.ai/docs/error-codes",
            seen="2026-06",
        ),
        Refusal(
            meaning=Meaning.THROTTLED,
            code="model_rate_limit",
            example=(
                '{"error":{"message":"You have reached the rate limit specific to this model. The maximum rate '
                "limit for this model is 6.0 queries and 180000 tokens per "
                'minute.","type":"model_rate_limit","code":null}}'
            ),
            source="https://docs.together.ai/docs/rate-limits",
            seen="2026-06",
        ),
    ),
    limits=(
        Limit(
            example=(
                ("x-ratelimit-limit", "60"),
                ("x-ratelimit-remaining", "5"),
                ("x-ratelimit-reset", "30"),
                ("x-tokenlimit-limit", "90000"),
                ("x-tokenlimit-remaining", "80000"),
            ),
            says=(("requests", 60, 5), ("tokens", 90000, 80000)),
            used=(),
            header=r"x-tokenlimit-(?P<field>limit|remaining|reset)",
            window="tokens",
            source="https://docs.together.ai/docs/rate-limits",
            seen="2026-08",
        ),
    ),
)
