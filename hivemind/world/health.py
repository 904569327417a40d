"""How a proxy is doing, for people: the verdict with its causes, vitals, forecasts and alerts, as parts of a snapshot.

Types only. :mod:`.verdict`, :mod:`.vitals`, :mod:`.forecast` and :mod:`.alerts` make them.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from msgspec import Struct, field

VERDICTS = ("healthy", "slowed", "degraded", "paused", "draining", "blocked")
"""States of a verdict: all is well; requests wait for much of their time; something needs a look, though requests flow;
the operator holds all requests; no new ones are taken; requests wait and none gets through."""
SEVERITIES = ("note", "slowed", "degraded", "blocked")
"""Of a finding: it changes no verdict; it makes it at least slowed, or degraded; nothing gets through because of it."""


class Finding(Struct, frozen=True):
    """One thing that is wrong, or worth knowing."""

    severity: str
    """One of :data:`SEVERITIES`."""
    code: str
    """Which kind it is, for programs: one of :data:`~hivemind.world.verdict.CODES`."""
    text: str
    """What is wrong, in a few words: `circuit open`, `dmitri died (exit code 3)`."""
    about: str = ""
    """The lane or agent that it is about; empty: the whole proxy."""
    ends: str = ""
    """What ends it: `probe in 1 s`, `resets in 9 s`, `until you resume`; empty: unknown."""
    ends_in_s: float | None = None
    """When it ends by itself, if known."""


class Verdict(Struct, frozen=True):
    """The state of a proxy in a word, with its cause and what ends it."""

    state: str = "healthy"
    """One of :data:`VERDICTS`."""
    findings: tuple[Finding, ...] = ()
    """The gravest first; the first one is the cause of the state. Of one kind at most
    :data:`~hivemind.world.verdict.FOUND_MOST`."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """How many were found of each kind, by code, the gravest first."""
    waiting: int = 0
    """Requests that wait."""
    open: int = 0
    """All open requests."""
    last_in_s: float | None = None
    """When the last of those that wait will be sent, as far as that can be estimated."""
    text: str = "HEALTHY"
    """All of it in one line: `BLOCKED circuit open, probe in 1 s; 60 of 60 wait; last gets through in about 1 min`."""

    @property
    def cause(self) -> Finding | None:
        """The gravest finding; None: there is none."""
        return self.findings[0] if self.findings else None


class Waits(Struct, frozen=True):
    """For how long requests waited in the last ten minutes, over all of them."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    """By what kept them, in words."""
    open_s: float = 0.0
    """Time in which they were open, waiting or in flight."""
    slowed: bool = False
    """Whether much of the last minute was such time."""


STEP_S = 5.0
"""Between two points of the series of vitals and agents."""
BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0)
"""Upper bounds of a histogram's bins, in seconds; one more bin holds what is longer."""
_PARTS = 8
FINE_BOUNDS_S = tuple(
    low * (high / low) ** (part / _PARTS) if part < _PARTS else high
    for low, high in pairwise((0.0005, *BOUNDS_S))
    for part in range(1, _PARTS + 1)
)
"""Likewise of a histogram that quantiles are taken from: each of those bins in eight."""


class Histogram(Struct, frozen=True):
    """How many times were how long."""

    bins: tuple[int, ...] = (0,) * (len(BOUNDS_S) + 1)
    """How many in each bin of :data:`BOUNDS_S`, or of :data:`FINE_BOUNDS_S`."""
    sum_s: float = 0.0
    range_s: tuple[float, float] | None = None
    """The shortest and the longest; None: unknown, or there are none."""


class Vitals(Struct, frozen=True):
    """Rates and times over the last minute, their recent past, and since the start the distribution of times."""

    span_s: float = 60.0
    """The time that the rates are over; shorter right after the start. What counts by the minute or hour is over at
    least a minute, so that a run's first request is no fortune an hour."""
    requests_per_s: float = 0.0
    """Requests that ended."""
    tokens_per_min: float = 0.0
    tokens_limit: float | None = None
    """Tokens a minute that are allowed, over all lanes; None: unknown for one of them."""
    error_share: float | None = None
    """Of the attempts that ended those that failed; None: none ended."""
    failed_share: float | None = None
    """Of the requests that ended those whose agent saw an error; None: none ended."""
    wait_p50_s: float | None = None
    """Before each attempt, from the request's arrival or the last failed attempt on; of those that still wait, the ones
    that wait longer than 95 % did count too. None: none was sent, and none waits."""
    wait_p95_s: float | None = None
    ttft_p50_s: float | None = None
    ttft_p95_s: float | None = None
    dollars_per_hour: float = 0.0
    tasks_done: int = 0
    tasks: int = 0
    """0: there is no task graph."""
    step_s: float = STEP_S
    """Between two points of the series."""
    series: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    """The recent past, oldest first, of `requests_per_s`, `tokens_per_min`, `error_share`, `wait_p95_s`, `ttft_p95_s`,
    `dollars_per_hour` and `tasks_done`."""
    recent_waits: Histogram = field(default_factory=Histogram)
    """Those of the last minute in fine bins, from which several proxies' quantiles follow, without their sum; times to
    first token likewise."""
    recent_ttfts: Histogram = field(default_factory=Histogram)
    waits: Histogram = field(default_factory=Histogram)
    """Since the start."""
    ttfts: Histogram = field(default_factory=Histogram)


class Forecast(Struct, frozen=True):
    """What happens next at the present rate; times are from the snapshot on."""

    windows: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    """By lane, when each of its rate windows runs out; None: not before its reset."""
    budgets: Mapping[str, float] = field(default_factory=dict)
    """By owner (empty: the pool), when its budget is used up; none that lasts for more than a day."""
    tasks_done_in_s: float | None = None
    """When the task graph is done; None: there is none, or nothing can be told yet."""
    dollars_by_hour: float | None = None
    """What will have been spent since the start at the end of the present hour; None: nothing is being spent."""
    hour_ends_in_s: float = 0.0


class Alert(Struct, frozen=True):
    """Something that the operator wants to be told, by the rules of the settings `[alerts]`."""

    number: int
    rule: str
    """One of :data:`~hivemind.world.alerts.RULES`."""
    about: str
    """The agent or lane that it is about; empty: the whole proxy."""
    text: str
    """One sentence with the numbers, as of when it was raised."""
    since: float
    """When it was raised."""
    over: bool = False
    """It holds no longer."""
    acknowledged: str = ""
    """Who acknowledged it; empty: nobody."""


class AlertLimits(Struct, frozen=True):
    """From when on something is an alert; 0: never."""

    died: bool = True
    wait_s: float = 60.0
    budget_share: float = 0.85
    circuit_s: float = 30.0
    dollars_per_hour: float = 0.0

    @property
    def any(self) -> bool:
        """Whether there is a rule that isn't off."""
        return self.died or any((self.wait_s, self.budget_share, self.circuit_s, self.dollars_per_hour))
