"""GitHub Copilot, and GitHub Models."""

from hivemind.providers.table import Meaning, Provider, Refusal

PROVIDER = Provider(
    name="copilot",
    hosts=(
        "api.githubcopilot.com",
        ".githubcopilot.com",
        "models.github.ai",
    ),
    headers=("x-github-",),
    refusals=(
        Refusal(
            meaning=Meaning.USED_UP,
            code="quota_exceeded",
            status=402,
            example='{"error":{"message":"You have exceeded your monthly quota","code":"quota_exceeded"}}',
            source="https://github.com/github/copilot-cli/issues/730",
            seen="2026-03",
        ),
        Refusal(
            meaning=Meaning.USED_UP,
            text="ByDay",
            example=(
                '{"error":{"message":"Rate limit of 150 per 86400s exceeded for UserByModelByDay. Please wait '
                '54321 seconds before retrying.","code":"RateLimitReached"}}'
            ),
            source="https://docs.github.com/en/github-models",
            seen="2026-05",
        ),
        Refusal(
            meaning=Meaning.THROTTLED,
            text="ByMinute",
            example=(
                '{"error":{"message":"Rate limit of 15 per 60s exceeded for UserByModelByMinute. Please wait 32 '
                'seconds before retrying.","code":"RateLimitReached"}}'
            ),
            source="https://docs.github.com/en/github-models",
            seen="2026-05",
        ),
    ),
)
