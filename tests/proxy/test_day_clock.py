"""Each day begins once, whatever the wall clock does."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest

from hivemind.proxy.day_clock import STEADY_S, DayClock

HOUR_S = 3600.0
DAY_S = 86400.0


def at(day: int, hour: int, minute: int = 0, *, month: int = 11) -> float:
    return time.mktime((2026, month, day, hour, minute, 0, 0, 0, -1))


class Watch:
    """Both clocks of a machine, and what a look each minute finds."""

    def __init__(self, wall: float, last: str = "") -> None:
        self.wall, self.now = wall, 1000.0
        self.days = DayClock(wall, self.now, last)
        self.begun: list[str] = []

    def run(self, seconds: float) -> Watch:
        """Time passes."""
        while seconds > 0:
            step = min(60.0, seconds)
            seconds -= step
            self.wall += step
            self.now += step
            self.check()
        return self

    def set(self, by_s: float) -> Watch:
        """The wall clock is set."""
        self.wall += by_s
        self.check()
        return self

    def check(self) -> None:
        if self.days.check(self.wall, self.now):
            self.begun.append(self.days.last)


@pytest.fixture(params=["UTC", "Europe/Berlin", "America/Sao_Paulo", "Pacific/Kiritimati"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def test_midnight(zone: str) -> None:
    """A day begins at local midnight, once."""
    watch = Watch(at(22, 23, 30)).run(HOUR_S)
    assert watch.begun == ["2026-11-23"]
    assert watch.run(2 * DAY_S).begun == ["2026-11-23", "2026-11-24", "2026-11-25"]


@pytest.mark.parametrize("month", [3, 10])
def test_daylight_saving_neither_adds_nor_takes_a_day(zone: str, month: int) -> None:
    """A month has as many days as it has, wherever an hour is taken or repeated (in Brazil it was at midnight)."""
    watch = Watch(at(14, 12, month=month)).run(17 * DAY_S)
    assert watch.begun == [f"2026-{month:02}-{day:02}" for day in range(15, 32)]


@pytest.mark.parametrize("stays_s", [0.0, 60.0, STEADY_S - 60])
@pytest.mark.parametrize("by_s", [DAY_S, 40 * DAY_S, -DAY_S])
def test_a_clock_that_is_set_and_set_back_begins_no_day(by_s: float, stays_s: float) -> None:
    """NTP mends a wrong clock, an operator a slip."""
    watch = Watch(at(22, 12)).set(by_s).run(stays_s).set(-by_s).run(2 * HOUR_S)
    assert watch.begun == []
    assert watch.run(DAY_S).begun == ["2026-11-23"]


def test_a_clock_set_back_over_midnight_begins_no_day_twice() -> None:
    """However often."""
    watch = Watch(at(22, 23, 59)).run(120)
    for _ in range(3):
        watch.set(-HOUR_S).run(2 * HOUR_S)
    assert watch.begun == ["2026-11-23"]


def test_a_later_day_that_stays_is_believed() -> None:
    """As after a night in which the machine slept and its monotonic clock stood still."""
    watch = Watch(at(22, 20)).set(12 * HOUR_S)
    assert watch.run(STEADY_S - 60).begun == []
    assert watch.run(120).begun == ["2026-11-23"]


def test_a_clock_that_was_far_ahead_ends_no_daily_budgets() -> None:
    """The day that it showed has begun; once it is mended, the next midnight counts again."""
    watch = Watch(at(22, 12)).set(400 * DAY_S).run(2 * STEADY_S)
    assert watch.begun == ["2027-12-27"]
    watch.set(-400 * DAY_S).run(6 * HOUR_S)
    assert watch.begun == ["2027-12-27"]
    assert watch.run(DAY_S).begun == ["2027-12-27", "2026-11-23"]
    assert watch.run(DAY_S).begun == ["2027-12-27", "2026-11-23", "2026-11-24"]


def test_a_start_believes_a_later_date() -> None:
    """Nobody else knows how long the proxy was down."""
    assert Watch(at(22, 12), "2026-11-21").days.last == "2026-11-22"
    assert Watch(at(22, 12), "2026-11-22").run(HOUR_S).begun == []


def test_a_start_with_an_earlier_date_begins_no_day(caplog: pytest.LogCaptureFixture) -> None:
    """What was used on the later day still counts, until a midnight has passed; it is said in one line."""
    watch = Watch(at(22, 12), "2026-11-25")
    assert watch.days.last == "2026-11-25"
    assert watch.run(6 * HOUR_S).begun == []
    assert watch.run(6.5 * HOUR_S).begun == ["2026-11-23"]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "it is 2026-11-22 by this machine's clock, but 2026-11-25 had begun already" in caplog.text


def test_a_jump_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """However often the clock goes on jumping; and not at all where the date stays."""
    watch = Watch(at(22, 12)).set(HOUR_S).run(2 * STEADY_S)
    assert caplog.text == ""
    for _ in range(5):
        watch.set(DAY_S).run(60).set(-DAY_S).run(60)
    assert len(caplog.records) == 1
    assert "from 2026-11-22 to 2026-11-23" in caplog.text
