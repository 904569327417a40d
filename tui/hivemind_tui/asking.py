"""What is asked before something happens: a line to type, a choice from a menu, a yes before anything is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hivemind.scheduler.commands import Command, Drain, Rejected, SetCircuit
from hivemind.snapshot import AgentView

from . import dialogs, intents, navigation
from .format import clean, count
from .tuning import reach, shown_value
from .view import OF_AGENTS, OF_REQUESTS, View

if TYPE_CHECKING:
    from .app import ControlRoom

_FILTERED = OF_AGENTS | OF_REQUESTS | {"log"}


def a_filter(app: ControlRoom) -> None:
    """Words to filter the page's list by, which it follows as they are typed."""
    if app.view.page not in _FILTERED:
        app.complain("nothing to filter on this page")
        return
    selected, ticket = app.view.selected, app.view.ticket

    def typed(text: str) -> None:
        # Whatever half a word hides comes back with the rest of it, and the cursor with it.
        app.go(replace(navigation.filtered(app.view, text), selected=selected, ticket=ticket))

    hint = "words, !not, state:retry  enter keeps it, esc drops the change"
    app.ask_line("filter", app.view.filter, hint=hint, typed=typed)


def a_budget(app: ControlRoom) -> None:
    """A budget for the agents meant; whoever is selected by the time it was typed."""
    targets = _targets(app)
    if not targets:
        return
    meant = frozenset(agent.name for agent in targets)
    one = targets[0] if len(targets) == 1 else None
    now = "" if one is None or one.budget_tokens is None else f"now {count(one.budget_tokens)}, "
    used = f"{now}{count(one.usage.total)} used; " if one is not None else ""
    app.ask_line(
        f"budget of {named(targets)} in tokens",
        hint=f"{used}500k, +50k on top, none",
        done=lambda text: app.steer(lambda view: intents.budget(view, text, meant)) if text.strip() else None,
    )


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
