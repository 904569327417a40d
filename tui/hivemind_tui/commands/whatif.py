"""The actions of the what-if page: choose settings, simulate them, apply them to the proxy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from hivemind.scheduler.commands import Rejected
from hivemind_tui.commands import apply_whatif
from hivemind_tui.commands.dialogs import Rows, choice, question
from hivemind_tui.commands.steering import SteeringActions
from hivemind_tui.whatif import state as what_if
from hivemind_tui.whatif.process import recording_of
from hivemind_tui.whatif.protocol import Message, Progress, Question, ReadRecording, Simulate, WhatIfResult
from hivemind_tui.whatif.state import WhatIf

_GROUP = "what if"
_PAGE = "whatif"


class WhatIfActions(SteeringActions):
    """The keys of the what-if page."""

    def action_what_if(self) -> None:
        """Open the page on the current recording; what was chosen and simulated before stays."""
        self.attempt(self._open_whatif)

    def _open_whatif(self) -> None:
        path = str(recording_of(self.source, self.view.snapshot))
        view, known = self.view, self.view.what_if
        if path != known.path:
            self._stop_simulation()
            known = WhatIf(path=path)
        if view.lane is not None:
            known = replace(known, upstream=view.lane.state.upstream, at_hand=view.lane.state.knobs)
        if not known.trying:
            known = replace(known, stage=Progress("reading the recording"))
        trail = view.trail if view.page == _PAGE else (*view.trail, _PAGE)
        self.go(replace(view, trail=trail, what_if=known))
        if not known.trying:
            self._ask_simulation(ReadRecording(path))

    def simulate(self) -> None:
        """Simulate the settings chosen; where the outcome is known already, only show it."""
        now = self.view.what_if
        if now.trying:
            self.complain("a simulation is running; esc cancels it")
        elif now.outcome is not None and not now.stale and now.choosing and self.source.link.kind == "replay":
            self._show_sheet(replace(now, choosing=False))
        else:
            self.attempt(self._begin_simulation)

    def _begin_simulation(self) -> None:
        path = str(recording_of(self.source, self.view.snapshot))
        stage = Progress("beginning to simulate")
        now = replace(self.view.what_if, path=path, choosing=False, trying=True, trouble="", stage=stage)
        self._show_sheet(now)
        self._ask_simulation(Simulate(now.path, now.changes))

    def leave_whatif(self) -> bool:
        """Cancel the simulation, or show the settings again where the outcome hides them; return False for neither."""
        now = self.view.what_if
        if now.trying:
            self._stop_simulation()
            self._show_sheet(replace(self.view.what_if, stage=None, trying=False, choosing=True))
            self.inform("cancelled")
            return True
        if now.choosing or self.layout_name == "full":
            return False
        self._show_sheet(replace(now, choosing=True))
        return True

    async def close_whatif(self) -> None:
        """End the simulating process with the screen."""
        self._stop_simulation()
        await self.simulation.aclose()

    def action_vary(self, steps: int) -> None:
        """Step the setting under the cursor."""
        self._change_sheet(lambda now: what_if.turn(now, steps))

    def set_setting(self, text: str) -> None:
        """Change a setting to the value that was typed, or to `NAME=VALUE`."""
        if text.strip():
            self._change_sheet(lambda now: what_if.typed_in(now, text))

    def ask_setting(self, name: str = "") -> None:
        """Ask for the value of a setting; of the one under the cursor where none is named."""
        if name:
            self._show_sheet(replace(self.view.what_if, name=name))
        hint = "a value; or another setting: queue.max_wait_s=60"
        self.ask_line(self.view.what_if.name, hint=hint, done=self.set_setting)

    def action_other(self) -> None:
        """Ask for the value under the cursor, or for any other setting."""
        self.ask_setting()

    def action_as_recorded(self) -> None:
        """Set the setting under the cursor back to its recorded value."""
        if self.view.what_if.changes:
            self._change_sheet(lambda now: what_if.without(now, now.name))
        else:
            self.complain("all settings are as recorded")

    def action_pick_setting(self, name: str) -> None:
        """Select a setting on a click, and ask for its value on a second one."""
        if self.view.what_if.name == name:
            self.ask_setting()
        else:
            self._show_sheet(replace(self.view.what_if, name=name, choosing=True))

    def action_apply(self) -> None:
        """Show what would change in the running proxy, and change it if the operator agrees."""
        now = self.view.what_if
        if not now.changes:
            self.complain("no setting is changed here, so there is nothing to apply")
            return
        if self.source.link.kind == "replay":
            self._show_how(now)
            return
        try:
            commands = apply_whatif.commands(now)
        except Rejected as rejected:
            self.ask("Only after a restart", [[(str(rejected), "text")], *apply_whatif.left_over(now)], {})
            return
        steer = partial(self.steer, lambda _: commands)
        rows = [choice("y", "apply", "now, to every upstream; u undoes it")]
        choices: dict[str, Callable[[], object]] = {"y": steer}
        if now.knobs:
            rows.append(choice("w", "apply and write", "to hivemind.toml too, after showing the difference"))
            choices["w"] = partial(self._apply_and_write, steer)
        changes = [*apply_whatif.difference(now, self.view.snapshot), *apply_whatif.left_over(now)]
        self.ask("Apply to the running proxy?", question(changes, *rows), choices)

    def _apply_and_write(self, steer: Callable[[], object]) -> None:
        steer()
        self.queue.then(partial(self.offer_to_write, dict(self.view.what_if.knobs)))

    def _show_how(self, now: WhatIf) -> None:
        lines = apply_whatif.shell_lines(now)
        rows: Rows = [[("This is a recording. On the machine of a running proxy, type:", "dim")]] if lines else []
        rows += [[(f"  {line}", "strong")] for line in lines]
        rows += apply_whatif.left_over(now)
        rows = question(rows, choice("y", "copy", "these lines"), otherwise="any other key closes this")
        # All lines are pasted into a shell, which must not run those meant for the file.
        mark = "# " if lines else ""
        text = "\n".join([*lines, *(f"{mark}{line}" for line in apply_whatif.for_the_file(now.others))])
        self.ask("How to apply it", rows, {"y": partial(self.copy, text)})

    def _ask_simulation(self, question: Question) -> None:
        self.run_task(self.simulation.ask(question, self._show_message), _GROUP)

    def _stop_simulation(self) -> None:
        self.cancel_tasks(_GROUP)

    def _show_message(self, message: Message) -> None:
        self._show_sheet(what_if.told(self.view.what_if, message))
        if isinstance(message, WhatIfResult) and self.view.page != _PAGE:
            self.inform("the simulation is done: w shows it")

    def _change_sheet(self, change: Callable[[WhatIf], WhatIf]) -> None:
        try:
            self._show_sheet(change(self.view.what_if))
        except Rejected as rejected:
            self.complain(str(rejected))

    def _show_sheet(self, now: WhatIf) -> None:
        self.go(replace(self.view, what_if=now))
