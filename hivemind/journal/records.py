"""What a journal holds besides the scheduler's events: facts about the journal itself, and bodies."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from msgspec import field

from hivemind.scheduler.config import SchedulerConfig
from hivemind.scheduler.events import Event
from hivemind.world.health import AlertLimits
from hivemind.world.state import Carried

VERSION = 3
"""Of the lines. A reader takes what it knows of a newer one, and says so; version 2 had a line for each event and named
what has its default, version 1 had other names (:mod:`hivemind.earlier`)."""


UNKNOWN: Mapping[str, str] = {
    "limits": "rate limits",
    "starts": "when requests began (they are taken to begin with what they follow)",
    "durations": "how long requests took",
    "first tokens": "times to first token",
    "tokens": "tokens",
    "refusals": "attempts that were refused",
    "errors": "how attempts failed",
}
"""What another program's recording may lack, and its words."""
_WAITED = ("waited_s", "waits", "together", "causes")
_RESTS_ON = {
    "tokens": ("tokens", "wasted_tokens", "unpriced_tokens", "dollars"),
    "durations": ("wall_s", "busiest", "served_s", "fairness", *_WAITED),
    "refusals": ("failed", "retries", "retried_ok", "wasted_tokens", *_WAITED),
}
"""By what a recording may lack, the figures that aren't known then."""
UNEXPLAINED = "failed; the recording doesn't say how"
"""The message of a failure of which another program's recording says no more."""


class JournalBegan(Event, frozen=True, omit_defaults=False):
    """The first line of every part."""

    wall: float
    """Time of day at this moment, in seconds since the epoch; every other line's follows from its `at`."""
    journal: str
    """Name of the whole, the same in each of its parts."""
    part: int
    """From 1."""
    program: str
    """Who wrote it, as `hivemind 0.1.0`."""
    address: str = ""
    upstreams: tuple[tuple[str, str], ...] = ()
    """Name and URL (without credentials) of each."""
    config: SchedulerConfig = field(default_factory=SchedulerConfig)
    """What the scheduler began with; a lane's own part is in :class:`~hivemind.scheduler.events.LaneOpened`."""
    bodies: bool = False
    """Bodies are recorded."""
    source: str = "proxy"
    """`proxy`: recorded as it happened; `what-if`: simulated; others: imported, and what from."""
    fleet: bool = False
    """The proxy shared its keys with others, whose traffic isn't in this journal."""
    machine: str = ""
    """Tells the machine from others, as a hash; empty: unknown."""
    alert_limits: AlertLimits = AlertLimits()
    """By which alerts were raised and the verdict was judged."""
    unknown: Mapping[str, int] = field(default_factory=dict)
    """What the recording doesn't hold, of :data:`UNKNOWN`, and of how many requests; nothing of it is 0."""
    imported: int = 0
    """Of how many requests it was made, where another program recorded it."""

    @property
    def foreign(self) -> bool:
        """It is another program's recording: HiveMind had no part in it."""
        return self.source not in ("proxy", "what-if")

    def lacks(self, name: str) -> bool:
        """Whether this isn't recorded of any request."""
        return 0 < self.imported <= self.unknown.get(name, 0)

    @property
    def unknown_figures(self) -> frozenset[str]:
        """Those of :class:`~hivemind.journal.figures.Figures` that can't be told; the fold has 0 for them."""
        return frozenset(figure for name, figures in _RESTS_ON.items() if self.lacks(name) for figure in figures)

    @property
    def not_recorded(self) -> str:
        """What the recording doesn't hold, in words; empty: nothing that is known of."""
        return "; ".join(
            UNKNOWN[name] + (f" (of {count:,} of {self.imported:,} requests)" if count < self.imported else "")
            for name, count in self.unknown.items()
            if name in UNKNOWN
        )


class Gap(Event, frozen=True):
    """Lines were lost: the disk was full or too slow."""

    since: float
    """When the first of them happened."""
    lost: int
    why: str


class JournalEnded(Event, frozen=True):
    """The proxy ended in good order. A journal that doesn't end with it is truncated."""


class RequestBody(Event, frozen=True):
    """What a client sent, without credentials."""

    ticket: int
    method: str
    path: str
    """With its query."""
    headers: tuple[tuple[str, str], ...]
    body: str
    encoding: str = ""
    """Of `body`: empty for text as it is, `base64`."""
    left_out: str = ""
    """Why there is no body, where there is none."""


class ResponseBody(Event, frozen=True):
    """What an attempt was answered, without credentials."""

    ticket: int
    attempt: int
    status: int
    headers: tuple[tuple[str, str], ...]
    body: str
    encoding: str = ""
    left_out: str = ""


def bytes_of(recorded: RequestBody | ResponseBody) -> bytes | None:
    """The body as it was before it was made a text; None: it isn't valid in its encoding."""
    if recorded.encoding != "base64":
        return recorded.body.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(recorded.body, validate=True)
    except ValueError:
        return None


Recorded = JournalBegan | Carried | Gap | JournalEnded | RequestBody | ResponseBody
