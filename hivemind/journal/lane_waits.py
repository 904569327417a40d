"""A lane's state as far as it keeps requests waiting."""

from __future__ import annotations

import math

from hivemind.journal.wait_causes import CIRCUIT, FLEET, HELD, LEVEL, OTHER, PAUSED, RATE_LIMITED, SLOTS, WINDOWS
from hivemind.scheduler.config import LaneConfig, RetryConfig
from hivemind.scheduler.events import LaneState

LANE_CAUSES = HELD
"""Causes before this one are lanes', those from it on are requests' own."""
STAGGER_S = RetryConfig().stagger_s


class LaneWaits:
    """A lane's state as far as it keeps requests, and the seconds in which something waited by what kept it."""

    __slots__ = (
        *("at", "cause", "ceiling", "circuit", "config", "in_flight", "key", "leased", "level", "limited"),
        *("rate_limited", "resumes_until", "resuming", "seconds", "shut", "upstream", "waiting"),
    )

    def __init__(self, key: str) -> None:
        self.key = key
        self.upstream = key.partition(":")[0]
        self.config: LaneConfig | None = None
        self.level = self.ceiling = self.leased = math.inf
        self.rate_limited = self.limited = False
        self.circuit = "closed"
        self.in_flight = self.waiting = 0
        self.shut: dict[str, int] = {}
        """Families of models that are held though the lane isn't, and what keeps them."""
        self.at = -math.inf
        self.cause = OTHER
        self.seconds = [0.0] * LANE_CAUSES
        self.resuming = 0
        """Grants that are still spaced out after a pause of the provider's, and until when the present space lasts."""
        self.resumes_until = -math.inf

    def advance(self, at: float) -> None:
        """Count the time until then."""
        since = self.at
        if at <= since:
            return
        self.at = at
        if not self.waiting:
            return
        cause = self.cause
        if self.resuming and WINDOWS <= cause < LANE_CAUSES and since < self.resumes_until:
            spaced_s = min(at, self.resumes_until) - since
            self.seconds[RATE_LIMITED] += spaced_s
            since += spaced_s
        self.seconds[cause] += at - since

    def configure(self, config: LaneConfig) -> None:
        """Take over settings. The level stays, unless it is the first time."""
        first, self.config = self.config is None, config
        self.ceiling = config.max_concurrency or math.inf
        if first:
            self.level = self.ceiling
        if config.rpm or config.tpm:
            self.limited = True

    def sampled(self, state: LaneState) -> None:
        """Take over the gauges."""
        self.upstream = state.upstream
        self.level, self.ceiling = state.level, state.ceiling
        self.rate_limited = state.rate_limited_for_s > 0
        self.circuit = state.circuit
        self.leased = math.inf if state.lease is None else state.lease.slots
        self.limited = bool(state.windows) or self.limited

    def add(self, number: int) -> None:
        """Count requests that wait, fewer if the number is negative."""
        self.waiting += number
        if not self.waiting:
            self.resuming = 0

    def judge(self, *, paused: bool, upstream_full: bool) -> None:
        """Say what keeps the first in line from now on."""
        in_flight = self.in_flight
        if paused:
            self.cause = PAUSED
        elif self.rate_limited:
            self.cause = RATE_LIMITED
        elif self.circuit != "closed":
            self.cause = CIRCUIT
        elif in_flight + 1 > self.leased:
            self.cause = FLEET if self.leased < self.level else SLOTS
        elif in_flight and in_flight + 1 > self.level:
            self.cause = SLOTS if in_flight + 1 > self.ceiling else LEVEL
        elif upstream_full:
            self.cause = SLOTS
        else:
            self.cause = WINDOWS if self.limited else OTHER
