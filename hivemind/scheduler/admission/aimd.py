"""The admission gate (paper, equation 1) and additive increase, multiplicative decrease of its level (Algorithm 1 and
equation 2).

Beyond the paper, as in later TCP: one cut for one congestion event however many replies report it; results of attempts
that began before the last cut are ignored, since they say nothing about the level after it; and the level grows only
while the gate was full, since an idle gate proves nothing. A change gets time to show its effect: the level moves at
most once a mean latency.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from hivemind.scheduler.config import AimdConfig


@dataclass(slots=True, eq=False)
class Gate:
    """The admission gate: counts requests in flight (A) against a limit (C_max) that may change at any moment.

    Raising the limit makes room at once; lowering it takes effect as requests complete, so `active` may exceed `limit`
    for a while. The owner of the queue reads :attr:`free`, and counts the tickets that it grants.
    """

    limit: float
    active: int = 0
    least: int = 1  # slots that there are at any limit

    @property
    def slots(self) -> float:
        """Whole slots at the present limit, never less than :attr:`least`: a gate without any would starve every
        request, unless others lend it some."""
        return self.limit if math.isinf(self.limit) else max(self.least, int(self.limit))

    @property
    def free(self) -> bool:
        """Whether one more request fits: equation 1, A < C_max."""
        return self.active + 1 <= self.limit or self.active < self.least  # `active < slots`, computed at each grant

    @property
    def vacant(self) -> float:
        """Number of free slots."""
        return self.slots - self.active


class Aimd:
    """The concurrency level c_t of one lane; the caller hands it to the gate after every call that changed it."""

    def __init__(self, config: AimdConfig, ceiling: float, begin_at: float = math.inf) -> None:
        self.config = config
        self.ceiling = ceiling
        self.level = ceiling
        self.pinned = False
        self._samples: deque[tuple[float, float]] = deque(maxlen=config.window)  # latencies, and their excess
        self._sum = self._excess = 0.0
        self.too_slow_s = 0.0  # the mean excess of the last cut for latency
        self.saturated = False
        """The gate has had no free slot: the level limits, not the demand."""
        self._changed_at = -math.inf
        self._cut_at = -math.inf
        self.shared = False
        """The level is that of several proxies: it is only followed, and what it should do is reported."""
        self.cut: float | None = None  # factor of the cuts of a shared level that weren't reported yet
        self._may_grow = False
        self.begin(begin_at)

    @property
    def mean_latency_s(self) -> float | None:
        """Mean over the window; None before the first sample."""
        return self._sum / len(self._samples) if self._samples else None

    @property
    def mean_excess_s(self) -> float | None:
        """Mean of what the latencies of the window are beyond what their requests take alone."""
        return self._excess / len(self._samples) if self._samples else None

    def sample(
        self,
        now: float,
        latency_s: float,
        started_at: float,
        excess_s: float | None = None,
        *,
        alone: bool = False,
        reach: float = math.inf,
    ) -> bool:
        """Take a latency sample (time to first token, for streams). Return whether the level changed.

        `excess_s` is what it is beyond what the request takes alone (None: all of it), `alone`: nothing else was in
        flight, so that it is no sign of load; `reach`: up to which level more in flight bring more throughput.
        """
        excess_s = latency_s if excess_s is None else excess_s
        if started_at < self._cut_at:
            return False
        samples, config = self._samples, self.config
        if len(samples) == config.window:
            self._sum -= samples[0][0]
            self._excess -= samples[0][1]
        samples.append((latency_s, excess_s))
        self._sum += latency_s
        self._excess += excess_s
        since_s = now - self._changed_at
        if since_s < config.update_interval_s or since_s < self._sum / len(samples) or self.pinned:
            return False
        if self._excess / len(samples) > config.latency_target_s:
            # Latency alone doesn't impose a limit where none is configured.
            self.too_slow_s = self._excess / len(samples)
            return not (alone or math.isinf(self.level)) and self._cut(now, self.level)
        if reach < self.level and not self.shared:
            self.level = max(reach, config.floor)
            self._changed_at = now
            return True
        if not self.saturated or self.level >= min(reach, self.ceiling):
            return False
        if self.shared:
            self._may_grow = True
            return False
        self.level = min(self.ceiling, self.level + config.alpha)
        self._changed_at = now
        self.saturated = False
        return True

    def congested(self, now: float, started_at: float, active: int) -> bool:
        """Cut for congestion, met by one of `active` attempts. Return whether the level changed."""
        if self.pinned or started_at < self._cut_at:
            return False
        return self._cut(now, self._height(active))

    def open_circuit(self, now: float, active: int) -> bool:
        """Cut because the circuit opened, whatever was cut before. Return whether the level changed."""
        return not self.pinned and self._cut(now, self._height(active))

    def regain(self, now: float, level: float) -> bool:
        """Go back to a level before cuts that turned out to be for another reason. Return whether the level changed."""
        if self.pinned or self.shared or self.level >= min(level, self.ceiling):
            return False
        self.level = min(level, self.ceiling)
        self._changed_at = now
        return True

    def configure(self, config: AimdConfig, ceiling: float) -> None:
        """Change the parameters; the level is kept within them, a pinned one too. At the old ceiling it follows that
        up, anywhere it follows it down. A shared level stays."""
        if self.shared:
            self.config, self.ceiling = config, ceiling
            return
        if self.level > ceiling or (self.level >= self.ceiling and not self.pinned):
            self.level = ceiling
        self.config, self.ceiling = config, ceiling
        self.level = max(self.level, min(config.floor, ceiling))

    def begin(self, level: float) -> None:
        """Go on from this level, as if nothing had been learned; a pinned or shared one stays."""
        if not (self.pinned or self.shared):
            self.level = min(max(level, self.config.floor), self.ceiling)

    def pin(self, level: float | None) -> None:
        """Hold the level at a value, or (None) let it move again from there."""
        self.pinned = level is not None
        if level is not None:
            self.level = min(max(level, self.config.floor), self.ceiling)

    def follow(self, now: float, level: float, *, cut: bool) -> None:
        """Take over a shared level; `cut`: it was cut since, so what attempts before tell is ignored."""
        if level != self.level:
            self.level = level
            self._changed_at = now
        if cut:
            self._cut_at = now
            self._begin_anew(now)

    @property
    def settle_s(self) -> float:
        """How long a change needs to show its effect."""
        return max(self.config.update_interval_s, self.mean_latency_s or 0.0)

    def take_growth(self) -> float:
        """Return by how much a shared level may grow, by what was seen since this was called last."""
        grow = self.config.alpha if self._may_grow and not self.pinned else 0.0
        if self._may_grow:
            self._may_grow = self.saturated = False
        return grow

    def _height(self, active: int) -> float:
        """Return where a cut begins: without a ceiling, at what was in flight (TCP's flight size)."""
        return float(active) if math.isinf(self.level) else self.level

    def _cut(self, now: float, height: float) -> bool:
        before = self.level
        self.level = max(min(self.config.floor, self.ceiling), height * self.config.beta)
        self._cut_at = now
        self._begin_anew(now)
        if self.shared:
            self.cut = self.config.beta if self.cut is None else self.cut * self.config.beta
        return self.shared or self.level != before

    def _begin_anew(self, now: float) -> None:
        self._changed_at = now
        self._samples.clear()
        self._sum = self._excess = 0.0
        self.saturated = self._may_grow = False
