"""What is concluded from refusals that no header announced."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence

import pytest
from lab.kit import request

from hivemind.lab.fit.limiter import Allowance, FixedWindow, SlidingWindow, TokenBucket
from hivemind.lab.fit.untold import Untold, fit_untold
from hivemind.lab.trace.steps import RequestAttempt, RequestStep, TracedAttempt
from hivemind.lab.trace.trace import request_of
from hivemind.records import replace
from hivemind.scheduler.types import Failure, FailureKind, Usage, WindowKind

pytestmark = pytest.mark.e2e


def attempt(at: float, number: int, *, lasts_s: float = 1.0, failure: Failure | None = None) -> RequestAttempt:
    """Return an attempt that begins at a time, answered or refused."""
    arrived = request(at, number, f"a{number}")
    one = TracedAttempt(at, 1, duration_s=0.02 if failure else lasts_s, failure=failure, complete=True, end_number=1)
    one.usage = None if failure else Usage(100, 0, 0, 50)
    step = RequestStep(at, number=number, arrived=arrived, request=request_of(arrived), attempts=[one])
    return step, one


def refused_by(allowance: Allowance, times: Iterable[float], *, says_when: bool) -> list[RequestAttempt]:
    """Return attempts at these times, of which a limit of requests takes what fits."""
    found = []
    for number, at in enumerate(times):
        wait_s = allowance.wait_s(at, 1.0)
        delay_s = math.ceil(wait_s) if says_when else None
        failure = Failure(FailureKind.RATE_LIMITED, True, 429, delay_s) if wait_s else None
        if failure is None:
            allowance.take(at, 1.0)
        found.append(attempt(at, number, failure=failure))
    return found


def busy(seed: int, lasts_s: float, every_s: float) -> list[float]:
    """Return times at random."""
    rng, at, found = random.Random(seed), 0.0, []
    while at < lasts_s:
        at += rng.expovariate(1 / every_s)
        found.append(at)
    return found


def fitted(sent: Sequence[RequestAttempt]) -> Untold:
    """Return what is found in attempts."""
    return fit_untold(sent, set(), sent[-1][1].granted_at + 5.0, reserves=False)


@pytest.mark.parametrize("says_when", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("form", "make"),
    [
        ("fixed", lambda: FixedWindow(40, 60.0)),
        pytest.param("sliding", lambda: SlidingWindow(40, 60.0), marks=pytest.mark.slow),
        ("bucket", lambda: TokenBucket(40, 60.0, 10)),
    ],
)
def test_a_silent_rate_limit_is_found(form: str, make: Callable[[], Allowance], says_when: bool) -> None:
    """Its form, its size, and whether its refusals say when to come back."""
    (limit,) = fitted(refused_by(make(), busy(1, 400.0, 1.0), says_when=says_when)).limits
    assert (limit.form, limit.kind, limit.reported, limit.says_when) == (*(form, WindowKind.REQUESTS, False), says_when)
    if form == "bucket":
        assert limit.limit / limit.span_s == pytest.approx(40 / 60, rel=0.1)
        assert limit.size in range(8, 13)
    else:
        assert (limit.limit, limit.span_s) == (40, 60.0)
    assert "no header says so" in " ".join(limit.sentences())


@pytest.mark.parametrize(("kind", "delay_s"), [(FailureKind.RATE_LIMITED, 3.0), (FailureKind.OVERLOADED, None)])
def test_a_limit_of_requests_in_process_is_found(kind: FailureKind, delay_s: float | None) -> None:
    """Also where it refuses with 429, and with the Retry-After that it asks for."""
    rng = random.Random(2)
    sent: list[RequestAttempt] = []
    ends: list[float] = []
    for number, at in enumerate(busy(2, 200.0, 0.5)):
        ends = [each for each in ends if each > at]
        if len(ends) >= 5:
            status = 429 if kind is FailureKind.RATE_LIMITED else 529
            sent.append(attempt(at, number, failure=Failure(kind, True, status, delay_s)))
        else:
            lasts_s = rng.uniform(0.5, 5.0)
            ends.append(at + lasts_s)
            sent.append(attempt(at, number, lasts_s=lasts_s))
    found = fitted(sent)
    assert found.places is not None
    assert (found.places.most, found.limits, found.places.failure.delay_s) == (5, (), delay_s)
    assert len(found.refusals) == sum(one.failure is not None for _, one in sent)
    (sentence,) = found.places.sentences()
    assert "limit of about 5 in flight" in sentence


def test_refusals_by_chance_are_no_limit() -> None:
    """One in ten, whatever else was sent."""
    rng = random.Random(3)
    refused = Failure(FailureKind.RATE_LIMITED, True, 429, 2.0)
    sent = [
        attempt(at, number, failure=refused if rng.random() < 0.1 else None)
        for number, at in enumerate(busy(4, 300.0, 0.7))
    ]
    assert fitted(sent) == Untold()


def test_a_limit_that_is_uncertain_is_drawn() -> None:
    """Where nothing came between what was taken and what was refused, it may be anything between the two."""
    window = FixedWindow(40, 60.0)
    sent = []
    for number in range(200):
        at = number * 2.0
        if number % 30 < 20:  # never more than 20 a minute
            window.take(at, 1.0)
            sent.append(attempt(at, number))
    found = fitted([*sent, *refused_by(FixedWindow(30, 60.0), [500.0 + n / 10 for n in range(60)], says_when=False)])
    drawn = {found.drawn(random.Random(seed)).limits for seed in range(20)}
    assert all(each for each in drawn)


def test_a_window_that_always_asks_for_a_second() -> None:
    """Some gateways do, whatever would be right."""
    sent = refused_by(FixedWindow(40, 60.0), busy(5, 400.0, 1.0), says_when=True)
    for _, one in sent:
        one.failure = None if one.failure is None else replace(one.failure, delay_s=1.0)
    (limit,) = fitted(sent).limits
    assert (limit.form, limit.limit, limit.always_s, limit.retry_after_s(30.0)) == ("fixed", 40, 1.0, 1.0)


def test_input_from_a_cache_may_count() -> None:
    """Where what was refused says so."""
    rng, window, sent = random.Random(6), FixedWindow(20_000, 60.0), list[RequestAttempt]()
    for number, at in enumerate(busy(6, 500.0, 1.0)):
        cached, own = rng.randrange(0, 1000), rng.randrange(50, 400)
        wait_s = window.wait_s(at, cached + own)
        sent.append(attempt(at, number, failure=Failure(FailureKind.RATE_LIMITED, True, 429, None) if wait_s else None))
        sent[-1][1].usage = Usage(own, cached, 0, 50)
        if not wait_s:
            window.take(at, cached + own)
    (limit,) = fitted(sent).limits
    assert (limit.kind, limit.counts_cached, limit.form) == (WindowKind.INPUT, True, "fixed")
    assert limit.limit == pytest.approx(20_000, rel=0.03)
