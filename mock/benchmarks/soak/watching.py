"""Looks at a proxy from outside, every few seconds: memory, files, tasks, processor time, and its own alarms."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

import httpx

from benchmarks.perf.metering import cpu_s

WARM_UP = 0.2
"""The first part of a run, in which caches and histories fill."""
WARM_UP_S = 120.0
"""It is at least this long: at a few dozen requests a second, what is remembered of two thousand requests and of ten
minutes fills most of its room by then. Of a shorter run memory isn't judged."""
WINDOWS = 8
"""Equal parts of the rest, of which medians are compared."""
GROWTH = 0.05
"""Most that the median of memory in any later window may be above that of the first."""
SPARE = 32
"""Most that the least number of files, or of tasks, in the second half of the windows may be above that in the first
window: how many there are at a moment follows how many clients are connected and how many requests wait."""
_TASKS = re.compile(r"^hivemind_event_loop_tasks (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Sample:
    """The proxy at a moment."""

    at_s: float
    """Since the load began."""
    rss_mb: float
    """Resident memory, in MiB."""
    files: int
    """Open file descriptors."""
    tasks: int
    """Tasks of its event loop."""
    cpu_s: float
    """Processor time since it was started."""
    requests: int
    """Issued by then."""


class Watching:
    """The samples of one proxy."""

    def __init__(self, url: str, pid: int, http: httpx.AsyncClient) -> None:
        self.samples: list[Sample] = []
        self.alarms: set[str] = set()
        """What the proxy said to be broken, by rule and text."""
        self.silent: list[str] = []
        """When it didn't answer."""
        self.issued: Callable[[], int] = int
        """How many requests were issued."""
        self._url = url
        self._pid = pid
        self._http = http
        self._begun = time.monotonic()

    async def work(self, every_s: float) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(every_s)
            try:
                await self.look()
            except httpx.HTTPError as error:
                self.silent.append(f"after {time.monotonic() - self._begun:.0f} s: {error!r}")

    async def look(self) -> Sample:
        """Look once. Raises: httpx.HTTPError: it doesn't answer."""
        health = (await self._http.get(f"{self._url}/_health")).json()
        self.alarms.update(f"{alarm['rule']}: {alarm['text']}" for alarm in health["alarms"])
        found = _TASKS.search((await self._http.get(f"{self._url}/metrics")).text)
        sample = Sample(
            at_s=round(time.monotonic() - self._begun, 1),
            rss_mb=round(rss_mb(self._pid), 2),
            files=len(os.listdir(f"/proc/{self._pid}/fd")),
            tasks=int(float(found[1])) if found else 0,
            cpu_s=round(cpu_s(self._pid), 2),
            requests=self.issued(),
        )
        self.samples.append(sample)
        return sample


def rss_mb(pid: int) -> float:
    """Return the resident memory of a process in MiB (Linux)."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def windows(samples: Sequence[Sample], name: str, of: Callable[[Iterable[float]], float] = median) -> list[float]:
    """Return the median of a figure, or what `of` makes of it, in each of :data:`WINDOWS` equal parts of what follows
    the warm-up."""
    later = [getattr(sample, name) for sample in samples[_warm_up(samples) :]]
    if len(later) < WINDOWS:
        return []
    cuts = [round(len(later) * part / WINDOWS) for part in range(WINDOWS + 1)]
    return [of(later[begin:end]) for begin, end in pairwise(cuts)]


def _warm_up(samples: Sequence[Sample]) -> int:
    """Return the number of samples that belong to the warm-up; of a run that is too short, the share alone."""
    share, least = int(len(samples) * WARM_UP), sum(sample.at_s < WARM_UP_S for sample in samples)
    return max(share, least) if len(samples) - least >= WINDOWS else share


def grown(samples: Sequence[Sample]) -> list[str]:
    """Return what has grown after the warm-up, a line each."""
    found, memory = [], windows(samples, "rss_mb")
    warm = bool(memory) and samples[_warm_up(samples)].at_s >= WARM_UP_S
    if warm and max(memory) > memory[0] * (1 + GROWTH):
        shown = ", ".join(f"{each:.1f}" for each in memory)
        found.append(f"memory grew by more than {GROWTH:.0%} after the warm-up; medians in MiB: {shown}")
    for name in ("files", "tasks"):
        least = windows(samples, name, min)
        if least and min(least[WINDOWS // 2 :]) > least[0] + SPARE:
            shown = ", ".join(f"{each:.0f}" for each in least)
            found.append(f"{name} grew by more than {SPARE} after the warm-up; the least in each part: {shown}")
    return found
