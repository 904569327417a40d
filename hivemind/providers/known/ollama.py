"""Ollama, at home and in its cloud."""

from hivemind.providers.table import Meaning, Provider, Refusal, Sign

PROVIDER = Provider(
    name="ollama",
    hosts=("ollama.com",),
    errors=r"ollama\.com",
    signs=(
        Sign(
            path="/v1/models",
            text=r'"owned_by":\s*"library"',
            example='{"object":"list","data":[{"id":"qwen3:8b","object":"model","created":1,"owned_by":"library"}]}',
            source="https://github.com/ollama/ollama, docs/openai.md",
            seen="2026-11",
        ),
        Sign(
            path="/api/version",
            text=r'^\s*\{\s*"version":\s*"[\w.+-]+"\s*\}\s*$',
            example='{"version":"0.12.6"}',
            source="https://github.com/ollama/ollama, docs/api.md",
            seen="2026-11",
        ),
    ),
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
