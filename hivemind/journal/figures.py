"""A run in numbers, counted the same way whether it was recorded or simulated: a fold over its events."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from hivemind.journal.wait_causes import WaitCauses
from hivemind.journal.waits import WaitingRequest, WaitsFold
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Price, Priority, Usage
from hivemind.world.lifecycle import Lifecycle
from hivemind.world.state import Carried

_ENDS = ("answered", "failed", "refused", "left")
_TOKENS = ("tokens", "wasted_tokens", "unpriced_tokens")


class Waits(Struct, frozen=True):
    """How long requests of one priority waited, in the queue and between attempts, in seconds."""

    requests: int
    p50_s: float
    p95_s: float
    longest_s: float


class Figures(Struct, frozen=True):
    """A run in numbers."""

    agents: int
    """That sent a request."""
    finished: int
    """Of these the ones whose last request was answered and that have none open, so that a run that is looked at while
    it goes on says what it says once it has ended and cut these off."""
    wall_s: float
    """From the first arrival to the last end."""
    requests: int
    answered: int
    failed: int
    """Ended in an error of the upstream's."""
    refused: int
    """Ended in an error of ours."""
    left: int
    """Given up by their clients."""
    open: int
    """Not over when the events ended."""
    attempts: int
    retries: int
    retried_ok: int
    """Answered after at least one failed attempt, unseen by the agent."""
    waited_s: float
    """In which a request was open and no attempt of it in flight (in the queue, or between attempts), all requests
    together."""
    waits: Mapping[str, Waits]
    """By priority's name, `critical` first; only those that there were."""
    tokens: int
    wasted_tokens: int
    """Used by attempts that failed or were left."""
    dollars: float | None
    """None: no price is known."""
    unpriced_tokens: int
    fairness: float
    """Jain's index over agents of the share of their requests' time in which they didn't wait: 1 where waiting slowed
    all of them down alike."""
    busiest: int
    """Most requests in flight at once."""
    together: Waits = Waits(0, 0.0, 0.0, 0.0)
    """Waits of all priorities together."""
    causes: WaitCauses = field(default_factory=WaitCauses)
    """Why requests waited; all of them together are :attr:`waited_s`."""
    served_s: float = 0.0
    """In which attempts were in flight, all requests together."""


class FiguresFold:
    """Counts events, which come in order."""

    def __init__(self, price: Price | None = None, *, explained: bool = True) -> None:
        """`explained`: with causes, which take time."""
        self._price = price
        self.why = WaitsFold()
        """Why requests waited, also by lane and by agent; empty unless that is `explained`."""
        self._explained = explained
        self._open = self.why.open
        self._requests = self.why if explained else self._open
        self._began: float | None = None
        self._ended = 0.0
        self._last_good: dict[str, bool] = {}
        self.times: dict[str, list[float]] = {}
        """By agent, seconds that its ended requests took, and how many of them they waited."""
        self.waits: dict[Priority, list[float]] = {}
        """By priority, seconds that each ended request waited."""
        self._counts = dict.fromkeys(("requests", *_ENDS, "attempts", "retries", "retried_ok", "busiest", *_TOKENS), 0)
        """Those of :class:`Figures`, by name."""
        self._dollars: float | None = None
        self._waited_s = 0.0
        self._served_s = 0.0

    def apply(self, event: ev.Event) -> None:
        """Count the next event."""
        if isinstance(event, Carried):
            new = self.why.carried(event) if self._explained else self._open.carried(event)[0]
            for request in new:  # from now on; what was before isn't known
                self._count(request, event.at)
                self._counts["attempts"] += request.in_flight
            self._counts["busiest"] = max(self._counts["busiest"], self._open.in_flight)
        elif isinstance(event, ev.Finished) and not event.attempts:
            self._use(self._open.providers.get(event.lane, ""), event.model, event.usage, wasted=False)
        elif (changed := self._requests.apply(event)) is not None:
            self._request_changed(changed, event)

    def figures(self) -> Figures:
        """The run so far."""
        counts = self._counts
        busy = {request.arrived.agent for request in self._open.by_ticket.values()}
        return Figures(
            agents=len(self._last_good),
            finished=sum(good and name not in busy for name, good in self._last_good.items()),
            wall_s=0.0 if self._began is None else max(0.0, self._ended - self._began),
            **counts,
            open=counts["requests"] - sum(counts[end] for end in _ENDS),
            waited_s=self._waited_s,
            waits={each.name.lower(): _waits(self.waits[each]) for each in Priority if each in self.waits},
            dollars=self._dollars if self._dollars is not None or counts["tokens"] else 0.0,
            fairness=jain([1 - waited / took if took else 1.0 for took, waited in self.times.values()]),
            together=_waits([each for waits in self.waits.values() for each in waits]),
            causes=self.why.causes,
            served_s=self._served_s,
        )

    def _count(self, request: Lifecycle, at: float) -> None:
        if self._began is None:
            self._began = at
        self._counts["requests"] += 1
        self._last_good.setdefault(request.arrived.agent, False)

    def _request_changed(self, request: WaitingRequest, event: ev.Event) -> None:
        counts = self._counts
        match event:
            case ev.FirstContent():
                return
            case ev.Granted():
                counts["attempts"] += 1
                if self._open.in_flight > counts["busiest"]:
                    counts["busiest"] = self._open.in_flight
                return
            case ev.Arrived():
                self._count(request, event.at)
            case ev.Finished():
                counts["retried_ok"] += event.attempts > 1
                self._use(request.provider, request.arrived.model, event.usage, wasted=False)
            case ev.AttemptFailed() | ev.Abandoned():
                self._use(request.provider, request.arrived.model, event.usage, wasted=True)
        if request.end is not None:
            self._over(request, event.at)
        elif isinstance(event, ev.AttemptFailed):
            counts["retries"] += 1

    def _over(self, request: WaitingRequest, at: float) -> None:
        arrived = request.arrived
        waited_s = request.all_s if self._explained else request.waited_after(request.known_from)
        took_s = at - request.known_from
        self._counts[request.state] += 1
        self._last_good[arrived.agent] = request.state == "answered"
        self._waited_s += waited_s
        self._served_s += took_s - waited_s
        self.waits.setdefault(arrived.priority, []).append(waited_s)
        times = self.times.setdefault(arrived.agent, [0.0, 0.0])
        times[0] += took_s
        times[1] += waited_s
        self._ended = at

    def _use(self, provider: str, model: str, usage: Usage | None, *, wasted: bool) -> None:
        if usage is None:
            return
        self._counts["tokens"] += usage.total
        self._counts["wasted_tokens"] += usage.total if wasted else 0
        dollars = None if self._price is None else self._price(provider, model, usage)
        if dollars is None:
            self._counts["unpriced_tokens"] += usage.total
        else:
            self._dollars = (self._dollars or 0.0) + dollars


def jain(shares: Sequence[float]) -> float:
    """Jain's fairness index: 1 where all are alike, 1/n where one has all."""
    squares = sum(each * each for each in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that no less than this share of them doesn't exceed (nearest rank); 0 of none."""
    if not values:
        return 0.0
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _waits(waits: Sequence[float]) -> Waits:
    return Waits(len(waits), percentile(waits, 0.5), percentile(waits, 0.95), max(waits, default=0.0))
