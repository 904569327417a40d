"""Which explanation of failures is found, each in a small world of its own, and what comes of it in a simulation."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import count, pairwise

import pytest
from lab.kit import request

from hivemind.lab.fit.failures import Failures, FailureState, fit_failures
from hivemind.lab.trace.steps import RequestAttempt, RequestStep, TracedAttempt
from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Failure, FailureKind, Request

pytestmark = pytest.mark.e2e
RECORDED_S = 300.0
_OVERLOADED = Failure(FailureKind.OVERLOADED, True, 529)
_NUMBERS = count(1)


def step(at: float = 0.0, *, size: int = 400) -> RequestStep:
    """A request of an agent of its own."""
    number = next(_NUMBERS)
    arrived: ev.Arrived = request(at, number, f"a{number}", size=size)
    asked = Request(arrived.agent, arrived.lane, "m", "m", size, 100, False)
    return RequestStep(at, number=number, arrived=arrived, request=asked)


def attempted(at: float, failure: Failure | None, in_flight: int = 1, *, size: int = 400) -> RequestAttempt:
    """A request with one attempt."""
    asking = step(at, size=size)
    one = TracedAttempt(at, in_flight, duration_s=1.0, failure=failure, complete=True)
    asking.attempts.append(one)
    return asking, one


def world(
    share: Callable[[float, int], float], seed: int = 1, *, per_s: float = 2.0, circuit: bool = False
) -> list[RequestAttempt]:
    """Attempts of which a share fails by time and number in flight; none for 5 s after three failures in a row
    (`circuit`)."""
    rng, at, in_flight, failed = random.Random(seed), 0.0, 5, 0
    taken = []
    while (at := at + rng.expovariate(per_s)) < RECORDED_S:
        in_flight = min(16, max(1, in_flight + rng.choice((-1, 0, 1))))
        fails = rng.random() < share(at, in_flight)
        taken.append(attempted(at, _OVERLOADED if fails else None, in_flight))
        failed = failed + 1 if fails else 0
        if circuit and failed >= 3:
            at += 5.0
    return taken


def fitted(taken: Sequence[RequestAttempt]) -> Failures:
    """Fit the failures of a world."""
    return fit_failures(taken, 0.0, RECORDED_S)


def tried(state: FailureState, times: Sequence[float], in_flight: int = 1) -> list[bool]:
    """Return for each time whether a new request's attempt fails then."""
    failed = []
    for at in times:
        asking = step(at)
        found = state.in_spell(at, asking) or state.by_chance(asking, in_flight)
        failed.append(found is not None)
    return failed


SPELLS = ((20.0, 26.0), (71.0, 77.0), (140.0, 146.0), (233.0, 239.0))


def in_spells(at: float) -> bool:
    """Return whether a time lies in one of the irregular spells."""
    return any(begins <= at < ends for begins, ends in SPELLS)


@pytest.mark.parametrize("circuit", [False, True])
def test_spells_are_found_where_they_were(*, circuit: bool) -> None:
    """An open circuit, during which nothing is tried, doesn't lengthen them."""
    failures = fitted(world(lambda at, _: 1.0 if in_spells(at) else 0.01, circuit=circuit))
    assert failures.spells is not None
    assert failures.spells.share == 1.0
    assert len(failures.spells.recorded) == len(SPELLS)
    for spell, (begins, ends) in zip(failures.spells.recorded, SPELLS, strict=True):
        assert spell.began_at == pytest.approx(begins, abs=1.5)
        assert spell.ended_at == pytest.approx(ends, abs=2.5)
    (said, *_) = failures.sentences()
    assert said.startswith("everything failed with 529 in 4 spells of about ")


@pytest.mark.slow
def test_load_is_found() -> None:
    """The share grows with the number in flight, and so it does in a simulation."""
    failures = fitted(world(lambda _, in_flight: min(0.9, 0.002 * in_flight**2)))
    assert failures.load is not None
    assert failures.spells is None
    state = FailureState(failures, random.Random(1), draws=True)
    few, many = (sum(tried(state, [0.0] * 500, in_flight)) / 500 for in_flight in (4, 14))
    assert few == pytest.approx(0.032, abs=0.03)
    assert many == pytest.approx(0.39, abs=0.12)
    (said,) = failures.sentences()
    assert said.startswith("the more in flight, the more fail: ")


def test_a_burst_of_most_attempts_stays_clustered_when_drawn() -> None:
    """80 % fail in spells: drawn failures come as close together as recorded ones."""

    def near(times: Sequence[float]) -> float:
        return sum(two - one < 1.5 for one, two in pairwise(times)) / max(1, len(times) - 1)

    taken = world(lambda at, _: 0.8 if in_spells(at) else 0.01)
    failures = fitted(taken)
    assert failures.spells is not None
    assert failures.spells.share == pytest.approx(0.8, abs=0.15)
    recorded = [one.granted_at for _, one in taken if one.failure is not None]
    times = [one.granted_at for _, one in taken]
    counts, nearness = [], []
    for seed in range(40):
        rng = random.Random(seed)
        state = FailureState(failures.drawn(rng), rng, draws=True)
        drawn = [at for at, failed in zip(times, tried(state, times), strict=True) if failed]
        counts.append(len(drawn))
        nearness.append(near(drawn))
    assert sum(counts) / len(counts) == pytest.approx(len(recorded), rel=0.5)
    assert sum(nearness) / len(nearness) > 0.75 * near(recorded)


def test_recorded_attempts_end_as_recorded() -> None:
    """Under the recorded conditions luck is as it was, for copies too; more attempts in a spell meet the spell."""
    taken = world(lambda at, in_flight: 0.8 if in_spells(at) else 0.02)
    failures = fitted(taken)
    state = FailureState(failures, random.Random(3), draws=False)
    for original, one in taken:
        asking = replace(original)
        failed = state.in_spell(one.granted_at, asking) or state.by_chance(asking, one.in_flight)
        state.tried(asking)
        assert failed is (one if one.failure is not None else None)
    state = FailureState(failures, random.Random(3), draws=False)
    spell = [20.5 + n / 20 for n in range(100)]
    assert sum(tried(state, spell)) == pytest.approx(80, abs=15)


def test_a_request_at_fault_always_fails() -> None:
    """Requests above a size are refused whenever they are sent; that is no chance that others meet."""
    refused = Failure(FailureKind.CLIENT_ERROR, False, 400)
    taken = [
        attempted(float(n), refused if n % 10 == 0 else None, size=900_000 if n % 10 == 0 else 4000 + n)
        for n in range(100)
    ]
    failures = fitted(taken)
    assert sum(request.at_fault for request in failures.requests) == 10
    assert (failures.rate, failures.spells, failures.load) == (0.0, None, None)
    (said,) = failures.sentences()
    assert said.startswith("requests above about 452k characters always fail with 400")
    state = FailureState(failures, random.Random(1), draws=True)
    for _ in range(3):
        assert state.by_chance(taken[10][0], 1) is taken[10][1]
        state.tried(taken[10][0])
    assert not any(tried(state, [0.0] * 100))


def test_a_request_that_failed_ever_again_is_at_fault() -> None:
    """Five times, while others were answered: not by chance."""
    poisoned = step(50.0)
    poisoned.attempts += [
        TracedAttempt(at, 1, duration_s=1.0, failure=Failure(FailureKind.SERVER_ERROR, True, 500), complete=True)
        for at in (50.0, 55.0, 62.0, 75.0, 90.0)
    ]
    taken = [attempted(float(n), None) for n in range(100)] + [(poisoned, one) for one in poisoned.attempts]
    taken.sort(key=lambda pair: pair[1].granted_at)
    failures = fitted(taken)
    assert [each for each in failures.requests if each.at_fault] == [poisoned]
    assert (failures.rate, failures.chance) == (0.0, [])
