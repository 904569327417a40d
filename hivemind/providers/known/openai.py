"""OpenAI's API, and Codex under a ChatGPT plan."""

from hivemind.providers.table import Counts, Limit, Meaning, Provider, Refusal, Wait

PROVIDER = Provider(
    name="openai",
    hosts=("api.openai.com", ".api.openai.com", "chatgpt.com"),
    headers=("openai-", "x-codex-"),
    refusals=(
        Refusal(
            meaning=Meaning.USED_UP,
            code="insufficient_quota",
            text="^(?!.*(?:aliyun|alibaba))",
            example=(
                '{"error":{"message":"You exceeded your current quota, please check your plan and billing '
                "details. For more information on this error, read the docs: https://platform.openai.com/docs/gu"
                'ides/error-codes/api-errors.","type":"insufficient_quota","param":null,"code":"insufficient_quo'
                'ta"}}'
            ),
            source="https://platform.openai.com/docs/guides/error-codes",
            seen="2026-11",
        ),
        Refusal(
            meaning=Meaning.USED_UP,
            code="usage_limit_reached",
            example=(
                '{"error":{"message":"The usage limit has been '
                'reached","type":"usage_limit_reached","plan_type":"pro","resets_in_seconds":208800}}'
            ),
            source="https://github.com/router-for-me/CLIProxyAPI/issues/1666",
            seen="2026-10",
        ),
        Refusal(
            meaning=Meaning.FORBIDDEN,
            code="usage_not_included",
            example=(
                '{"error":{"message":"To use Codex with your ChatGPT plan, upgrade to '
                'Plus","type":"usage_not_included"}}'
            ),
            source="https://github.com/router-for-me/CLIProxyAPI/issues/1666",
            seen="2026-10",
        ),
        Refusal(
            meaning=Meaning.TOO_LARGE,
            text="request too large for",
            example=(
                '{"error":{"message":"Request too large for gpt-4.1 on tokens per min (TPM): Limit 30000, '
                "Requested 37313. The input or output tokens must be reduced in order to run "
                'successfully.","type":"tokens","code":"rate_limit_exceeded"}}'
            ),
            source='https://community.openai.com, "Request too large"',
            seen="2026-05",
        ),
    ),
    waits=(
        Wait(
            header="x-codex-primary-reset-after-seconds",
            given=("x-codex-primary-used-percent", "^100"),
            source="https://github.com/openai/codex, codex-rs, rate limits",
            seen="2026-10",
        ),
        Wait(
            header="x-codex-secondary-reset-after-seconds",
            given=("x-codex-secondary-used-percent", "^100"),
            source="https://github.com/openai/codex, codex-rs, rate limits",
            seen="2026-10",
        ),
    ),
    counts=(
        Counts(
            input="prompt_tokens",
            output="completion_tokens",
            cached="cached_tokens",
            written="cache_write_tokens",
            example=(
                '{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,'
                '"prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":10}}}'
            ),
            counted=(30, 60, 10, 20),
            source="https://platform.openai.com/docs/api-reference/chat/object",
            seen="2026-11",
        ),
    ),
    limits=(
        Limit(
            example=(
                ("x-codex-primary-used-percent", "73"),
                ("x-codex-primary-window-minutes", "300"),
                ("x-codex-primary-reset-after-seconds", "1800"),
                ("x-codex-secondary-used-percent", "9"),
                ("x-codex-secondary-reset-at", "1796000000"),
            ),
            says=(),
            used=(("primary", 0.73), ("secondary", 0.09)),
            header=r"x-codex-(?P<window>primary|secondary)-"
            r"(?P<field>used-percent|window-minutes|reset-after-seconds|reset-at)",
            fields=(
                *(("used-percent", "percent"), ("window-minutes", "minutes")),
                *(("reset-after-seconds", "reset"), ("reset-at", "reset")),
            ),
            source="https://github.com/openai/codex (codex-rs/core/src/client.rs)",
            seen="2026-08",
        ),
    ),
)
