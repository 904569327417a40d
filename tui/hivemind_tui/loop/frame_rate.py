"""The frame rate: as wanted while frames are cheap and the loop is on time, lower otherwise."""

from __future__ import annotations

from collections.abc import Mapping

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
