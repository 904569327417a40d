"""Diagnostics of the screen: frame rate, loop lag, memory."""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass
from pathlib import Path

from hivemind_tui.loop.loop_lag import MonitorReport

_PAGE = resource.getpagesize()


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """How the screen does at one moment."""

    report: MonitorReport
    fps: float
    """Frames a second now."""
    wanted_fps: float
    """Frames a second when nothing is in the way."""
    frame_s: float
    """What a frame takes, about."""
    memory_mb: float
    """Resident memory of the process, the proxy's with it."""


def memory_mb() -> float:
    """Return the resident memory; where the system doesn't tell, its peak."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE / (1 << 20)
    except (OSError, IndexError, ValueError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most / (1 << 20) if sys.platform == "darwin" else most / 1024
