"""Intents: from the view to the commands that a key means, or the reason why there are none."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from hivemind.scheduler import commands as cmd
from hivemind.scheduler.accounts import Covers
from hivemind.scheduler.commands import Command, Rejected
from hivemind.scheduler.events import BudgetState, LaneState
from hivemind.scheduler.tasks import OPEN, RETRIED
from hivemind.scheduler.types import Priority
from hivemind.text.amounts import WantedBudget, parse_budget
from hivemind.text.humanise import parse_number
from hivemind.world.alerts import RULES, unacknowledged
from hivemind.world.snapshot import HUNG, AgentView, TaskView, TicketView
from hivemind_tui.render.dials import stepped, typed
from hivemind_tui.state.view import OF_AGENTS, View

BOOST_S = 60.0


def priority(view: View, step: int, meant: frozenset[str] = frozenset()) -> list[Command]:
    """Step the priority of the named or selected agents or task; a negative step is more urgent. Raises: Rejected."""
    if view.page == "tasks" and not meant:
        return _task_priority(view, step)
    agents = agents_of(view, meant)
    moved = [agent for agent in agents if Priority.CRITICAL <= agent.priority + step <= Priority.LOW]
    if not moved:
        who = f"{agents[0].name} is" if len(agents) == 1 else f"all {len(agents)} marked are"
        raise Rejected(f"{who} {agents[0].priority.name} already")
    return [cmd.SetPriority(agent.name, Priority(agent.priority + step)) for agent in moved]


def _task_priority(view: View, step: int) -> list[Command]:
    """Change the task's own priority; an inherited one may mask it. Raises: Rejected."""
    task = task_of(view)
    wanted = task.own_priority + step
    if not Priority.CRITICAL <= wanted <= Priority.LOW:
        raise Rejected(f"{task.id} is {task.own_priority.name} already")
    return [cmd.SetTaskPriority(task.id, Priority(wanted))]


def task_of(view: View, meant: str = "") -> TaskView:
    """Return the task named by an earlier question, else the one selected. Raises: Rejected."""
    task = next((each for each in view.snapshot.tasks if each.id == meant), None) if meant else view.task
    if task is None:
        raise Rejected("that task is gone" if meant else "no task yet")
    return task


def cancel(view: View, meant: str = "") -> list[Command]:
    """Cancel the task. Raises: Rejected."""
    task = task_of(view, meant)
    if task.state not in OPEN:
        raise Rejected(f"{task.id} is {task.state} already")
    return [cmd.CancelTask(task.id)]


def retry(view: View) -> list[Command]:
    """Run a failed task again. Raises: Rejected."""
    task = task_of(view)
    if task.state not in RETRIED:
        raise Rejected(f"{task.id} is {task.state}; only one that failed or is paused can be run again")
    return [cmd.RetryTask(task.id)]


def hold(view: View, meant: frozenset[str] = frozenset()) -> list[Command]:
    """Hold the requests of the named or selected agents, or release them where all are held. Raises: Rejected."""
    agents = agents_of(view, meant)
    held = all(agent.held for agent in agents)
    return [cmd.PauseAgent(agent.name, not held) for agent in agents if agent.held is held]


def boost(view: View, meant: frozenset[str] = frozenset()) -> list[Command]:
    """Boost the named or selected agents for a minute, or end that where all are boosted. Raises: Rejected."""
    agents = agents_of(view, meant)
    boosted = all(agent.boosted_for_s > 0 for agent in agents)
    return [cmd.BoostAgent(agent.name, 0.0 if boosted else BOOST_S) for agent in agents]


def stop(view: View, meant: frozenset[str] = frozenset()) -> list[Command]:
    """Stop the named or selected agents, or allow them again where all are stopped. Raises: Rejected."""
    agents = agents_of(view, meant)
    stopped = all(agent.stopped for agent in agents)
    return [cmd.StopAgent(agent.name, not stopped) for agent in agents if agent.stopped is stopped]


def to_cut(view: View) -> TicketView:
    """Return the request in flight that is meant: on the pages of requests the selected one; else one that is hung, of
    the selected agent before others; else the selected agent's. Raises: Rejected."""
    if view.page in ("requests", "request"):
        request = view.request
        candidates = [each for each in view.snapshot.slots if request is not None and each.ticket == request.ticket]
        if not candidates:
            raise Rejected("the selected request isn't in flight, so there is nothing to cut")
        return candidates[0]
    (agent, *_) = agents_of(view)
    candidates = [each for each in view.snapshot.slots if each.agent == agent.name or each.state == HUNG]
    if not candidates:
        raise Rejected(f"{agent.name} has no request in flight to cut, and none is hung")
    return max(candidates, key=lambda ticket: (ticket.state == HUNG, ticket.agent == agent.name, ticket.silent_s))


def budget(view: View, text: str, meant: frozenset[str] = frozenset()) -> list[Command]:
    """Set a typed budget for the selected agents: `500k`, `$5/day`, `+50k` on top of the present one, `none`;
    with `subtree` for their descendants too. After `pool` it is for all agents together.

    Raises: Rejected.
    """
    words = text.split()
    pooled = words[:1] in (["pool"], ["all"])
    covers: Covers | None = "subtree" if "subtree" in words else "agent" if "alone" in words else None
    amount = " ".join(word for word in words[pooled:] if word not in ("subtree", "alone")).removeprefix("=")
    try:
        wanted = parse_budget(amount)
    except ValueError as error:
        raise Rejected(str(error)) from None
    if pooled:
        totals = view.snapshot.totals
        used = totals.usage.total + totals.wasted.total, totals.dollars
        return [_budgeted(None, wanted, view.snapshot.pool, *used, None)]
    agents = agents_of(view, meant)
    return [_budgeted(each.name, wanted, each.budget, each.usage.total, each.dollars, covers) for each in agents]


def _budgeted(
    name: str | None,
    wanted: WantedBudget,
    before: BudgetState | None,
    used_tokens: int,
    used_dollars: float,
    covers: Covers | None,
) -> cmd.SetBudget:
    """Add an amount on top to the present budget, or, where there is none of that kind, to what is used."""
    tokens, dollars = wanted.tokens, wanted.dollars
    if wanted.more:
        had = (None, None) if before is None else (before.tokens, before.dollars)
        used = (used_tokens, used_dollars) if before is None else (before.used_tokens, before.used_dollars)
        tokens = had[0] if tokens is None else tokens + (used[0] if had[0] is None else had[0])
        dollars = had[1] if dollars is None else dollars + (used[1] if had[1] is None else had[1])
    return cmd.SetBudget(name, tokens, dollars, wanted.per, covers)


def ceiling(view: View, step: int) -> list[Command]:
    """Step max concurrency. Raises: Rejected."""
    state = _lane(view)
    if math.isinf(state.ceiling):
        if step > 0:
            raise Rejected("max concurrency has no limit to raise; [ sets one")
        return [cmd.Tune("max_concurrency", max(1, state.active), state.upstream)]
    wanted = int(state.ceiling) + step
    if wanted < max(1, math.ceil(state.floor)):
        raise Rejected(f"max concurrency can't go below min concurrency, which is {state.floor:g}")
    return [cmd.Tune("max_concurrency", wanted, state.upstream)]


def turn(view: View, steps: int) -> list[Command]:
    """Step the knob under the cursor up or down, or by a large step (10, -10). Raises: Rejected."""
    state = _lane(view)
    if view.knob not in state.knobs:
        raise Rejected(f"this proxy has no {view.knob} to turn")
    return [cmd.Tune(view.knob, stepped(view.knob, state.knobs[view.knob], steps), state.upstream)]


def set_knob(view: View, knob: str, text: str) -> list[Command]:
    """Set a knob to the number that was typed. Raises: Rejected."""
    return [cmd.Tune(knob, typed(knob, text), _lane(view).upstream)]


def pin(view: View) -> list[Command]:
    """Pin the concurrency level where it is, or give it back to AIMD. Raises: Rejected."""
    state = _lane(view)
    if state.pinned:
        return [cmd.PinLevel(None, state.lane)]
    if math.isinf(state.level):
        raise Rejected("the level has no limit to pin it at; [ sets max concurrency first")
    return [cmd.PinLevel(float(max(1, int(state.level))), state.lane)]


def pin_at(view: View, text: str) -> list[Command]:
    """Pin the concurrency level at the number that was typed. Raises: Rejected."""
    try:
        return [cmd.PinLevel(parse_number(text), _lane(view).lane)]
    except ValueError as error:
        raise Rejected(str(error)) from None


def release(view: View) -> list[Command]:
    """End the wait that the provider asked for, and forget the used-up windows of its headers. Raises: Rejected."""
    state = _lane(view)
    used_up = any(window.source == "headers" and window.remaining < 1 for window in state.windows)
    held = any(hold.gate in ("requests", "tokens") for hold in state.upcoming)
    if not state.pauses and not used_up and not held:
        raise Rejected("nothing is rate-limited: no Retry-After, and no rate window is used up")
    return [cmd.ReleaseLane(state.lane)]


def pause(view: View) -> list[Command]:
    """Pause everything, or resume."""
    return [cmd.PauseAdmissions(view.snapshot.mode != "paused")]


_ONE_BY_ONE = 5
"""Alerts that are acknowledged each by itself, so that none is that wasn't shown yet."""


def acknowledge(view: View) -> list[Command]:
    """Acknowledge the alerts that are shown. Raises: Rejected."""
    alerts = unacknowledged(view.snapshot.alerts)
    if not alerts:
        raise Rejected("no alert waits to be acknowledged")
    if len(alerts) > _ONE_BY_ONE:
        return [cmd.Acknowledge()]
    return [cmd.Acknowledge(alert.about, rule) for alert in alerts for rule in RULES if rule == alert.rule]


def note(text: str) -> list[Command]:
    """Write a note."""
    return [cmd.AddNote(text)]


def agents_of(view: View, meant: frozenset[str] = frozenset()) -> Sequence[AgentView]:
    """Return the agents named by an earlier question, else those selected. Raises: Rejected."""
    if meant:
        agents: Sequence[AgentView] = [agent for agent in view.snapshot.agents if agent.name in meant]
    else:
        if view.page == "requests" and not view.ticket:
            raise Rejected("the list follows the newest request; choose one (j, k) to steer its agent")
        agents = view.targets
    if not agents:
        raise Rejected("that agent is gone" if view.snapshot.agents else "no agent yet")
    return agents


def steerable(view: View) -> bool:
    """Return whether an agent was chosen that commands could be meant for."""
    if view.page == "requests":
        return view.ticket != 0
    return view.page in OF_AGENTS | {"agent", "request"} and not view.following


def _lane(view: View) -> LaneState:
    if view.lane is None:
        raise Rejected("no lane yet: it opens with the first request")
    return view.lane.state


INTENTS: Mapping[str, Callable[..., list[Command]]] = {
    intent.__name__: intent
    for intent in (priority, hold, retry, boost, ceiling, pin, release, pause, turn, acknowledge)
}
"""By the name that the key table uses. `stop`, `cancel`, `budget` and a typed knob need a question or a line first."""
