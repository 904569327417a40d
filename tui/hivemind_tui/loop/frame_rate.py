"""How often to draw: as often as wanted while drawing is cheap and the loop on time, less when either isn't so."""

from __future__ import annotations

from collections.abc import Mapping

_TOO_DEAR_S = 0.008
_CHEAP_S = 0.005
_USUAL_LATENESS_S = 0.02
"""A busy machine's scheduler makes any loop so late now and then."""
_SPIKE_S = 0.03
"""One frame says no more than this: a pause for garbage collection is no reason to draw less."""
_SMOOTHING = 0.1
_SLOWEST_FPS = 1.0


def wanted_fps(environment: Mapping[str, str]) -> float:
    """8 a second on a terminal at hand, 4 over ssh, where every repainted row is traffic."""
    return 4.0 if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY") else 8.0


class Pace:
    """Frames a second, from what frames cost. Each frame's cost (seconds) goes into a moving average: beyond 8 ms the
    rate is halved, below 5 ms it doubles again, up to the rate wanted."""

    def __init__(self, fps: float) -> None:
        self.wanted = fps
        """The rate to come back to."""
        self.fps = fps
        self._cost_s = 0.0
        self._next_s = 0.0

    @property
    def cost_s(self) -> float:
        """What a frame takes, about."""
        return self._cost_s

    def due(self, now_s: float) -> bool:
        """Whether it is time for a frame; if so, the next one's time is set."""
        # A timer that ticks a little early must not lose the frame.
        if now_s < self._next_s - 0.01:
            return False
        missed = now_s - self._next_s > 1 / self.fps
        self._next_s = (now_s if missed else self._next_s) + 1 / self.fps
        return True

    def drawn(self, cost_s: float, late_s: float = 0.0) -> None:
        """A frame took so long, and the loop was so late with it."""
        cost_s = min(_SPIKE_S, max(cost_s, late_s - _USUAL_LATENESS_S))
        self._cost_s += _SMOOTHING * (cost_s - self._cost_s)
        if self._cost_s > _TOO_DEAR_S and self.fps > _SLOWEST_FPS:
            self.fps = max(_SLOWEST_FPS, self.fps / 2)
            self._cost_s = (_TOO_DEAR_S + _CHEAP_S) / 2
        elif self._cost_s < _CHEAP_S and self.fps < self.wanted:
            self.fps = min(self.wanted, self.fps * 2)
            self._cost_s = (_TOO_DEAR_S + _CHEAP_S) / 2

    def want(self, fps: float) -> None:
        """Another rate from now on."""
        self.wanted = self.fps = fps
