"""Mistral."""

from hivemind.providers.table import Limit, Meaning, Provider, Refusal

PROVIDER = Provider(
    name="mistral",
    hosts=("api.mistral.ai", "codestral.mistral.ai"),
    headers=("x-ratelimit-limit-req-", "mistral-"),
    errors=r"\"raw_status_code\"",
    refusals=(
        Refusal(
            meaning=Meaning.FULL,
            text="service tier capacity exceeded",
            example=(
                '{"object":"error","message":"Service tier capacity exceeded for this '
                'model.","type":"service_tier_capacity_exceeded","param":null,"code":"3505"}'
            ),
            source="https://github.com/mistralai/client-python/issues",
            seen="2026-05",
        ),
        Refusal(
            meaning=Meaning.THROTTLED,
            code="rate_limited",
            example=(
                '{"object":"error","message":"Rate limit '
                'exceeded","type":"rate_limited","param":null,"code":"1300","raw_status_code":429}'
            ),
            source="https://docs.mistral.ai/deployment/laplateforme/tier/",
            seen="2026-06",
        ),
    ),
    limits=(
        Limit(
            example=(
                ("x-ratelimit-limit-req-minute", "60"),
                ("x-ratelimit-remaining-req-minute", "5"),
                ("x-ratelimit-limit-tokens-minute", "500000"),
                ("x-ratelimit-remaining-tokens-minute", "499900"),
            ),
            says=(("requests", 60, 5), ("tokens", 500000, 499900)),
            used=(),
            source="https://docs.mistral.ai/deployment/laplateforme/tier/",
            seen="2026-10",
        ),
        Limit(
            example=(
                ("ratelimitbysize-limit", "500000"),
                ("ratelimitbysize-remaining", "499900"),
                ("ratelimitbysize-reset", "28"),
                ("x-ratelimitbysize-limit-minute", "500000"),
                ("x-ratelimitbysize-remaining-minute", "499900"),
            ),
            says=(("tokens", 500000, 499900),),
            used=(),
            header=r"(?:x-)?ratelimitbysize-(?P<field>limit|remaining|reset)(?:-minute)?",
            window="tokens",
            source="https://github.com/prism-php/prism (recorded replies)",
            seen="2026-08",
        ),
    ),
)
