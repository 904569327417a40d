"""Everything that happens, as one typed event each.

The screen, the metrics, the journal and all that is derived from it are folds over this one stream, so all that they
show must be here. They are msgspec structs, because two to four are made and written down for every request. `at` is
seconds from the proxy's monotonic clock. No event carries a credential or request content.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Literal

from msgspec import Struct, field

from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.types import FailureKind, Price, Priority, Usage, Utilisation, WindowKind, WindowReading


class Event(Struct, frozen=True, omit_defaults=True):
    """Root of all events."""

    at: float


class TicketEvent(Event, frozen=True):
    """Something that happened to one request."""

    ticket: int
    agent: str
    lane: str


class Arrived(TicketEvent, frozen=True):
    """A request arrived and has a ticket now."""

    model: str
    family: str
    priority: Priority
    stream: bool
    estimated_input: int
    estimated_output: int
    client: str = ""
    parent: str | None = None
    asked: Priority | None = None  # the priority that the request itself named
    size_chars: int = 0
    max_output_tokens: int | None = None
    patience_s: float | None = None
    path: str = ""  # the URL's path, without its query; see `path`
    made_up: bool = False  # the agent's name was made of its client's ids, or of its key
    tier: str = ""  # the tier of service that it asks for, as `Usage.tier`
    waited_s: float = 0.0  # since its client first sent it, if the tries before this one weren't sent on


class Granted(TicketEvent, frozen=True):
    """The ticket got a slot; attempt number `attempt` (from 1) starts."""

    attempt: int
    waited_s: float = 0.0  # since the ticket last joined the queue


class FirstContent(TicketEvent, frozen=True):
    """The first content of the reply came; from now on the request can't be retried transparently."""

    ttft_s: float  # since the attempt began
    headed_s: float | None = None
    """From the attempt's beginning to a response head with rate limits; None: it had none."""


class WorkLeft(TicketEvent, frozen=True):
    """What the request began goes on in the background, with the ticket's slot, and is told of by other requests."""


class PromptCached(TicketEvent, frozen=True):
    """A prompt that had expired in the provider's cache was written anew, or one was read because of the order in which
    requests were sent."""

    model: str
    why: Literal["waited", "thought", "switched", "order"]
    """It expired while its request waited here, or before its agent sent that; or it is in the cache of the model or
    upstream that the agent used before; or it was read because of the order."""
    tokens: int
    usage: Usage = Usage()
    """What the request has used, which the price of these tokens depends on."""

    def dollars(self, provider: str, price: Price) -> float:
        """Return by how much it costs more that they aren't read; 0 where no price is known."""
        ordered = self.why == "order"
        usage = self.usage
        if not usage.total_input:
            usage = Usage(cache_read_tokens=self.tokens) if ordered else Usage(cache_write_tokens=self.tokens)
        paid = price(provider, self.model, usage)
        otherwise = price(provider, self.model, usage.reading(-self.tokens if ordered else self.tokens))
        return 0.0 if paid is None or otherwise is None else abs(paid - otherwise)


class Progress(TicketEvent, frozen=True):
    """Output tokens of a stream so far (an estimate until the provider states them)."""

    output_tokens: int


class Prefill(TicketEvent, frozen=True):
    """How much of the prompt the server has read, as it says before the first content."""

    read: int  # tokens
    total: int


class AttemptFailed(TicketEvent, frozen=True):
    """An attempt failed. `retry_in_s`: until the next one may start; None: the failure went to the client."""

    attempt: int
    kind: FailureKind
    status: int | None
    message: str
    retry_in_s: float | None
    usage: Usage | None = None  # tokens that the failed attempt is known to have used
    retryable: bool = True  # as of `Failure`
    delay_s: float | None = None  # Retry-After, as the provider stated it


class Finished(TicketEvent, frozen=True):
    """The reply is complete; the slot is free again."""

    model: str
    status: int
    attempts: int
    """0: no request has ended, but what was used on account of others is known (:meth:`.Scheduler.book`); the ticket is
    0 too."""
    usage: Usage | None
    duration_s: float | None
    """From arrival to the last byte; None: another program's recording doesn't say."""


class GrantedOnArrival(Arrived, frozen=True):
    """A request arrived and got a slot at once: an :class:`Arrived` and a :class:`Granted` in one, where a scheduler
    joins events."""

    attempt: int = 0  # 1: without a default it could not follow fields that have one


class AnsweredWhole(Finished, frozen=True):
    """The reply came whole: a :class:`FirstContent` and a :class:`Finished` in one, where a scheduler joins events."""

    ttft_s: float
    headed_s: float | None = None


_arrival, _end = attrgetter(*Arrived.__struct_fields__), attrgetter(*Finished.__struct_fields__)


def apart(event: Event) -> tuple[Event, ...]:
    """Return the events that a joined one stands for, in order, or the event itself."""
    match event:
        case GrantedOnArrival(at, ticket, agent, lane):
            return Arrived(*_arrival(event)), Granted(at, ticket, agent, lane, event.attempt)
        case AnsweredWhole(at, ticket, agent, lane):
            first = FirstContent(at, ticket, agent, lane, event.ttft_s, event.headed_s)
            return first, Finished(*_end(event))
    return (event,)


class Abandoned(TicketEvent, frozen=True):
    """The client left before the end; all that the request held is free again."""

    in_flight: bool
    usage: Usage | None = None


class Refused(Event, frozen=True):
    """HiveMind refused the request with an error of its own."""

    ticket: int | None
    agent: str
    lane: str
    reason: str
    status: int
    bounds: tuple[str, ...] = ()  # settings that bound its wait, where that was too long


NO_CUTS = frozenset({"grow", "knee", "operator"})
"""Causes of changes of the level that are no sign of trouble."""


class LevelChanged(Event, frozen=True):
    """AIMD (or the operator) changed the concurrency level."""

    lane: str
    level: float
    cause: str
    """`grow`, `knee` (growth that brought no more throughput is taken back), `latency`, `circuit`, `operator`, or the
    kind of the failure that cut it."""
    excess_s: float | None = None
    """Of `latency`: the mean time to first token beyond what its prompts take alone."""


class CircuitChanged(Event, frozen=True):
    """The circuit breaker changed its state."""

    lane: str
    state: str  # `closed`, `open` or `half_open`
    cause: str
    reopens_in_s: float | None = None
    family: str | None = None  # the family of models that it is about; None: all of the lane


class LaneRateLimited(Event, frozen=True):
    """The provider asked for a pause (Retry-After); the lane sends nothing, or nothing of a family of models, until it
    is over."""

    lane: str
    for_s: float
    cause: str
    family: str | None = None  # None: all of the lane


class LaneReleased(Event, frozen=True):
    """The pause is over (or the operator ended it)."""

    lane: str
    family: str | None = None  # as of the pause


class Commanded(Event, frozen=True):
    """A command was carried out."""

    who: str
    name: str
    arguments: dict[str, Any]


class RunDenied(Event, frozen=True):
    """A run asked the control API or a tool for what it may not do."""

    agent: str  # empty: it isn't clear whose run it was
    asked: str  # the command or the request in a line: `SetBudget agent ann, tokens 500`
    why: str


class StartRefused(Event, frozen=True):
    """An agent isn't started, because its tree is too deep or has too many processes; once for each that asks."""

    agent: str
    why: str  # names the tree and the limit


class BoostEnded(Event, frozen=True):
    """A boost is over: the agent has its own priority again."""

    agent: str


class BudgetState(Struct, frozen=True):
    """A budget and how much of it is used; part of :class:`BudgetWarned` and :class:`Sampled`."""

    owner: str | None
    """The agent that has it; None: the pool, which all agents share."""
    tokens: int | None
    dollars: float | None
    """The ceilings; None: none of that kind."""
    per: str
    """What it counts: `run`, `day` or `ever` (:class:`~hivemind.scheduler.accounts.Budget`)."""
    covers: str
    """`agent`, `subtree` (it and all agents that it started) or `all`."""
    used_tokens: int
    used_dollars: float
    unpriced: int
    """Of the used tokens those whose price isn't known, so that they aren't in the dollars."""
    reserved_tokens: int = 0
    """Estimate of the requests in flight."""
    here_tokens: int | None = None
    here_dollars: float | None = None
    """Of what is used, this proxy's part; None: no other proxy counts against the budget."""
    estimated: int = 0
    """Of the used tokens those that the provider didn't state, or whose price is its dearest model's."""

    @property
    def share(self) -> float:
        """The used share, 1 being all; the larger one of two ceilings."""
        tokens = 0.0 if self.tokens is None else self.used_tokens / self.tokens
        return max(tokens, 0.0 if self.dollars is None else self.used_dollars / self.dollars)


class WorkState(Struct, frozen=True):
    """Work of an agent that goes on after the replies that began it (:mod:`.work`); part of :class:`Sampled`."""

    agent: str
    kind: str
    """`background`, `batch`, `video`, `job`, or one that has ended and wasn't booked (:data:`.work.UNBOOKED`)."""
    count: int
    oldest_s: float
    """Since the oldest of it began."""


class BudgetWarned(Event, frozen=True):
    """A budget crossed a mark."""

    agent: str  # the agent whose request crossed it: the owner, unless the budget covers several agents
    state: BudgetState
    exhausted: bool  # nothing is left; else 85 % are used


class PriceUnknown(Event, frozen=True):
    """A model without a known price was used, which can't be counted against a budget in dollars; emitted once per
    model and agent."""

    agent: str
    model: str
    estimated: bool = False
    """It counts with the price of its provider's dearest model."""


class AgentBegan(Event, frozen=True):
    """An agent's process was started by the runner."""

    agent: str
    parent: str | None
    task: str | None
    resumed: bool  # it continues where it was stopped, and so does its run


class AgentRecalled(Event, frozen=True):
    """Decisions about an agent from before a restart hold again."""

    agent: str
    parent: str | None
    priority: Priority | None  # None: undecided
    paused: bool
    stopped: bool


class AgentEnded(Event, frozen=True):
    """An agent's process has ended."""

    agent: str
    exit_code: int | None
    """Negative: the number of the signal that ended it; None: unknown, its runner is gone."""
    asked: bool = False
    """An operator ended it, with a signal that its runner passed on; so it didn't crash."""
    paused: bool = False
    """A plan's window is used up, for which its last requests were refused; so it didn't crash."""


class RunSilent(Event, frozen=True):
    """An agent's process has ended, and neither it nor what it started sent a request on the run's path."""

    agent: str
    elsewhere: tuple[str, ...] = ()
    """Names under which requests of its client came meanwhile, which aren't a run's."""


class TaskAdded(Event, frozen=True):
    """A task was submitted."""

    task: str
    batch: str
    agent: str
    priority: Priority
    estimated_tokens: int
    after: tuple[str, ...]


class TaskChanged(Event, frozen=True):
    """A task changed its state or its priority."""

    task: str
    state: str  # one of `TASK_STATES`
    priority: Priority  # its own, or that of a task that waits for it
    attempt: int  # number of times it was started
    note: str  # why, for people: `exit code 1`, `lint failed` …
    paused_s: float = 0.0  # in how many seconds it becomes eligible again, if it is paused


class TaskForgotten(Event, frozen=True):
    """A task was forgotten."""

    task: str


class LaneOpened(Event, frozen=True):
    """A lane was seen for the first time, or (`recognised`) it turned out what answers there."""

    lane: str
    upstream: str
    provider: str
    config: LaneConfig | None = None  # its configuration from then on
    recognised: bool = False


class LeaseChanged(Event, frozen=True):
    """What the lane may use of its credential, beside the other proxies of the fleet, has changed markedly."""

    lane: str
    state: str  # one of :class:`~hivemind.scheduler.lease.LeaseState`
    slots: float  # most requests in flight here; `inf`: no limit
    level: float  # the level of all proxies together, or this one's own while it has no lease; `inf`: no limit
    members: int  # proxies that share the lane
    entered: bool = True  # the state is new; else only the numbers are


class InvariantBroken(Event, frozen=True):
    """Something holds no longer that always has to hold, or (`over`) holds again. Emitted once each."""

    rule: str  # as of `Violation`, or `loop`: the event loop was held
    lane: str  # empty: it is about none in particular
    agent: str  # likewise
    text: str  # one sentence with the numbers
    over: bool = False


class AlertRaised(Event, frozen=True):
    """Something began that the operator wants to be told of by itself; emitted once while it holds."""

    number: int  # from 1
    rule: str  # one of :data:`~hivemind.scheduler.commands.AlertRule`
    about: str  # agent or lane; empty: the whole proxy
    text: str  # one sentence with the numbers


class AlertOver(Event, frozen=True):
    """What an alert was about holds no longer."""

    number: int
    rule: str
    about: str
    text: str  # as it was raised


class LimitsRead(Event, frozen=True):
    """What a reply stated of the rate windows; emitted once a second and family at most."""

    lane: str
    family: str
    readings: tuple[WindowReading, ...]


class AssumedLimitChanged(Event, frozen=True):
    """A limit that nobody stated has grown because it held requests up, or was cut because the provider refused."""

    lane: str
    family: str
    kind: WindowKind
    limit: float
    refused: bool


class ResetDoubted(Event, frozen=True):
    """A reply stated a reset that its rate window can't have, or said that nothing is left until such a reset.

    One request at a time goes through to check (:mod:`~hivemind.scheduler.limits`). Emitted once per lane, kind
    and cause.
    """

    lane: str
    family: str
    kind: WindowKind
    reset_in_s: float  # as stated, cut to a number that can be written down
    absurd: bool  # no rate window lasts so long, so the reset counts as not stated


class LongWindowForeseen(Event, frozen=True):
    """At the rate of late a long window is used up before its reset, or isn't any more; emitted when that changes, at
    most every ten minutes a window."""

    lane: str
    window: str  # the provider's name for it
    used: float  # 0 to 1
    reset_in_s: float
    ends_in_s: float | None  # None: it lasts


class WindowState(Struct, frozen=True):
    """One rate window at a moment; part of :class:`LaneState`."""

    family: str
    kind: WindowKind
    limit: float
    used: float
    """Counted in the window now, settled with real usage where known; of all proxies that share it, as far as known."""
    reserved: float
    """The part of `used` that is still an estimate."""
    remaining: float
    resets_in_s: float | None
    source: str
    """Where the limit comes from (:data:`~hivemind.scheduler.lease.Source`)."""
    probe_in_s: float | None = None
    """Until a probe is sent although the provider states that nothing is left, because its reset is later than the
    window can last. None: there is no such doubt, or something is left."""
    used_here: float | None = None
    """What this proxy used of it, where others may too; None: there are no others."""


class Hold(Struct, frozen=True):
    """What keeps a waiting ticket at a moment; part of :class:`LaneState`."""

    ticket: int
    gate: str
    """The first gate that is shut, one of :data:`GATES`; `next` where none is and its turn has come."""
    opens_in_s: float | None
    """Until that gate opens by itself, where that is known."""
    estimate_s: float | None
    """ETA of its grant, by the pace at which slots and windows have come free; None: unknown."""

    @property
    def turn_in_s(self) -> float | None:
        """When its turn comes at the earliest, as far as that is known."""
        known = [each for each in (self.opens_in_s, self.estimate_s) if each is not None]
        return max(known) if known else None


UPCOMING_SHOWN = 100
GATES = (
    *("paused", "rate_limited", "circuit", "slot", "upstream", "requests", "tokens"),
    *("fleet", "fleet_slots", "credits"),
    *("budget", "held", "dependency", "backoff", "first_write", "pace"),
)
"""Admissions are paused; the provider asked for a pause (Retry-After); the circuit is open; no slot is free; all
lanes of the upstream together have as many requests in flight as they may; a window of requests, or of tokens, is
used up; the lane has no lease of its fleet yet; the slots that it is leased are taken, others are other proxies'; its
credits don't cover the request; a budget of the agent's is used up; the operator holds the agent; its task waits for
others; between two attempts; another request writes the beginning of its prompt to the provider's cache; by the
setting `pace` its class waits, so that a long window lasts."""


class FamilyHold(Struct, frozen=True):
    """A family of models of which nothing is sent, though of others of the lane; part of :class:`LaneState`."""

    family: str
    gate: str
    """`rate_limited` or `circuit`, as of a :class:`Hold`."""
    opens_in_s: float | None


class LeaseGauges(Struct, frozen=True):
    """What a lane is leased at a moment; part of :class:`LaneState`."""

    state: str
    """One of :class:`~hivemind.scheduler.lease.LeaseState`."""
    members: int
    """Proxies that share the lane."""
    slots: float
    """Most requests in flight here; `inf`: no limit."""
    level: float
    """The level of all proxies together, or this one's own while it has to do without the others."""
    in_flight: int | None = None
    """Requests of all proxies in flight; None: unknown."""
    waiting: int | None = None
    age_s: float | None = None
    """Since the lease; None: there was none yet."""


class LaneState(Struct, frozen=True, kw_only=True):
    """A lane's gauges at a moment; part of :class:`Sampled`."""

    lane: str
    upstream: str
    provider: str
    active: int
    waiting: int
    retrying: int
    """Tickets that wait for their next attempt."""
    level: float
    """AIMD's level; `inf` where there is no limit."""
    ceiling: float
    floor: float
    pinned: bool = False
    mean_ttft_s: float | None = None
    """Over AIMD's window of samples."""
    mean_excess_s: float | None = None
    """What that is beyond what its prompts take alone; None: no sample, or an earlier version's."""
    latency_target_s: float
    rate_limited_for_s: float = 0.0
    """Until the provider's pause ends: the lane's, or that of the only family of models that it knows."""
    paused: bool = False
    circuit: str = "closed"
    circuit_forced: bool = False
    circuit_errors: int = 0
    circuit_results: int = 0
    circuit_window: int
    circuit_threshold: float
    circuit_reopens_in_s: float | None = None
    windows: tuple[WindowState, ...] = ()
    plan: tuple[Utilisation, ...] = ()
    refusal: str = ""
    """What the upstream said to the last attempt, if that failed: its status, code and words, redacted."""
    used_up: bool = False
    """It said that credit, a plan or a long quota is used up."""
    upcoming: tuple[Hold, ...] = ()
    """The next tickets in about the order in which they will be sent, :data:`UPCOMING_SHOWN` at most."""
    knobs: Mapping[str, float] = field(default_factory=dict)
    """The value of every knob in :data:`~hivemind.scheduler.operator.knobs.KNOBS` now, by name; 0 means no limit."""
    upstream_active: int = 0
    """Requests in flight in all lanes of this upstream, where their number is limited."""
    upstream_limit: int = 0
    """Most of them; 0: no limit."""
    lease: LeaseGauges | None = None
    """What the lane is leased; None: the proxy is in no fleet."""
    families: tuple[FamilyHold, ...] = ()
    """Families of models that are held while others aren't."""

    @property
    def pauses(self) -> list[tuple[str, float]]:
        """What the provider asked to wait with, and for how many more seconds: families of models, or (an empty name)
        the lane."""
        own = [(each.family, each.opens_in_s or 0.0) for each in self.families if each.gate == "rate_limited"]
        return [("", self.rate_limited_for_s)] if self.rate_limited_for_s > 0 else own

    @property
    def slow(self) -> bool:
        """Whether latency is above its target."""
        latency_s = self.mean_ttft_s if self.mean_excess_s is None else self.mean_excess_s
        return latency_s is not None and latency_s > self.latency_target_s


class Sampled(Event, frozen=True):
    """Gauges of every lane, so that a replay can show them; in a journal about once a second while anything changes."""

    lanes: tuple[LaneState, ...]
    budgets: tuple[BudgetState, ...] = ()  # every budget there is, the pool's first
    partial: bool = False  # lanes and budgets that aren't named are as before, but for countdowns
    work: tuple[WorkState, ...] = ()  # all of it


class SettingsIgnored(Event, frozen=True):
    """Settings of the file that was found don't count, because it isn't trusted; emitted once, at the start."""

    text: str  # one sentence that names them and the command that trusts the file


class Noticed(Event, frozen=True):
    """Something that clients do past the proxy, or that it doesn't serve; emitted once for each text."""

    text: str  # one sentence, with what to do instead


class RecordingChanged(Event, frozen=True):
    """The journal can't be written, or can be again."""

    why: str  # why it can't; empty: it can be again
    lost: int  # number of events that are missing in it
