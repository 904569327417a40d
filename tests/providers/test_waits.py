"""How long a refusal asks to wait, in words, fields and headers."""

from __future__ import annotations

import json

import pytest

from hivemind.providers.errors import classify
from hivemind.providers.waits import waits_in_words

NOW = 1_795_893_000.0  # 2026-11-28T19:10:00Z


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("You exceeded your quota. Please retry in 12.3s.", [12.3]),
        ("Rate limit reached. Please try again in 6m0s. Visit", [360]),
        ("Please try again in 20ms.", [0.02]),
        ("Please retry in 1h2m3s", [3723]),
        ("Please retry after 26 seconds.", [26]),
        ("Try again in 500 milliseconds", [0.5]),
        ("retry in 5 minutes", [300]),
        ("try again in " + "9" * 400 + " seconds", [1e12]),
        ("Please wait 6 seconds before retrying.", [6]),
        ("High load. Wait 6 seconds and try again.", [6]),
        ("try again in 2 days 3 hours.", [183600]),
        ("available again in an hour", [3600]),
        ("请在 6 秒后重试", [6]),
        ("retry-after: 6", [6]),
        ("20 requests per 60 seconds exceeded, try again later", []),
        ("20 requests in 60 seconds", []),
        ("limit resets every 5 hours", []),
        ("Your limit will reset at 2026-11-29 07:41:44", [16304]),  # by the provider's zone, eight hours ahead
        ("It will reset at 2026-11-29 23:59:59 +0800 CST", [74999]),
        ("try again at Nov 29th, 2026 7:41 PM UTC.", [88260]),
        ("usage limit reached|1795993000", [100000]),
        ("regain access on 2027-01-01 at 00:00 UTC", [2868600]),
        ("resets at 19:30 UTC", [1200]),
        ("gpt-4o-2024-08-06 is limited, you may retry", []),
        ("", []),
    ],
)
def test_words(text: str, seconds: list[float]) -> None:
    """Durations and moments that belong to a wait, and none that belong to a window."""
    assert waits_in_words(text, (NOW,), 8) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        ({"retry_after": 6}, {}),
        ({"retryAfterMs": 6000}, {}),
        ({"metadata": {"retry_after_seconds": "6"}}, {}),
        ({"metadata": {"raw": '{"error":{"retryDelay":"6s"}}'}}, {}),
        ({"metadata": {"headers": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(NOW + 6) * 1000)}}}, {}),
        ({"resets_at": NOW + 6}, {}),
        ({"resetTime": "2026-11-28T19:10:06Z"}, {}),
        ({"message": "Usage limit reached, resets at 2026-11-28T19:10:06Z"}, {}),
        ({}, {"retry-after": "6s"}),
        ({}, {"x-ratelimit-reset": "6", "x-ratelimit-remaining": "0"}),
        (
            {},
            {"x-ratelimit-reset-tokens": "6s", "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-requests": "9h"},
        ),
        ({}, {"ratelimit": '"default";r=0;t=6'}),
        ({}, {"ratelimit": "limit=5, remaining=0, reset=6"}),
        (
            {},
            {
                "anthropic-ratelimit-unified-status": "rejected",
                "anthropic-ratelimit-unified-reset": str(int(NOW) + 6),
            },
        ),
    ],
)
def test_everywhere(error: dict[str, object], headers: dict[str, str]) -> None:
    """Each says six seconds."""
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    failure = classify(429, pairs, json.dumps({"error": {"message": "slow down", **error}}).encode(), NOW)
    assert failure is not None
    assert failure.retryable
    assert failure.delay_s == pytest.approx(6)
