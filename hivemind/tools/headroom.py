"""How many more agents make sense now: free slots, the queue, the rate windows and the budgets, in one answer."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from hivemind.api_types import About
from hivemind.scheduler.events import BudgetState, LaneState
from hivemind.text.amounts import ceiling
from hivemind.tools.outputs import Headroom, budget_row
from hivemind.world.snapshot import AgentView, Snapshot

_OFTEN = 20
"""Requests that a new agent makes at least; its budget must have tokens for them."""


@dataclass(frozen=True, slots=True)
class _Room:
    """Free capacity of one lane."""

    free_slots: int | None
    tokens: int | None
    """Tokens left in the tightest rate window."""
    requests: int | None
    blocked: str
    """Why no request starts; empty if one may."""
    waiting: int

    def starts(self, typical: int | None) -> int | None:
        """Return how many requests would start at once; None: no limit is known."""
        if self.blocked:
            return 0
        limits = [self.free_slots, self.requests]
        if self.tokens is not None and typical:
            limits.append(self.tokens // typical)
        known = [limit for limit in limits if limit is not None]
        return max(0, min(known) - self.waiting) if known else None


def headroom(world: Snapshot, about: About, agent: str | None, upstream: str | None) -> Headroom:
    """Return how many more agents and requests there is room for; `agent` is the caller's name, if known."""
    typical = world.totals.usage.total // world.totals.finished if world.totals.finished else None
    best = _best([_room(state) for state in lanes_of(world, agent, upstream)], typical)
    budgets = [budget_row(state) for state in budgets_of(world, agent)]
    tokens = min((each.tokens_left for each in budgets if each.tokens_left is not None), default=None)
    dollars = min((each.dollars_left for each in budgets if each.dollars_left is not None), default=None)
    places = max(0, about.max_agents - live(world.agents)) if about.max_agents else None
    spent = next((each for each in budgets if each.share >= 1), None)
    blocked = _why_blocked(world, agent, best, spent is not None)
    starts = requests = 0 if blocked else None if best is None else best.starts(typical)
    if requests is not None and tokens is not None and typical:
        requests = min(requests, tokens // typical)
    affordable = _affordable(world, tokens, dollars)
    bounds = [bound for bound in (requests, places, affordable) if bound is not None]
    agents = min(bounds) if bounds else None
    tightest = ceiling(tokens, dollars)
    left = "" if tightest == "none" else f" The tightest budget leaves {tightest}."
    return Headroom(
        advice=blocked or _advice(agents, starts, places, affordable, best, world.queued) + left,
        agents_now=agents,
        requests_now=requests,
        free_slots=None if best is None else best.free_slots,
        queued=world.queued,
        minute_tokens_left=None if best is None else best.tokens,
        minute_requests_left=None if best is None else best.requests,
        budget_tokens_left=tokens,
        budget_dollars_left=dollars,
        typical_request_tokens=typical,
    )


def lanes_of(world: Snapshot, agent: str | None, upstream: str | None) -> list[LaneState]:
    """Return the lanes of the upstream (None: of all); only those that the agent uses, if it uses any."""
    lanes = [lane.state for lane in world.lanes if upstream in (None, lane.state.upstream)]
    used = {ticket.lane for ticket in (*world.slots, *world.queue) if ticket.agent == agent}
    return [state for state in lanes if state.lane in used] or lanes


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


def live(agents: Iterable[AgentView]) -> int:
    """Count the agents that occupy a place: those with a running process, or with requests and no known process."""
    return sum(view.running if view.running is not None else bool(view.flying + view.queued) for view in agents)


def _affordable(world: Snapshot, tokens: int | None, dollars: float | None) -> int | None:
    """Return how many agents the budgets allow, by usage so far; None: there is no budget, or no usage is known."""
    totals = world.totals
    counts = [(tokens, totals.usage.total), (dollars, totals.dollars)]
    known = [left * totals.finished / (used * _OFTEN) for left, used in counts if left is not None and used]
    return int(min(known)) if known and totals.finished else None


def _room(state: LaneState) -> _Room:
    free = None if math.isinf(state.level) else max(0, max(1, int(state.level)) - state.active)
    left: dict[bool, list[int]] = {True: [], False: []}
    for window in state.windows:
        if math.isfinite(window.limit) and math.isfinite(window.remaining):
            left[window.kind.value == "requests"].append(max(0, int(window.remaining)))
    blocked = ""
    if state.circuit == "open":
        again = f"; the next try is in {state.circuit_reopens_in_s:.0f} s" if state.circuit_reopens_in_s else ""
        blocked = f"the upstream is failing, so its circuit is open{again}"
    elif state.parked_for_s > 0:
        blocked = f"the provider asked for a pause of {state.parked_for_s:.0f} s"
    tokens, requests = min(left[False], default=None), min(left[True], default=None)
    return _Room(free, tokens, requests, blocked, state.waiting + state.retrying)


def _best(rooms: list[_Room], typical: int | None) -> _Room | None:
    """Return the lane with the most room; None: there is no lane yet."""

    def rank(room: _Room) -> float:
        starts = room.starts(typical)
        return math.inf if starts is None else starts - room.waiting / 1e6

    return max(rooms, key=rank, default=None)


def _why_blocked(world: Snapshot, agent: str | None, best: _Room | None, spent: bool) -> str:
    """Return advice if no request can start at all, else an empty text."""
    me = next((view for view in world.agents if view.name == agent), None)
    if world.mode == "draining":
        return "The proxy is shutting down and takes no more requests: start nothing, and finish what you can."
    if world.mode == "paused":
        return "An operator paused all admissions: start nothing more, requests wait until they are resumed."
    if me is not None and me.stopped:
        return "An operator stopped you: start nothing, report where you stand, and leave it to the operator."
    if spent:
        return (
            "A budget that applies to you is used up: start nothing, report where you stand, and ask the operator to"
            " raise it (hm.budget)."
        )
    if best is not None and best.blocked:
        return f"Start nothing now: {best.blocked}. Requests wait by themselves; ask again later."
    return ""


def _advice(
    agents: int | None, starts: int | None, places: int | None, affordable: int | None, best: _Room | None, queued: int
) -> str:
    """Return advice; `starts` is the number of requests that would start if there were no budget."""
    if best is None and agents is None:
        return "No request was made yet, so the limits aren't known: start with two or three agents and ask again."
    if agents is None:
        return "No limit is known here: fan out in small steps, and ask again between them."
    if agents > 0:
        more = "more agent" if agents == 1 else "more agents"
        return f"There is room for {agents} {more} at once now; with more than that they would only queue."
    if places == 0:
        return "All places for agents are taken: start no more, they would only wait for one to end."
    if starts and affordable == 0:
        return "Little is left of a budget that applies to you: finish what you have rather than fan out."
    if queued:
        wait = "request waits" if queued == 1 else "requests wait"
        return f"Start no more agents now: {queued} {wait} already. Ask again when fewer do."
    return "Start no more agents now: every slot, or the provider's minute, is used. Ask again in a while."
