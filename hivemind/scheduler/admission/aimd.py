"""Additive increase, multiplicative decrease of the concurrency level (paper, Algorithm 1 and equation 2).

Beyond the paper, as TCP learned it: one cut for one congestion event however many replies report it, results of
attempts that began before the last cut say nothing about the level after it, and the level grows only while the gate
was full, since an idle gate proves nothing. A change is judged after it had time to show: never more often than once a
mean latency.
"""

from __future__ import annotations

import math
from collections import deque

from hivemind.scheduler.config import AimdConfig


class Aimd:
    """The level of one lane; the caller hands it to the gate after every call that may have changed it."""

    __slots__ = ("_changed_at", "_cut_at", "_samples", "_saturated", "_sum", "ceiling", "config", "level", "pinned")

    def __init__(self, config: AimdConfig, ceiling: float) -> None:
        self.config = config
        self.ceiling = ceiling
        self.level = ceiling
        self.pinned = False
        self._samples: deque[float] = deque(maxlen=config.window)
        self._sum = 0.0
        self._saturated = False
        self._changed_at = -math.inf
        self._cut_at = -math.inf

    @property
    def mean_latency_s(self) -> float | None:
        """Over the window; None before the first sample."""
        return self._sum / len(self._samples) if self._samples else None

    def gate_full(self) -> None:
        """The gate has no free slot: the level, not the demand, is what limits."""
        self._saturated = True

    def sample(self, now: float, latency_s: float, started_at: float) -> bool:
        """A latency (time to first token, for streams). Returns whether the level changed."""
        if started_at < self._cut_at:
            return False
        if len(self._samples) == self.config.window:
            self._sum -= self._samples[0]
        self._samples.append(latency_s)
        self._sum += latency_s
        mean = self._sum / len(self._samples)
        if self.pinned or now - self._changed_at < max(self.config.update_interval_s, mean):
            return False
        if mean > self.config.latency_target_s:
            # Slowness alone doesn't limit who asked for no limit.
            return not math.isinf(self.level) and self._cut(now, self.level)
        return self._grow(now)

    def congested(self, now: float, started_at: float, active: int) -> bool:
        """One of `active` attempts, begun at `started_at`, met congestion. Returns whether the level changed."""
        if self.pinned or started_at < self._cut_at:
            return False
        return self._cut(now, self._height(active))

    def open_circuit(self, now: float, active: int) -> bool:
        """The circuit opened, which is congestion whatever was cut before. Returns whether the level changed."""
        return not self.pinned and self._cut(now, self._height(active))

    def set_ceiling(self, ceiling: float) -> None:
        """C_max by hand; a level at the old ceiling follows it up, any level follows it down."""
        follows = not self.pinned and self.level >= self.ceiling
        self.ceiling = ceiling
        if follows or self.level > ceiling:
            self.level = ceiling

    def configure(self, config: AimdConfig, ceiling: float) -> None:
        """Go on with other parameters; the level keeps within them, a pinned one too."""
        self.config = config
        self.set_ceiling(ceiling)
        self.level = max(self.level, min(config.floor, ceiling))

    def pin(self, level: float | None) -> None:
        """Hold the level at a value, or (None) go on by itself from where it stands."""
        self.pinned = level is not None
        if level is not None:
            self.level = min(max(level, self.config.floor), self.ceiling)

    def _grow(self, now: float) -> bool:
        if not self._saturated or self.level >= self.ceiling:
            return False
        self.level = min(self.ceiling, self.level + self.config.alpha)
        self._changed_at = now
        self._saturated = False
        return True

    def _height(self, active: int) -> float:
        """Where a cut begins: without a ceiling, at what was in flight (TCP's flight size)."""
        return float(active) if math.isinf(self.level) else self.level

    def _cut(self, now: float, height: float) -> bool:
        before = self.level
        self.level = max(min(self.config.floor, self.ceiling), height * self.config.beta)
        self._changed_at = self._cut_at = now
        self._samples.clear()
        self._sum = 0.0
        self._saturated = False
        return self.level != before
