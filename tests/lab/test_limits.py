"""What is concluded about a provider's rate limits from what its replies say."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivemind.lab.fit.limiter import Allowance, Amounts, FittedLimit, FixedWindow, LimitState, TokenBucket
from hivemind.lab.fit.limits import fit_limits
from hivemind.scheduler.types import Usage, WindowKind, WindowReading

FAMILY = "claude"
Told = list[tuple[float, str, tuple[WindowReading, ...]]]


def told(allowance: Allowance, limit: int, *, every_s: float, takes: float, lasts_s: float, rounded: bool) -> Told:
    """What replies say of an allowance that is used all the time, as long as it lets somebody in."""
    readings: Told = []
    for step in range(int(lasts_s / every_s)):
        at = step * every_s
        if not allowance.wait_s(at, takes):
            allowance.take(at, takes)
        left, reset_in_s = allowance.reading(at)
        if rounded:
            reset_in_s = math.ceil(at + reset_in_s) - at
        readings.append((at, FAMILY, (WindowReading(WindowKind.REQUESTS, limit, left, reset_in_s),)))
    return readings


@given(limit=st.integers(20, 5000), span_s=st.sampled_from([10.0, 60.0, 300.0]), rounded=st.booleans())
def test_a_fixed_window_is_found(limit: int, span_s: float, rounded: bool) -> None:
    """Its limit, its length, and that it begins anew."""
    readings = told(
        FixedWindow(limit, span_s), limit, every_s=1.3, takes=limit / 20, lasts_s=span_s * 2.5, rounded=rounded
    )
    (fitted,) = fit_limits(readings, 0.0)
    assert (fitted.limit, fitted.form, fitted.span_s, fitted.spent) == (limit, "fixed", span_s, 0.0)


@given(limit=st.integers(20, 5000), rounded=st.booleans())
def test_a_bucket_is_found(limit: int, rounded: bool) -> None:
    """Its limit, the time in which it drips full, and that it drips."""
    readings = told(TokenBucket(limit, 60.0), limit, every_s=1.3, takes=limit / 20, lasts_s=150.0, rounded=rounded)
    (fitted,) = fit_limits(readings, 0.0)
    assert (fitted.limit, fitted.form, fitted.span_s) == (limit, "bucket", 60.0)


def in_bursts_by_two_clocks(allowance: Allowance, limit: int) -> Told:
    """What the proxy reads of bursts, one a minute and each larger than the last, if resets are whole seconds, rounded
    down, and some replies have an older `Date`."""
    readings: Told = []
    for minute in range(5):
        for step in range(12):
            at = 60.0 * minute + 1.13 * step
            takes = limit * (minute + 1) * (1 + step % 3) / 150
            if not allowance.wait_s(at, takes):
                allowance.take(at, takes)
            left, reset_in_s = allowance.reading(at)
            clock = at if step % 6 else math.floor(at) - 2
            until_s = max(0.0, math.floor(at + reset_in_s) - clock)
            readings.append((at, FAMILY, (WindowReading(WindowKind.TOKENS, limit, left, until_s),)))
    return readings


@pytest.mark.parametrize(
    ("allowance", "form"), [(TokenBucket(180_000, 60.0), "bucket"), (FixedWindow(180_000, 60.0), "fixed")]
)
def test_resets_by_two_clocks_are_understood(allowance: Allowance, form: str) -> None:
    """Where one in six is late, a bucket isn't taken for windows, nor windows for a bucket."""
    (fitted,) = fit_limits(in_bursts_by_two_clocks(allowance, 180_000), 0.0)
    assert (fitted.limit, fitted.form) == (180_000, form)
    assert fitted.span_s == pytest.approx(60.0, rel=0.03)


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("span_s", [20.0, 60.0])
def test_a_bucket_that_is_hardly_used_is_no_window_of_seconds(span_s: float, rounded: bool) -> None:
    """Its resets of a second or two are those of a little that is missing, and a sentence says how little that was."""
    readings = told(TokenBucket(10_000, span_s), 10_000, every_s=1.3, takes=50, lasts_s=150.0, rounded=rounded)
    (fitted,) = fit_limits(readings, 0.0)
    assert (fitted.form, fitted.limit) == ("bucket", 10_000)
    if rounded:
        assert fitted.spans_s is not None
        assert fitted.spans_s[0] <= span_s <= fitted.spans_s[1]
        drawn = [fitted.drawn(random.Random(seed)).span_s for seed in range(50)]
        assert max(drawn) > 1.3 * min(drawn)
    else:
        assert fitted.span_s == span_s
    assert "0.5 % of it used" in " ".join(fitted.sentences()) or rounded


def test_a_window_that_is_hardly_used_counts_as_the_busy_one_does() -> None:
    """A provider that drips tokens drips requests too."""
    busy, idle = TokenBucket(10_000, 60.0), TokenBucket(1_000, 60.0)
    readings: Told = []
    for step in range(100):
        at = step * 1.3
        if not busy.wait_s(at, 500):
            busy.take(at, 500)
            idle.take(at, 1)
        pair = tuple(
            WindowReading(kind, limit, left, math.ceil(at + reset_in_s) - at)
            for kind, limit, (left, reset_in_s) in (
                (WindowKind.TOKENS, 10_000, busy.reading(at)),
                (WindowKind.REQUESTS, 1_000, idle.reading(at)),
            )
        )
        readings.append((at, FAMILY, pair))
    fitted = fit_limits(readings, 0.0)
    assert {(each.kind, each.form, each.span_s) for each in fitted} == {
        (WindowKind.TOKENS, "bucket", 60.0),
        (WindowKind.REQUESTS, "bucket", 60.0),
    }


def test_what_others_had_used_before_the_recording_is_known() -> None:
    """A window that began before it stands as the first reply says."""
    readings: Told = [
        (100.0 + at, FAMILY, (WindowReading(WindowKind.REQUESTS, 50, left, reset),))
        for at, left, reset in ((1.0, 20, 29.0), (15.0, 19, 15.0), (31.0, 49, 59.0), (60.0, 40, 30.0))
    ]
    (fitted,) = fit_limits(readings, 100.0)
    assert (fitted.form, fitted.span_s, fitted.spent, fitted.spent_for_s) == ("fixed", 60.0, 30.0, 30.0)
    window = fitted.begin(100.0)
    left, reset_in_s = window.reading(100.0)
    assert (left, round(reset_in_s, 6)) == (20, 30.0)


def test_families_and_kinds_are_told_apart() -> None:
    """One window each."""
    readings: Told = [
        (
            float(at),
            family,
            (
                WindowReading(WindowKind.REQUESTS, limit, limit - 1, 60.0 - at),
                WindowReading(WindowKind.INPUT, limit * 100, limit * 99, 60.0 - at),
            ),
        )
        for at in range(5)
        for family, limit in (("opus", 10), ("haiku", 50))
    ]
    assert {(each.family, each.kind, each.limit) for each in fit_limits(readings, 0.0)} == {
        ("opus", WindowKind.REQUESTS, 10),
        ("opus", WindowKind.INPUT, 1000),
        ("haiku", WindowKind.REQUESTS, 50),
        ("haiku", WindowKind.INPUT, 5000),
    }


def test_a_request_is_charged_as_providers_do() -> None:
    """A request at once, its input at once, its output when it is over; the longest answer at once where that is
    reserved."""
    kinds = (WindowKind.REQUESTS, WindowKind.TOKENS, WindowKind.INPUT, WindowKind.OUTPUT)
    limits = [FittedLimit(FAMILY, kind, 1000, "fixed", 60.0) for kind in kinds]
    usage, amounts = Usage(output_tokens=30), Amounts(100, 500)

    def used(*, reserves: bool, over: bool) -> list[int]:
        limiter = LimitState(limits, 0.0, 0.0, reserves=reserves)
        limiter.charge(1.0, FAMILY, amounts)
        if over:
            limiter.settle(2.0, FAMILY, usage)
        return [1000 - (reading.remaining or 0) for reading in limiter.readings(3.0, FAMILY)]

    assert used(reserves=False, over=False) == [1, 100, 100, 0]
    assert used(reserves=False, over=True) == [1, 130, 100, 30]
    assert used(reserves=True, over=True) == [1, 500, 100, 30]


def test_resets_are_told_as_they_were() -> None:
    """By the full second of the clock on the wall, where that is how the provider tells them."""
    limit = FittedLimit(FAMILY, WindowKind.REQUESTS, 10, "fixed", 60.0, whole_seconds=True)
    limiter = LimitState([limit], 0.0, 1000.25, reserves=False)
    limiter.charge(0.5, FAMILY, Amounts(1, 1))
    (reading,) = limiter.readings(10.0, FAMILY)
    assert reading.reset_in_s == pytest.approx(1061 - 1010.25)


def test_what_a_provider_never_tells_isn_t_told() -> None:
    """A limit that only showed by refusals refuses, but stands in no reply."""
    limiter = LimitState(
        [FittedLimit(FAMILY, WindowKind.REQUESTS, 1, "fixed", 60.0, reported=False)], 0.0, 0.0, reserves=False
    )
    limiter.charge(0.0, FAMILY, Amounts(1, 1))
    assert limiter.readings(1.0, FAMILY) == ()
    assert limiter.wait_s(1.0, FAMILY, Amounts(1, 1)) == pytest.approx(59.0)
