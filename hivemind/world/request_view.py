"""Views of one request from its arrival to its end. Times named `*_at` are on the proxy's monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass

from hivemind.scheduler.types import Priority, Usage, record

REQUESTS_KEPT = 2000
"""Ended requests that are kept; open ones always are."""
REQUESTS_PAGE = 500
"""Requests in one response."""
ATTEMPTS_KEPT = 20
DECISIONS_KEPT = 60
"""Decisions about a request; of more the first and the last are kept."""

ENDS = ("answered", "failed", "refused", "left", "stopped")
"""How a request ended: answered; an error of the upstream's, or of ours, that the agent saw; the client left; the
operator stopped its agent. An open one has one of :data:`hivemind.world.snapshot.TICKET_STATES`."""


@record
class AttemptView:
    """One attempt of a request upstream."""

    number: int
    """From 1."""
    queued_at: float
    """When the request began to wait for it."""
    granted_at: float
    first_content_at: float | None
    ended_at: float | None
    """None: it is in flight."""
    outcome: str
    """`flying`, `answered`, `left`, or its :class:`~hivemind.scheduler.types.FailureKind` by its value."""
    status: int | None
    message: str
    retry_in_s: float | None
    """The pause before the retry, if there is one."""


@record
class RequestView:
    """A request, open or ended."""

    ticket: int
    agent: str
    lane: str
    model: str
    priority: Priority
    stream: bool
    state: str
    """A ticket state, or one of :data:`ENDS`."""
    arrived_at: float
    ended_at: float | None
    waited_s: float
    """Time in the queue, over all waits that a grant has ended."""
    attempts: tuple[AttemptView, ...]
    status: int | None
    """Status that the agent got; None: unknown or not yet."""
    usage: Usage | None
    """None until the provider reports it."""
    output_tokens: int
    """Output tokens so far; an estimate while it streams."""
    estimated_tokens: int
    dollars: float | None
    """None: it is open, or the model's price isn't known."""
    last_error: str

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.ended_at is not None

    def duration_s(self, at: float) -> float:
        """Return the seconds from arrival to the end, or to now."""
        return (at if self.ended_at is None else self.ended_at) - self.arrived_at


@dataclass(frozen=True, slots=True)
class Requests:
    """A page of requests that changed since a revision."""

    revision: int
    """The revision for the next query."""
    oldest: int
    """Requests with a lower number have ended and are forgotten. While an older one is open, ended ones with a higher
    number may be forgotten too: collect the :data:`REQUESTS_KEPT` that ended last."""
    changed: tuple[RequestView, ...]
    """By number, at most :data:`REQUESTS_PAGE`, those that changed first; a full page may have a successor. Revision 0
    begins with all requests."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision about a request, in words."""

    at: float
    text: str
    level: str = "info"
    """A level of :class:`hivemind.world.snapshot.Line`."""


@dataclass(frozen=True, slots=True)
class RequestDetail:
    """All that is known of a request."""

    view: RequestView
    client: str
    parent: str | None
    family: str
    estimated_input: int
    estimated_output: int
    decisions: tuple[Decision, ...]
    """What held, released and ended it, oldest first."""
    method: str
    path: str
    """With the query, credentials masked; empty if not kept, as the headers."""
    request_headers: tuple[tuple[str, str], ...]
    response_headers: tuple[tuple[str, str], ...]
    """Headers of the last response from upstream."""
