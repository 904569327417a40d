"""What a server uses while it is measured: processor time of all its processes; and a reader of its metrics."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.perf.target import PerfError, Target

SCRAPE_EVERY_S = 1.0
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_METRICS = "GET /metrics HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n"


class Meter:
    """Divides the processor time of a target by what `count` counts meanwhile, from `begin_s` to `end_s` from now."""

    def __init__(self, target: Target, count: Callable[[], int], begin_s: float, end_s: float) -> None:
        self._pid = target.pid
        self._count = count
        self._read: list[tuple[float, int]] = []
        loop = asyncio.get_running_loop()
        self._timers = [loop.call_later(at, self._note) for at in (begin_s, end_s)] if self._pid else []

    def each_us(self) -> float | None:
        """Return the microseconds for each; None: the system doesn't tell, or nothing was counted.

        What ended before `end_s` is measured up to now.
        """
        for timer in self._timers:
            timer.cancel()
        if len(self._read) == 1:
            self._note()
        if len(self._read) < 2:
            return None
        (cpu_s, count), (later_s, later) = self._read
        return (later_s - cpu_s) / (later - count) * 1e6 if later > count else None

    def _note(self) -> None:
        assert self._pid is not None
        with contextlib.suppress(OSError):  # there is no /proc
            self._read.append((cpu_s(self._pid), self._count()))


def cpu_s(pid: int) -> float:
    """Return the seconds that a process and its descendants have spent on processors, by Linux's /proc.

    Raises: OSError: there is no such process, or no /proc.
    """
    # State is the first field after the command in parentheses; 11 to 14 after it are the user and system time of the
    # process, and those of its children that have ended.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    used = sum(int(field) for field in fields[11:15]) * _TICK_S
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended since
            used += sum(cpu_s(int(child)) for child in (task / "children").read_text().split())
    return used


@asynccontextmanager
async def scraping(target: Target) -> AsyncIterator[None]:
    """Read the target's metrics once a second, if it has any, as a Prometheus server beside it does.

    Raises: PerfError: at the end, if one couldn't be read.
    """
    if not target.has_metrics:
        yield
        return
    task = asyncio.create_task(_scrape(target))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _scrape(target: Target) -> None:
    await asyncio.sleep(SCRAPE_EVERY_S / 2)  # at least once in a measurement of a second
    while True:
        try:
            reader, writer = await asyncio.open_connection(*target.address)
            try:
                writer.write(_METRICS.format(target.authority).encode())
                answer = await reader.read()
            finally:
                writer.close()
        except OSError as error:
            raise PerfError(f"{target.name}: its metrics can't be read: {error}") from None
        if not answer.startswith(b"HTTP/1.1 200"):
            raise PerfError(f"{target.name}: its metrics can't be read: {answer[:80].decode('latin-1')}")
        await asyncio.sleep(SCRAPE_EVERY_S)
