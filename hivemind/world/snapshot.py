"""The world at a moment, as frozen views that the screen and `/_stats` read.

Times are seconds; `at` and the `*_at` fields are on the proxy's monotonic clock.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from hivemind.scheduler.events import BudgetState, LaneState, WorkState
from hivemind.scheduler.types import Priority, Usage
from hivemind.world.health import Alert, AlertLimits, Forecast, Verdict, Vitals, Waits

QUEUE_SHOWN = 100
TASKS_SHOWN = 500
RUNS_KEPT = 8
"""Attempts of a task whose times are kept."""
MODELS_KEPT = 40
"""Models whose cost is kept apart; that of more is kept together."""
TICKET_STATES = ("queued", "retry", "waiting", "streaming", "background")
"""In the queue; between two attempts; in flight before the first content; in flight after it; answered with work that
goes on in the background."""
IN_FLIGHT = frozenset({"waiting", "streaming", "background"})
"""States of tickets that hold a slot."""
HUNG = "hung"
"""In flight, but nothing of the answer has come for far longer than is usual (:mod:`.hung`)."""
AGENT_STATES = (
    *(HUNG, "streaming", "waiting", "background", "retry", "queued", "held", "pending", "spent", "stopped"),
    *("died", "refused", "idle", "ended"),
)
"""States of an agent, the busiest first."""
REQUESTS_KEPT = 2000
"""Ended requests that are kept; open ones always are."""
REQUESTS_PAGE = 500
"""Requests in one response."""
ATTEMPTS_KEPT = 20
DECISIONS_KEPT = 60
"""Decisions about a request; of more the first and the last are kept."""

ENDS = ("answered", "failed", "refused", "left", "stopped")
"""How a request ended: answered; an error of the upstream's, or of ours, that the agent saw; the client left; the
operator stopped its agent. An open one has one of :data:`TICKET_STATES`."""


class TicketView(Struct, frozen=True, gc=False):
    """An open request."""

    ticket: int
    agent: str
    lane: str
    model: str
    priority: Priority
    state: str
    """One of :data:`TICKET_STATES`, or :data:`HUNG`."""
    since_s: float
    """Time in this state; of one that is hung, since it was sent, or since its first content; of one that waits, that
    wait, with pauses before a retry."""
    age_s: float
    """Time since arrival."""
    attempt: int
    """Attempts begun."""
    output_tokens: int
    """Output tokens so far; an estimate while it streams."""
    estimated_tokens: int
    retry_in_s: float | None
    last_error: str
    stream: bool
    gate: str = ""
    """What keeps it waiting, one of :data:`~hivemind.scheduler.events.GATES`; empty in flight."""
    gate_opens_in_s: float | None = None
    """Time until that gate opens by itself, if known."""
    position: int | None = None
    """Its place in the lane's queue, from 1; None if it has none or an unknown one."""
    estimate_s: float | None = None
    """Estimated time until it is sent; None: unknown."""
    silent_s: float = 0.0
    """In flight, time since something of its answer came, or since it was sent."""
    begun: bool = False
    """Some of the answer to its present attempt has come, so that it can't be sent again unseen."""


class Tally(Struct):
    """What was counted: of an agent, or of all."""

    requests: int = 0
    """Requests seen."""
    finished: int = 0
    failed: int = 0
    """Requests that ended in an error of the upstream's for the agent."""
    refused: int = 0
    """Requests that HiveMind itself refused."""
    retries: int = 0
    """Failed attempts that were retried."""
    retried_ok: int = 0
    """Requests that succeeded after at least one failed attempt, unseen by their agents."""
    usage: Usage = field(default_factory=Usage)
    dollars: float = 0.0
    """Cost of what was used by public prices, as far as they are known."""
    expired_waiting: float = 0.0
    """Dollars for writing prompts anew that left the provider's cache while their requests waited here."""
    expired_thinking: float = 0.0
    """Dollars for those that had left it before the agent sent its request."""
    switched: float = 0.0
    """Dollars for those that are in the cache of another model or upstream, which the agent used before."""
    order_saved: float = 0.0
    """Dollars not spent because a prompt was read from the cache thanks to the order of requests."""


class AgentFacts(Tally):
    """What the fold keeps of an agent and its view shows as it is."""

    name: str = ""
    client: str = ""
    parent: str | None = None
    priority: Priority = Priority.NORMAL
    held: bool = False
    stopped: bool = False
    budget: BudgetState | None = None
    """Its own, or its subtree's, as of the last sample."""
    running: bool | None = None
    """Whether its process runs; None: no runner started it."""
    exit_code: int | None = None
    """Exit code of its process, if it ended; negative: the signal that ended it."""
    recovered: bool = False
    """A request of it was retried OK before it saw an error that no operator caused."""
    ttft_s: float | None = None
    """Time to first token of the last answer."""
    served_s: float = 0.0
    """From arrival to the last byte, over its finished requests."""
    last_error: str = ""
    refusal: str = ""
    """Why it was refused last."""


class AgentView(AgentFacts, frozen=True, kw_only=True, gc=False):  # type: ignore[misc]  # structs can
    """An agent and its requests."""

    state: str
    """A ticket state, `hung`, `idle`, `ended` (its process, or the one that it is a part of, has ended; without one, it
    was silent for long), `held`, `stopped`, `spent` (its budget is used up), `pending` (its task waits), `died` (its
    process ended with an error or by a signal that no operator sent), `refused` (its last request was)."""
    in_flight: int
    queued: int
    waited_s: float
    """Time in the queue and between attempts, over all its requests, present waits included."""
    last_seen_s: float
    """Time since its last event."""
    unpriced: int = 0
    """Tokens of models without a known price."""
    boosted_for_s: float = 0.0
    """Remaining time of its boost to critical priority."""
    task: str | None = None
    """The task that it works on, or will."""
    waiting_s: float = 0.0
    """The longest of its current waits, pauses between attempts included; 0: nothing of it waits."""
    sent_s: float = 0.0
    """How long ago the oldest attempt was sent that is in flight; 0: none is."""
    activity: tuple[int, ...] = ()
    """Tokens used in each of the last steps of :attr:`~hivemind.world.health.Vitals.step_s`, oldest first."""
    machines: tuple[str, ...] = ()
    """Where it runs, in the view of several proxies; empty: in this one."""
    error_s: float | None = None
    """Since the agent got its last error; None: it got none."""
    error_over: bool = False
    """Something of it was answered since then."""
    refused_s: float | None = None
    """Since it was refused, if nothing of it was answered since; None: something was, or it never was refused."""
    warm_s: float | None = None
    """Until its last prompt leaves the provider's cache; 0: it has. None: none was there."""
    paced_s: float = 0.0
    """For how long its class is held by the pace of a long window, if a request of it waits for that."""
    paused_s: float = 0.0
    """In how many seconds its task may be started, if that is paused."""


class AgentState(AgentFacts):
    """An agent without its open requests, as the fold keeps it; the next part of a journal begins with it."""

    boosted_until: float = 0.0
    task: str | None = None
    """The task that its process was started for."""
    cut_at: float = 0.0
    """When the operator last stopped it."""
    cut: int = 0
    """Requests in flight that this stop ended."""
    turned_away: int = 0
    """Queued requests that it ended."""
    spoiled: bool = False
    """It saw an error that no operator caused."""
    saved_tokens: int = 0
    """Tokens that it had used when a request of it was last retried OK, before it saw an error."""
    priced: int = 0
    """Tokens with a known price, as in :class:`Counts`."""
    waited_s: float = 0.0
    last_seen: float = 0.0
    trouble: str = ""
    """What became of it last, if that was bad: `died`, as in :attr:`AgentView.state`."""
    step: int = 0
    """The step, counted from the clock's zero, in which it last used tokens."""
    step_tokens: int = 0
    """Tokens that it used in that step."""
    earlier_tokens: tuple[int, ...] = ()
    """Those of the steps before that one, oldest first."""
    made_up: bool = False
    """Its name was made of its client's ids, or of its key."""
    error_at: float = 0.0
    """When it got its last error; 0: it got none, as for the two below."""
    refused_at: float = 0.0
    answered_at: float = 0.0
    warm_until: float = 0.0
    """When its last prompt leaves the provider's cache; 0: none was there."""
    cache_kept_s: float = 0.0
    """For how long a use keeps it there."""


class TaskView(Struct, frozen=True):
    """A task of the graph."""

    id: str
    batch: str
    agent: str
    state: str
    """One of :data:`~hivemind.scheduler.tasks.TASK_STATES`."""
    priority: Priority
    """The effective priority: its own, or that of a task that waits for it."""
    own_priority: Priority
    estimated_tokens: int
    after: tuple[str, ...]
    attempt: int
    """Number of starts."""
    note: str
    """Reason of its state."""
    since_s: float
    """Time in this state."""
    ran_s: float
    """Running time of all attempts."""
    tokens: int
    """Tokens used by its agent while it was running."""
    dollars: float
    runs: tuple[tuple[float, float], ...] = ()
    """How long ago each attempt began and ended (0: it runs), oldest first; the latest :data:`RUNS_KEPT`."""
    paused_s: float = 0.0
    """In how many seconds it may be started, if it is paused until a plan's window is whole again."""


class CurvePoint(Struct, frozen=True):
    """A point of a lane's concurrency curve."""

    at: float
    level: float
    active: int
    waiting: int
    ttft_s: float | None
    mark: str
    """Cause of a cut at this moment, the knob that was set (as `aimd.beta=0.7`) or a note (`note=TEXT`), else empty."""
    cut: tuple[float, float] | None = None
    """The level right before that cut and right after it, which the points around may not show; None: it is no cut, or
    that isn't known."""


class LaneView(Struct, frozen=True):
    """A lane's gauges and its recent past."""

    state: LaneState
    curve: tuple[CurvePoint, ...]
    """Oldest first, about one point a second, ten minutes at most."""


class Line(Struct, frozen=True):
    """One line of the event log, ready for people."""

    at: float
    wall: float
    """Seconds since the epoch."""
    level: str
    """`info`, `good`, `warn` or `bad`."""
    tag: str
    """Short word of what happened: `429`, `retry`, `aimd`, `circuit`, `lane` …; of an operator's command what it
    changed (`knob`, `budget`, `note` …), or `you` where it was given on this screen."""
    who: str
    text: str
    machine: str = ""
    """Where it happened, in the view of several proxies; empty: in this one."""
    by: str = ""
    """Who gave the command that it tells of; empty: it tells of no command."""


class Totals(Tally, frozen=True, kw_only=True):  # type: ignore[misc]  # as of :class:`AgentView`
    """Totals since the proxy started; the cost is also that of what was wasted."""

    abandoned: int = 0
    wasted: Usage = field(default_factory=Usage)
    """Tokens of attempts that failed or whose client left."""
    agents_recovered: int = 0
    """Agents of which a request was retried OK before they saw an error; it never falls."""
    tokens_saved: int = 0
    """Tokens that those agents had used by their last such request; likewise."""
    unpriced: int = 0
    """Tokens of models whose price isn't known."""


class ModelView(Struct, frozen=True):
    """What was used of a model since the start, in all attempts, as far as it is priced by now."""

    provider: str
    """Empty, as the name: of all models beyond :data:`MODELS_KEPT`."""
    model: str
    usage: Usage
    dollars: float = 0.0
    unpriced: int = 0
    """Tokens of it whose price isn't known."""


class RecordingView(Struct, frozen=True):
    """The journal that the proxy writes."""

    path: str
    """Path of the present part."""
    bytes: int
    """Size of all parts together."""
    lost: int
    """Events that are missing in it."""
    failing: str
    """Why it can't be written at present; empty: it can."""


class Alarm(Struct, frozen=True):
    """An invariant that doesn't hold, or what held the event loop a moment ago."""

    rule: str
    """Its name: see :class:`~hivemind.scheduler.invariants.Violation`."""
    lane: str
    """The lane that it is about; empty: none in particular."""
    agent: str
    """The agent that it is about; empty: none in particular."""
    text: str
    """One sentence with the numbers, as of when it was found."""
    since: float
    """When it was found."""


class FleetView(Struct, frozen=True):
    """How a proxy stands to its fleet."""

    state: str
    """`connecting`, until the store was reached; `idle` without lanes; else the gravest of its lanes' lease states."""
    text: str
    """One line for people."""
    lanes: int
    """Lanes that are shared."""
    members: int
    """The most proxies that share one of them, this one included."""
    lease_age_s: float | None
    """Since the oldest lease in force was asked for; None: there is none."""
    syncs: int
    """Exchanges with the store since the start."""
    sync_s: float
    """Time that the answered ones took together."""
    reports: int
    """Reports of lanes in them."""
    errors: Mapping[str, int]
    """Failed exchanges, by kind."""


class Snapshot(Struct, frozen=True):
    """Everything the control room shows at one moment."""

    at: float
    wall: float
    uptime_s: float
    mode: str
    """`serving`, `paused` or `draining`."""
    address: str
    """Base URL of the proxy."""
    upstreams: tuple[tuple[str, str], ...]
    """Name and URL (without credentials) of each."""
    lanes: tuple[LaneView, ...]
    slots: tuple[TicketView, ...]
    """Tickets in flight, oldest first."""
    queue: tuple[TicketView, ...]
    """Waiting tickets in their expected order; at most :data:`QUEUE_SHOWN`."""
    queued: int
    """All waiting tickets, shown or not."""
    agents: tuple[AgentView, ...]
    """By first appearance."""
    lines: tuple[Line, ...]
    """Newest last, 200 at most."""
    totals: Totals
    pool: BudgetState | None = None
    """The budget of all agents together."""
    tasks: tuple[TaskView, ...] = ()
    """By arrival; of those that have ended only the latest, :data:`TASKS_SHOWN` in all."""
    task_counts: Mapping[str, int] = field(default_factory=dict)
    """By state, how many tasks there are, shown or not."""
    recording: RecordingView | None = None
    """None: nothing is recorded."""
    alarms: tuple[Alarm, ...] = ()
    """What is broken now, that found first first."""
    notices: tuple[str, ...] = ()
    """What clients do past the proxy, or it doesn't serve, each told once."""
    fleet: FleetView | None = None
    """None: the proxy is in none."""
    verdict: Verdict = field(default_factory=Verdict)
    """How it is doing, in a word with its cause."""
    vitals: Vitals = field(default_factory=Vitals)
    forecast: Forecast = field(default_factory=Forecast)
    alerts: tuple[Alert, ...] = ()
    """Those that hold or aren't acknowledged, that raised last first."""
    models: tuple[ModelView, ...] = ()
    """By first use."""
    alert_limits: AlertLimits = field(default_factory=AlertLimits)
    """From when on a wait is long, a budget nearly used up, and so on: for the verdict too."""
    work: tuple[WorkState, ...] = ()
    """What goes on after the replies that began it."""
    waits: Waits = field(default_factory=Waits)
    """Why requests waited lately."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """By state, how many agents there are besides (:meth:`.World.snapshot`)."""
    left_out_running: int = 0
    """Of them those whose process runs, started by a runner."""

    @property
    def in_flight(self) -> int:
        """All requests in flight, of which `slots` may lack some (:meth:`.World.snapshot`), and lanes those from before
        their first sample."""
        return max(len(self.slots), sum([view.state.active for view in self.lanes]))


# --- One request from its arrival to its end --------------------------------------------------------------------------


class AttemptView(Struct, frozen=True):
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
    """`in_flight`, `answered`, `left`, or its :class:`~hivemind.scheduler.types.FailureKind` by its value."""
    status: int | None
    message: str
    retry_in_s: float | None
    """The pause before the retry, if there is one."""
    prefill: tuple[int, int] | None = None
    """Tokens of the prompt that the server has read, and all of them, where it says so before its first content."""


class RequestView(Struct, frozen=True):
    """A request, open or ended."""

    ticket: int
    agent: str
    lane: str
    model: str
    priority: Priority
    stream: bool
    state: str
    """A ticket state, `hung`, or one of :data:`ENDS`."""
    arrived_at: float
    ended_at: float | None
    waited_s: float
    """Time in the queue and between attempts, over all waits that a grant has ended."""
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
    timed: bool = True
    """False: another program's recording doesn't say when it ended; `ended_at` is no later."""

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.ended_at is not None

    def duration_s(self, at: float) -> float | None:
        """Return the seconds from arrival to the end, or to now; None: not recorded."""
        if not self.timed:
            return None
        return (at if self.ended_at is None else self.ended_at) - self.arrived_at


class Requests(Struct, frozen=True):
    """A page of requests that changed since a revision."""

    revision: int
    """The revision for the next query."""
    oldest: int
    """Requests with a lower number have ended and are forgotten. While an older one is open, ended ones with a higher
    number may be forgotten too: collect the :data:`REQUESTS_KEPT` that ended last."""
    changed: tuple[RequestView, ...]
    """By number, at most :data:`REQUESTS_PAGE`, those that changed first; a full page may have a successor. Revision 0
    begins with all requests."""


class Decision(Struct, frozen=True):
    """A decision about a request, in words."""

    at: float
    text: str
    level: str = "info"
    """A level of :class:`Line`."""


class RequestDetail(Struct, frozen=True):
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


def budgets_of(world: Snapshot, agent: str | None) -> list[BudgetState]:
    """Return the budgets that an agent's requests are charged to: its own, its ancestors' that cover it, the pool's."""
    found = []
    views = {view.name: view for view in world.agents}
    seen: set[str] = set()
    name = agent
    while name is not None and name in views and name not in seen:
        seen.add(name)
        state = views[name].budget
        if state is not None and (name == agent or state.covers == "subtree"):
            found.append(state)
        name = views[name].parent
    return [*found, *([world.pool] if world.pool is not None else [])]
