"""OpenRouter."""

from hivemind.providers.table import Failing, Meaning, Path, Provider, Refusal

PROVIDER = Provider(
    name="openrouter",
    hosts=("openrouter.ai",),
    errors=r"free-models-per-|openrouter",
    refusals=(
        Refusal(
            meaning=Meaning.USED_UP,
            text="free-models-per-day",
            example=(
                '{"error":{"message":"Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 '
                "free model requests per "
                'day","code":429,"metadata":{"headers":{"X-RateLimit-Limit":"50","X-RateLimit-Remaining":"0"}}}}'
            ),
            source="https://openrouter.ai/docs/api-reference/limits",
            seen="2026-06",
        ),
        Refusal(
            meaning=Meaning.THROTTLED,
            text="free-models-per-min",
            example='{"error":{"message":"Rate limit exceeded: free-models-per-min.","code":429}}',
            source="https://openrouter.ai/docs/api-reference/limits",
            seen="2026-06",
        ),
        Refusal(
            meaning=Meaning.USED_UP,
            text="key limit exceeded",
            status=403,
            example=(
                '{"error":{"message":"Key limit exceeded (total limit). Manage it using '
                'https://openrouter.ai/settings/keys","code":403}}'
            ),
            source="https://openrouter.ai/docs/api-reference/errors",
            seen="2026-06",
        ),
        Refusal(
            meaning=Meaning.THROTTLED,
            code="in_flight_budget_exhausted",
            status=402,
            example=(
                '{"error":{"message":"This request would exceed your available credits given your current in-flight '
                'requests. Retry after in-flight requests settle, or add credits.","code":402,"metadata":{"reason":'
                '"in_flight_budget_exhausted","limit_source":"openrouter_in_flight_budget"}}}'
            ),
            source="https://openrouter.ai/docs/use-cases/limits (in-flight spending budget); public logs",
            seen="2026-10",
        ),
        Refusal(
            meaning=Meaning.THROTTLED,
            text="temporarily rate-limited upstream",
            example=(
                '{"error":{"message":"Provider returned '
                'error","code":429,"metadata":{"raw":"qwen/qwen3-coder:free is temporarily rate-limited '
                'upstream. Please retry shortly, or add your own key to accumulate your rate limits"}}}'
            ),
            source="https://github.com/cline/cline/issues",
            seen="2026-03",
        ),
    ),
    failing=(
        Failing(
            example=(
                'data: {"id":"gen-1","choices":[{"index":0,"delta":{"role":"assistant","content":""},'
                '"finish_reason":"error","native_finish_reason":"network_error","error":{"code":502,'
                '"message":"Network connection lost"}}]}'
            ),
            source="https://openrouter.ai/docs/api-reference/errors",
            seen="2026-09",
        ),
        Failing(
            example='data: {"id":"gen-1","choices":[],"error":{"code":503,"message":"Provider is at capacity"}}',
            status=503,
            source="https://github.com/diegosouzapw/OmniRoute/pull/8210",
            seen="2026-07",
        ),
        Failing(
            example=(
                '{"id":"gen-1","choices":[{"index":0,"message":{"role":"assistant","content":""},'
                '"finish_reason":"error","error":{"code":502,"message":"Upstream error"}}],'
                '"usage":{"prompt_tokens":100,"completion_tokens":0}}'
            ),
            stream=False,
            source="https://openrouter.ai/docs/api-reference/errors",
            seen="2026-09",
        ),
    ),
    paths=(
        Path(
            path=r"/presets/[^/]+/messages",
            dialect="anthropic",
            example="/api/v1/presets/careful/messages",
            source="openrouter 1.3.84 (presets.py)",
            seen="2026-11",
        ),
    ),
)
