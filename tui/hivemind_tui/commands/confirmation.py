"""What was done, in a few words: for pages on which it isn't seen."""

from __future__ import annotations

from collections.abc import Sequence

from hivemind.scheduler import commands as cmd
from hivemind.text.amounts import ceiling
from hivemind_tui.render.dials import shown_value
from hivemind_tui.render.format import clean
from hivemind_tui.state.view import View

TOLD_BESIDE = frozenset({"overview", "tuning", "log"})
"""Pages that show the latest lines of the log, and with them what was done."""


def said(commands: Sequence[cmd.Command], view: View) -> str:
    """Of several commands the first in words, and how many more there are; nothing where the page shows it anyway."""
    if not commands or view.page in TOLD_BESIDE:
        return ""
    more = f", and {len(commands) - 1} more" if len(commands) > 1 else ""
    return clean(_words(commands[0]) + more)


def _words(command: cmd.Command) -> str:
    match command:
        case cmd.SetPriority(agent, priority):
            return f"{agent}: priority {priority.name}"
        case cmd.PauseAgent(agent, paused):
            return f"{agent}: its requests are held" if paused else f"{agent}: goes on"
        case cmd.BoostAgent(agent, for_s):
            return f"{agent}: boosted for {for_s:.0f} s" if for_s else f"{agent}: no longer boosted"
        case cmd.StopAgent(agent, stopped):
            return f"{agent}: stopped" if stopped else f"{agent}: may ask again"
        case cmd.SetBudget(agent, tokens, dollars, per, covers):
            now = ceiling(tokens, dollars, per, covers)
            return f"{agent or 'all agents'}: " + ("no budget" if now == "none" else f"budget {now}")
        case cmd.Tune(knob, value):
            return f"{knob}: {shown_value(knob, value)}"
        case cmd.PinLevel(level):
            return "level back to AIMD" if level is None else f"level held at {level:g}"
        case cmd.SetCircuit(mode):
            return f"circuit: {mode}"
        case cmd.PauseAdmissions(paused):
            return "admissions paused" if paused else "admissions go on"
        case cmd.Drain(draining):
            return "draining" if draining else "takes requests again"
        case cmd.ReleaseLane():
            return "lane released"
        case cmd.CancelTask(task):
            return f"{task}: cancelled"
        case cmd.RetryTask(task):
            return f"{task}: to be tried again"
        case cmd.SetTaskPriority(task, priority):
            return f"{task}: priority {priority.name}"
    return type(command).__name__
