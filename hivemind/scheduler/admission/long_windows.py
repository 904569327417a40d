"""The long windows of a plan (five hours, a week, a month), and how each class is paced so that they last.

Replies state which share of a window is used and when it is whole again; requests in flight count at the mean share of
those before them. By :class:`~hivemind.scheduler.config.Pace`, a class waits while that is more than it may have used
by now: LOW first, NORMAL later, a more urgent one never. A window by which the provider refuses holds nothing: its own
words, with the reset, are what a client is to get.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from hivemind.records import replace
from hivemind.scheduler.admission.retry import MAX_PAUSE_S
from hivemind.scheduler.config import Pace
from hivemind.scheduler.events import LongWindowForeseen
from hivemind.scheduler.types import Failure, FailureKind, Priority, Utilisation

AHEAD = {Priority.LOW: 0.0, Priority.NORMAL: 0.1}
"""By class, the share of what is left of an even pace by which it may be ahead of that; the others aren't paced."""
OF_RESERVE = {Priority.LOW: 1.0, Priority.NORMAL: 0.5}
"""By class, the part of a reserve that is kept from it."""
LENGTHS_S = (3600.0, 5 * 3600.0, 86_400.0, 7 * 86_400.0, 30 * 86_400.0)
"""Of windows whose length isn't stated: the shortest that holds the longest time to a reset."""
OVERAGE = "overage"
"""What Anthropic lets a plan use once a window is used up: it keeps nobody, since all go on with the next window."""
REJECTED = "rejected"
_MOST = 32  # windows of a lane that are kept
_SAME_S = 60.0  # resets no further apart are the same one
_RATE_OVER = 8.0  # the rate of use is that of at least such a part of a window's length
_SHORTEST_RATE_S, _LONGEST_RATE_S = 60.0, 3600.0
_TELL_EVERY_S = 600.0
"""Between two changes of what is foreseen; from then on what was stated says nothing of the present rate."""


class LongWindow:
    """One long window, by what replies stated of it."""

    def __init__(self, now: float, stated: Utilisation) -> None:
        self.stated = stated
        self.reset_at = self._reset_at(now)
        self.length_s = self._lasts_s(stated.length_s or 0.0)
        self._told, self._tell_at = False, -math.inf
        self._begin(now)

    def _begin(self, now: float) -> None:
        self._read_at = now
        self._replies, self._first = 0, self.stated.used
        self._since = self._later = (now, self.stated.used)
        self._starts_at = self.reset_at - self.length_s

    def _reset_at(self, now: float) -> float:
        return math.inf if self.stated.reset_in_s is None else now + self.stated.reset_in_s

    def _lasts_s(self, length_s: float) -> float:
        reset_in_s = self.stated.reset_in_s or 0.0
        if reset_in_s <= length_s + _SAME_S:
            return length_s
        return next((each for each in LENGTHS_S if each >= reset_in_s - _SAME_S), reset_in_s)

    def read(self, now: float, stated: Utilisation) -> None:
        """Take in another reply's statement."""
        before, reset_at = self.stated, self.reset_at
        self.stated, self._read_at = stated, now
        self.reset_at = self._reset_at(now)
        if self.reset_at == math.inf and now < reset_at:
            self.reset_at = reset_at  # this reply doesn't say
        later = self.reset_at > reset_at + max(_SAME_S, self.length_s / 2)
        if now >= reset_at or later or stated.used < before.used / 2:
            self._begin(now)
        self._replies += 1
        self.length_s = self._lasts_s(stated.length_s or self.length_s)
        # With a reset that moves on from reply to reply the time since the first one counts.
        self._starts_at = min(self._starts_at, self.reset_at - self.length_s)
        if now - self._later[0] >= min(max(self.length_s / _RATE_OVER, _SHORTEST_RATE_S), _LONGEST_RATE_S):
            self._since, self._later = self._later, (now, stated.used)

    def counts(self, family: str) -> bool:
        """Whether requests for these models use it."""
        return self.stated.name != OVERAGE and self.stated.model in family.lower()

    @property
    def each(self) -> float:
        """The share that a request uses, on average since it began."""
        return max(0.0, self.stated.used - self._first) / self._replies if self._replies else 0.0

    def opens_at(self, now: float, priority: Priority, pace: Pace, in_flight: int) -> float:
        """Return from when on another request of this class may be sent; -inf: now."""
        if now >= self.reset_at or self.reset_at == math.inf:
            return -math.inf
        used = self.stated.used + self.each * in_flight
        if not pace.even:
            return self.reset_at if used >= 1 - pace.reserve * OF_RESERVE[priority] else -math.inf
        if not self.length_s:
            return -math.inf
        ahead = AHEAD[priority]
        at = self._starts_at + self.length_s * (used - ahead) / (1 - ahead)
        return min(at, self.reset_at) if at > now else -math.inf

    def ends_in_s(self, now: float) -> float | None:
        """Return when it is used up at the rate of late; None: not before its reset, or nothing was used of late."""
        if self.stated.used >= 1:
            return 0.0 if now < self.reset_at < math.inf else None
        (since, before), (at, used) = self._since, (self._read_at, self.stated.used)
        if used <= before or now >= at + _TELL_EVERY_S:
            return None
        ends_at = at + (1 - used) * max(at - since, _SHORTEST_RATE_S) / (used - before)
        return ends_at - now if now < ends_at < self.reset_at < math.inf else None

    def news(self, now: float, lane: str) -> LongWindowForeseen | None:
        """Return what is foreseen, if that has changed since it was told."""
        if now < self._tell_at or self.reset_at == math.inf:
            return None
        ends_in_s = self.ends_in_s(now)
        if (ends_in_s is not None) is self._told:
            return None
        self._told, self._tell_at = not self._told, now + _TELL_EVERY_S
        return LongWindowForeseen(now, lane, self.stated.name, self.stated.used, self.reset_at - now, ends_in_s)


class LongWindows:
    """All long windows of a lane."""

    def __init__(self, pace: Pace, in_flight: Callable[[], int]) -> None:
        self.pace = pace
        self._in_flight = in_flight
        self._windows: dict[str, LongWindow] = {}
        self.refused: dict[str, float] = {}
        """Until when the provider refuses, by family, because a window is used up."""

    @property
    def paces(self) -> bool:
        """Whether some class may have to wait."""
        return bool(self._windows) and self.pace.paces

    def read(self, now: float, plan: Iterable[Utilisation], lane: str) -> list[LongWindowForeseen]:
        """Take in what a reply states. Return what is foreseen since."""
        told = []
        for stated in plan:
            if (window := self._windows.get(stated.name)) is not None:
                window.read(now, stated)
                if (news := window.news(now, lane)) is not None:
                    told.append(news)
            elif len(self._windows) < _MOST:
                self._windows[stated.name] = LongWindow(now, stated)
        return told

    def held_s(self, family: str, priority: Priority, now: float) -> float:
        """Return for how long a class of this family waits; 0: it doesn't."""
        if priority not in AHEAD or now < self.refused.get(family, -math.inf):
            return 0.0
        in_flight, opens_at = self._in_flight(), now
        for window in self._windows.values():
            if window.counts(family):
                opens_at = max(opens_at, window.opens_at(now, priority, self.pace, in_flight))
        return opens_at - now

    def concerned(self, now: float, family: str, failure: Failure) -> Failure:
        """Return the failure of an attempt with the wait until its family's windows are whole, if it says that one is
        used up: of several that reject, until the latest reset."""
        if failure.kind not in (FailureKind.QUOTA, FailureKind.RATE_LIMITED):
            return failure
        own = [each for each in self._windows.values() if each.counts(family) and now < each.reset_at < math.inf]
        rejecting = [each for each in own if each.stated.status == REJECTED]
        resets = [each.reset_at - now for each in rejecting or own if each in rejecting or each.stated.used >= 1]
        told_s = failure.delay_s
        of_window = failure.kind is FailureKind.QUOTA or any(abs(each - (told_s or 0.0)) < 2 for each in resets)
        if resets and of_window:
            failure = replace(failure, delay_s=max(*resets, told_s or 0.0))
            if failure.delay_s and failure.delay_s > MAX_PAUSE_S:
                failure = replace(failure, kind=FailureKind.QUOTA, retryable=False)
        # A shorter wait than that of a window is of none: that of a day's quota, which is refused until midnight.
        if failure.kind is FailureKind.QUOTA and failure.delay_s and (resets or failure.delay_s > MAX_PAUSE_S):
            self.refused[family] = now + failure.delay_s
        return failure

    def answered(self, family: str) -> None:
        """Note that the provider doesn't refuse a family any more."""
        self.refused.pop(family, None)

    def states(self, now: float) -> tuple[Utilisation, ...]:
        """Return them as they are now, for people."""
        return tuple([self._state(now, window) for window in self._windows.values() if now < window.reset_at])

    def _state(self, now: float, window: LongWindow) -> Utilisation:
        low_s = normal_s = 0.0
        if self.pace.paces:
            busy = self._in_flight()
            low_s, normal_s = (max(0.0, window.opens_at(now, each, self.pace, busy) - now) for each in AHEAD)
        return replace(
            window.stated,
            reset_in_s=None if window.reset_at == math.inf else window.reset_at - now,
            length_s=window.length_s or None,
            ends_in_s=window.ends_in_s(now),
            low_held_s=low_s,
            normal_held_s=normal_s,
        )
