"""Rates, times and their recent past."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from world.histories import History, price, randomly
from world.kit import (
    USED,
    abandoned,
    arrived,
    failed,
    finished,
    first_content,
    granted,
    refused,
    state,
    task_added,
    task_changed,
    told,
)

from hivemind.journal.codec import event_of, line_of
from hivemind.scheduler import events as ev
from hivemind.scheduler.events import WindowState
from hivemind.scheduler.types import WindowKind
from hivemind.world.health import BOUNDS_S, FINE_BOUNDS_S, STEP_S, Vitals
from hivemind.world.state import Carried
from hivemind.world.vitals import RECENT_STEPS, STEPS_KEPT, VitalsFold, copied, merged_vitals, quantile, tokens_limit


def vitals(*events: ev.Event, at: float) -> Vitals:
    """As they are shown at that moment, after what happened by then."""
    return told(*(event for event in events if event.at <= at), price=price).snapshot(at).vitals


def one(ticket: int, at: float) -> Sequence[ev.Event]:
    """A request that arrives then, waits for a second, begins its answer two seconds later and ends after another."""
    return (
        arrived(ticket, at=at),
        granted(ticket, at=at + 1),
        first_content(ticket, at=at + 3),
        finished(ticket, at=at + 4),
    )


def many(count: int, every_s: float, start: float = 0.0) -> list[ev.Event]:
    """So many of them."""
    events = [event for n in range(count) for event in one(n + 1, start + n * every_s)]
    return sorted(events, key=lambda event: event.at)


def test_rates_are_over_the_last_minute() -> None:
    """A request every two seconds: the rates say so, whenever one looks."""
    for at in (90.0, 92.5, 99.9):
        found = vitals(*many(60, 2.0), at=at)
        assert 60.0 <= found.span_s < 65.0
        assert found.requests_per_s == pytest.approx(0.5, rel=0.05)
        assert found.tokens_per_min == pytest.approx(30 * USED.total, rel=0.05)
        assert (found.error_share, found.failed_share) == (0.0, 0.0)


def test_nothing_is_known_before_the_first_request() -> None:
    """No share, no time, no dollar, no point."""
    found = vitals(at=3.0)
    assert (found.requests_per_s, found.tokens_per_min, found.dollars_per_hour) == (0, 0, 0)
    assert (found.error_share, found.failed_share, found.wait_p50_s, found.ttft_p95_s) == (None,) * 4
    assert set(found.series.values()) == {()}
    assert found.tasks == 0


def test_the_first_request_is_no_fortune_an_hour() -> None:
    """Of amounts by the minute or hour no more is claimed than was used, until a minute has passed."""
    found = told(*one(1, 0.0), price=lambda *_: 0.5).snapshot(5.0).vitals
    assert found.tokens_per_min == USED.total
    assert found.dollars_per_hour == 30.0


def test_errors_are_shares_of_attempts_and_of_requests() -> None:
    """A failed attempt that was retried is no failed request; a client that left saw no error; a refusal is one."""
    events: list[ev.Event] = [
        arrived(1),
        granted(1),
        failed(1.0, at=2.0),
        granted(1, at=3.0, attempt=2),
        finished(1, at=4.0),
    ]
    found = vitals(*events, at=5.0)
    assert (found.error_share, found.failed_share) == (0.5, 0.0)
    events += [arrived(2, at=5.0), abandoned(2, at=6.0), refused(None, at=6.0)]
    events += [arrived(1, at=6.0), granted(1, at=6.0), failed(None, at=7.0)]
    found = vitals(*events, at=8.0)
    assert (found.error_share, found.failed_share) == (2 / 3, 2 / 4)


def test_quantiles_are_right_to_a_few_percent() -> None:
    """Whatever the times are."""
    draw = Random(1)
    for low, high in ((0.01, 0.02), (0.05, 8.0), (1.0, 900.0)):
        times = sorted(low * (high / low) ** draw.random() for _ in range(2000))
        fold = VitalsFold()
        for time_s in times:
            fold.waited(1.0, time_s)
        found = fold.view(2.0, 0.0, {}, None)
        assert found.wait_p50_s == pytest.approx(times[999], rel=0.06)
        assert found.wait_p95_s == pytest.approx(times[1899], rel=0.06)
        assert sum(found.waits.bins) == 2000
        assert found.waits.sum_s == pytest.approx(sum(times))
        assert sum(found.waits.bins[: BOUNDS_S.index(0.25) + 1]) == sum(time_s <= 0.25 for time_s in times)


@pytest.mark.parametrize(("time_s", "shown"), [(0.0, 0.0), (0.0004, 0.0004), (4000.0, 4000.0)])
def test_times_beyond_all_bins(time_s: float, shown: float) -> None:
    """No wait is none, and a very long one is as long as it was."""
    fold = VitalsFold()
    fold.waited(1.0, time_s)
    found = fold.view(2.0, 0.0, {}, None)
    assert found.wait_p50_s == found.wait_p95_s == shown


@given(st.lists(st.floats(0.0, 5000.0), min_size=1, max_size=40), st.integers(1, 40), st.floats(0.01, 1.0))
def test_no_quantile_is_beyond_the_times_that_there_were(times: list[float], split: int, share: float) -> None:
    """Neither of a minute, of a step, since the start, of several proxies, nor after a part of a journal."""
    folds = VitalsFold(), VitalsFold()
    for number, time_s in enumerate(times):
        fold = folds[number >= split]
        fold.waited(number * 0.5, time_s)
        fold.first_content(number * 0.5, time_s)
    folds[0].restore(copied(folds[0]))
    shown = [fold.view(len(times) * 0.5 + STEP_S, 0.0, {}, None) for fold in folds]
    whole = merged_vitals(shown, None)
    low, high = min(times), max(times)
    for found in (whole.waits, whole.ttfts, whole.recent_waits, whole.recent_ttfts):
        assert found.range_s == (low, high)
        assert low <= (quantile(found, share) or 0.0) <= high
    for name in ("wait_p95_s", "ttft_p95_s"):
        assert all(low <= value <= high for each in shown for value in each.series[name] if value is not None)


def test_the_range_of_times_of_an_older_journal_is_unknown() -> None:
    """What it counted may be outside of the range of what came later."""
    old = VitalsFold()
    old.waited(1.0, 30.0)
    old.waited(8.0, 30.0)
    state = copied(old)
    state.waits.range_s = None
    for step in state.steps:
        step.waits_range_s = None
    fold = VitalsFold()
    fold.restore(state)
    fold.waited(9.0, 1.0)
    found = fold.view(10.0, 0.0, {}, None)
    assert (found.waits.range_s, found.recent_waits.range_s) == (None, None)
    assert found.wait_p95_s == pytest.approx(30.0, rel=0.1)


def test_fine_bins_are_parts_of_the_others() -> None:
    """So that both histograms count the same."""
    assert set(BOUNDS_S) <= set(FINE_BOUNDS_S)
    assert list(FINE_BOUNDS_S) == sorted(FINE_BOUNDS_S)
    assert quantile(vitals(at=1.0).recent_waits, 0.5) is None


def test_the_series_tell_of_each_step() -> None:
    """Those that are over, none longer ago than is kept."""
    found = vitals(*many(6, 2.5), at=20.0).series
    assert found["requests_per_s"] == (1 / STEP_S, 2 / STEP_S, 2 / STEP_S, 1 / STEP_S)
    assert found["tokens_per_min"][1] == 2 * USED.total * 60 / STEP_S
    assert found["error_share"] == (0.0,) * 4
    assert found["wait_p95_s"][0] == pytest.approx(1.0, rel=0.2)
    later = vitals(*many(6, 2.5), at=20.0 + STEPS_KEPT * STEP_S).series
    assert {len(series) for series in later.values()} == {STEPS_KEPT}
    assert not any(later["requests_per_s"])
    assert set(later["wait_p95_s"]) == {None}


def test_what_is_long_ago_is_no_longer_recent() -> None:
    """Histograms since the start go on, those of the last minute don't."""
    rest_s = (RECENT_STEPS + 1) * STEP_S
    recent, old = vitals(*one(1, 0.0), at=rest_s - 0.1), vitals(*one(1, 0.0), at=rest_s)
    assert (sum(recent.recent_waits.bins), sum(old.recent_waits.bins)) == (1, 0)
    assert recent.waits == old.waits
    assert (old.waits.bins[BOUNDS_S.index(1.0)], old.waits.sum_s) == (1, 1.0)
    assert (old.ttfts.bins[BOUNDS_S.index(2.5)], old.ttfts.sum_s) == (1, 2.0)
    assert (old.wait_p50_s, old.requests_per_s) == (None, 0.0)


def test_tasks_done_over_time() -> None:
    """How many there were at the end of each step, also after steps in which none ended."""
    events = [task_added("a"), task_added("b", after=("a",)), task_changed("running", task="a")]
    events += [task_changed("done", task="a", at=7.0)]
    found = vitals(*events, at=21.0)
    assert (found.tasks_done, found.tasks) == (1, 2)
    assert found.series["tasks_done"] == (0, 1, 1, 1)
    later = vitals(*events, at=21.0 + 2 * STEPS_KEPT * STEP_S)
    assert set(later.series["tasks_done"]) == {1}


def test_dollars_count_when_they_were_spent() -> None:
    """Also if the prices come later."""
    world = told(*one(1, 0.0), *one(2, 8.0))
    assert world.snapshot(15.0).vitals.dollars_per_hour == 0.0
    world.price_by(lambda *_: 0.5)
    found = world.snapshot(15.0).vitals
    assert found.dollars_per_hour == 60.0
    assert found.series["dollars_per_hour"] == (360.0, 0.0, 360.0)


def window(kind: WindowKind, limit: float, family: str = "m") -> WindowState:
    """A rate window of which nothing is used."""
    return WindowState(family, kind, limit, 0.0, 0.0, limit, None, "headers")


def test_the_limit_of_tokens_is_that_of_all_lanes() -> None:
    """Both directions, all families, all lanes; unknown for one, it is unknown for all."""
    both = (window(WindowKind.INPUT, 400.0), window(WindowKind.OUTPUT, 80.0), window(WindowKind.REQUESTS, 5.0))
    other = window(WindowKind.TOKENS, 1000.0, "n")
    lanes = [state(windows=both), state(windows=(*both, other))]
    assert tokens_limit(lanes) == 480.0 + 480.0 + 1000.0
    assert tokens_limit([*lanes, state()]) is None
    assert tokens_limit([state(windows=both[1:])]) is None
    assert tokens_limit([state(windows=(window(WindowKind.TOKENS, math.inf),))]) is None
    assert tokens_limit([]) is None


@pytest.mark.parametrize("cut", [0.55, 1.0])
def test_gone_on_from_a_journal_s_part_they_are_the_same(cut: float) -> None:
    """Written down in the middle of a long history, and read again."""
    events = History().after(randomly(11, 900))
    original = told(*events[: round(cut * len(events))], price=price)
    at = events[round(cut * len(events)) - 1].at
    line = line_of(Carried(at, original.keep(at)))
    other = told(event_of(line), price=price)
    for event in events[round(cut * len(events)) :]:
        original.apply(event)
        other.apply(event)
        if event.at - at > 3.0:
            at = event.at
            assert other.snapshot(at).vitals == original.snapshot(at).vitals
    end = events[-1].at
    found = original.snapshot(end).vitals
    assert found == other.snapshot(end).vitals
    assert sum(found.waits.bins) > 100


def test_who_waits_longest_counts_before_it_is_sent() -> None:
    """While nothing gets through, waits grow; one that has only begun says nothing yet."""
    fold = VitalsFold()
    for _ in range(100):
        fold.waited(1.0, 0.2)
    assert fold.view(2.0, 0.0, {}, None, [0.1] * 50).wait_p95_s == pytest.approx(0.2, rel=0.15)
    stuck = fold.view(40.0, 0.0, {}, None, [38.0] * 10)
    assert stuck.wait_p95_s == pytest.approx(38.0, rel=0.1)
    assert sum(stuck.waits.bins) == 100, "since the start only those that are over count"
    assert VitalsFold().view(40.0, 0.0, {}, None, [38.0]).wait_p50_s == pytest.approx(38.0, rel=0.1)


def test_the_pause_before_a_retry_is_a_wait() -> None:
    """While it lasts and afterwards, as in the agent's WAITS: with a failing provider agents wait for nothing else."""
    events = [arrived(), granted(), failed(30.0), granted(at=32.0, attempt=2)]
    pausing, sent = (told(*events[:number]).snapshot(32.0) for number in (3, 4))
    assert pausing.vitals.wait_p95_s == pytest.approx(30.0, rel=0.1)
    assert pausing.agents[0].waiting_s == 30.0
    assert sent.vitals.wait_p95_s == pytest.approx(30.0, rel=0.1)
    assert sent.vitals.waits.sum_s == sent.agents[0].waited_s == 31.0
