"""A lane's side of its lease: what it may use now, and what has to be reported.

A decision taken here (a cut, an opened circuit, an operator's command) holds at once, and until a lease shows that it
is known: by a new number, or by the same decision. A lease that was on its way already doesn't know of it; one that
comes :data:`HOLD_S` after the report decides in any case. A pause that the provider asked for here is reported until a
lease names one.
"""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet
from typing import Literal

from hivemind.scheduler.admission.aimd import Aimd
from hivemind.scheduler.admission.circuit import Circuit
from hivemind.scheduler.credits import RING_S, Terms
from hivemind.scheduler.lease import Lease, LeaseState, WindowKey
from hivemind.scheduler.types import Priority

_SHARED = frozenset({LeaseState.LEASED, LeaseState.LEARNING})
_SHARES = {LeaseState.SAFE: 0.9, LeaseState.ALONE: 0.01}
"""Of a limit, divided by the number of proxies: what a window may use of which the lease names none."""

HOLD_S = 1.0
"""What was reported holds here for so long, if no lease shows that it is known."""

Place = tuple[str, Priority]
"""A family of models and a class, of which requests wait."""


class Leasing:
    """The lane's lease, and what changed since its last report."""

    def __init__(self) -> None:
        self.lease = Lease(LeaseState.JOINING, slots=0)
        self.taken_at = -math.inf  # when the lease was taken; -inf: there was none yet
        self.since = -math.inf  # when its state was entered
        self.terms = Terms()
        self.in_flight = [0] * len(Priority)  # requests in flight, by class
        self.unclaimed: dict[WindowKey, float] = {}
        """Credits of windows that aren't kept any more, to be given back."""
        self.own_pauses: set[str | None] = set()
        """Families (None: the lane) for which the provider asked this proxy for a pause that no lease names yet."""
        self.resumed = False  # an operator ended the pause
        self.forced: Literal["auto", "open", "closed", "probe"] | None = None  # an operator's command
        self.trips = 0  # number of the state of the circuit that results here are about
        self.cut: float | None = None  # factor of the cuts that were reported, but that no lease knows yet
        self.cut_until = -math.inf  # it holds until then
        self.circuit_until = -math.inf  # so long a state of the circuit holds that was reported, likewise
        self._told_pin = 0.0  # the operator's level that was reported last
        self._pin_until = -math.inf  # it holds until then
        self.pin: float | None = None  # an operator's level; 0: it is AIMD's again
        self.urgent = False  # something happened that the other proxies should know at once
        self.shown: tuple[LeaseState, float, float, float] | None = None
        """State, slots and level as they were last reported to people, and when."""
        self._asked = False  # a sync was asked for since the last report
        self._reported: AbstractSet[Place] = frozenset()

    @property
    def shared(self) -> bool:
        """Whether the lease is one of the store's, so that level, circuit and pauses are those of all proxies."""
        return self.lease.state in _SHARED

    def take(self, now: float, lease: Lease) -> None:
        """Go on under another lease."""
        if lease.state is not self.lease.state or self.since == -math.inf:
            self.since = now
        terms = self.terms
        terms.members = max(lease.members, 1)
        terms.by_credits = lease.state not in _SHARES
        if not terms.by_credits:
            terms.share = _SHARES[lease.state] / terms.members
            terms.shares_from = self.since + RING_S
        self.lease, self.taken_at = lease, now
        if bool(self._told_pin) is (lease.pinned is not None):
            self._pin_until = -math.inf

    def slots(self, aimd: Aimd) -> float:
        """Return the most requests in flight now. A cut that wasn't reported yet holds at once."""
        lease = self.lease
        if lease.state is LeaseState.JOINING:
            return 0.0
        if lease.state not in _SHARED:
            return min(lease.slots, aimd.level)
        cut = self.cut_here(aimd)
        if cut == 1.0:
            return lease.slots
        if math.isinf(lease.slots):
            return aimd.level
        return max(min(lease.slots, 1.0), lease.slots * cut)

    def cut_here(self, aimd: Aimd) -> float:
        """Return the factor of the cuts that the lease doesn't know of."""
        return (1.0 if aimd.cut is None else aimd.cut) * (1.0 if self.cut is None else self.cut)

    def holds_pin(self, now: float) -> bool:
        """Whether the lease doesn't know yet that an operator here pinned the level, or gave it back to AIMD."""
        return now < self._pin_until

    def wants_sync(self, waiting: AbstractSet[Place]) -> bool:
        """Whether to report at once, rather than by and by: something happened that concerns all, or requests wait of
        which the last report knew nothing. Asked for once a report."""
        if self._asked or not (self.urgent or waiting - self._reported):
            return False
        self._asked = True
        return True

    def served(self, waiting: AbstractSet[Place]) -> None:
        """Note what still waits under a new lease: of what comes where nothing does, the next report is to tell at
        once."""
        self._reported &= waiting

    def reported(self, now: float, aimd: Aimd, circuit: Circuit, waiting: AbstractSet[Place]) -> None:
        """Note that what is new was reported, and what waits."""
        if aimd.cut is not None:
            self.cut, aimd.cut = self.cut_here(aimd), None
            self.cut_until = now + HOLD_S
        if self.pin is not None:
            self._told_pin, self._pin_until = self.pin, now + HOLD_S
        if self.forced is not None or circuit.outcome is not None:
            self.circuit_until = now + HOLD_S
        circuit.outcome = self.forced = self.pin = None
        self.resumed = self.urgent = self._asked = False
        self._reported = waiting
