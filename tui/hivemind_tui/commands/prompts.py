"""What is asked before something happens: a line to type, a choice from a menu, a yes before anything is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hivemind.scheduler.commands import Command, Drain, Rejected, SetCircuit
from hivemind.scheduler.events import BudgetState
from hivemind.text.humanise import short_count, short_dollars
from hivemind.world.snapshot import AgentView
from hivemind_tui.commands import dialogs, intents, navigation
from hivemind_tui.render.budgets import ceilings, period
from hivemind_tui.render.dials import reach, shown_value
from hivemind_tui.render.format import clean
from hivemind_tui.state.view import OF_AGENTS, OF_REQUESTS, View

if TYPE_CHECKING:
    from hivemind_tui.app import ControlRoom

_FILTERED = OF_AGENTS | OF_REQUESTS | {"log", "tasks"}


def a_filter(app: ControlRoom) -> None:
    """Words to filter the page's list by, which it follows as they are typed."""
    if app.view.page not in _FILTERED:
        app.complain("nothing to filter on this page")
        return
    selected, ticket, chosen = app.view.selected, app.view.ticket, app.view.chosen

    def typed(text: str) -> None:
        # Whatever half a word hides comes back with the rest of it, and the cursor with it.
        app.go(replace(navigation.filtered(app.view, text), selected=selected, ticket=ticket, chosen=chosen))

    hint = "words, !not, state:retry  enter keeps it, esc drops the change"
    app.ask_line("filter", app.view.filter, hint=hint, typed=typed)


def a_budget(app: ControlRoom) -> None:
    """A budget for the agents meant, or for all together; whoever is selected by the time it was typed."""
    if not app.view.snapshot.agents:
        _ask_budget(app, "all agents together", app.view.snapshot.pool, frozenset(), "pool ")
        return
    targets = _targets(app)
    if not targets:
        return
    meant = frozenset(agent.name for agent in targets)
    one = targets[0] if len(targets) == 1 else None
    used = f"{short_count(one.usage.total)}, {short_dollars(one.dollars)} used; " if one is not None else ""
    _ask_budget(app, named(targets), one.budget if one is not None else None, meant, used=used)


def _ask_budget(
    app: ControlRoom,
    whose: str,
    state: BudgetState | None,
    meant: frozenset[str],
    before: str = "",
    used: str = "",
) -> None:
    now = "" if state is None else " and ".join(f"{each.used} of {each.of}" for each in ceilings(state))
    used = f"now {now} {period(state)}; " if state is not None else used
    pool = "" if before else ", pool 2M"

    def done(text: str) -> None:
        if text.strip():
            app.steer(lambda view: intents.budget(view, before + text, meant))

    app.ask_line(f"budget of {whose}", hint=f"{used}200k, $5/day, +50k, none{pool}", done=done)


def a_knob(app: ControlRoom, knob: str = "") -> None:
    """A number for a knob; for the one under the cursor where none is named."""
    knob, lane = knob or app.view.knob, app.view.lane
    now = lane.state.knobs.get(knob) if lane is not None else None
    app.ask_line(
        knob,
        hint=f"now {shown_value(knob, now)}, {reach(knob)}" if now is not None else reach(knob),
        done=lambda text: app.steer(lambda view: intents.set_knob(view, knob, text)) if text.strip() else None,
    )


def whether_to_stop(app: ControlRoom) -> None:
    """Before agents are cut off; to let them ask again needs no question."""
    targets = _targets(app)
    if not targets:
        return
    if all(agent.stopped for agent in targets):
        app.steer(intents.stop)
        return
    stopping = [agent for agent in targets if not agent.stopped]
    meant = frozenset(agent.name for agent in stopping)
    rows = dialogs.stop_question(app.view, stopping)
    app.ask(f"Stop {named(stopping)}?", rows, {"y": partial(app.steer, partial(intents.stop, meant=meant))})


def whether_to_cancel(app: ControlRoom) -> None:
    """Before a task is cancelled."""
    try:
        intents.cancel(app.view)
        task = intents.task_of(app.view)
    except Rejected as rejected:
        app.complain(str(rejected))
        return
    rows = dialogs.cancel_question(app.view, task)
    cancel = partial(app.steer, partial(intents.cancel, meant=task.id))
    app.ask(f"Cancel {clean(task.id)}?", rows, {"y": cancel})


def _targets(app: ControlRoom) -> Sequence[AgentView]:
    """The agents meant; where there are none it is said why."""
    try:
        return intents.agents_of(app.view)
    except Rejected as rejected:
        app.complain(str(rejected))
        return ()


def named(agents: Sequence[AgentView]) -> str:
    """The agent's name, or how many there are."""
    return clean(agents[0].name) if len(agents) == 1 else f"{len(agents)} agents"


def whether_to_drain(app: ControlRoom) -> None:
    """Before whoever waits is refused; to go on again needs no question."""
    if app.view.snapshot.mode == "draining":
        app.steer(partial(_just, Drain(False)))
        return
    app.ask("Drain?", dialogs.drain_question(app.view), {"y": partial(app.steer, partial(_just, Drain(True)))})


def the_circuits_mode(app: ControlRoom) -> None:
    """A menu of what the circuit may be told."""
    lane = app.view.lane.state.lane if app.view.lane else None
    title, rows = dialogs.circuit_menu(app.view)
    commands = {key: SetCircuit(mode, lane) for key, mode in dialogs.CIRCUIT_MODES.items()}
    app.ask(title, rows, {key: partial(app.steer, partial(_just, command)) for key, command in commands.items()})


def whether_to_leave(app: ControlRoom) -> None:
    """Before requests under way are drained with a proxy of the screen's own; one elsewhere goes on."""
    leave = partial(app.exit, "quit")
    now = app.source.snapshot()
    flying, queued = len(now.slots), now.queued
    if app.source.link.kind != "live" or not (flying or queued):
        leave()
        return
    rows = dialogs.quit_question(flying, queued, app.view.drain_s)
    app.ask("Quit?", rows, dict.fromkeys(("y", "ctrl+c", "ctrl+q"), leave))


def _just(command: Command, _view: View) -> list[Command]:
    return [command]
