"""Vercel's AI Gateway: its own protocol, which the AI SDK speaks by default. A header names the model."""

from hivemind.providers.table import Counts, Path, Provider

PROVIDER = Provider(
    name="vercel",
    hosts=("ai-gateway.vercel.sh",),
    counts=(
        Counts(
            example=(
                '{"type":"finish","finishReason":{"unified":"stop","raw":"end_turn"},"usage":{"inputTokens":{"total":10,'
                '"noCache":7,"cacheRead":2,"cacheWrite":1},"outputTokens":{"total":5,"text":5,"reasoning":0}}}'
            ),
            dialect="stateless",
            counted=(7, 2, 1, 5),
            source="@ai-sdk/provider 4.0.38, language-model-v4-usage.ts",
            seen="2026-11",
        ),
    ),
    paths=(
        Path(
            path=r"/v\d+/ai/(?:language|embedding|reranking)-model",
            dialect="stateless",
            example="/v4/ai/language-model",
            source="@ai-sdk/gateway 4.0.146, against a recording server",
            seen="2026-11",
        ),
    ),
)
