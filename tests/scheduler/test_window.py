"""One rate window: what we count ourselves, and what the provider's headers say."""

from __future__ import annotations

import pytest

from hivemind.scheduler.limits import Charge, Window
from hivemind.scheduler.types import WindowKind, WindowReading

REQUESTS = WindowKind.REQUESTS


class Gate:
    """A window and a clock; takes and reads as a scheduler would."""

    def __init__(
        self, limit: float | None = 50, *, binding: bool = False, kind: WindowKind = REQUESTS, at: float = 0.0
    ) -> None:
        self.window = Window(kind, limit, binding=binding)
        self.now = at

    def may(self, amount: float = 1.0) -> bool:
        return self.window.delay_s(self.now, amount) <= 0

    def take(self, count: int = 1, amount: float = 1.0) -> list[Charge]:
        return [self.window.take(self.now, amount) for _ in range(count)]

    def as_many_as_fit(self) -> int:
        count = 0
        while self.may():
            self.take()
            count += 1
        return count

    def reply(
        self,
        charge: Charge | None,
        remaining: int | None,
        reset_in_s: float | None = 50.0,
        *,
        limit: int | None = 50,
        started_at: float | None = None,
    ) -> None:
        reading = WindowReading(self.window.kind, limit, remaining, reset_in_s)
        began = started_at if started_at is not None else charge.at if charge is not None else self.now
        self.window.read(self.now, reading, began, charge)

    def answered(self, remaining: int, reset_in_s: float | None = 50.0, *, limit: int = 50) -> None:
        """One request there and back."""
        (charge,) = self.take()
        self.reply(charge, remaining, reset_in_s, limit=limit)


def fixed(*, used: int = 1, limit: int = 50, at: float = 0.0) -> Gate:
    """A provider known for fixed windows, in one of which we used so many; it ends 50 s later."""
    gate = Gate(limit, at=at)
    for n in range(used):
        gate.answered(limit - n - 1, limit=limit)
    return gate


def bucket(*, remaining: int, limit: int = 60) -> Gate:
    """A provider known for a bucket that drips `limit` a minute and holds so much now."""
    gate = Gate(None)
    for _ in range(4):
        gate.answered(remaining, (limit - remaining) * 60 / limit, limit=limit)
    return gate


# --- Our own count ----------------------------------------------------------------------------------------------------


def test_the_oldest_request_leaves_the_sliding_window_after_a_minute() -> None:
    """And as many as left it may follow."""
    gate = Gate(3)
    for at in (0.0, 10.0, 20.0):
        gate.now = at
        gate.take()
    assert gate.window.delay_s(20.0, 1.0) == pytest.approx(40.0)
    gate.now = 60.0
    assert gate.as_many_as_fit() == 1
    assert gate.window.delay_s(60.0, 1.0) == pytest.approx(10.0)


def test_a_request_larger_than_the_window_is_sent_when_most_is_left() -> None:
    """Else it would never fit."""
    gate = Gate(1000, kind=WindowKind.TOKENS)
    assert gate.may(5000.0)
    gate.take(amount=200.0)
    assert not gate.may(5000.0)


def test_a_reservation_settles_at_the_real_amount() -> None:
    """What was reserved too much is free again, what was too little is taken."""
    gate = Gate(1000, kind=WindowKind.TOKENS)
    much, little = gate.take(2, amount=400.0)
    assert gate.window.remaining(0.0) == 200
    gate.window.settle(0.0, much, 100.0)
    assert (gate.window.remaining(0.0), gate.window.reserved) == (500, 400)
    gate.window.settle(0.0, little, 700.0)
    assert (gate.window.remaining(0.0), gate.window.reserved) == (200, 0)


def test_a_reservation_older_than_the_window_settles_without_a_trace() -> None:
    """A stream longer than a minute was charged to a minute that is over."""
    gate = Gate(1000, kind=WindowKind.TOKENS)
    (charge,) = gate.take(amount=400.0)
    assert gate.window.remaining(61.0) == 1000
    gate.window.settle(61.0, charge, 900.0)
    assert (gate.window.used, gate.window.reserved) == (0, 0)


# --- Headers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("profile", "stated"), [(10, 50), (500, 50)])
def test_headers_replace_a_profiles_guess(profile: int, stated: int) -> None:
    """Whether it was too low or too high."""
    gate = Gate(profile)
    gate.answered(stated - 1)
    assert gate.window.source == "headers"
    assert gate.as_many_as_fit() == stated - 1


@pytest.mark.parametrize(("own", "stated", "fit"), [(10, 50, 9), (100, 50, 49)])
def test_headers_do_not_replace_the_users_limit(own: int, stated: int, fit: int) -> None:
    """The stricter of the two holds."""
    gate = Gate(own, binding=True)
    gate.answered(stated - 1)
    assert gate.window.source == "settings"
    assert gate.as_many_as_fit() == fit


@pytest.mark.parametrize("limit", [0, -1, None])
@pytest.mark.parametrize("remaining", [0, -1])
def test_a_limit_of_nothing_says_nothing(limit: int | None, remaining: int) -> None:
    """`-1` and `0` mean that the provider doesn't know."""
    gate = Gate(5)
    (charge,) = gate.take()
    gate.reply(charge, remaining, limit=limit)
    assert gate.window.source == "assumed"
    assert gate.as_many_as_fit() == 4


def test_a_reply_without_a_remaining_says_nothing() -> None:
    """A limit alone doesn't tell what is left."""
    gate = Gate(5)
    gate.reply(None, None)
    assert gate.window.source == "assumed"


def test_the_whole_window_is_used_without_other_clients() -> None:
    """While the headers agree with our own count the margin isn't held back."""
    assert fixed(used=1).as_many_as_fit() == 49
    assert fixed(used=47).as_many_as_fit() == 3


@pytest.mark.parametrize(("limit", "margin"), [(50, 2), (1000, 2), (10, 1)])
def test_a_margin_is_held_back_for_another_client(limit: int, margin: int) -> None:
    """Ten percent of the limit and at most two requests are left to others on the key."""
    gate = fixed(used=1, limit=limit)
    gate.answered(limit - 5, limit=limit)
    assert gate.as_many_as_fit() == limit - 5 - margin


def test_what_was_sent_meanwhile_is_taken_off() -> None:
    """A reply states the moment when its request was counted; those after it may not be in it yet."""
    gate = fixed(used=1)
    first, *_ = gate.take(3)
    gate.reply(first, 40)
    assert gate.window.remaining(gate.now) == 38


def test_replies_out_of_order_are_merged_by_the_smaller_remaining() -> None:
    """A late reply that knows less doesn't give back what a later request has used."""
    gate = fixed(used=1)
    first, second = gate.take(2)
    gate.reply(second, 30)
    gate.reply(first, 31)
    assert gate.window.remaining(gate.now) == 30


def test_the_window_is_whole_again_after_its_reset() -> None:
    """And not a moment before."""
    gate = fixed(used=50)
    gate.now = 49.9
    assert not gate.may()
    assert gate.window.delay_s(49.9, 1.0) == pytest.approx(0.1)
    gate.now = 50.0
    assert gate.as_many_as_fit() == 50


def test_a_reply_of_the_last_window_is_ignored() -> None:
    """It would empty the new one."""
    gate = fixed(used=49)
    (late,) = gate.take()
    gate.now = 51.0
    gate.take()
    gate.reply(late, 10, reset_in_s=-1.0)
    assert gate.window.remaining(51.0) >= 48
    assert gate.window.resets_in_s(51.0) == pytest.approx(60.0)


def test_alone_the_provider_cannot_have_counted_more_than_we_sent() -> None:
    """The last of five replies comes first and counts the other four: they aren't taken off a second time."""
    gate = fixed(used=1)
    *_, fifth = gate.take(5)
    gate.reply(fifth, 44)
    assert gate.window.remaining(gate.now) == 44


def test_a_window_taken_for_over_too_early_is_waited_for() -> None:
    """A reset that was rounded down let us ask before the window was over: nothing more until it is, and from then on
    a little longer than stated."""
    gate = fixed(used=50)
    gate.now = 50.0
    (early,) = gate.take()
    gate.reply(early, 0, reset_in_s=0.6)
    assert gate.window.delay_s(50.0, 1.0) == pytest.approx(0.6)
    gate.now = 50.6
    (charge,) = gate.take()
    gate.reply(charge, 49, reset_in_s=59.0)
    assert gate.window.resets_in_s(50.6) == pytest.approx(59.5)


def test_a_reset_rounded_up_to_whole_seconds_is_at_most_a_minute_away() -> None:
    """`61` for a minute that has just begun means a minute."""
    gate = Gate(50)
    gate.answered(49, reset_in_s=60.7)
    assert gate.window.resets_in_s(0.0) == pytest.approx(60.0)


@pytest.mark.parametrize(("left", "amount"), [(1000, 5000.0), (40, 40.0)])
def test_tokens_are_sent_while_most_of_a_window_or_enough_is_left(left: int, amount: float) -> None:
    """A request larger than the window would never fit; and only requests keep a margin, as tokens are estimates."""
    gate = Gate(None, kind=WindowKind.TOKENS)
    gate.reply(None, left, limit=1000)
    assert gate.may(amount)


def test_a_new_window_begins_when_the_provider_says() -> None:
    """Its first reply states a reset later than the one we guessed, from which the whole minute counts."""
    gate = fixed(used=50)
    gate.now = 50.0
    (charge,) = gate.take()
    gate.now = 50.4
    gate.reply(charge, 49, reset_in_s=59.8)
    assert gate.window.resets_in_s(50.4) == pytest.approx(59.8)
    assert gate.as_many_as_fit() == 49


def test_a_provider_that_states_no_reset_is_tried_again_after_a_minute() -> None:
    """Without the moment of its reset an empty window would hold the queue for ever."""
    gate = Gate(50)
    gate.answered(0, reset_in_s=None)
    assert 0 < gate.window.delay_s(gate.now, 1.0) <= 60.0
    gate.now = 60.0
    assert gate.may()


@pytest.mark.parametrize(("after_s", "fit"), [(0.0, 5), (1.0, 6), (10.0, 15), (600.0, 60)])
def test_a_bucket_drips(after_s: float, fit: int) -> None:
    """One a second at 60 a minute, up to its size."""
    gate = bucket(remaining=5)
    gate.now = after_s
    assert gate.as_many_as_fit() == fit


def test_an_empty_bucket_is_waited_for_by_the_drop() -> None:
    """Not until it would be full."""
    assert bucket(remaining=0).window.delay_s(0.0, 1.0) == pytest.approx(1.0)


def test_what_a_bucket_has_not_counted_yet_is_taken_off() -> None:
    """Requests still on their way, and one that ended without a word until a later one has counted it."""
    gate = bucket(remaining=10)
    first, _, silent = gate.take(3)
    gate.window.settle(gate.now, silent, 1.0)
    gate.reply(first, 9, 51.0, limit=60, started_at=-1.0)
    assert gate.window.remaining(gate.now) == 7
    first, *_ = bucket_with_time(gate).take(2)
    gate.reply(first, 9, 51.0, limit=60)
    assert gate.window.remaining(gate.now) == 7


def bucket_with_time(gate: Gate) -> Gate:
    """The same a second later, so that what is in flight now began after the last reply."""
    gate.now += 1.0
    return gate


def test_a_reply_overtaken_by_a_later_one_gives_a_bucket_nothing_back() -> None:
    """It is of a moment at which more was left."""
    gate = bucket_with_time(bucket(remaining=10))
    first, second = gate.take(2)
    gate.now += 0.5
    gate.reply(second, 5, 55.0, limit=60)
    gate.reply(first, 9, 51.0, limit=60)
    assert gate.window.remaining(gate.now) <= 5


def test_one_late_reset_proves_a_fixed_window() -> None:
    """A bucket would be full much sooner; from then on nothing drips."""
    gate = bucket(remaining=50)
    gate.answered(49, 55.0, limit=60)
    gate.now = 30.0
    assert gate.as_many_as_fit() <= 49


def test_a_reset_beyond_a_minute_stops_the_drip() -> None:
    """It isn't known how fast such a window fills."""
    gate = bucket(remaining=5)
    gate.answered(4, 40.0 + 55.0, limit=60)
    gate.now = 30.0
    assert gate.as_many_as_fit() <= 5


def test_output_tokens_count_when_they_are_known() -> None:
    """The reply's headers come before the output, so they can't include it."""
    gate = Gate(None, kind=WindowKind.OUTPUT)
    gate.reply(None, 1000, limit=1000)
    (charge,) = gate.take(amount=300.0)
    gate.reply(charge, 1000, limit=1000)
    assert gate.window.remaining(0.0) == 700
    gate.window.settle(0.0, charge, 500.0)
    assert gate.window.remaining(0.0) == 500


# --- Windows shorter than a minute, and minutes that began before us --------------------------------------------------


def test_a_window_that_ends_sooner_than_a_bucket_would_fill_does_not_drip() -> None:
    """Five in four seconds: an empty bucket of five a minute would take a minute, so that is a window's end."""
    gate = Gate(None)
    for remaining in (4, 3, 2, 1, 0):
        gate.answered(remaining, 4.0, limit=5)
    assert gate.window.delay_s(gate.now, 1) == pytest.approx(4)
    gate.now += 4
    assert gate.as_many_as_fit() == 5


@pytest.mark.parametrize("remaining", [0, 1])
def test_every_window_shorter_than_a_minute_ends_when_the_provider_says(remaining: int) -> None:
    """Also the second one, whose end was a guess until its first reply."""
    gate = Gate(None)
    gate.answered(0, 4.0, limit=5)
    gate.now += 4
    gate.answered(remaining, 4.0, limit=5)
    assert gate.window.delay_s(gate.now, 5) == pytest.approx(4)
    gate.now += 4
    assert gate.may(4)


def test_a_late_reply_of_a_short_window_does_not_end_the_next_one() -> None:
    """Only a reply to a request sent since a window began knows its end."""
    gate = Gate(None)
    early, *_ = gate.take(2)
    gate.answered(2, 4.0, limit=5)
    gate.now += 4.5
    gate.answered(4, 4.0, limit=5)
    gate.reply(early, 3, 0.0, limit=5)
    assert gate.window.resets_in_s(gate.now) == pytest.approx(4)


def test_a_reset_after_the_last_one_shows_that_the_present_window_is_shorter() -> None:
    """Also in a reply to a request sent before it began. If that is the last one in flight, nothing else would tell
    until the guessed minute is over: a bucket that is full in 3 s kept a lane waiting for 58 s."""
    gate = Gate(None, kind=WindowKind.TOKENS)
    gate.answered(14_000, 0.2, limit=15_000)
    (sent,) = gate.take(1, 14_000.0)
    gate.now = 0.3
    assert gate.window.delay_s(gate.now, 9_000.0) == pytest.approx(60)
    gate.now = 1.3
    gate.reply(sent, 8_500, 1.4, limit=15_000)
    assert gate.window.delay_s(gate.now, 9_000.0) == pytest.approx(1.4)
