"""The tools that show and change the proxy; with mcp.read_only hm.priority, hm.budget and hm.config only read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import asdict

from hivemind.agent_names import BadName, normalised, same
from hivemind.api_types import About
from hivemind.redaction.text import label
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.events import BudgetState, LaneState
from hivemind.scheduler.operator.knobs import KNOBS
from hivemind.scheduler.types import Priority
from hivemind.setup.clients import CLIENTS, instructions
from hivemind.text import amounts
from hivemind.text.amounts import ceiling
from hivemind.text.humanise import duration
from hivemind.tools import outputs as out
from hivemind.tools.access import Caller, ProxyAccess
from hivemind.tools.tool import (
    BudgetInput,
    ConfigInput,
    MetricsInput,
    PriorityInput,
    SetupInput,
    StatusInput,
    ToolError,
    tool,
    unknown,
)
from hivemind.upstream.origin import is_loopback
from hivemind.world.snapshot import AgentView, Snapshot, budgets_of


@tool("Headroom, lanes, agents and tasks", read_only=True, idempotent=True)
async def status(proxy: ProxyAccess, caller: Caller, args: StatusInput) -> out.Status:
    """How much more work makes sense now (headroom, with advice), and what goes on. Ask before you start several
    agents or many requests at once, and again between steps.
    """
    about, world = await proxy.about(), await proxy.world()
    upstreams = [name for name, _ in about.upstreams]
    if args.upstream is not None and args.upstream not in upstreams:
        raise unknown("upstream", args.upstream, upstreams)
    me = out.known_as(world, args.agent or caller.agent)
    worker = out.known_as(world, args.task_agent)
    tasks = [
        task
        for task in await proxy.tasks(args.batch)
        if worker is None or same(worker, task.spec.agent or task.spec.id)
        if args.task_state in (None, task.state)
    ]
    lanes = [each.state for each in world.lanes if args.upstream in (None, each.state.upstream)]
    own = next((view for view in world.agents if view.name == me), None)
    listed = args.limit is not None or bool(args.batch or args.task_agent or args.task_state)
    found = out.Status(
        verdict=world.verdict.text,
        headroom=headroom(world, about, me, args.upstream),
        proxy=out.ProxyRow.of(about, mode=world.mode, uptime_s=world.uptime_s, upstreams=upstreams[: out.LANES_SHOWN]),
        you=None if own is None else out.agent_row(own),
        agents_by_state=dict(Counter(view.state for view in world.agents)),
        tasks_by_state=out.by_state(tasks),
    )
    limit = args.limit or _TASKS_LISTED
    busiest = sorted(world.agents, key=lambda view: (not view.running, -view.in_flight - view.queued, view.last_seen_s))
    if args.limit is None:
        working = [view for view in busiest if view.in_flight or view.queued or view.running]
        found.agents = [out.agent_in_short(view) for view in working[: out.SUMMARISED] if view is not own]
        found.lanes = [out.lane_row(state, 0) for state in lanes[: out.SUMMARISED]]
        found.lanes_left_out = max(0, len(lanes) - out.SUMMARISED)
    else:
        found.lanes = [out.lane_row(state) for state in lanes[: out.LANES_SHOWN]]
        found.lanes_left_out = max(0, len(lanes) - out.LANES_SHOWN)
        shown, found.agents_left_out = out.cut(busiest, limit)
        found.agents = [out.agent_row(view) for view in shown]
    if listed:
        views = {view.id: view for view in world.tasks}
        some, found.tasks_left_out = out.cut(out.in_order(tasks), limit)
        found.tasks = [out.task_row(task, views.get(task.spec.id)) for task in some]
    return found


@tool("Usage, costs, retries and waits", read_only=True, idempotent=True)
async def metrics(proxy: ProxyAccess, caller: Caller, args: MetricsInput) -> out.Metrics:
    """What was used and what it cost, in total and by agent: tokens, dollars at public prices, retries, waits."""
    world = await proxy.world()
    wanted = out.known_as(world, args.agent)
    views = [view for view in world.agents if wanted in (None, view.name)]
    if args.agent is not None and not views:
        raise unknown("agent", args.agent, [view.name for view in world.agents])
    shown, left_out = out.cut(sorted(views, key=lambda view: -_amount(view, args.order)), args.limit)
    totals = world.totals
    return out.Metrics(
        uptime_s=world.uptime_s,
        totals=out.TotalsRow.of(
            totals, wasted_tokens=totals.wasted.total, unpriced_tokens=totals.unpriced, **asdict(totals.usage)
        ),
        agents=[
            out.AgentUsage.of(view, agent=view.name, unpriced_tokens=view.unpriced, **asdict(view.usage))
            for view in shown
        ],
        agents_left_out=left_out,
        lanes=[_lane(each.state) for each in world.lanes[: out.LANES_SHOWN]],
        lanes_left_out=max(0, len(world.lanes) - out.LANES_SHOWN),
    )


_TASKS_LISTED = 20
"""Tasks that are listed where only a filter is given."""


def _amount(view: AgentView, order: str) -> float:
    if order == "tokens":
        return view.usage.total
    amount: float = getattr(view, "waited_s" if order == "waited" else order)
    return amount


def _lane(state: LaneState) -> out.LaneMetrics:
    share = state.circuit_errors / state.circuit_results if state.circuit_results else None
    return out.LaneMetrics.of(state, error_share=share)


@tool("How to point a client at the proxy", read_only=True, idempotent=True)
async def setup(proxy: ProxyAccess, caller: Caller, args: SetupInput) -> out.Setup:
    """What to paste so that a client (Claude Code, Codex, an SDK ...) sends its requests through this proxy."""
    if args.client is None:
        rows = [out.ClientRow.of(each, client=each.name, what=each.summary) for each in CLIENTS.values()]
        return out.Setup(said="Ask again with one of these as client.", clients=rows)
    if args.client not in CLIENTS:
        raise unknown("client", args.client, CLIENTS)
    client = CLIENTS[args.client]
    agent = client.agent if args.agent is None else _checked(args.agent)
    about = await proxy.about()
    token = about.agents_token or not is_loopback(about.address)
    found = instructions(client, about.address, agent, token, shell=args.shell)
    return out.Setup(
        said=f"{client.title}, as the agent {agent}: paste one of these; the first is the shortest.",
        snippets=[out.SnippetRow.of(each) for each in (*found.steps.snippets, found.check, found.steps.undo)],
        notes=[*found.steps.limits, *(f"{label}: {text}" for label, text in found.facts)],
    )


def _checked(name: str) -> str:
    try:
        return normalised(name)
    except BadName as error:
        raise ToolError(f"agent: {error}") from None


@tool("Change a priority", idempotent=True)
async def priority(proxy: ProxyAccess, caller: Caller, args: PriorityInput) -> out.Prioritised:
    """Changes the priority of an agent or a task, also of queued requests."""
    if (args.agent is None) == (args.task is None):
        raise ToolError("give either agent or task")
    wanted = Priority[args.priority.upper()]
    await _check_writable(proxy)
    command = (
        cmd.SetTaskPriority(args.task, wanted) if args.task is not None else cmd.SetPriority(args.agent or "", wanted)
    )
    await proxy.apply(command, caller.who)
    name = args.agent or f"Task {args.task}"
    return out.Prioritised(said=f"{name} has priority {args.priority} now.")


@tool("Show or set a budget", destructive=True, idempotent=True)
async def budget(proxy: ProxyAccess, caller: Caller, args: BudgetInput) -> out.Budgets:
    """Returns the budgets that apply to an agent, or all. With tokens or dollars it sets one, in place of the old one
    in both kinds. In a run you may lower your own, and set those of what you start.
    """
    if args.pool and args.agent is not None:
        raise ToolError("give either agent or pool")
    sets = args.tokens is not None or args.dollars is not None
    if args.remove and sets:
        raise ToolError("remove: removes the budget, so leave out tokens and dollars")
    if not sets and not args.remove and (args.per is not None or args.covers is not None):
        raise ToolError("per and covers say what a budget counts: give tokens or dollars too")
    agent = None if args.pool else args.agent or caller.agent
    said = ""
    if sets or args.remove:
        if agent is None and not args.pool:
            raise ToolError("agent: is missing; give it, or pool for the budget of all agents together")
        if args.pool and args.covers is not None:
            raise ToolError("covers: goes with an agent's budget; the pool covers all agents")
        await _check_writable(proxy)
        await proxy.apply(cmd.SetBudget(agent, args.tokens, args.dollars, args.per, args.covers), caller.who)
        whose = "all agents together" if agent is None else agent
        ceiling = amounts.ceiling(args.tokens, args.dollars, args.per, args.covers)
        said = f"The budget of {whose} is set: {ceiling}." if sets else f"The budget of {whose} is removed."
    world = await proxy.world()
    found = _budgets(world, out.known_as(world, agent), pool=args.pool)
    shown, left_out = out.cut(found, args.limit)
    return out.Budgets(
        said=said or _summary(found, agent and label(agent)),
        budgets=[out.budget_row(state) for state in shown],
        budgets_left_out=left_out,
    )


@tool("Read or change the knobs", destructive=True)
async def config(proxy: ProxyAccess, caller: Caller, args: ConfigInput) -> out.Config:
    """Returns knobs, circuits and whether all is paused, or changes one of them for everyone until the proxy ends."""
    command, said = _change(args)
    about = await proxy.about()
    if command is not None:
        await _check_writable(proxy)
        await proxy.apply(command, caller.who)
    world = await proxy.world()
    return out.Config(
        said=said,
        mode=world.mode,
        circuits={lane.state.lane: lane.state.circuit for lane in world.lanes[: out.LANES_SHOWN]},
        knobs=_knobs(world, command),
        read_only=about.read_only,
    )


def _knobs(world: Snapshot, applied: cmd.Command | None) -> list[out.KnobRow]:
    lanes = [lane.state for lane in world.lanes]
    rows = []
    for knob in KNOBS.values():
        values = {lane.upstream: lane.knobs[knob.name] for lane in lanes if knob.name in lane.knobs}
        if isinstance(applied, cmd.Tune) and applied.knob == knob.name:
            # Snapshots are taken once a second, so they may not show it yet.
            changed = [name for name in values if applied.upstream in (None, name)]
            values |= dict.fromkeys(changed, applied.value)
        rows.append(out.KnobRow.of(knob, knob=knob.name, values=values))
    return rows


def _change(args: ConfigInput) -> tuple[cmd.Command | None, str]:
    """Return the command that the arguments ask for, if any, and the text for its success."""
    wanted = [name for name in ("knob", "pause", "circuit") if getattr(args, name) is not None]
    if len(wanted) > 1:
        raise ToolError(f"change one thing per call: {' or '.join(wanted)}")
    if args.lane is not None and args.circuit is None:
        raise ToolError("lane: goes with circuit")
    if (args.value is not None or args.upstream is not None) and args.knob is None:
        raise ToolError("value and upstream go with knob: give the name of a knob")
    if args.knob is not None:
        if args.knob not in KNOBS:
            raise unknown("knob", args.knob, KNOBS)
        if args.value is None:
            knob = KNOBS[args.knob]
            none = ", or 0 for no limit" if knob.zero_is_none else ""
            raise ToolError(f"value: is missing; {knob.name} takes {knob.lowest:g} to {knob.highest:g}{none}")
        where = f" for {args.upstream}" if args.upstream else ""
        return cmd.Tune(args.knob, args.value, args.upstream), f"{args.knob} is {args.value:g} now{where}."
    if args.pause is not None:
        said = "Everything is paused: no request starts meanwhile." if args.pause else "Everything is resumed."
        return cmd.PauseAdmissions(args.pause), said
    if args.circuit is not None:
        return cmd.SetCircuit(args.circuit, args.lane), f"The circuit is set to {args.circuit}."
    return None, "Nothing was changed."


async def _check_writable(proxy: ProxyAccess) -> None:
    if (await proxy.about()).read_only:
        raise ToolError(
            "this proxy lets tools change no setting, priority or budget (mcp.read_only): ask its operator, who can do"
            " it in the control room, or start the proxy without that setting"
        )


def _budgets(world: Snapshot, agent: str | None, *, pool: bool) -> list[BudgetState]:
    """Return the budgets that apply to the agent; without one the pool's, or all."""
    own = [view.budget for view in world.agents if view.budget is not None]
    if pool:
        return [world.pool] if world.pool is not None else []
    if agent is not None:
        return budgets_of(world, agent)
    return [*([world.pool] if world.pool is not None else []), *sorted(own, key=lambda state: -state.share)]


def _summary(found: list[BudgetState], agent: str | None) -> str:
    if not found:
        return "There is no budget." if agent is None else f"No budget holds for {agent}."
    lines = [f"{amounts.owner(state)}: {amounts.how_used(state)}" for state in found[:3]]
    more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
    return "; ".join(lines) + more + "."


_OFTEN = 20
"""Requests that a new agent makes at least; its budget must have tokens for them."""


class _Room(Struct, frozen=True):
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


def headroom(world: Snapshot, about: About, agent: str | None, upstream: str | None) -> out.Headroom:
    """Return how many more agents and requests there is room for; `agent` is the caller's name, if known."""
    typical = world.totals.usage.total // world.totals.finished if world.totals.finished else None
    best = _best([_room(state) for state in lanes_of(world, agent, upstream)], typical)
    budgets = [out.budget_row(state) for state in budgets_of(world, agent)]
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
    return out.Headroom(
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


def live(agents: Iterable[AgentView]) -> int:
    """Count the agents that occupy a place: those with a running process, or with requests and no known process."""
    return sum(view.running if view.running is not None else bool(view.in_flight + view.queued) for view in agents)


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
        again = f"; a probe goes in {duration(state.circuit_reopens_in_s)}" if state.circuit_reopens_in_s else ""
        blocked = f"the upstream is failing, so its circuit is open{again}"
    elif state.rate_limited_for_s > 0:
        blocked = f"rate-limited: the provider asked to wait {duration(state.rate_limited_for_s)}"
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
        return "An operator paused everything: start nothing more, requests wait until it is resumed."
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
