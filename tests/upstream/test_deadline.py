"""The timer that is moved rather than set anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from weakref import ref

import pytest

from hivemind.upstream.deadline import Deadline


class Loop(asyncio.SelectorEventLoop):
    """Its clock is set by hand, and its timers are counted."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[asyncio.TimerHandle] = []
        super().__init__()

    def time(self) -> float:
        return self.now

    def call_at(
        self, when: float, callback: Callable[..., object], *args: object, **_named: object
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self)
        self.timers.append(timer)
        return timer

    def call_soon(self, callback: Callable[..., object], *args: object, **_named: object) -> asyncio.Handle:
        return self.call_at(self.now, callback, *args)

    def pass_until(self, now: float) -> None:
        """Let time pass, and the timers fire that are due."""
        while due := [timer for timer in self.timers if timer.when() <= now]:
            timer = min(due, key=asyncio.TimerHandle.when)
            self.timers.remove(timer)
            self.now = max(self.now, timer.when())
            timer._run()
        self.now = now


@pytest.fixture
def loop() -> Loop:
    """A loop that never runs."""
    loop = Loop()
    loop.close()
    return loop


def test_it_expires_once(loop: Loop) -> None:
    """At its time, not before, and not again."""
    expired: list[float] = []
    deadline = Deadline(loop, lambda: expired.append(loop.now))
    deadline.start(10)
    loop.pass_until(9.9)
    assert expired == []
    loop.pass_until(100)
    assert expired == [10]
    deadline.start(5)
    loop.pass_until(200)
    assert expired == [10, 105]


def test_moving_it_later_sets_no_timer(loop: Loop) -> None:
    """However often; it still expires at the last time that was set."""
    expired: list[float] = []
    deadline = Deadline(loop, lambda: expired.append(loop.now))
    for second in range(9):
        loop.pass_until(second)
        deadline.start(10)
    assert len(loop.timers) == 1
    loop.pass_until(17)
    loop.pass_until(20)
    assert expired == [18]


def test_it_may_be_moved_earlier(loop: Loop) -> None:
    """Then it expires at the earlier time alone."""
    expired: list[float] = []
    deadline = Deadline(loop, lambda: expired.append(loop.now))
    deadline.start(600)
    deadline.start(5)
    loop.pass_until(1000)
    assert expired == [5]


@pytest.mark.parametrize("end", [Deadline.stop, lambda deadline: deadline.start(None)])
def test_it_may_be_stopped(loop: Loop, end: Callable[[Deadline], None]) -> None:
    """And then nothing happens, until it is started again."""
    expired: list[float] = []
    deadline = Deadline(loop, lambda: expired.append(loop.now))
    deadline.start(10)
    end(deadline)
    loop.pass_until(100)
    assert expired == []
    deadline.start(10)
    loop.pass_until(110)
    assert expired == [110]


def test_closing_it_lets_go_of_everything(loop: Loop) -> None:
    """Nothing is kept alive by what was never needed, neither by the timer nor by a circle with its owner."""

    class Owner:
        def expired(self) -> None:
            raise AssertionError("it was closed")

    owner = Owner()
    deadline = Deadline(loop, owner.expired)
    deadline.start(600)
    deadline.close()
    gone = ref(owner)
    del owner
    assert gone() is None
    deadline.start(10)
    loop.pass_until(1000)


def test_many_share_a_timer(loop: Loop) -> None:
    """However many there are, they set one for each 32nd of their time, and each expires when it is due."""
    expired: list[float] = []
    deadlines = [Deadline(loop, lambda: expired.append(loop.now)) for _ in range(300)]
    for number, deadline in enumerate(deadlines):
        loop.pass_until(number / 10)
        deadline.start(300)
    assert len(loop.timers) <= 8
    deadlines[0].stop()
    while loop.timers:
        loop.pass_until(min(timer.when() for timer in loop.timers))
    assert expired == [300 + number / 10 for number in range(1, 300)]
