"""What the screen does to the loop, as the monitor tells it: with a clock that only tests move, and in a real app."""

from __future__ import annotations

import asyncio
import gc
import inspect

import pytest
from textual.app import ComposeResult
from textual.message import Message
from textual.widget import Widget

from hivemind_tui.loop.base_app import GuestApp
from hivemind_tui.loop.loop_lag import Monitor


class Clock:
    """Stands still, but for what is spent."""

    def __init__(self) -> None:
        self.now = 100.0
        self.cpu = 5.0

    def spend(self, wall_s: float, cpu_s: float | None = None) -> None:
        """Let time pass; on a processor all of it, where nothing else is said."""
        self.now += wall_s
        self.cpu += wall_s if cpu_s is None else cpu_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def monitor(clock: Clock) -> Monitor:
    return Monitor(lambda: clock.now, lambda: clock.cpu, age_s=2.0)


async def working(clock: Clock, *steps_s: float) -> str:
    """Spend so much in each step, and wait in between."""
    for number, step_s in enumerate(steps_s):
        if number:
            await asyncio.sleep(0)
        clock.spend(step_s)
    return "done"


def test_what_never_began_is_closed(clock: Clock, monitor: Monitor) -> None:
    """As the task of a worker that is cancelled before its first step, when the screen ends."""
    work = working(clock, 0.001)
    timed = monitor.timed(work, "work")
    del timed
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED


async def test_every_step_between_two_waits_is_counted(clock: Clock, monitor: Monitor) -> None:
    """Time spent waiting belongs to nobody; the coroutine's value comes through."""
    task = asyncio.create_task(monitor.timed(working(clock, 0.001, 0.004, 0.002), "work"))
    assert await task == "done"
    report = monitor.report()
    assert report.steps == 3
    assert report.busy_s == pytest.approx(0.007)
    assert report.worst[0].wall_s == pytest.approx(0.004)
    assert [step.name for step in report.worst] == ["work"]


async def test_the_longest_part_of_a_step_gives_it_its_name(clock: Clock, monitor: Monitor) -> None:
    """A step may deal with several messages; it is told with the one that took longest, and what went before them."""

    class Key:
        """A message."""

    async def step() -> None:
        clock.spend(0.001)
        monitor.handling(Key())
        clock.spend(0.004)
        monitor.handling("paint")
        clock.spend(0.003)

    await monitor.timed(step(), "pump")
    (worst,) = monitor.report().worst
    assert (worst.where, worst.doing, worst.name) == ("pump", "Key", "pump Key")
    assert worst.wall_s == pytest.approx(0.008)
    assert worst.at_s == pytest.approx(2.0)


async def test_a_machine_that_is_busy_elsewhere_is_told_apart(clock: Clock, monitor: Monitor) -> None:
    """A long step that needed little of a processor isn't the screen's fault; both are counted."""

    async def held_up() -> None:
        clock.spend(0.050, 0.002)

    await monitor.timed(held_up(), "held up")
    await monitor.timed(working(clock, 0.020), "slow")
    report = monitor.report()
    assert (report.over, report.over_cpu) == (2, 1)
    assert [step.name for step in report.worst] == ["held up", "slow"]
    assert report.worst[0].cpu_s == pytest.approx(0.002)
    assert report.worst_cpu is not None
    assert report.worst_cpu.name == "slow"


async def test_errors_and_cancellation_come_through(clock: Clock, monitor: Monitor) -> None:
    """A coroutine that fails or is cancelled does so as it would without a monitor, and its last step counts."""

    async def failing() -> None:
        clock.spend(0.002)
        raise LookupError("none")

    cleaned: list[str] = []

    async def waiting() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            clock.spend(0.003)
            cleaned.append("up")

    with pytest.raises(LookupError, match="none"):
        await monitor.timed(failing(), "failing")
    task = asyncio.create_task(monitor.timed(waiting(), "waiting"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned == ["up"]
    assert {step.name for step in monitor.report().worst} == {"failing", "waiting"}


async def test_memory_is_bounded_and_the_worst_stays(clock: Clock, monitor: Monitor) -> None:
    """However many names there are, the five worst are told, each with its longest step."""
    for number in range(1000):
        await monitor.timed(working(clock, 0.002 + (number * 7 % 1000) * 1e-5), f"w{number}")
        await monitor.timed(working(clock, 0.002), f"w{number}")
    worst = monitor.report().worst
    assert len(worst) == 5
    assert [step.wall_s for step in worst] == pytest.approx([0.002 + step * 1e-5 for step in (999, 998, 997, 996, 995)])
    assert len(monitor._named) < 50


async def test_collections_are_counted_and_charged_to_their_step(clock: Clock, monitor: Monitor) -> None:
    """A pause of the garbage collector is told by generation, and as part of the step it fell into."""

    def slow(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            clock.spend(0.004)

    async def collecting() -> None:
        clock.spend(0.001)
        gc.collect()

    enabled = gc.isenabled()
    gc.disable()
    with monitor.watching_gc():
        gc.callbacks.append(slow)  # after the monitor's own, so that its time falls into the pause
        try:
            await monitor.timed(collecting(), "work")
        finally:
            gc.callbacks.remove(slow)
    gc.collect()
    if enabled:
        gc.enable()
    report = monitor.report()
    assert [(one.generation, one.count) for one in report.collections] == [(0, 0), (1, 0), (2, 1)]
    assert report.collections[2].worst_s == pytest.approx(0.004)
    assert report.collections[2].total_s == pytest.approx(0.004)
    (step,) = report.worst
    assert step.wall_s == pytest.approx(0.005)
    assert step.gc_s == pytest.approx(0.004)


class Ping(Message):
    """Something to deal with."""


class Slow(Widget):
    """Takes its time, on the clock of the test."""

    def on_ping(self) -> None:
        assert isinstance(self.app, Room)
        self.app.spend(0.030, "ping")


class Room(GuestApp):
    """One slow widget, a slow timer and a slow worker; ends by itself when each had its turn."""

    def __init__(self) -> None:
        self.now = 0.0
        self.to_come = {"ping", "tick", "beat", "work"}
        self.all_came = asyncio.Event()
        super().__init__(monitor=Monitor(lambda: self.now, lambda: self.now, age_s=0.0))
        self.on_first_frame = self.begin

    def spend(self, seconds: float, what: str) -> None:
        """Take that time, once: an interval repeats until the app ends."""
        if what not in self.to_come:
            return
        self.now += seconds
        self.to_come.discard(what)
        if not self.to_come:
            self.all_came.set()

    def compose(self) -> ComposeResult:
        yield Slow(id="slow")

    def begin(self) -> None:
        """The screen is up."""
        self.query_one(Slow).post_message(Ping())
        self.call_next(self.tick)
        # Endless, because a timer skips ticks that are overdue, and with them a limited one's last.
        self.set_interval(0.002, self.beat)
        self.run_worker(self.work(), name="digging")

    def tick(self) -> None:
        self.spend(0.040, "tick")

    def beat(self) -> None:
        self.spend(0.020, "beat")

    async def work(self) -> None:
        self.spend(0.050, "work")
        await self.all_came.wait()
        self.exit()


async def test_widgets_timers_and_workers_are_timed() -> None:
    """Each long step is told with the widget and the message, the callback or the worker that it was for."""
    room = Room()
    async with asyncio.timeout(30.0):
        await room.run_async(headless=True, size=(20, 5))
    report = room.monitor.report()
    assert report.first_frame_s == 0.0
    named = {round(step.wall_s, 3): step.name for step in report.worst}
    assert named[0.03] == "Slow#slow Ping"
    assert named[0.02] == "timer Room.beat"
    assert named[0.05] == "worker digging"
    assert named[0.04].startswith("Room")
    assert report.over == 4


async def test_nobody_elses_tasks_are_timed() -> None:
    """A task that isn't the screen's runs untouched on the same loop."""
    room, turns = Room(), 0

    async def traffic() -> None:
        nonlocal turns
        while True:
            assert not room.monitor._in_step
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(traffic())
    async with asyncio.timeout(30.0):
        await room.run_async(headless=True, size=(20, 5))
    assert not task.done()
    assert turns > 10
    assert room.monitor.report().over == 4
    task.cancel()
