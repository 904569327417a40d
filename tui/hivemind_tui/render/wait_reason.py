"""Why a request waits, in words: the gate that holds it, its place in the queue, and its ETA."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sized

from msgspec import Struct
from rich.cells import cell_len

from hivemind.providers.profiles import family
from hivemind.scheduler.events import LaneState, WindowState
from hivemind.scheduler.types import WindowKind
from hivemind.text.humanise import listed, short_count, short_duration
from hivemind.world.snapshot import QUEUE_SHOWN, AgentView, LaneView, TicketView
from hivemind_tui.render.budgets import ceilings, period
from hivemind_tui.render.format import about, clean, ordinal
from hivemind_tui.render.glyphs import gate_sign

WAITING = ("queued", "retry")
"""States of a ticket that waits."""


def gate(ticket: TicketView) -> str:
    """Return the gate that holds a ticket, in a word."""
    if ticket.gate == "backoff":
        return f"try {ticket.attempt + 1}"
    return gate_sign(ticket.gate).word if ticket.gate else "waits"


def eta(ticket: TicketView) -> str:
    """Return when it is sent, estimated (`≈12s`), else when its gate or backoff ends (`3.1s`), else nothing."""
    opens = ticket.gate_opens_in_s
    if ticket.gate == "backoff" and opens is not None:
        return short_duration(opens)
    if ticket.estimate_s is not None:
        return f"≈{about(ticket.estimate_s)}"
    return short_duration(opens) if opens is not None else ""


def short(ticket: TicketView, room: int = 40) -> str:
    """Return as much as fits in `room` cells: `slot, 3rd, ≈12s`, or `slot ≈12s`, or `slot`."""
    word, when = gate(ticket), eta(ticket)
    place = f", {ordinal(ticket.position)}" if ticket.position is not None else ""
    forms = [word]
    if ticket.gate == "backoff" and when:
        forms = [f"{word} in {when}", when]
        if ticket.last_error:
            forms.insert(0, f"{word} in {when}: {ticket.last_error}")
    elif when:
        later = "" if when.startswith("≈") else "in "
        forms = [f"{word}{place}, {later}{when}", f"{word} {later}{when}", word]
    elif place:
        forms = [f"{word}{place}", word]
    return next((form for form in forms if cell_len(clean(form)) <= room), forms[-1])


def sentence(ticket: TicketView, lane: LaneState | None = None, agent: AgentView | None = None) -> str:
    """Return the reason in full: `waits for a slot: all 8 are taken and 2 go first; about 12 s`."""
    reason = _FIXED.get(ticket.gate) or _Case(ticket, lane, agent).reason()
    if ticket.gate in _WITHOUT_ETA or ticket.estimate_s is None:
        return reason
    return f"{reason}; about {_spoken(about(ticket.estimate_s))}"


def far_back(state: str, queue: Sized) -> str:
    """Return the reason of what is queued beyond the tickets that the queue is shown with; else nothing."""
    return f"behind {len(queue)}" if state == "queued" and len(queue) >= QUEUE_SHOWN else ""


def first_of_each(queue: Iterable[TicketView]) -> Mapping[str, TicketView]:
    """Return the first of each agent's queued tickets, by agent."""
    found: dict[str, TicketView] = {}
    for ticket in queue:
        found.setdefault(ticket.agent, ticket)
    return found


def lane_of(lanes: Iterable[LaneView], ticket: TicketView) -> LaneState | None:
    """Return the lane in which the ticket waits; None if it isn't among these."""
    return next((lane.state for lane in lanes if lane.state.lane == ticket.lane), None)


def _spoken(duration: str) -> str:
    return f"{duration[:-1]} s" if duration[:-1].replace(".", "").isdigit() else duration


def _listed(*facts: str) -> str:
    return listed(facts, "and")


_FIXED = {
    "paused": "waits: everything is paused (p resumes)",
    "held": "waits: its agent is held (h releases)",
    "next": "nothing holds it: it is next",
}
"""Gates whose reason depends on nothing else."""
_WITHOUT_ETA = frozenset({*_FIXED, "dependency", "backoff"})
"""Gates whose reason needs no ETA."""


class _Case(Struct, frozen=True):
    """A queued ticket, its lane and its agent."""

    ticket: TicketView
    lane: LaneState | None
    agent: AgentView | None

    def reason(self) -> str:
        """Return the reason without the ETA."""
        ticket, lane, agent = self.ticket, self.lane, self.agent
        match ticket.gate:
            case "rate_limited":
                who = lane.upstream if lane is not None else "the provider"
                return "waits: " + _listed(f"rate-limited by {who}", self.opens("{} to go"), self.ahead())
            case "circuit":
                return self.circuit()
            case "slot":
                return "waits for a slot: " + _listed(self.slots(), self.ahead())
            case "fleet":
                return "waits for the fleet: " + _listed("this proxy has no lease yet", self.ahead())
            case "fleet_slots":
                return "waits for a slot of the fleet: " + _listed(self.leased(), self.ahead())
            case "credits":
                return "waits for credits of the fleet: " + _listed(self.others(), self.ahead())
            case "upstream":
                limit = lane.upstream_limit if lane is not None else None
                taken = f"all {limit} are taken" if limit else "all are taken"
                return "waits for the upstream's limit, which all keys share: " + _listed(taken, self.ahead())
            case "requests":
                window = self.tightest(WindowKind.REQUESTS)
                left = f"{_left(window)} left" if window is not None else "it is used up"
                return "waits for the request window: " + _listed(left, self.room(window), self.ahead())
            case "tokens":
                window = self.tightest(WindowKind.INPUT, WindowKind.OUTPUT, WindowKind.TOKENS)
                left = "it is used up"
                if window is not None:
                    kind = "tokens" if window.kind is WindowKind.TOKENS else window.kind.value
                    left = f"{_left(window)} {kind} left"
                needs = f"it takes ≈{short_count(ticket.estimated_tokens)}"
                return "waits for the token window: " + _listed(needs, left, self.room(window), self.ahead())
            case "budget":
                return self.budget()
            case "pace":
                return "waits so that a plan's long window lasts: " + _listed("its class is held", self.opens("for {}"))
            case "dependency":
                task = f"task {agent.task}" if agent is not None and agent.task else "its agent's task"
                return f"waits: {task} waits for other tasks"
            case "backoff":
                error = f" ({ticket.last_error})" if ticket.last_error else ""
                return f"failed upstream{error}; try {ticket.attempt + 1}{self.opens(' in {}') or ' follows'}"
        # A gate without a sentence of its own: its meaning, or the name of an unknown one.
        name = gate_sign(ticket.gate).meaning or ticket.gate.replace("_", " ")
        return ", ".join(filter(None, ("waits" + (f": {name}" if name else ""), self.ahead())))

    def opens(self, words: str) -> str:
        """Return when the gate opens, in these words."""
        opens = self.ticket.gate_opens_in_s
        return "" if opens is None else words.format(_spoken(short_duration(opens)))

    def ahead(self) -> str:
        """Return how many are sent before it."""
        position = self.ticket.position
        if position is None:
            return ""
        return "it is next" if position == 1 else "1 goes first" if position == 2 else f"{position - 1} go first"

    def circuit(self) -> str:
        """Return what is known of the circuit."""
        lane = self.lane
        if lane is not None and lane.circuit_forced and lane.circuit == "open":
            return "waits: the circuit is forced open (c changes that)"
        if lane is not None and lane.circuit == "half_open":
            return "waits: " + _listed("the circuit is half-open", "the result of the probe decides", self.ahead())
        return "waits: " + _listed("the circuit is open", self.opens("a probe goes in {}"), self.ahead())

    def slots(self) -> str:
        """Return how many slots are taken."""
        lane = self.lane
        if lane is None or math.isinf(lane.level):
            return "all are taken"
        slots = max(1, int(lane.level))
        if lane.active > slots:
            return f"{lane.active} are in flight, the level is {slots}"
        return f"all {slots} are taken" if slots > 1 else "the only one is taken"

    def leased(self) -> str:
        """Return how many slots this proxy is leased, of how many."""
        lease = self.lane.lease if self.lane is not None else None
        if lease is None or math.isinf(lease.slots):
            return "this proxy's are taken"
        of = "" if math.isinf(lease.level) else f" of {int(lease.level)}"
        return f"this proxy has {int(lease.slots)}{of}" if lease.slots else f"this proxy has none{of}"

    def others(self) -> str:
        """Return who shares the rate limits."""
        members = self.lane.lease.members if self.lane is not None and self.lane.lease is not None else 0
        return f"{members} proxies share the rate limit" if members > 1 else "the next sync may bring some"

    def room(self, window: WindowState | None) -> str:
        """Return when there is room again, or when one request checks for it."""
        doubted = window is not None and window.probe_in_s is not None
        return self.opens("one request checks its reset in {}" if doubted else "room in {}")

    def budget(self) -> str:
        """Return what is left of the agent's budget, unless the tokens fit, so that a budget further up holds it."""
        tokens, budget = self.ticket.estimated_tokens, self.agent.budget if self.agent is not None else None
        needs = f"it may take ≈{short_count(tokens)} tokens"
        fits = (
            budget is not None
            and budget.tokens is not None
            and budget.dollars is None
            and budget.used_tokens + budget.reserved_tokens + tokens <= budget.tokens
        )
        if fits and budget is not None and budget.here_tokens is not None:
            return f"waits: {needs}, more than this proxy's chunk of a budget that its fleet shares"
        if budget is None or fits:
            return f"waits: {needs}, more than is left of a budget that covers its agent (B gives more)"
        left = " and ".join(each.left for each in ceilings(budget))
        return f"waits: {needs} and its agent's budget has {left} {period(budget)} (B gives more)"

    def tightest(self, *kinds: WindowKind) -> WindowState | None:
        """Return the window of these kinds for the ticket's model with the least left."""
        windows = [window for window in self.lane.windows if window.kind in kinds] if self.lane is not None else []
        if len({window.family for window in windows}) > 1:
            name = family(self.ticket.model)
            windows = [window for window in windows if window.family == name]
        return min(windows, key=lambda window: window.remaining / (window.limit or 1.0), default=None)


def _left(window: WindowState) -> str:
    return f"{short_count(window.remaining)} of {short_count(window.limit)}"
