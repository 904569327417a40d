"""The circuit breaker of a lane (paper, equation 3)."""

from __future__ import annotations

import math
from collections import Counter, deque
from enum import Enum
from typing import Literal

from hivemind.scheduler.config import CircuitConfig


class CircuitState(Enum):
    """What the breaker lets through: everything, nothing, or one probe."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


_CLOSED = CircuitState.CLOSED
_FEW = 0.25
"""Share of the failures that may be others' for a circuit to be that of the one family of models that is refused."""
_Result = str | bool | tuple[int]
"""True: answered; the name of a family of models: it was refused; the number of a ticket: it failed, maybe by its own
fault; False: another failure."""


class Circuit:
    """Closed, open, or half-open with a single leased probe.

    Every change of state begins a new epoch; results of attempts granted in an earlier one are ignored, so a late
    failure can't reopen a circuit that a probe has just closed, nor a late success close one. One that opened because a
    family of models was refused is that family's: requests of others are sent, and open it for all if they fail too.
    """

    def __init__(self, config: CircuitConfig) -> None:
        self.config = config
        self.state = CircuitState.CLOSED
        self.forced: Literal["open", "closed"] | None = None
        self.family: str | None = None  # the only one that it keeps; None: it keeps all
        self.epoch = 0
        self.errors = 0
        self._results: deque[_Result] = deque(maxlen=config.window)
        self._opened_at = 0.0
        self._probe: int | None = None
        self._doubtful = False
        """It is open because requests failed that may all be at fault themselves."""
        self.shared = False
        """The state is that of several proxies: it is probed only where that one says so."""
        self.outcome: Literal["opened", "probe_ok", "probe_failed"] | None = None
        """What results here have made of it, to be reported to the other proxies; None: nothing new."""

    @property
    def results(self) -> int:
        """Number of results counted, at most the window of the configuration."""
        return len(self._results)

    @property
    def reopens_at(self) -> float | None:
        """When the cooldown is over; None unless it opened by itself."""
        if self.state is CircuitState.OPEN and self.forced is None and self._opened_at < math.inf:
            return self._opened_at + self.config.cooldown_s
        return None

    @property
    def probe(self) -> int | None:
        """Number of the ticket that is the probe; None: none is in flight."""
        return self._probe

    def poll(self, now: float, *, fresh: bool = False) -> bool:
        """Half-open after the cooldown; with `fresh`, a request that hasn't failed yet, at once if those that failed
        may be at fault themselves. Return whether the state changed."""
        reopens_at = self.reopens_at
        if reopens_at is None or self.shared or (now < reopens_at and not (fresh and self._doubtful)):
            return False
        family = self.family
        self._enter(CircuitState.HALF_OPEN)
        self.family = family
        return True

    def admits(self) -> bool:
        """Whether one more request may be sent now (in half-open: as the probe)."""
        return self.state is CircuitState.CLOSED or (self.state is CircuitState.HALF_OPEN and self._probe is None)

    def keeps(self, family: str) -> bool:
        """Whether it is about requests of this family."""
        return self.family is None or self.family == family

    def lease(self, ticket: int, family: str = "") -> None:
        """Note that the ticket is sent; in half-open it is the probe."""
        if self.state is CircuitState.HALF_OPEN and self.keeps(family):
            self._probe = ticket

    def return_lease(self, ticket: int) -> None:
        """Free the probe of a ticket that ended without a result (its client left)."""
        if self._probe == ticket:
            self._probe = None

    def report(
        self,
        now: float,
        ticket: int,
        epoch: int,
        ok: bool,
        family: str = "",
        *,
        own_refusal: bool = False,
        doubtful: bool = False,
    ) -> bool:
        """Take the result of an attempt of a family granted in `epoch`; `own_refusal`: it was refused, and as far as is
        known that family alone; `doubtful`: it failed, maybe by its own fault. Return whether the state changed."""
        if epoch != self.epoch or self.forced is not None:
            return False
        if self.state is not _CLOSED and self.keeps(family):
            return self._report_probe(now, ticket, ok, doubtful=doubtful)
        results, window = self._results, self.config.window
        if len(results) == window and results[0] is not True:
            self.errors -= 1
        results.append(family if own_refusal else (ticket,) if doubtful else ok)
        self.errors += not ok
        if ok or len(results) < window or self.errors / window < self.config.threshold:
            return False
        refused = None if self.state is not _CLOSED else self._refused()
        doubtful = sum(isinstance(result, tuple) for result in results) == self.errors
        self._enter(CircuitState.OPEN)
        self.family, self._doubtful = refused, doubtful
        self._opened_at = now
        self.outcome = "opened"
        return True

    def forgive(self, ticket: int) -> None:
        """Forget the failures of a ticket that turned out to be at fault itself."""
        while (ticket,) in self._results:
            self._results.remove((ticket,))
            self.errors -= 1

    def _refused(self) -> str | None:
        """Return the family of which nearly all failures are refusals; None: there is none."""
        refused = Counter(result for result in self._results if isinstance(result, str))
        family, count = refused.most_common(1)[0] if refused else (None, 0)
        return family if count >= (1 - _FEW) * self.errors else None

    def _report_probe(self, now: float, ticket: int, ok: bool, *, doubtful: bool) -> bool:
        if self.state is not CircuitState.HALF_OPEN or self._probe != ticket:
            return False
        family = self.family
        self._enter(CircuitState.CLOSED if ok else CircuitState.OPEN)
        self._opened_at, self._doubtful = now, doubtful
        self.family = None if ok else family
        if self.shared:
            self.outcome = "probe_ok" if ok else "probe_failed"
        else:
            self.outcome = None if ok else "opened"
        return True

    def follow(
        self,
        now: float,
        state: Literal["closed", "open", "probe"],
        reopens_in_s: float | None,
        forced: Literal["open", "closed"] | None,
        family: str | None,
    ) -> bool:
        """Take over a shared state; `probe`: the one probe is to be sent from here. Return whether it changed."""
        states = {"open": CircuitState.OPEN, "probe": CircuitState.HALF_OPEN}
        entered = states.get(forced or state, CircuitState.CLOSED)
        changed = entered is not self.state or forced != self.forced or family != self.family
        if changed:
            self._enter(entered)
            self.family = family
        self.forced = forced
        if entered is CircuitState.OPEN:
            self._opened_at = math.inf if reopens_in_s is None else now + reopens_in_s - self.config.cooldown_s
        return changed

    def go_alone(self, now: float) -> None:
        """Decide by oneself again: an open circuit that only others would have probed is probed after a cooldown."""
        self.shared = False
        if self.state is CircuitState.OPEN and self._opened_at == math.inf:
            self._opened_at = now

    def force(self, mode: Literal["auto", "open", "closed", "probe"]) -> None:
        """Hold a state by hand; `auto` ends that, `probe` sends one request now."""
        self.forced = mode if mode in ("open", "closed") else None
        states = {"probe": CircuitState.HALF_OPEN, "open": CircuitState.OPEN}
        self._enter(states.get(mode, CircuitState.CLOSED))
        self.outcome = None

    def configure(self, config: CircuitConfig) -> None:
        """Change the parameters. The newest results count, as far as they fit the window; their share is compared with
        the threshold at the next one."""
        if config.window != self.config.window:
            self._results = deque(self._results, maxlen=config.window)
            self.errors = sum(result is not True for result in self._results)
        self.config = config

    def _enter(self, state: CircuitState) -> None:
        self.state = state
        self.epoch += 1
        self.family = None
        self._doubtful = False
        self.errors = 0
        self._results.clear()
        self._probe = None
