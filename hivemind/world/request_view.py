"""One request from its arrival to its end, as the drill-down shows it; requests that are over are remembered too.

Built by :mod:`hivemind.world` beside the snapshot. Times named `*_at` are on the proxy's monotonic clock, in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from hivemind.scheduler.types import Priority, Usage, record

REQUESTS_KEPT = 2000
"""Requests that are over, the newest of them; open ones are always kept."""
REQUESTS_PAGE = 500
"""In one answer to what changed."""
ATTEMPTS_KEPT = 20
DECISIONS_KEPT = 60
"""Of one request; where there were more, the first and the last are kept."""

ENDS = ("answered", "failed", "refused", "left", "stopped")
"""How a request can be over: answered; an error of the upstream's, or of ours, that the agent saw; the client left; the
operator stopped its agent. One that isn't over has a ticket state (:data:`hivemind.world.snapshot.TICKET_STATES`)."""


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
    """None: it goes on."""
    outcome: str
    """`flying`, `answered`, `left`, or its :class:`~hivemind.scheduler.types.FailureKind` by its value."""
    status: int | None
    message: str
    retry_in_s: float | None
    """The pause before the next one, after a failure that the agent never saw."""


@record
class RequestView:
    """A request, open or over."""

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
    """In the queue, over all its attempts, as far as grants have ended those waits."""
    attempts: tuple[AttemptView, ...]
    status: int | None
    """What the agent got; None where that isn't known or not yet."""
    usage: Usage | None
    """None until the provider said."""
    output_tokens: int
    """So far; an estimate while it streams."""
    estimated_tokens: int
    dollars: float | None
    """None: not over yet, or of a model whose price isn't known."""
    last_error: str

    @property
    def over(self) -> bool:
        """Nothing more will happen to it."""
        return self.ended_at is not None

    def duration_s(self, at: float) -> float:
        """From arrival to the end, or to now."""
        return (at if self.ended_at is None else self.ended_at) - self.arrived_at


@dataclass(frozen=True, slots=True)
class Requests:
    """What changed among the remembered requests since the last query."""

    revision: int
    """To ask with the next time."""
    oldest: int
    """Requests with a lower number are over and forgotten. One with a higher number may be forgotten too while an
    older one is open: whoever collects answers keeps the :data:`REQUESTS_KEPT` that ended last."""
    changed: tuple[RequestView, ...]
    """By number, :data:`REQUESTS_PAGE` at most, those that changed first. As many mean that there may be more to ask
    for, at once or with the next frame: building them all would hold the loop. From revision 0 on, one gets all there
    are."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Something that was decided about a request, in words."""

    at: float
    text: str
    level: str = "info"
    """As of :class:`hivemind.world.snapshot.Line`."""


@dataclass(frozen=True, slots=True)
class RequestDetail:
    """Everything there is to say about one request."""

    view: RequestView
    client: str
    parent: str | None
    family: str
    estimated_input: int
    estimated_output: int
    decisions: tuple[Decision, ...]
    """Oldest first: what held it, what released it, what failed, and why it was retried or wasn't."""
    method: str
    path: str
    """With the query, credentials in it masked; empty if not remembered."""
    request_headers: tuple[tuple[str, str], ...]
    """As they came, credentials masked; empty if not remembered."""
    response_headers: tuple[tuple[str, str], ...]
    """Of the last answer from upstream, likewise."""
