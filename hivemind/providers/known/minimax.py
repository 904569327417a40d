"""MiniMax, with token plans."""

from functools import partial

from hivemind.providers.table import Failing, Meaning, Path, Provider, Refusal

_USED_UP = partial(
    Refusal, meaning=Meaning.USED_UP, source="https://www.minimax.io/platform/document/error-code", seen="2026-06"
)

PROVIDER = Provider(
    name="minimax",
    hosts=("api.minimax.io", "api.minimaxi.com", "api.minimax.chat"),
    errors=r'"base_resp"|\(2056\)',
    zone_h=8,
    refusals=(
        Refusal(
            meaning=Meaning.USED_UP,
            text=r"\(2056\)",
            example=(
                '{"type":"error","error":{"type":"rate_limit_error","message":"usage limit exceeded, 5-hour '
                "usage limit reached for Token Plan Starter (1000/1000 used), resets at 2026-11-29T15:00:00Z "
                '(2056)"}}'
            ),
            source="https://github.com/MiniMax-AI/MiniMax-M2.7/issues/36",
            seen="2026-06",
        ),
        _USED_UP(code="1008", example='{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}'),
        _USED_UP(code="2056", example='{"base_resp":{"status_code":2056,"status_msg":"usage limit exceeded"}}'),
        Refusal(
            meaning=Meaning.THROTTLED,
            code="1002",
            example='{"base_resp":{"status_code":1002,"status_msg":"rate limit exceeded(RPM)"}}',
            source="https://www.minimax.io/platform/document/error-code",
            seen="2026-06",
        ),
    ),
    failing=(
        Failing(
            example='{"id":"","choices":null,"base_resp":{"status_code":1002,"status_msg":"rate limit exceeded(RPM)"}}',
            stream=False,
            status=429,
            source="https://github.com/infiniflow/ragflow/pull/17292",
            seen="2026-07",
        ),
        Failing(
            example=(
                'data: {"id":"","choices":null,"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}'
            ),
            status=429,
            source="https://www.minimax.io/platform/document/error-code",
            seen="2026-06",
        ),
    ),
    paths=(
        Path(
            path=r"/text/chatcompletion_v2",
            dialect="openai_chat",
            example="/v1/text/chatcompletion_v2",
            source="https://www.minimax.io/platform/document/ChatCompletion_v2",
            seen="2026-06",
        ),
    ),
)
