"""Volcengine's Ark (ByteDance): Doubao, with agent plans."""

from hivemind.providers.table import Meaning, Provider, Refusal

PROVIDER = Provider(
    name="volcengine",
    hosts=(".volces.com",),
    zone_h=8,
    refusals=(
        Refusal(
            meaning=Meaning.USED_UP,
            code="accountquotaexceeded",
            example=(
                '{"error":{"code":"AccountQuotaExceeded","message":"You have exceeded the monthly usage quota. It will'
                " reset at 2026-12-23 23:59:59 +0800 CST. We recommend upgrading your plan for more quota, or waiting"
                ' for the reset.","type":"TooManyRequests"}}'
            ),
            source="https://github.com/router-for-me/CLIProxyAPI/pull/5978",
            seen="2026-09",
        ),
    ),
)
