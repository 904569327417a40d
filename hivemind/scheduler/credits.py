"""A rate window's part in a lease: how much may still be taken, and what has to be reported of it."""

from __future__ import annotations

import math

from msgspec import Struct, field

from hivemind.scheduler.lease import SPARE, StatedWindow
from hivemind.scheduler.types import Priority

RING_S = 61.0
"""Use is counted for so long: in whole seconds, and a minute begins and ends within one."""
AHEAD_S = 0.75
"""Requests to come are counted as wanted for so long ahead, about three syncs."""
SPARE_S = 1.0
"""What would be kept ready beyond that: so many seconds of the present use, and two requests."""
FLOW_S = 3.0  # the time constant of what is used a second
ROUNDING = 1e-6  # amounts went through JSON, and were added up in another order


class Terms(Struct):
    """What holds for every window of a lane under its present lease."""

    by_credits: bool = True
    """Credits count; else a limit a minute."""
    share: float = 0.0
    """Of a window's limit, where the lease names none and :attr:`shares_from` is over."""
    shares_from: float = math.inf
    members: int = 1


class Credits(Struct, eq=False):
    """One window's credits, and its use since the last report."""

    terms: Terms
    left: float = 0.0
    limit: float | None = None  # a minute, in place of credits; None: the lease names none
    in_force: float | None = None  # for all proxies together; None: as known here
    used_by_all: float | None = None
    """In the last minute, as of the last lease; None: unknown."""
    changes: int = 0
    """How often the limit of all proxies has changed while it is only assumed."""
    refused: bool = False  # the provider refused a request that was sent since; not reported yet
    used: dict[int, float] = field(default_factory=dict)  # by whole second, not reported yet
    stated: StatedWindow | None = None  # not reported yet
    reported_limit: float | None = None
    _given_up: float = 0.0  # because the provider stated less, and not reported yet
    _flow: list[float] = field(default_factory=lambda: [0.0] * len(Priority))
    _flow_at: float = -math.inf
    _taken_at: float = -math.inf
    _count: float = 0.0  # requests in the flow
    _mean: float = 0.0  # amount of one of them

    def covers(self, amount: float) -> bool:
        """Whether so much may be taken, where credits count."""
        return amount <= self.left + ROUNDING

    def limit_now(self, now: float, full: float) -> float:
        """Return the limit a minute in place of credits; `full` is the window's for all proxies."""
        if self.limit is not None:
            return self.limit
        return full * self.terms.share if now >= self.terms.shares_from else 0.0

    def take(self, now: float, amount: float, priority: Priority) -> None:
        """Count what a granted attempt takes, by estimate."""
        second = int(now)
        self.used[second] = self.used.get(second, 0.0) + amount
        if self.terms.by_credits:
            self.left -= amount
        self._flow[priority] += amount
        self._count += 1
        self._taken_at = now

    def settle(self, now: float, taken_at: float, estimate: float, real: float) -> None:
        """Replace the estimate by what was used. What is refunded adds to the credits as long as the estimate counts in
        the window, so that their sum stays the same."""
        more = real - estimate
        if not more:
            return
        if more < 0 and taken_at <= now - RING_S + 1.0:
            return
        self._note(now if more > 0 else taken_at, more)
        if self.terms.by_credits:
            self.left -= more

    def wanted(self, now: float, waiting: list[float]) -> list[float]:
        """Return what would be used until about three syncs from now by class, and the spare; `waiting` is what waiting
        requests need by class."""
        self._decay(now)
        wanted = [each + flow * (AHEAD_S / FLOW_S) for each, flow in zip(waiting, self._flow, strict=True)]
        total, lately = sum(self._flow), now < self._taken_at + RING_S
        if self._count > 0.1:
            self._mean = total / self._count
        spare = total * (SPARE_S / FLOW_S) + 2 * self._mean
        return [*wanted, spare if lately else 0.0]

    def heed(self, remaining: float) -> None:
        """Give up what the provider states that there isn't: other clients of the key have used it."""
        excess = self.left - max(remaining, 0.0)
        if self.terms.by_credits and excess > 0:
            self.left -= excess
            self._given_up += excess

    def void(self, *, all_of_it: bool) -> None:
        """Drop the credits, which are others' by now; and what was taken beyond them only with `all_of_it`."""
        self.left = 0.0 if all_of_it else min(self.left, 0.0)
        self._given_up = 0.0

    def give_back(self, wanted: list[float], *, tight: bool) -> float:
        """Take off and return the credits that others may have: while some window is short, all beyond what is wanted
        here; else only what is more than double that and the spare, since they harm nobody meanwhile."""
        returned, self._given_up = self._given_up, 0.0
        keep = sum(wanted[:SPARE])
        if not tight:
            keep += wanted[SPARE]
        if self.left > (keep if tight else 2 * keep):
            returned += self.left - keep
            self.left = keep
        return returned

    def take_used(self) -> dict[int, float]:
        """Return what was used since this was called last, by whole second."""
        used, self.used = self.used, {}
        return used

    def forget_before(self, now: float) -> None:
        """Drop what was used longer ago than counts."""
        if self.used and min(self.used) < now - RING_S - 1:
            self.used = {at: amount for at, amount in self.used.items() if at >= now - RING_S - 1}

    def _note(self, at: float, amount: float) -> None:
        second = int(at)
        self.used[second] = self.used.get(second, 0.0) + amount

    def _decay(self, now: float) -> None:
        if self._flow_at == -math.inf:
            self._flow_at = now
        elif now > self._flow_at:
            faded = math.exp((self._flow_at - now) / FLOW_S)
            self._flow = [flow * faded if flow * faded > ROUNDING else 0.0 for flow in self._flow]
            self._count *= faded
            self._flow_at = now
