"""GitHub Copilot, and GitHub Models."""

from hivemind.providers.table import Limit, Meaning, Provider, Refusal

PROVIDER = Provider(
    name="copilot",
    hosts=("api.githubcopilot.com", ".githubcopilot.com", "models.github.ai"),
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
    limits=(
        Limit(
            example=(
                (
                    "x-quota-snapshot-premium_interactions",
                    "ent=1500&ov=0.0&ovPerm=false&rem=31.3&rst=2026-12-01T00%3A00%3A00Z",
                ),
                ("x-usage-ratelimit-weekly", "ent=200&rem=89.0&rst=2026-12-07T00:00:00Z"),
            ),
            says=(),
            used=(("premium_interactions", 0.687), ("weekly", 0.11)),
            header=r"x-(?:quota-snapshot|usage-ratelimit)-(?P<window>[a-z_]+)(?P<field>)",
            fields=(("", "quota"),),
            source="https://github.com/microsoft/vscode-copilot-chat (processQuotaHeaders)",
            seen="2026-08",
        ),
    ),
)
