"""What is asked before something happens: a line to type, a choice from a menu, a yes before anything is lost."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hivemind.scheduler.commands import Command, Drain, SetCircuit

from . import dialogs, intents, navigation
from .actions import named
from .tuning import shown_value
from .view import View

if TYPE_CHECKING:
    from .app import ControlRoom

_FILTERED = navigation.OF_AGENTS | navigation.OF_REQUESTS | {"log"}


def a_filter(app: ControlRoom) -> None:
    """Words to filter the page's list by, which it follows as they are typed."""
    if app.view.page not in _FILTERED:
        app.complain("nothing to filter on this page")
        return
    app.ask_line(
        "filter",
        navigation.filter_of(app.view),
        hint="words, !not, state:retry  enter keeps it, esc drops the change",
        typed=lambda text: app.go(navigation.filtered(app.view, text)),
    )


def a_budget(app: ControlRoom) -> None:
    """A budget for the agents meant."""
    if not app.view.targets:
        app.complain("no agent yet: there is nobody to give a budget")
        return
    app.ask_line(
        f"budget of {named(app.view.targets)} in tokens",
        hint="500k, +50k on top, none",
        done=lambda text: app.steer(lambda view: intents.budget(view, text)),
    )


def a_knob(app: ControlRoom) -> None:
    """A number for the knob under the cursor."""
    knob, lane = app.view.knob, app.view.lane
    now = lane.state.knobs.get(knob) if lane is not None else None
    app.ask_line(
        knob,
        hint=f"now {shown_value(knob, now)}" if now is not None else "",
        done=lambda text: app.steer(lambda view: intents.set_knob(view, knob, text)),
    )


def whether_to_stop(app: ControlRoom) -> None:
    """Before agents are cut off; to let them ask again needs no question."""
    targets = app.view.targets
    if not targets or all(agent.stopped for agent in targets):
        app.steer(intents.stop)
        return
    app.ask("Stop?", dialogs.stop_question(app.view, targets), {"y": partial(app.steer, intents.stop)})


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
