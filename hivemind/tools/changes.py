"""The tools that change the proxy: hm.priority, hm.budget and hm.config. With mcp.read_only they only read."""

from __future__ import annotations

from hivemind.scheduler.commands import (
    Command,
    PauseAdmissions,
    SetBudget,
    SetCircuit,
    SetPriority,
    SetTaskPriority,
    Tune,
)
from hivemind.scheduler.events import BudgetState
from hivemind.scheduler.operator.knobs import KNOBS
from hivemind.scheduler.types import Priority
from hivemind.text import amounts
from hivemind.tools.access import Caller, ProxyAccess
from hivemind.tools.headroom import budgets_of
from hivemind.tools.inputs import BudgetInput, ConfigInput, PriorityInput
from hivemind.tools.outputs import LANES_SHOWN, Budgets, Config, KnobRow, Prioritised, budget_row, cut, known_as
from hivemind.tools.tool import ToolError, tool, unknown
from hivemind.world.snapshot import Snapshot


@tool("Change a priority", idempotent=True)
async def priority(proxy: ProxyAccess, caller: Caller, args: PriorityInput) -> Prioritised:
    """Changes the priority of an agent or a task; queued requests move at once."""
    if (args.agent is None) == (args.task is None):
        raise ToolError("give either agent or task")
    wanted = Priority[args.priority.upper()]
    await _check_writable(proxy)
    command = SetTaskPriority(args.task, wanted) if args.task is not None else SetPriority(args.agent or "", wanted)
    await proxy.apply(command, caller.who)
    name = args.agent or f"Task {args.task}"
    return Prioritised(said=f"{name} has priority {args.priority} now.")


@tool("Show or set a budget", destructive=True, idempotent=True)
async def budget(proxy: ProxyAccess, caller: Caller, args: BudgetInput) -> Budgets:
    """Returns the budgets that apply to an agent, or all of them. With tokens or dollars it sets the ceiling of an
    agent, of an agent with all it started (covers subtree), or of the pool: the new ceiling replaces the old one in
    both kinds. An agent whose budget is used up is refused with a 403 until it is raised.
    """
    if args.pool and args.agent is not None:
        raise ToolError("give either agent or pool")
    sets = args.tokens is not None or args.dollars is not None
    if args.remove and sets:
        raise ToolError("remove: removes the ceiling, so leave out tokens and dollars")
    if not sets and not args.remove and (args.per is not None or args.covers is not None):
        raise ToolError("per and covers say what a ceiling counts: give tokens or dollars too")
    agent = None if args.pool else args.agent or caller.agent
    said = ""
    if sets or args.remove:
        if agent is None and not args.pool:
            raise ToolError("agent: is missing; give it, or pool for the budget of all agents together")
        if args.pool and args.covers is not None:
            raise ToolError("covers: goes with an agent's budget; the pool covers all agents")
        await _check_writable(proxy)
        await proxy.apply(SetBudget(agent, args.tokens, args.dollars, args.per, args.covers), caller.who)
        whose = "all agents together" if agent is None else agent
        ceiling = amounts.ceiling(args.tokens, args.dollars, args.per, args.covers)
        said = f"The budget of {whose} is set: {ceiling}." if sets else f"The budget of {whose} is removed."
    world = await proxy.world()
    found = _budgets(world, known_as(world, agent), pool=args.pool)
    shown, left_out = cut(found, args.limit)
    return Budgets(
        said=said or _summary(found, agent),
        budgets=[budget_row(state) for state in shown],
        budgets_left_out=left_out,
    )


@tool("Read or change the knobs", destructive=True)
async def config(proxy: ProxyAccess, caller: Caller, args: ConfigInput) -> Config:
    """Returns every knob's value and range, whether admissions are paused, and the circuits. Changes one thing per
    call: a knob, admissions, or a circuit. It holds until the proxy ends; its settings file stays as it is.
    """
    command, said = _change(args)
    about = await proxy.about()
    if command is not None:
        await _check_writable(proxy)
        await proxy.apply(command, caller.who)
    world = await proxy.world()
    return Config(
        said=said,
        admissions=world.mode,
        circuits={lane.state.lane: lane.state.circuit for lane in world.lanes[:LANES_SHOWN]},
        knobs=_knobs(world, command),
        read_only=about.read_only,
    )


def _knobs(world: Snapshot, applied: Command | None) -> list[KnobRow]:
    lanes = [lane.state for lane in world.lanes]
    rows = []
    for knob in KNOBS.values():
        values = {lane.upstream: lane.knobs[knob.name] for lane in lanes if knob.name in lane.knobs}
        if isinstance(applied, Tune) and applied.knob == knob.name:
            # Snapshots are taken once a second, so they may not show it yet.
            changed = [name for name in values if applied.upstream in (None, name)]
            values |= dict.fromkeys(changed, applied.value)
        rows.append(KnobRow.of(knob, knob=knob.name, values=values))
    return rows


def _change(args: ConfigInput) -> tuple[Command | None, str]:
    """Return the command that the arguments ask for, if any, and the text for its success."""
    wanted = [name for name in ("knob", "admissions", "circuit") if getattr(args, name) is not None]
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
        return Tune(args.knob, args.value, args.upstream), f"{args.knob} is {args.value:g} now{where}."
    if args.admissions is not None:
        paused = args.admissions == "pause"
        said = "Admissions are paused: no request starts meanwhile." if paused else "Admissions are resumed."
        return PauseAdmissions(paused), said
    if args.circuit is not None:
        return SetCircuit(args.circuit, args.lane), f"The circuit is set to {args.circuit}."
    return None, "Nothing was changed."


async def _check_writable(proxy: ProxyAccess) -> None:
    """Raise ToolError if tools are read-only."""
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
