"""What was done, in a few words."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from tui.worlds import world

from hivemind.scheduler import commands as cmd
from hivemind.scheduler.types import Priority
from hivemind_tui.commands.confirmation import LOG_PAGES, confirmation
from hivemind_tui.state.view import View

AGENTS = replace(View(world()), trail=("agents",))
WORDS = {
    cmd.SetPriority("bob", Priority.HIGH): "bob: priority HIGH",
    cmd.PauseAgent("bob", True): "bob: its requests are held",
    cmd.PauseAgent("bob", False): "bob: its requests are released",
    cmd.BoostAgent("bob", 60.0): "bob: boosted for 60 s",
    cmd.BoostAgent("bob", 0.0): "bob: no longer boosted",
    cmd.StopAgent("bob\x1b", True): "bob·: stopped",
    cmd.StopAgent("bob", False): "bob: allowed again",
    cmd.SetBudget("bob", 50_000): "bob: budget 50,000 tokens",
    cmd.SetBudget("bob", None): "bob: no budget",
    cmd.SetBudget(None, None, 5.0, "day"): "all agents: budget $5.00 a day",
    cmd.CancelTask("lint"): "lint: cancelled",
    cmd.RetryTask("lint"): "lint: to be run again",
    cmd.SetTaskPriority("lint", Priority.HIGH): "lint: priority HIGH",
    cmd.ForgetTasks("nightly"): "ForgetTasks",
    cmd.Tune("rpm", 0): "rpm: no limit",
    cmd.PinLevel(4.0): "limit pinned at 4",
    cmd.PinLevel(None): "limit back to AIMD",
    cmd.SetCircuit("probe"): "circuit: probe",
    cmd.PauseAdmissions(True): "admissions paused",
    cmd.PauseAdmissions(False): "admissions resumed",
    cmd.Drain(True): "draining",
    cmd.Drain(False): "accepts requests again",
    cmd.ReleaseLane("lane"): "pause ended",
}


@pytest.mark.parametrize("command", WORDS)
def test_each_command_has_its_words(command: cmd.Command) -> None:
    """On a page that doesn't show the log, one line tells what was done."""
    assert confirmation([command], AGENTS) == WORDS[command]


def test_every_command_is_there() -> None:
    """A new one isn't forgotten here; of those that no key gives the name will do."""
    runners = {cmd.BeginAgent, cmd.EndAgent, cmd.SubmitTasks, cmd.ClaimTask, cmd.FinishTask}
    assert {type(command) for command in WORDS} | runners == set(get_args(cmd.Command))


def test_several_and_none() -> None:
    """Of several the first; nothing where nothing was done, or where the page shows it."""
    both = [cmd.PauseAgent("bob", True), cmd.PauseAgent("eve", True)]
    assert confirmation(both, AGENTS) == "bob: its requests are held, and 1 more"
    assert confirmation([], AGENTS) == ""
    for page in LOG_PAGES:
        assert confirmation(both, replace(AGENTS, trail=(page,))) == ""
