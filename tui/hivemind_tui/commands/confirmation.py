"""Confirmations: what was done, in a few words, for pages that don't show the log."""

from __future__ import annotations

from collections.abc import Sequence

from hivemind.scheduler import commands as cmd
from hivemind.text.amounts import ceiling
from hivemind_tui.render.dials import shown_value
from hivemind_tui.render.format import clean
from hivemind_tui.state.view import View

LOG_PAGES = frozenset({"overview", "tuning", "log"})
"""Pages that show the latest lines of the log."""


def confirmation(commands: Sequence[cmd.Command], view: View) -> str:
    """Return the first command in words, and how many more there are; nothing where the page shows the log."""
    if not commands or view.page in LOG_PAGES:
        return ""
    more = f", and {len(commands) - 1} more" if len(commands) > 1 else ""
    return clean(_words(commands[0]) + more)


def _words(command: cmd.Command) -> str:
    match command:
        case cmd.SetPriority(agent, priority):
            return f"{agent}: priority {priority.name}"
        case cmd.PauseAgent(agent, paused):
            return f"{agent}: its requests are held" if paused else f"{agent}: its requests are released"
        case cmd.BoostAgent(agent, for_s):
            return f"{agent}: boosted for {for_s:.0f} s" if for_s else f"{agent}: no longer boosted"
        case cmd.StopAgent(agent, stopped):
            return f"{agent}: stopped" if stopped else f"{agent}: allowed again"
        case cmd.SetBudget(agent, tokens, dollars, per, covers):
            now = ceiling(tokens, dollars, per, covers)
            return f"{agent or 'all agents'}: " + ("no budget" if now == "none" else f"budget {now}")
        case cmd.Tune(knob, value):
            return f"{knob}: {shown_value(knob, value)}"
        case cmd.PinLevel(level):
            return "limit back to AIMD" if level is None else f"limit pinned at {level:g}"
        case cmd.SetCircuit(mode):
            return f"circuit: {mode}"
        case cmd.PauseAdmissions(paused):
            return "admissions paused" if paused else "admissions resumed"
        case cmd.Drain(draining):
            return "draining" if draining else "accepts requests again"
        case cmd.ReleaseLane():
            return "pause ended"
        case cmd.CancelTask(task):
            return f"{task}: cancelled"
        case cmd.RetryTask(task):
            return f"{task}: to be run again"
        case cmd.SetTaskPriority(task, priority):
            return f"{task}: priority {priority.name}"
    return type(command).__name__
