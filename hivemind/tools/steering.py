"""The tools that steer: hm.priority, hm.budget and hm.config. Where tools may only look, they change nothing."""

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
from hivemind.tools.desk import Caller, Desk
from hivemind.tools.failure import ToolFailure, unknown
from hivemind.tools.headroom import budgets_of
from hivemind.tools.inputs import BudgetInput, ConfigInput, PriorityInput
from hivemind.tools.outputs import Budgets, Config, KnobRow, Prioritised
from hivemind.tools.rows import LANES_SHOWN, budget_row, cut, known_as
from hivemind.world.snapshot import Snapshot


async def priority(desk: Desk, caller: Caller, asked: PriorityInput) -> Prioritised:
    """Make an agent or a task more or less urgent."""
    if (asked.agent is None) == (asked.task is None):
        raise ToolFailure("give either agent or task: whose priority is to change")
    wanted = Priority[asked.priority.upper()]
    await _writable(desk)
    command: Command
    if asked.task is not None:
        command, name = SetTaskPriority(asked.task, wanted), f"Task {asked.task}"
    else:
        assert asked.agent is not None
        command, name = SetPriority(asked.agent, wanted), asked.agent
    await desk.order(command, caller.who)
    return Prioritised(said=f"{name} has priority {asked.priority} now.")


async def budget(desk: Desk, caller: Caller, asked: BudgetInput) -> Budgets:
    """Tell budgets, or set one."""
    if asked.pool and asked.agent is not None:
        raise ToolFailure("give either agent or pool: whose budget it is")
    sets = asked.tokens is not None or asked.dollars is not None
    if asked.remove and sets:
        raise ToolFailure("remove: takes the ceiling away, so tokens and dollars don't go with it")
    if not sets and not asked.remove and (asked.per is not None or asked.covers is not None):
        raise ToolFailure("per and covers say what a ceiling counts: give tokens or dollars with them")
    agent = None if asked.pool else asked.agent or caller.agent
    said = ""
    if sets or asked.remove:
        if agent is None and not asked.pool:
            raise ToolFailure("whose budget is it? give agent, or pool for that of all agents together")
        if asked.pool and asked.covers is not None:
            raise ToolFailure("covers: goes with an agent's budget; the pool covers all agents")
        await _writable(desk)
        await desk.order(SetBudget(agent, asked.tokens, asked.dollars, asked.per, asked.covers), caller.who)
        whose = "all agents together" if agent is None else agent
        ceiling = amounts.ceiling(asked.tokens, asked.dollars, asked.per, asked.covers)
        said = f"The budget of {whose} is set: {ceiling}." if sets else f"The budget of {whose} is taken away."
    world = await desk.world()
    found = _budgets(world, known_as(world, agent), pool=asked.pool)
    shown, left_out = cut(found, asked.limit)
    return Budgets(
        said=said or _told(found, agent),
        budgets=[budget_row(state) for state in shown],
        budgets_left_out=left_out,
    )


async def config(desk: Desk, caller: Caller, asked: ConfigInput) -> Config:
    """Tell the knobs, or change one thing."""
    command, said = _change(asked)
    about = await desk.about()
    if command is not None:
        await _writable(desk)
        await desk.order(command, caller.who)
    world = await desk.world()
    return Config(
        said=said,
        admissions=world.mode,
        circuits={lane.state.lane: lane.state.circuit for lane in world.lanes[:LANES_SHOWN]},
        knobs=_knobs(world, command),
        read_only=about.read_only,
    )


def _knobs(world: Snapshot, just_now: Command | None) -> list[KnobRow]:
    lanes = [lane.state for lane in world.lanes]
    rows = []
    for knob in KNOBS.values():
        values = {lane.upstream: lane.knobs[knob.name] for lane in lanes if knob.name in lane.knobs}
        if isinstance(just_now, Tune) and just_now.knob == knob.name:
            # Gauges are taken once a second, so they may not show it yet.
            here = [name for name in values if just_now.upstream in (None, name)]
            values |= dict.fromkeys(here, just_now.value)
        rows.append(
            KnobRow(
                knob=knob.name,
                values=values,
                lowest=knob.lowest,
                highest=knob.highest,
                whole=knob.whole,
                zero_is_none=knob.zero_is_none,
            )
        )
    return rows


def _change(asked: ConfigInput) -> tuple[Command | None, str]:
    """The one command that is asked for, if any, and what is said when it was carried out."""
    wanted = [name for name in ("knob", "admissions", "circuit") if getattr(asked, name) is not None]
    if len(wanted) > 1:
        raise ToolFailure(f"change one thing a call: {' or '.join(wanted)}")
    if asked.lane is not None and asked.circuit is None:
        raise ToolFailure("lane: goes with circuit")
    if (asked.value is not None or asked.upstream is not None) and asked.knob is None:
        raise ToolFailure("value and upstream go with knob: which knob is to be turned?")
    if asked.knob is not None:
        if asked.knob not in KNOBS:
            raise unknown("knob", asked.knob, KNOBS)
        if asked.value is None:
            knob = KNOBS[asked.knob]
            none = ", or 0 for no limit" if knob.zero_is_none else ""
            raise ToolFailure(f"value: is missing; {knob.name} takes {knob.lowest:g} to {knob.highest:g}{none}")
        where = f" for {asked.upstream}" if asked.upstream else ""
        return Tune(asked.knob, asked.value, asked.upstream), f"{asked.knob} is {asked.value:g} now{where}."
    if asked.admissions is not None:
        paused = asked.admissions == "pause"
        said = "Nothing more starts until admissions are resumed." if paused else "Requests start again."
        return PauseAdmissions(paused), said
    if asked.circuit is not None:
        return SetCircuit(asked.circuit, asked.lane), f"The circuit is set to {asked.circuit}."
    return None, "Nothing was changed."


async def _writable(desk: Desk) -> None:
    """Raises: ToolFailure: tools may only look here."""
    if (await desk.about()).read_only:
        raise ToolFailure(
            "this proxy lets tools change no setting, priority or budget (mcp.read_only): ask its operator, who can do"
            " it in the control room or start the proxy without that setting"
        )


def _budgets(world: Snapshot, agent: str | None, *, pool: bool) -> list[BudgetState]:
    """Those that hold for the agent; without one the pool's, or all there are."""
    own = [view.budget for view in world.agents if view.budget is not None]
    if pool:
        return [world.pool] if world.pool is not None else []
    if agent is not None:
        return budgets_of(world, agent)
    return [*([world.pool] if world.pool is not None else []), *sorted(own, key=lambda state: -state.share)]


def _told(found: list[BudgetState], agent: str | None) -> str:
    if not found:
        return "There is no budget." if agent is None else f"No budget holds for {agent}."
    told = [f"{amounts.owner(state)}: {amounts.how_used(state)}" for state in found[:3]]
    more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
    return "; ".join(told) + more + "."
