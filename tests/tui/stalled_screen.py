"""A control room for the tests of the terminal: run in a pty, it reports its event loop's life on another pipe.

`python stalled_screen.py REPORT_FD`. Reports, one a line: `ready`; then, while frames are dropped, `dropping` with each
20th turn of the loop; `back` when the terminal read again; at the end `lag` with the longest pause in milliseconds.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import cast

sys.path.insert(0, str(Path(__file__).parents[1]))

from tui.worlds import FakeSource, world

from hivemind.console import Console
from hivemind.host.proxy import Proxy
from hivemind_tui.app import ControlRoom
from hivemind_tui.loop.lossy_driver import LossyDriver, TerminalBack
from hivemind_tui.program.supervisor import Supervisor, stop_on_signals

REPORT = int(sys.argv[1])


def report(text: str) -> None:
    os.write(REPORT, f"{text}\n".encode())


class Busy(ControlRoom):
    """Paints everything a hundred times a second, so that a terminal that doesn't read is full at once."""

    def on_mount(self) -> None:
        super().on_mount()
        self.set_interval(0.01, self.action_repaint)
        report("ready")

    def on_terminal_back(self, event: TerminalBack) -> None:
        super().on_terminal_back(event)
        report("back")


class Host(FakeSource):
    """A world that never stands still."""

    async def drain(self, timeout_s: float) -> None:
        report(f"drained {timeout_s:g}")


async def beat(screens: list[Busy]) -> None:
    """Turn with the loop; report life while frames are dropped, and the longest pause at the end."""
    longest, last, dropped = 0.0, time.perf_counter(), 0
    try:
        for turn in count():
            await asyncio.sleep(0.005)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now
            if turn % 20 == 0 and screens:
                before, dropped = dropped, getattr(screens[-1]._driver, "dropped", 0)
                if dropped > before:
                    report("dropping")
    finally:
        report(f"lag {longest * 1000:.0f}")


async def main() -> bool:
    base, ticks, screens = world(), count(), []

    def make() -> Busy:
        screens.append(Busy(host, driver_class=LossyDriver, environment={}))
        return screens[-1]

    host = Host(lambda: replace(base, uptime_s=float(next(ticks) % 3600)))
    console = Console(sys.stderr)
    with stop_on_signals() as stop:
        supervisor = Supervisor(console, stop)
        beating = asyncio.create_task(beat(screens))
        await supervisor.watch(host, make)
        await supervisor.drain(cast(Proxy, host), 7.0)
        beating.cancel()
        await asyncio.wait([beating])
    return not console.close() or supervisor.stuck


if __name__ == "__main__":
    stuck = asyncio.run(main())
    report("end")
    if stuck:
        os._exit(0)
