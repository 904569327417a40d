"""Anthropic's API, with a key or a subscription."""

from hivemind.providers.table import Counts, Meaning, Provider, Refusal, Wait

PROVIDER = Provider(
    name="anthropic",
    hosts=("api.anthropic.com",),
    headers=("anthropic-ratelimit-",),
    refusals=(
        Refusal(
            meaning=Meaning.FORBIDDEN,
            text="credit balance is too low",
            status=400,
            example=(
                '{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too '
                "low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase "
                'credits."}}'
            ),
            source="https://docs.anthropic.com/en/api/errors",
            seen="2026-06",
        ),
        Refusal(
            meaning=Meaning.USED_UP,
            text="out of extra usage|draw from your extra usage",
            status=400,
            example=(
                '{"type":"error","error":{"type":"invalid_request_error","message":"You\'re out of extra usage. Add '
                'more at claude.ai/settings/usage and keep going."},"request_id":"req_x"}'
            ),
            source="https://github.com/earendil-works/pi/issues/2943, https://github.com/anthropics/claude-code/issues/45048",
            seen="2026-09",
        ),
        Refusal(
            meaning=Meaning.THROTTLED,
            text="would exceed your (?:organization|account)'s rate limit",
            example=(
                '{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your '
                "organization's rate limit of 30,000 input tokens per minute. Please reduce the prompt length or"
                ' the maximum tokens requested, or try again later."}}'
            ),
            source="https://docs.anthropic.com/en/api/rate-limits",
            seen="2026-06",
        ),
    ),
    waits=(
        Wait(
            header="anthropic-ratelimit-unified-reset",
            given=("anthropic-ratelimit-unified-status", "^rejected$"),
            source="Claude Code 2.1.329, its own reader of these headers",
            seen="2026-11",
        ),
    ),
    counts=(
        Counts(
            input="input_tokens",
            output="output_tokens",
            cached="cache_read_input_tokens",
            written="cache_creation_input_tokens",
            apart=True,
            example=(
                '{"type":"message","content":[{"type":"text","text":"a"}],"usage":{"input_tokens":30,'
                '"cache_read_input_tokens":60,"cache_creation_input_tokens":10,"output_tokens":20}}'
            ),
            dialect="anthropic",
            stream=False,
            counted=(30, 60, 10, 20),
            source="https://docs.claude.com/en/api/messages",
            seen="2026-11",
        ),
    ),
)
