"""Ollama, at home and in its cloud."""

from hivemind.providers.table import Meaning, Provider, Refusal

PROVIDER = Provider(
    name="ollama",
    hosts=("ollama.com",),
    errors=r"ollama\.com",
    refusals=(
        Refusal(
            meaning=Meaning.USED_UP,
            text="(?:hourly|daily|weekly|session) usage limit",
            example=(
                '{"error":"you (x) have reached your weekly usage limit, upgrade for higher limits: '
                'https://ollama.com/upgrade"}'
            ),
            source="https://github.com/ollama/ollama/issues",
            seen="2026-06",
        ),
        Refusal(
            meaning=Meaning.FULL,
            text="maximum pending requests",
            status=503,
            example='{"error":"server busy, please try again.  maximum pending requests exceeded"}',
            source="https://github.com/ollama/ollama, server/sched.go",
            seen="2026-05",
        ),
    ),
)
