"""A real app's tasks under the monitor."""

from __future__ import annotations

import asyncio

from textual.app import ComposeResult
from textual.message import Message
from textual.widget import Widget

from hivemind_tui.loop.base_app import GuestApp
from hivemind_tui.loop.loop_lag import Monitor


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
