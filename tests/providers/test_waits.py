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
        ("You've hit your limit · resets Nov 30 at 5pm (UTC)", [165000]),
        ("resets 8:15pm (Europe/Berlin)", [300]),
        ("Your limit will reset at 12am (UTC)", [17400]),
        ("resets at midnight Pacific time", [46200]),
        ("try again at 3:35\u202fPM EST", [5100]),
        ("resets 11/30/2026", [75000]),
        ("resets Jan 2", [2926200]),
        ("resets at 19:09:58 UTC", [0]),
        ("resets 5pm (Nowhere/Town)", []),
        ("Cooling down for 45 more seconds", [45]),
        ("Limit frees up in ~20s", [20]),
        ("Resets in 01:02:03", [3723]),
        ("bitte in 20 Sekunden erneut versuchen", [20]),
        ("Réessayez dans 20 secondes", [20]),
        ("20秒後に再試行してください", [20]),
        ("30초 후에 다시 시도하세요", [30]),
        ("see the notes at 2027-01-01, then retry", []),
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
        ({"retryDelay": {"seconds": "6", "nanos": 0}}, {}),
        ({"reset_epoch": NOW + 6}, {}),
        ({"nextRefillAt": "2026-11-28T19:10:06Z", "retry_count": 3, "available_tokens": 2, "retry_on": [429]}, {}),
        ({"secondsUntilReset": 6}, {}),
        ({"windowResetsInMs": 6000}, {}),
        ({"suggested_wait_s": 6, "limit_window_seconds": 3, "last_reset_at": NOW + 1}, {}),
        ({"blocked_until": "2026-11-28T19:10:06Z"}, {}),
        ({"retry_after": "PT6S"}, {}),
        ({"windows": [{"remaining": 9, "resets_in": 2}, {"remaining": 0, "resetsIn": 6}]}, {}),
        ({"message": "Try again in 6 s"}, {"retry-after": "0"}),
        ({}, {"retry-after": "6s"}),
        ({}, {"retry-after": "6 seconds"}),
        ({}, {"retry-after": "PT6S"}),
        ({}, {"x-ms-retry-after-ms": "6000"}),
        ({}, {"x-ratelimit-retry-after": "6"}),
        ({}, {"x-ratelimit-reset-at": "2026-11-28T19:10:06Z"}),
        ({}, {"x-quota-reset": str(int(NOW + 6))}),
        ({}, {"x-ratelimit-tokens-remaining": "0", "x-ratelimit-tokens-reset": "6", "x-ratelimit-reset-day": "2"}),
        (
            {},
            {
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": "2026-11-28T19:10:06Z",
            },
        ),
        ({}, {"x-ratelimit-reset": "6", "x-ratelimit-remaining": "0"}),
        (
            {},
            {"x-ratelimit-reset-tokens": "6s", "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-requests": "9h"},
        ),
        ({}, {"ratelimit": '"default";r=0;t=6'}),
        ({}, {"ratelimit": "limit=5, remaining=0, reset=6"}),
        (
            {},
            {"anthropic-ratelimit-unified-status": "rejected", "anthropic-ratelimit-unified-reset": str(int(NOW) + 6)},
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
