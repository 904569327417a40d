"""Applying a what-if: commands for a running proxy, lines to type elsewhere, and lines for the settings file."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hivemind.lab.simulate.overrides import Change, agent_commands, value_text
from hivemind.scheduler.commands import Command, Rejected, Tune
from hivemind.setup.snippets import toml_text
from hivemind.text.humanise import NOTHING
from hivemind.text.shells import command_line, word
from hivemind.world.snapshot import Snapshot
from hivemind_tui.render.dials import number, shown_value
from hivemind_tui.render.format import clean
from hivemind_tui.render.pen import Span
from hivemind_tui.whatif.state import WhatIf

Rows = list[list[Span]]
_NAME = 24


def commands(what_if: WhatIf) -> list[Command]:
    """Return the commands for a running proxy. Raises: Rejected: only a restart applies the changes."""
    found: list[Command] = [Tune(name, value) for name, value in what_if.knobs.items()]
    found += agent_commands(what_if.others)
    if not found:
        raise Rejected(
            "none of these can be changed while a proxy runs; write them into hivemind.toml and start it anew"
        )
    return found


def for_the_file(changes: Sequence[Change]) -> list[str]:
    """Return lines of a settings file for changes that need a restart."""
    lines: list[str] = []
    table = ""
    for change in sorted((each for each in changes if not each.name.startswith("agent.")), key=_section):
        section, _, key = change.name.rpartition(".")
        if section != table:
            lines.append(f"[{section}]")
            table = section
        lines.append(f"# {key}: take it out" if change.value is None else f"{key} = {_toml(change.value)}")
    return lines


def _section(change: Change) -> tuple[str, str]:
    """Return table and key; settings outside any table come first in a file."""
    section, _, key = change.name.rpartition(".")
    return section, key


def shell_lines(what_if: WhatIf) -> list[str]:
    """Return the commands to type on the machine of a running proxy."""
    lines = [f"hivemind set {name} {'none' if not value else _plain(value)}" for name, value in what_if.knobs.items()]
    for change in what_if.others:
        kind, _, rest = change.name.partition(".")
        if kind == "agent":
            name, _, what = rest.rpartition(".")
            program = "hivemind set priority" if what == "priority" else "hivemind budget"
            lines.append(command_line(program, name, str(change.value)))
    return lines


def what_if_line(what_if: WhatIf) -> str:
    """Return the command that simulates the same."""
    sets = [f"--set {word('bash', f'{each.name}={_value(each)}')}" for each in what_if.changes]
    # A path that begins with a hyphen would be a flag, and flags behind `--` would be paths.
    path = f"./{what_if.path}" if what_if.path.startswith("-") else what_if.path
    return " ".join(["hivemind what-if", word("bash", path), *sets])


def difference(what_if: WhatIf, snapshot: Snapshot) -> Rows:
    """Return rows with each changed knob, its present values in the proxy, and the new one."""
    rows: Rows = []
    for name, value in what_if.knobs.items():
        now = {lane.state.upstream: lane.state.knobs[name] for lane in snapshot.lanes if name in lane.state.knobs}
        stands = sorted(set(now.values()))
        before = ", ".join(shown_value(name, each) for each in stands) if stands else NOTHING
        rows.append([(f"{name:<{_NAME}} ", "text"), (before, "dim"), (f" → {shown_value(name, value)}", "accent")])
    for change in what_if.others:
        if change.name.startswith("agent."):
            rows.append([(f"{clean(change.name):<{_NAME}} ", "text"), (value_text(change.value), "accent")])
    return rows


def left_over(what_if: WhatIf) -> Rows:
    """Return rows with the changes that need a restart, as lines of the settings file."""
    lines = for_the_file(what_if.others)
    if not lines:
        return []
    return [
        [],
        [("Only from the next start on, in hivemind.toml:", "dim")],
        *([(f"  {line}", "text")] for line in lines),
    ]


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
