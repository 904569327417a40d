"""Gateways that count tokens themselves: APISIX, Kong."""

from hivemind.providers.table import Limit, Provider

PROVIDER = Provider(
    name="apisix",
    headers=("x-ai-ratelimit-",),
    limits=(
        Limit(
            example=(
                ("X-AI-RateLimit-Limit-openai", "20000"),
                ("X-AI-RateLimit-Remaining-openai", "150"),
                ("X-AI-RateLimit-Reset-openai", "42"),
            ),
            says=(("tokens", 20000, 150),),
            header=r"x-ai-ratelimit-(?P<field>limit|remaining|reset)-(?P<window>.+)",
            window="tokens",
            source="https://apisix.apache.org/docs/apisix/3.12/plugins/ai-rate-limiting",
            seen="2026-10",
        ),
    ),
)
