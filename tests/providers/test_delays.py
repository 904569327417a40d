"""When the provider says to come back."""

from __future__ import annotations

import pytest

from hivemind.providers.base import Headers
from hivemind.providers.times import duration_delay, header_delay

NOW = 1_790_000_000.0  # 2026-09-21T14:13:20Z


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ([(b"retry-after", b"12")], 12.0),
        ([(b"retry-after", b"1.5")], 1.5),
        ([(b"retry-after", b"0")], 0.0),
        ([(b"retry-after", b"Mon, 21 Sep 2026 14:14:20 GMT")], 60.0),
        ([(b"retry-after", b"Mon, 21 Sep 2026 14:00:00 GMT")], 0.0),
        ([(b"retry-after", b"Mon, 21 Sep 2026 15:14:20 GMT"), (b"date", b"Mon, 21 Sep 2026 15:13:20 GMT")], 60.0),
        ([(b"retry-after-ms", b"250"), (b"retry-after", b"1")], 0.25),
        ([(b"retry-after-ms", b"soon"), (b"retry-after", b"1")], 1.0),
        ([(b"retry-after", b"-5")], None),
        ([(b"retry-after", b"nan")], None),
        ([(b"retry-after", b"inf")], None),
        ([(b"retry-after", b"1e400")], None),
        ([(b"retry-after", b"1e15")], 1e12 - NOW),
        ([(b"retry-after", b"6s")], 6.0),
        ([(b"retry-after", b"1790000006")], 6.0),
        ([(b"retry-after", b"99999999")], 99999999.0),
        ([(b"retry-after", b"9" * 64)], 1e12),
        ([(b"retry-after-ms", b"9" * 64)], 1e12),
        ([(b"retry-after", b"Fri, 31 Dec 9999 23:59:59 GMT")], 253402300799 - NOW),
        ([(b"retry-after", b"Fri, 99 Dec 99999 99:99:99 GMT")], None),
        ([(b"retry-after", b"Mon, 21 Sep 2026 14:14:20 GMT"), (b"date", b"Fri, 31 Dec 9999 23:59:59 GMT")], 60.0),
        ([(b"retry-after", b"Mon, 21 Sep 2026 14:14:20 GMT"), (b"date", b"Thu, 01 Jan 1970 00:00:00 GMT")], 60.0),
        ([(b"retry-after", b"soon")], None),
        ([], None),
    ],
)
def test_headers(headers: Headers, seconds: float | None) -> None:
    """Milliseconds before seconds, numbers and dates, dates by the provider's clock; nonsense is nothing."""
    assert header_delay(headers, NOW) == seconds


@pytest.mark.parametrize(("value", "seconds"), [("34s", 34.0), ("34.07s", 34.07), ("900ms", 0.9), ("34", None)])
def test_google_durations(value: str, seconds: float | None) -> None:
    """RetryInfo's retryDelay."""
    assert duration_delay(value) == (None if seconds is None else pytest.approx(seconds))
