"""Fixed windows and token buckets."""

from __future__ import annotations

import pytest

from hivemind.lab.fit.limiter import FixedWindow, SlidingWindow, TokenBucket
from hivemind_mock.provider.config import LimitConfig
from hivemind_mock.provider.limits import RateLimiter, Reading


def test_a_fixed_window_starts_at_its_first_request() -> None:
    """Sixty seconds count from the first request, not from the minute."""
    window = FixedWindow(limit=2, span_s=60)
    window.take(100, 1)
    window.take(130, 1)
    assert window.wait_s(130, 1) == 30
    assert window.wait_s(160, 1) == 0


def test_a_bucket_refills_steadily() -> None:
    """One request comes back every second at sixty a minute."""
    bucket = TokenBucket(limit=60, span_s=60)
    bucket.take(0, 60)
    assert bucket.wait_s(0, 1) == pytest.approx(1)
    assert bucket.wait_s(1, 1) == 0
    assert bucket.reading(30) == (30, 30.0)


def test_a_sliding_window_holds_no_more_than_its_limit() -> None:
    """What was used in the last sixty seconds counts, whenever they began, and comes back as it was used."""
    window = SlidingWindow(limit=3, span_s=60)
    for at in (0, 20, 50):
        window.take(at, 1)
    assert window.wait_s(59, 1) == 1
    assert window.wait_s(59, 2) == 21
    assert window.reading(59) == (0, 51)
    assert window.wait_s(60, 1) == 0
    window.take(60, 1)
    assert window.wait_s(60, 1) == 20
    assert window.wait_s(60, 9) == 60
    assert window.reading(120) == (3, 0.0)


def test_limits_that_are_not_stated() -> None:
    """They hold all the same."""
    limiter = RateLimiter(LimitConfig(rpm=1, window="sliding", stated=False))
    limiter.charge(0, 1, 1)
    assert (limiter.check(1, 1, 1), limiter.readings(1)) == (("requests", 59), [])


def test_every_allowance_must_fit() -> None:
    """The tightest allowance decides, and the refusal names it."""
    limiter = RateLimiter(LimitConfig(rpm=10, tpm=100))
    limiter.charge(0, input_tokens=90, max_tokens=0)
    refusal = limiter.check(20, input_tokens=20, max_tokens=0)
    assert refusal is not None
    assert refusal == ("tokens", 40)
    assert limiter.check(20, input_tokens=10, max_tokens=0) is None


def test_output_is_charged_when_it_is_known() -> None:
    """Produced tokens fill the token and output allowances at the end of a request."""
    limiter = RateLimiter(LimitConfig(tpm=1_000, otpm=500))
    limiter.charge(0, input_tokens=60, max_tokens=4_000)
    limiter.settle(1, output_tokens=150)
    assert limiter.readings(1) == [Reading("tokens", 1_000, 790, 59), Reading("output", 500, 350, 59)]


def test_max_tokens_can_be_reserved_for_good() -> None:
    """OpenAI's way: the larger of estimate and `max_tokens` is charged, and the real usage changes nothing."""
    limiter = RateLimiter(LimitConfig(tpm=1_000, reserve_max_tokens=True))
    limiter.charge(0, input_tokens=60, max_tokens=400)
    limiter.settle(1, output_tokens=10)
    assert limiter.readings(1) == [Reading("tokens", 1_000, 600, 59)]
