"""Moonshot: Kimi."""

from hivemind.providers.table import Counts, Meaning, Provider, Refusal

PROVIDER = Provider(
    name="moonshot",
    hosts=("api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"),
    headers=("msh-",),
    zone_h=8,
    refusals=(
        Refusal(
            meaning=Meaning.USED_UP,
            code="exceeded_current_quota_error",
            example=(
                '{"error":{"message":"You exceeded your current token quota: 0, please check your account '
                'balance","type":"exceeded_current_quota_error"}}'
            ),
            source="https://platform.moonshot.ai/docs/api/errors",
            seen="2026-06",
        ),
        Refusal(
            meaning=Meaning.USED_UP,
            code="rate_limit_reached_error",
            text=r"\bTPD\b",
            example=(
                '{"error":{"message":"Your account org-x / proj-y <ak-z> request reached organization TPD rate limit, '
                'current: 1526210, limit: 1500000","type":"rate_limit_reached_error"}}'
            ),
            source="https://github.com/MoonshotAI/kimi-cli/issues/1599",
            seen="2026-05",
        ),
        Refusal(
            meaning=Meaning.THROTTLED,
            code="rate_limit_reached_error",
            example=(
                '{"error":{"message":"Your account org-x request reached organization max RPM: 3, please try '
                'again after 1 seconds","type":"rate_limit_reached_error"}}'
            ),
            source="https://platform.moonshot.ai/docs/api/errors",
            seen="2026-06",
        ),
        Refusal(
            meaning=Meaning.FULL,
            code="engine_overloaded_error",
            example=(
                '{"error":{"message":"The engine is currently overloaded, please try again '
                'later","type":"engine_overloaded_error"}}'
            ),
            source="https://platform.moonshot.ai/docs/api/errors",
            seen="2026-06",
        ),
        Refusal(
            meaning=Meaning.USED_UP,
            text="usage limit for this billing cycle",
            status=403,
            example=(
                '{"error":{"type":"permission_error","message":"You\'ve reached your usage limit for this billing'
                ' cycle. Your quota will be refreshed in the next cycle."},"type":"error"}'
            ),
            source="https://github.com/NanmiCoder/cc-haha/issues/1208",
            seen="2026-08",
        ),
        Refusal(
            meaning=Meaning.USED_UP,
            code="access_terminated_error",
            text="usage limit",
            status=403,
            example=(
                '{"error":{"message":"You\'ve reached your weekly (7-day) usage limit. Your quota will reset when the'
                ' current 7-day window ends.","type":"access_terminated_error"}}'
            ),
            source="https://github.com/openclaw/openclaw/pull/142656",
            seen="2026-08",
        ),
    ),
    counts=(
        Counts(
            cached="cached_tokens",
            example=(
                '{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":100,'
                '"completion_tokens":20,"total_tokens":120,"cached_tokens":40}}]}'
            ),
            counted=(60, 40, 0, 20),
            source="pi, issue 2017",
            seen="2026-06",
        ),
    ),
)
