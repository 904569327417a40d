"""A timer that is cheap to move and to keep, for what nearly always happens in time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from weakref import WeakKeyDictionary

_CLOCK_GRAIN_S = 0.001
"""uvloop counts in whole milliseconds and may fire that much early."""
_STEPS = 6
"""A deadline is looked at before it by a 32nd of the time left at most, 2 to the power of this less 1."""
_EXACT_S = 1.0  # one that is nearer has a moment of its own


class Deadline:
    """Calls back once unless moved or stopped in time.

    Moving it later costs no timer: when it is looked at, it checks whether the deadline has really passed. That is
    somewhat before it, at a moment that it shares with others: each connection has one, and a timer takes 600 bytes.
    """

    __slots__ = ("_expired", "_looked_at", "_loop", "_moments", "at")

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[], None]) -> None:
        self._loop = loop
        self._expired = expired
        self.at = math.inf
        """When it expires, by the event loop's clock; infinite: never. While it is started, it may be set to a later
        time."""
        self._looked_at = math.inf
        moments = _moments.get(loop)
        self._moments = _moments.setdefault(loop, {}) if moments is None else moments

    def start(self, seconds: float | None) -> None:
        """Expire this long from now instead of the earlier time; None: never."""
        if seconds is None:
            self.at = math.inf
            return
        self.at = self._loop.time() + seconds
        if self.at < self._looked_at:
            self._set_moment(seconds)

    def stop(self) -> None:
        """Don't expire until started again."""
        self.at = math.inf

    def close(self) -> None:
        """Stop for good, and drop the callback."""
        self.at = math.inf
        self._expired = _noop
        self._leave_moment()

    def _leave_moment(self) -> None:
        if (moment := self._moments.get(self._looked_at)) is not None:
            moment.discard(self)
        self._looked_at = math.inf

    def _set_moment(self, left_s: float) -> None:
        """Choose the moment at which it is looked at next."""
        self._leave_moment()
        at = self.at
        if left_s > _EXACT_S:
            grain_s = math.ldexp(1.0, math.frexp(left_s)[1] - _STEPS)
            at -= at % grain_s
        self._looked_at = at
        moment = self._moments.get(at)
        if moment is None:
            moment = self._moments[at] = set()
            self._loop.call_at(at, _look, self._loop, at)
        moment.add(self)

    def look(self) -> None:
        """Call back where the deadline has passed."""
        self._looked_at = math.inf
        left_s = self.at - self._loop.time()
        if left_s <= _CLOCK_GRAIN_S:
            self.at = math.inf
            self._expired()
        elif left_s < math.inf:
            self._set_moment(left_s)


_moments: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[float, set[Deadline]]] = WeakKeyDictionary()
"""Of each loop, those that are looked at at a moment."""


def _look(loop: asyncio.AbstractEventLoop, at: float) -> None:
    for deadline in _moments[loop].pop(at, ()):
        loop.call_soon(deadline.look)  # apart: that the callback of one fails is no concern of the others


def _noop() -> None:
    pass
