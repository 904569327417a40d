"""Why a request waits, in words: the gate that holds it, its place in the queue, and its ETA."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass

from rich.cells import cell_len

from hivemind.providers.profiles import family
from hivemind.scheduler.events import BudgetState
from hivemind.scheduler.gauges import LaneState, WindowState
from hivemind.scheduler.types import WindowKind
from hivemind.text.humanise import short_count, short_duration
from hivemind.world.snapshot import QUEUE_SHOWN, AgentView, LaneView, TicketView
from hivemind_tui.render.budgets import ceilings, period
from hivemind_tui.render.format import about, clean, ordinal
from hivemind_tui.render.glyphs import gate_sign

WAITING = ("queued", "retry")
"""States of a ticket that waits."""


@dataclass(frozen=True, slots=True)
class _Case:
    """A queued ticket, its lane and its agent."""

    ticket: TicketView
    lane: LaneState | None
    agent: AgentView | None


def gate(ticket: TicketView) -> str:
    """Return the gate that holds a ticket, in a word."""
    if ticket.gate == "backoff":
        return f"try {ticket.attempt + 1}"
    return gate_sign(ticket.gate).word if ticket.gate else "waits"


def eta(ticket: TicketView) -> str:
    """Return when it is sent, estimated (`≈12s`), else when its gate opens (`3.1s`), else nothing.

    The end of a backoff is known, not estimated.
    """
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
    describe = _SENTENCES.get(ticket.gate, _other)
    reason = describe(_Case(ticket, lane, agent))
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
    """Return `12s` as `12 s`, and longer durations as they are."""
    return f"{duration[:-1]} s" if duration[:-1].replace(".", "").isdigit() else duration


def _opens(case: _Case, words: str) -> str:
    opens = case.ticket.gate_opens_in_s
    return "" if opens is None else words.format(_spoken(short_duration(opens)))


def _first(case: _Case) -> str:
    """Return how many are sent before it."""
    position = case.ticket.position
    if position is None:
        return ""
    if position == 1:
        return "it is next"
    return "1 goes first" if position == 2 else f"{position - 1} go first"


def _listed(*facts: str) -> str:
    """Return `one, two and three`, without empty facts."""
    said = [fact for fact in facts if fact]
    return " and ".join(filter(None, (", ".join(said[:-1]), *said[-1:])))


def _paused(case: _Case) -> str:
    return "waits: all admissions are paused (p resumes)"


def _rate_limited(case: _Case) -> str:
    who = case.lane.upstream if case.lane is not None else "the provider"
    return "waits: " + _listed(f"{who} asked for a pause", _opens(case, "{} to go"), _first(case))


def _circuit(case: _Case) -> str:
    lane = case.lane
    if lane is not None and lane.circuit_forced and lane.circuit == "open":
        return "waits: the circuit is forced open (c changes that)"
    if lane is not None and lane.circuit == "half_open":
        return "waits: " + _listed("the circuit is half-open", "the result of the probe decides", _first(case))
    return "waits: " + _listed("the circuit is open", _opens(case, "a probe goes in {}"), _first(case))


def _slot(case: _Case) -> str:
    lane = case.lane
    taken = "all are taken"
    if lane is not None and not math.isinf(lane.level):
        slots = max(1, int(lane.level))
        taken = f"all {slots} are taken" if slots > 1 else "the only one is taken"
        if lane.active > slots:
            taken = f"{lane.active} are in flight, the limit is {slots}"
    return "waits for a slot: " + _listed(taken, _first(case))


def _upstream(case: _Case) -> str:
    lane = case.lane
    taken = f"all {lane.upstream_limit} are taken" if lane is not None and lane.upstream_limit else "all are taken"
    return "waits for the upstream's limit, which all keys share: " + _listed(taken, _first(case))


def _requests(case: _Case) -> str:
    window = _tightest(case, (WindowKind.REQUESTS,))
    left = "" if window is None else f"{short_count(window.remaining)} of {short_count(window.limit)} left"
    return "waits for the request window: " + _listed(left or "it is used up", _room(case, window), _first(case))


def _tokens(case: _Case) -> str:
    window = _tightest(case, (WindowKind.INPUT, WindowKind.OUTPUT, WindowKind.TOKENS))
    left = "it is used up"
    if window is not None:
        kind = "tokens" if window.kind is WindowKind.TOKENS else window.kind.value
        left = f"{short_count(window.remaining)} of {short_count(window.limit)} {kind} left"
    needs = f"it takes ≈{short_count(case.ticket.estimated_tokens)}"
    return "waits for the token window: " + _listed(needs, left, _room(case, window), _first(case))


def _room(case: _Case, window: WindowState | None) -> str:
    """Return when there is room again, or when one request checks for it."""
    doubted = window is not None and window.probe_in_s is not None
    return _opens(case, "one request checks its reset in {}" if doubted else "room in {}")


def _budget(case: _Case) -> str:
    needs = f"it may take ≈{short_count(case.ticket.estimated_tokens)} tokens"
    agent = case.agent
    if agent is None or agent.budget is None or _fits(agent.budget, case.ticket.estimated_tokens):
        return f"waits: {needs}, more than is left of a budget that covers its agent (B gives more)"
    left = " and ".join(each.left for each in ceilings(agent.budget))
    return f"waits: {needs} and its agent's budget has {left} {period(agent.budget)} (B gives more)"


def _fits(state: BudgetState, tokens: int) -> bool:
    """Return whether the tokens fit, so that a budget further up holds it."""
    return (
        state.tokens is not None
        and state.dollars is None
        and state.used_tokens + state.reserved_tokens + tokens <= state.tokens
    )


def _dependency(case: _Case) -> str:
    task = case.agent.task if case.agent is not None else None
    return f"waits: task {task} waits for other tasks" if task else "waits: its agent's task waits for other tasks"


def _held(case: _Case) -> str:
    return "waits: its agent is paused (h resumes)"


def _backoff(case: _Case) -> str:
    ticket = case.ticket
    error = f" ({ticket.last_error})" if ticket.last_error else ""
    return f"failed upstream{error}; try {ticket.attempt + 1}{_opens(case, ' in {}') or ' follows'}"


def _next(case: _Case) -> str:
    return "nothing holds it: it is next"


def _other(case: _Case) -> str:
    """Give the meaning of a gate without a sentence of its own, or the name of an unknown one."""
    gate = case.ticket.gate
    name = gate_sign(gate).meaning or gate.replace("_", " ")
    return "waits" + (f": {name}" if name else "") + "".join(f", {fact}" for fact in (_first(case),) if fact)


def _tightest(case: _Case, kinds: tuple[WindowKind, ...]) -> WindowState | None:
    """Return the window of these kinds for the ticket's model with the least left."""
    windows = [window for window in case.lane.windows if window.kind in kinds] if case.lane is not None else []
    if len({window.family for window in windows}) > 1:
        name = family(case.ticket.model)
        windows = [window for window in windows if window.family == name]
    return min(windows, key=lambda window: window.remaining / (window.limit or 1.0), default=None)


_SENTENCES: Mapping[str, Callable[[_Case], str]] = {
    "paused": _paused,
    "parked": _rate_limited,
    "circuit": _circuit,
    "slot": _slot,
    "upstream": _upstream,
    "requests": _requests,
    "tokens": _tokens,
    "budget": _budget,
    "held": _held,
    "dependency": _dependency,
    "backoff": _backoff,
    "next": _next,
}
_WITHOUT_ETA = frozenset({"paused", "held", "dependency", "backoff", "next"})
"""Gates whose reason needs no ETA."""
