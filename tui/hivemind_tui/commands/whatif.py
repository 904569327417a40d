"""The what-if page: choosing settings, simulating them, and applying them to a running proxy or to its file."""

from __future__ import annotations

import math
import stat
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from rich.cells import cell_len

from hivemind.lab.simulate.overrides import Change, agent_commands, value_text
from hivemind.records import replace
from hivemind.scheduler.commands import Command, Rejected, Tune
from hivemind.scheduler.operator.knobs import KNOBS
from hivemind.setup.clients import toml_text
from hivemind.text.humanise import NOTHING
from hivemind.text.shells import command_line, word
from hivemind.world.snapshot import Snapshot
from hivemind_tui.board import is_full
from hivemind_tui.commands.dialogs import Rows, choice, question
from hivemind_tui.commands.steering import SteeringActions
from hivemind_tui.render.dials import number, shown_value
from hivemind_tui.render.format import clean, fit
from hivemind_tui.whatif.process import recording_of
from hivemind_tui.whatif.protocol import Message, Progress, Question, ReadRecording, Simulate, WhatIfResult
from hivemind_tui.whatif.state import WhatIf

_GROUP = "what if"
_PAGE = "whatif"
_SCENARIO_BYTES = 100_000
_NAME = 24
"""Cells of a setting's name."""


class WhatIfActions(SteeringActions):
    """The keys of the what-if page."""

    def action_what_if(self) -> None:
        """Open the page on the current recording; what was chosen and simulated before stays."""
        self.attempt(self._open_whatif)

    def _open_whatif(self) -> None:
        path = str(recording_of(self.source, self.view.snapshot))
        view, sheet = self.view, self.view.what_if
        if path != sheet.path:
            self.workers.cancel_group(self, _GROUP)
            sheet = WhatIf(path=path)
        if view.lane is not None:
            sheet = replace(sheet, upstream=view.lane.state.upstream, at_hand=view.lane.state.knobs)
        if not sheet.trying:
            sheet = replace(sheet, stage=Progress("reading the recording"))
        trail = view.trail if view.page == _PAGE else (*view.trail, _PAGE)
        self.go(replace(view, trail=trail, what_if=sheet))
        if not sheet.trying:
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
            self.workers.cancel_group(self, _GROUP)
            self._show_sheet(replace(self.view.what_if, stage=None, trying=False, choosing=True))
            self.inform("cancelled")
            return True
        if now.choosing or is_full(self.size):
            return False
        self._show_sheet(replace(now, choosing=True))
        return True

    async def close_whatif(self) -> None:
        self.workers.cancel_group(self, _GROUP)
        await self.simulation.aclose()

    def vary(self, steps: int) -> None:
        """Turn the setting under the cursor by so many steps."""
        self._change_sheet(lambda now: now.turn(steps))

    def set_setting(self, text: str) -> None:
        """Change a setting to the value that was typed, or to `NAME=VALUE`. Raises: Rejected."""
        if text.strip():
            self._show_sheet(self.view.what_if.typed_in(text))

    def action_other(self, name: str = "", text: str = "", trouble: str = "") -> None:
        """Ask for the value of a setting, by default of the one under the cursor; `text` was refused before."""
        if name:
            self._show_sheet(replace(self.view.what_if, name=name))
        hint = "a value; or anything as NAME=VALUE: queue.max_wait_s=60"
        self.line.ask(self.view.what_if.name, text, hint=hint, done=self.set_setting, trouble=trouble)

    def action_scenario(self) -> None:
        """Ask for a scenario file, whose settings come on top of those chosen."""
        hint = "a TOML file of settings and questions, in the form of hivemind.toml"
        self.line.ask("scenario file", hint=hint, done=self._take_scenario)

    def _take_scenario(self, text: str) -> None:
        if not text.strip():
            return
        path = Path(text.strip()).expanduser()
        try:
            status = path.stat()
        except OSError as error:
            raise Rejected(f"{path}: {error.strerror}") from None
        # It is read on the loop, which a pipe or a huge file would stop.
        if not stat.S_ISREG(status.st_mode) or status.st_size > _SCENARIO_BYTES:
            raise Rejected(f"{path}: must be a file of at most {_SCENARIO_BYTES // 1000} kB")
        self._show_sheet(self.view.what_if.with_scenario(path))

    def action_as_recorded(self) -> None:
        if self.view.what_if.changes:
            self._change_sheet(lambda now: now.without(now.name))
        else:
            self.complain("all settings are as recorded")

    def action_pick_setting(self, name: str) -> None:
        """Select a setting on a click, and ask for its value on a second one."""
        if self.view.what_if.name == name:
            self.action_other()
        else:
            self._show_sheet(replace(self.view.what_if, name=name, choosing=True))

    def action_apply(self) -> None:
        now = self.view.what_if
        if not now.changes:
            self.complain("no setting is changed here, so there is nothing to apply")
            return
        if self.source.link.kind == "replay":
            self._show_how(now)
            return
        try:
            commands = live_commands(now)
        except Rejected as rejected:
            self.ask("Only after a restart", [[(str(rejected), "text")], *left_over(now)], {})
            return
        steer = partial(self.steer, lambda _: commands)
        rows = [choice("y", "apply", "now, to every upstream; u undoes it")]
        choices: dict[str, Callable[[], object]] = {"y": steer}
        if now.knobs:
            rows.append(choice("w", "apply and write", "to hivemind.toml too, after showing the difference"))
            choices["w"] = partial(self._apply_and_write, steer)
        changes = [*difference(now, self.view.snapshot), *left_over(now)]
        self.ask("Apply to the running proxy?", question(changes, *rows), choices)

    def _apply_and_write(self, steer: Callable[[], object]) -> None:
        steer()
        self.queue.then(partial(self.offer_to_write, dict(self.view.what_if.knobs)))

    def _show_how(self, now: WhatIf) -> None:
        lines = shell_lines(now)
        rows: Rows = [[("This is a recording. On the machine of a running proxy, type:", "dim")]] if lines else []
        rows += [[(f"  {line}", "strong")] for line in lines]
        rows += left_over(now)
        rows = question(rows, choice("y", "copy", "these lines"), otherwise="any other key closes this")
        # All lines are pasted into a shell, which must not run those meant for the file.
        mark = "# " if lines else ""
        text = "\n".join([*lines, *(f"{mark}{line}" for line in file_lines(now.others))])
        self.ask("How to apply it", rows, {"y": partial(self.copy, text)})

    def _ask_simulation(self, question: Question) -> None:
        self.run_task(self.simulation.ask(question, self._show_message), _GROUP)

    def _show_message(self, message: Message) -> None:
        self._show_sheet(self.view.what_if.with_message(message))
        if isinstance(message, WhatIfResult) and self.view.page != _PAGE:
            self.inform("the simulation is done: w shows it")

    def _change_sheet(self, change: Callable[[WhatIf], WhatIf]) -> None:
        self.attempt(lambda: self._show_sheet(change(self.view.what_if)))

    def _show_sheet(self, now: WhatIf) -> None:
        self.go(replace(self.view, what_if=now))


def live_commands(wanted: WhatIf) -> list[Command]:
    """Return the commands for a running proxy. Raises: Rejected: only a restart applies the changes."""
    commands: list[Command] = [Tune(name, value) for name, value in wanted.knobs.items()]
    commands += agent_commands(wanted.others)
    if not commands and not wanted.others:
        raise Rejected("a proxy changes neither its provider nor its agents; only settings can be applied")
    if not commands:
        raise Rejected(
            "none of these can be changed while a proxy runs; write them into hivemind.toml and start it anew"
        )
    return commands


def file_lines(changes: Sequence[Change]) -> list[str]:
    """Return lines of a settings file for changes that need a restart."""
    lines: list[str] = []
    table = ""
    for change in sorted((each for each in changes if not each.name.startswith("agent.")), key=_section):
        section, key = _section(change)
        if section != table:
            lines.append(f"[{section}]")
            table = section
        lines.append(f"# {key}: take it out" if change.value is None else f"{key} = {_toml(change.value)}")
    return lines


def _section(change: Change) -> tuple[str, str]:
    """Return table and key; settings outside any table come first in a file."""
    section, _, key = change.name.rpartition(".")
    return section, key


def shell_lines(wanted: WhatIf) -> list[str]:
    """Return the commands to type on the machine of a running proxy."""
    lines = [f"hivemind set {name} {'none' if not value else _plain(value)}" for name, value in wanted.knobs.items()]
    for change in wanted.others:
        kind, _, rest = change.name.partition(".")
        if kind == "agent":
            name, _, what = rest.rpartition(".")
            program = "hivemind set priority" if what == "priority" else "hivemind budget"
            lines.append(command_line(program, name, str(change.value)))
    return lines


def what_if_line(wanted: WhatIf) -> str:
    """Return the command that simulates the same."""
    sets = [f"--set {word('bash', f'{each.name}={_value(each)}')}" for each in wanted.changes]
    # A path that begins with a hyphen would be a flag, and flags behind `--` would be paths.
    path = f"./{wanted.path}" if wanted.path.startswith("-") else wanted.path
    return " ".join(["hivemind what-if", word("bash", path), *sets])


def difference(wanted: WhatIf, snapshot: Snapshot) -> Rows:
    """Return rows with each changed knob, its present value in the proxy and the new one; of several upstreams, for
    each of them."""
    rows: Rows = []
    upstreams = list(dict.fromkeys([*dict(snapshot.upstreams), *(lane.state.upstream for lane in snapshot.lanes)]))
    wide = max(map(cell_len, map(clean, upstreams)), default=0)
    for name, value in wanted.knobs.items():
        now = {lane.state.upstream: lane.state.knobs[name] for lane in snapshot.lanes if name in lane.state.knobs}
        of_all = KNOBS[name].shared or len(upstreams) < 2
        label = name
        for upstream in [""] if of_all else upstreams:
            stands = next(iter(now.values()), None) if of_all else now.get(upstream)
            before = NOTHING if stands is None else shown_value(name, stands)
            whose = "" if of_all else f"{fit(clean(upstream), wide)} "
            will = ", as it is" if stands == value else f" → {shown_value(name, value)}"
            rows.append([(f"{label:<{_NAME}} {whose}", "text"), (before, "dim"), (will, "accent")])
            label = ""
    for change in wanted.others:
        if change.name.startswith("agent."):
            rows.append([(f"{clean(change.name):<{_NAME}} ", "text"), (value_text(change.value), "accent")])
    return rows


def left_over(wanted: WhatIf) -> Rows:
    """Return rows with the changes that need a restart, as lines of the settings file, and with what no setting is."""
    rows: Rows = []
    if lines := file_lines(wanted.others):
        rows += [[], [("Only from the next start on, in hivemind.toml:", "dim")]]
        rows += [[(f"  {line}", "text")] for line in lines]
    if wanted.asked:
        rows += [[], [("Not applied, because no setting changes it:", "dim")]]
        rows += [[(f"  {clean(str(each))}", "text")] for each in wanted.asked]
    return rows


def _value(change: Change) -> str:
    return _plain(change.value) if isinstance(change.value, float) else value_text(change.value)


def _plain(value: float) -> str:
    """Return the number without commas, which no command accepts."""
    return number(value).replace(",", "")


def _toml(value: float | bool | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return toml_text(value)
    return _plain(value) if math.isfinite(value) else "0"
