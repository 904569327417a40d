"""How fast a provider serves: several requests at once share its speed, or wait for one of its places."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count

Speed = Callable[[float, int], float]
"""Return the speed of each of so many requests in service at a time, in seconds of work a second; 1: undisturbed."""
_STEP_S = 1.0
"""The speed is looked at this often, because it may depend on the time."""
_ROUNDING = 1e-9


class Server:
    """Serves requests on a clock of its own, which goes at their common speed; for one event loop."""

    def __init__(self, speed: Speed, *, places: int = 0, last_first: bool = False) -> None:
        """`places`: so many are in service at once, the others wait in order of arrival; 0: all of them.

        `last_first`: the last one to come is next.
        """
        self._speed = speed
        self._places = places
        self._last_first = last_first
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._loop = asyncio.get_running_loop()
        self._served = 0.0
        """Work done so far for each request in service."""
        self._at = self._loop.time()
        self._pace = 1.0
        self._due: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None
        self.active = 0
        """Requests in service."""

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Be in service; first wait for a place."""
        if self._places and self.active >= self._places:
            free = self._loop.create_future()
            self._waiting.append(free)
            try:
                await free  # whoever left has kept the place for us
            except asyncio.CancelledError:
                if free in self._waiting:
                    self._waiting.remove(free)
                elif free.done() and not free.cancelled():
                    self._leave()
                raise
        else:
            self._advance()
            self.active += 1
            self._changed()
        try:
            yield
        finally:
            self._leave()

    async def work(self, seconds: float) -> None:
        """Wait until so much work is done, in seconds at full speed; only within :meth:`place`."""
        if seconds <= 0:
            return
        self._advance()
        done = self._loop.create_future()
        heapq.heappush(self._due, (self._served + seconds, next(self._numbers), done))
        self._changed()
        await done

    def _leave(self) -> None:
        while self._waiting:
            free = self._waiting.pop() if self._last_first else self._waiting.popleft()
            if not free.done():
                free.set_result(None)
                return
        self._advance()
        self.active -= 1
        self._changed()

    def _advance(self) -> None:
        now = self._loop.time()
        self._served += (now - self._at) * self._pace
        self._at = now

    def _changed(self) -> None:
        """Set pace and timer anew, after :meth:`_advance`."""
        self._pace = max(1e-6, self._speed(self._at, self.active))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._due and (self._due[0][2].done() or self._due[0][0] <= self._served + _ROUNDING):
            _, _, done = heapq.heappop(self._due)
            if not done.done():
                done.set_result(None)
        if self._due:
            wait_s = min(_STEP_S, (self._due[0][0] - self._served) / self._pace)
            self._timer = self._loop.call_later(max(wait_s, math.ulp(self._at) * 4), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._advance()
        self._changed()
