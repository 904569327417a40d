"""What the keys of the what-if page do to the screen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hivemind.scheduler.commands import Rejected
from hivemind_tui.commands import apply_whatif, save_settings
from hivemind_tui.commands.dialogs import choice
from hivemind_tui.render.layout import layout_for
from hivemind_tui.whatif import state as sheet
from hivemind_tui.whatif.protocol import Look, Message, Outcome, Question, Stage, Try
from hivemind_tui.whatif.recording_ref import recording_of
from hivemind_tui.whatif.state import Sheet

if TYPE_CHECKING:
    from hivemind_tui.app import ControlRoom

_GROUP = "what if"
_PAGE = "whatif"


def enter(app: ControlRoom) -> None:
    """To the page, with the recording of now; what was chosen and answered before stays."""
    try:
        path = str(recording_of(app.source, app.view.snapshot))
    except Rejected as rejected:
        app.complain(str(rejected))
        return
    view, known = app.view, app.view.sheet
    if path != known.path:
        _stop(app)
        known = Sheet(path=path)
    lane = view.lane
    if lane is not None:
        known = replace(known, upstream=lane.state.upstream, at_hand=lane.state.knobs)
    trail = view.trail if view.page == _PAGE else (*view.trail, _PAGE)
    if known.trying:
        app.go(replace(view, trail=trail, sheet=known))
        return
    app.go(replace(view, trail=trail, sheet=replace(known, stage=Stage("reading the recording"))))
    _ask(app, Look(path))


def run(app: ControlRoom) -> None:
    """Simulate; where the answer is known already, only show it."""
    now = app.view.sheet
    if now.trying:
        app.complain("it is being simulated; esc cancels")
        return
    if now.outcome is not None and not now.stale and now.choosing and app.source.link.kind == "replay":
        _show(app, replace(now, choosing=False))
        return
    try:
        now = replace(now, path=str(recording_of(app.source, app.view.snapshot)))
    except Rejected as rejected:
        app.complain(str(rejected))
        return
    stage = Stage("beginning to simulate")
    _show(app, replace(now, choosing=False, trying=True, trouble="", stage=stage))
    _ask(app, Try(now.path, now.changes))


def leave(app: ControlRoom) -> bool:
    """Cancel what is being simulated, or go back to the settings where they aren't in sight; False: neither."""
    now = app.view.sheet
    if now.trying:
        _stop(app)
        _show(app, replace(app.view.sheet, stage=None, trying=False, choosing=True))
        app.notify("cancelled", timeout=2)
        return True
    if now.choosing or layout_for(app.size) == "full":
        return False
    _show(app, replace(now, choosing=True))
    return True


async def close(app: ControlRoom) -> None:
    """The screen is over."""
    _stop(app)
    await app.simulation.aclose()


def vary(app: ControlRoom, steps: int) -> None:
    """Turn the setting under the cursor."""
    _edit(app, lambda now: sheet.turn(now, steps))


def type_in(app: ControlRoom, text: str) -> None:
    """Take what was typed."""
    if text.strip():
        _edit(app, lambda now: sheet.typed_in(now, text))


def ask_value(app: ControlRoom, name: str = "") -> None:
    """Ask for a value of a setting, of the one under the cursor where none is named; or for another setting."""
    now = replace(app.view.sheet, name=name) if name else app.view.sheet
    if name:
        _show(app, now)
    app.ask_line(now.name, hint="a value; or another setting: queue.max_wait_s=60", done=partial(type_in, app))


def as_recorded(app: ControlRoom) -> None:
    """The setting under the cursor is no change any more."""
    if not app.view.sheet.changes:
        app.complain("all is as recorded")
        return
    _edit(app, lambda now: sheet.without(now, now.name))


def pick(app: ControlRoom, name: str) -> None:
    """A click: the cursor goes there, and a second one types."""
    if app.view.sheet.name == name:
        ask_value(app)
    else:
        _show(app, replace(app.view.sheet, name=name, choosing=True))


def apply(app: ControlRoom) -> None:
    """Show what would change in the proxy that runs, and do it if the operator says so."""
    now = app.view.sheet
    if not now.changes:
        app.complain("nothing is changed here, so there is nothing to apply")
        return
    if app.source.link.kind == "replay":
        _tell_how(app, now)
        return
    try:
        commands = apply_whatif.commands(now)
    except Rejected as rejected:
        app.ask("Only from the next start on", [[(str(rejected), "text")], *apply_whatif.left_over(now)], {})
        return
    rows = [
        *apply_whatif.difference(now, app.view.snapshot),
        *apply_whatif.left_over(now),
        [],
        choice("y", "apply", "now, to every upstream; u takes it back"),
    ]
    steer = partial(app.steer, lambda _: commands)
    choices: dict[str, Callable[[], object]] = {"y": steer}
    if now.knobs:
        rows.append(choice("w", "apply and write", "into hivemind.toml too, after a look at the difference"))
        choices["w"] = partial(_apply_and_write, app, steer)
    rows += [[], [("any other key leaves the proxy as it is", "dim")]]
    app.ask("Apply to the running proxy?", rows, choices)


def _apply_and_write(app: ControlRoom, steer: Callable[[], object]) -> None:
    steer()
    app.write_settings(partial(save_settings.offer, app, dict(app.view.sheet.knobs)))


def _tell_how(app: ControlRoom, now: Sheet) -> None:
    lines = apply_whatif.shell_lines(now)
    rows: apply_whatif.Rows = [[("This is a recording. Beside a proxy that runs, type:", "dim")]] if lines else []
    rows += [[(f"  {line}", "strong")] for line in lines]
    rows += apply_whatif.left_over(now)
    rows += [[], choice("y", "copy", "these lines"), [], [("any other key closes this", "dim")]]
    # Together they go to a shell, to which lines of a file mean something else.
    mark = "# " if lines else ""
    text = "\n".join([*lines, *(f"{mark}{line}" for line in apply_whatif.for_the_file(now.others))])
    app.ask("How to apply it", rows, {"y": partial(app.put_into_clipboard, text)})


# --- The process -------------------------------------------------------------------------------------------------


def _ask(app: ControlRoom, question: Question) -> None:
    asking = app.simulation.ask(question, partial(_heard, app))
    app.run_worker(app.monitor.timed(asking, "what if"), group=_GROUP)  # one after the other


def _stop(app: ControlRoom) -> None:
    app.workers.cancel_group(app, _GROUP)


def _heard(app: ControlRoom, message: Message) -> None:
    _show(app, sheet.told(app.view.sheet, message))
    if isinstance(message, Outcome) and app.view.page != _PAGE:
        app.notify("the what-if is answered: w shows it", timeout=4)


def _edit(app: ControlRoom, change: Callable[[Sheet], Sheet]) -> None:
    try:
        _show(app, change(app.view.sheet))
    except Rejected as rejected:
        app.complain(str(rejected))


def _show(app: ControlRoom, now: Sheet) -> None:
    app.go(replace(app.view, sheet=now))
