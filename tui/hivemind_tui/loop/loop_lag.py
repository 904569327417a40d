"""How long the screen holds the event loop that it shares with the traffic.

A step is what a coroutine does between two waits, while nothing else on the loop runs. The monitor times every step of
the screen's own tasks, and none of the proxy's. `base_app.py` attaches it to Textual's tasks.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

LIMIT_S = 0.010
"""No step of the screen's should hold the loop longer than this."""

_WORTH_A_NAME_S = 0.001
"""Shorter steps are only counted: recording their names would cost more than they do."""
_KEPT = 24
_TOP = 5
_BOUNDS_S = tuple(1e-6 * 1.25**power for power in range(75))
"""From a microsecond to 15 seconds, each a quarter above the last."""

_NOTHING: tuple[float, object] = (0.0, None)

T = TypeVar("T")


class LoopStep(Struct, frozen=True):
    """One step of a screen's task that took a millisecond or more. Times in seconds."""

    where: str
    """The owner of the task: a widget, a timer, or the name given to :meth:`Monitor.timed`."""
    doing: str
    """The message that took the longest part of it; empty where that isn't known."""
    wall_s: float
    """From beginning to end, while the loop did nothing else."""
    cpu_s: float
    """CPU time; for the rest other processes ran."""
    gc_s: float
    """Time in garbage collection."""
    at_s: float
    """Its start, after the program's."""

    @property
    def name(self) -> str:
        """Owner and message."""
        return f"{self.where} {self.doing}".rstrip()


class Collections(Struct, frozen=True):
    """The pauses for one generation of the garbage collector. Times in seconds."""

    generation: int
    count: int
    total_s: float
    worst_s: float


class MonitorReport(Struct, frozen=True):
    """Measurements since the first frame, or since the last reset. Times in seconds."""

    limit_s: float
    """The longest that a step should take."""
    for_s: float
    """The time of the measurements."""
    steps: int
    busy_s: float
    """The sum of all steps."""
    p50_s: float
    p99_s: float
    """Percentiles of the steps' wall times, at most a quarter too high; 0 without any step."""
    over: int
    """Steps longer than the limit."""
    over_cpu: int
    """Steps with more CPU time than the limit, which a busy machine doesn't explain."""
    worst: tuple[LoopStep, ...]
    """The longest step of each of the five worst names, the longest first."""
    worst_cpu: LoopStep | None
    """The step with the most CPU time; None where none took a millisecond."""
    collections: tuple[Collections, ...]
    """By generation, the youngest first."""
    first_frame_s: float | None
    """From the program's start to the screen's first frame; None before that."""


class Diagnostics(Struct, frozen=True):
    """Frame rate, loop lag and memory at one moment."""

    report: MonitorReport
    fps: float
    wanted_fps: float
    """The rate while drawing is cheap."""
    frame_s: float
    """The average cost of a frame."""
    memory_mb: float
    """Resident memory of the process, including the proxy."""


class Monitor:
    """Counts steps and keeps the worst. Its memory is bounded; it adds about a microsecond to a step."""

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        cpu: Callable[[], float] = time.thread_time,
        *,
        age_s: float | None = None,
    ) -> None:
        """`age_s` is the age of the program; None: as the system reports it."""
        self._clock = clock
        self._cpu = cpu
        self._born_s = clock() - (process_age_s() if age_s is None else age_s)
        self._first_frame_s: float | None = None
        self._in_step = False
        self._what: object = None
        self._longest = _NOTHING
        self._part_began_s = 0.0
        self._gc_began_s = self._gc_s = 0.0
        self.reset()

    def timed(self, coroutine: Coroutine[Any, Any, T], where: str) -> Coroutine[Any, Any, T]:
        """Return the same coroutine, for a task or an `await`, with every step counted under this name."""
        return _Timed(self, coroutine, where)

    def handling(self, what: object) -> None:
        """Attribute the rest of the current step, up to the next call, to a message or a name."""
        now_s = self._clock()
        self._end_part(now_s)
        self._what, self._part_began_s = what, now_s

    def first_frame(self) -> None:
        """Note the first frame, and count anew so that the start is reported apart; a second call does nothing."""
        if self._first_frame_s is None:
            self._first_frame_s = self._clock() - self._born_s
            self.reset()

    def reset(self) -> None:
        """Forget what was counted, and go on counting."""
        self._since_s = self._clock()
        self._counts = [0] * (len(_BOUNDS_S) + 1)
        self._busy_s = 0.0
        self._over = self._over_cpu = 0
        self._named: dict[str, LoopStep] = {}
        self._worst_cpu: LoopStep | None = None
        self._pauses = [(0, 0.0, 0.0)] * 3

    def report(self) -> MonitorReport:
        """Return what was measured so far."""
        return MonitorReport(
            limit_s=LIMIT_S,
            for_s=self._clock() - self._since_s,
            steps=sum(self._counts),
            busy_s=self._busy_s,
            p50_s=self._below(0.5),
            p99_s=self._below(0.99),
            over=self._over,
            over_cpu=self._over_cpu,
            worst=tuple(sorted(self._named.values(), key=_WALL, reverse=True)[:_TOP]),
            worst_cpu=self._worst_cpu,
            collections=tuple(Collections(generation, *pauses) for generation, pauses in enumerate(self._pauses)),
            first_frame_s=self._first_frame_s,
        )

    @contextmanager
    def watching_gc(self) -> Iterator[None]:
        """Count the garbage collector's pauses for as long as the context lasts."""
        gc.callbacks.append(self._on_gc)
        try:
            yield
        finally:
            gc.callbacks.remove(self._on_gc)

    def _ended(self, where: str, began_s: float, cpu_began_s: float, gc_before_s: float) -> None:
        ended_s = self._clock()
        wall_s = ended_s - began_s
        self._busy_s += wall_s
        self._counts[bisect_left(_BOUNDS_S, wall_s)] += 1
        if wall_s >= _WORTH_A_NAME_S:
            self._end_part(ended_s)
            cpu_s, gc_s = self._cpu() - cpu_began_s, self._gc_s - gc_before_s
            self._note(LoopStep(where, _named(self._longest[1]), wall_s, cpu_s, gc_s, began_s - self._born_s))
        self._longest = _NOTHING
        self._what = None

    def _end_part(self, now_s: float) -> None:
        took_s = now_s - self._part_began_s
        if took_s > self._longest[0]:
            self._longest = (took_s, self._what)

    def _note(self, step: LoopStep) -> None:
        self._over += step.wall_s > LIMIT_S
        self._over_cpu += step.cpu_s > LIMIT_S
        if self._worst_cpu is None or step.cpu_s > self._worst_cpu.cpu_s:
            self._worst_cpu = step
        known = self._named.get(step.name)
        if known is None or step.wall_s > known.wall_s:
            self._named[step.name] = step
        if len(self._named) > _KEPT:
            del self._named[min(self._named.values(), key=_WALL).name]

    def _below(self, share: float) -> float:
        """Return the bound below which this share of the steps lies."""
        wanted, seen = share * sum(self._counts), 0
        for bound_s, count in zip(_BOUNDS_S, self._counts, strict=False):
            seen += count
            if seen and seen >= wanted:
                return bound_s
        return _BOUNDS_S[-1] if seen < wanted else 0.0

    def _on_gc(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._gc_began_s = self._clock()
            return
        took_s = self._clock() - self._gc_began_s
        self._gc_s += took_s
        count, total_s, worst_s = self._pauses[info["generation"]]
        self._pauses[info["generation"]] = (count + 1, total_s + took_s, max(worst_s, took_s))


class _Timed(Coroutine[Any, Any, T]):
    """A coroutine whose steps are counted."""

    __slots__ = ("_coroutine", "_monitor", "_resume", "_where")

    def __init__(self, monitor: Monitor, coroutine: Coroutine[Any, Any, T], where: str) -> None:
        self._monitor = monitor
        self._coroutine = coroutine
        self._resume = coroutine.send
        self._where = where

    def send(self, value: Any) -> Any:
        return self._step(self._resume, value)

    def throw(self, *given: Any) -> Any:
        return self._step(self._coroutine.throw, *given)

    def close(self) -> None:
        self._coroutine.close()

    def __del__(self) -> None:
        self.close()  # that of a worker which was cancelled before its first step would warn on the terminal

    def __next__(self) -> Any:
        return self._step(self._resume, None)

    def __iter__(self) -> Generator[Any, Any, T]:
        return self

    __await__ = __iter__

    def _step(self, resume: Callable[..., Any], *given: Any) -> Any:
        """Let the coroutine run up to its next wait, and count that."""
        monitor = self._monitor
        if monitor._in_step:  # one timed coroutine awaits another, and both run in this step
            return resume(*given)
        monitor._in_step = True
        gc_before_s, cpu_began_s = monitor._gc_s, monitor._cpu()
        began_s = monitor._part_began_s = monitor._clock()
        try:
            return resume(*given)
        finally:
            monitor._in_step = False
            monitor._ended(self._where, began_s, cpu_began_s, gc_before_s)


_WALL = attrgetter("wall_s")


def callback_name(callback: object) -> str:
    """Return a callback's name in the code."""
    while isinstance(callback, partial):  # Textual's own wrap what is meant: call_next(meant)
        inner = callback.args[0] if callback.args else None
        callback = inner if callable(inner) else callback.func
    return getattr(callback, "__qualname__", type(callback).__name__)


def _named(what: object) -> str:
    if what is None or isinstance(what, str):
        return what or ""
    callback = getattr(what, "callback", None)
    return type(what).__name__ if callback is None else callback_name(callback)


def process_age_s() -> float:
    """Return how long ago this process began; where the system doesn't tell, its CPU time."""
    try:
        # proc_pid_stat(5): field 22, in clock ticks since the machine was booted; field 2 may hold blanks.
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):
        return time.process_time()


def memory_mb() -> float:
    """Return the resident memory; where the system doesn't report it, its peak."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / (1 << 20)
    except (OSError, IndexError, ValueError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most / (1 << 20) if sys.platform == "darwin" else most / 1024


_TOO_DEAR_S = 0.008
_CHEAP_S = 0.005
_USUAL_LATENESS_S = 0.02
"""The lateness that the scheduler of a busy machine causes by itself."""
_SPIKE_S = 0.03
"""The most that one frame counts: a pause for garbage collection is no reason to draw less."""
_SMOOTHING = 0.1
_SLOWEST_FPS = 1.0


def wanted_fps(environment: Mapping[str, str]) -> float:
    """Return 8 frames a second for a local terminal, 4 over ssh, where every repainted row is traffic."""
    return 4.0 if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY") else 8.0


class Pace:
    """Frames a second by the moving average of their cost: beyond 8 ms the rate is halved, below 5 ms it is doubled, up
    to the rate wanted."""

    def __init__(self, fps: float) -> None:
        self.wanted = fps
        """The highest rate."""
        self.fps = fps
        self.cost_s = 0.0
        """The average cost of a frame."""
        self._next_s = 0.0

    def due(self, now_s: float) -> bool:
        """Return whether it is time for a frame, and if so schedule the next one."""
        # A timer that ticks a little early must not lose the frame.
        if now_s < self._next_s - 0.01:
            return False
        missed = now_s - self._next_s > 1 / self.fps
        self._next_s = (now_s if missed else self._next_s) + 1 / self.fps
        return True

    def drawn(self, cost_s: float, late_s: float = 0.0) -> None:
        """Count a frame: what it cost, and how late the loop was with it."""
        cost_s = min(_SPIKE_S, max(cost_s, late_s - _USUAL_LATENESS_S))
        self.cost_s += _SMOOTHING * (cost_s - self.cost_s)
        if self.cost_s > _TOO_DEAR_S and self.fps > _SLOWEST_FPS:
            self.fps = max(_SLOWEST_FPS, self.fps / 2)
            self.cost_s = (_TOO_DEAR_S + _CHEAP_S) / 2
        elif self.cost_s < _CHEAP_S and self.fps < self.wanted:
            self.fps = min(self.wanted, self.fps * 2)
            self.cost_s = (_TOO_DEAR_S + _CHEAP_S) / 2

    def want(self, fps: float) -> None:
        """Draw at another rate from now on."""
        self.wanted = self.fps = fps
