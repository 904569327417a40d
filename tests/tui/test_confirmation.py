"""What was done, in a few words."""

from __future__ import annotations

from typing import get_args

import pytest
from tui.worlds import world

from hivemind.records import replace
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.types import Priority
from hivemind_tui.commands.queue import LOG_PAGES, confirmation
from hivemind_tui.state.view import View

AGENTS = replace(View(world()), trail=("agents",))
WORDS = {
    cmd.SetPriority("bob", Priority.HIGH): "bob: priority is high now",
    cmd.PauseAgent("bob", True): "bob: held",
    cmd.PauseAgent("bob", False): "bob: released",
    cmd.BoostAgent("bob", 60.0): "bob: critical for 60 s",
    cmd.BoostAgent("bob", 0.0): "bob: boost ended",
    cmd.StopAgent("bob\x1b", True): "bob·: stopped",
    cmd.StopAgent("bob", False): "bob: allowed again",
    cmd.CutRequest("bob", 7): "bob: request 7 cut, to be sent again",
    cmd.SetBudget("bob", 50_000): "bob: budget is 50,000 tokens now",
    cmd.SetBudget("bob", None): "bob: has no budget any more",
    cmd.SetBudget(None, None, 5.0, "day"): "budget is $5.00 a day now",
    cmd.CancelTask("lint"): "lint: cancelled",
    cmd.RetryTask("lint"): "lint: to be tried again",
    cmd.SetTaskPriority("lint", Priority.HIGH): "lint: priority is high now",
    cmd.ForgetTasks("nightly"): "tasks of batch nightly forgotten",
    cmd.Tune("rpm", 0): "rpm is none now",
    cmd.PinLevel(4.0): "concurrency level fixed at 4",
    cmd.PinLevel(None): "concurrency level back to AIMD",
    cmd.SetCircuit("probe"): "circuit lets one probe through",
    cmd.PauseAdmissions(True): "everything paused",
    cmd.PauseAdmissions(False): "everything resumed",
    cmd.Drain(True): "draining: refuses new requests",
    cmd.Drain(False): "accepts requests again",
    cmd.ReleaseLane("lane"): "lane: rate limit (Retry-After, used-up windows) ended early",
    cmd.Acknowledge(): "alerts acknowledged",
    cmd.Acknowledge("bob"): "bob: alerts acknowledged",
    cmd.Acknowledge(rule="spend"): "alerts (spend) acknowledged",
    cmd.AddNote("lunch\x1b"): "note: lunch·",
}


@pytest.mark.parametrize("command", WORDS)
def test_each_command_has_its_words(command: cmd.Command) -> None:
    """On a page that doesn't show the log, one line tells what was done."""
    assert confirmation([command], AGENTS) == WORDS[command]


def test_every_command_is_there() -> None:
    """A new one isn't forgotten here."""
    runners = {cmd.BeginAgent, cmd.EndAgent, cmd.SubmitTasks, cmd.ClaimTask, cmd.FinishTask}
    assert {type(command) for command in WORDS} | runners == set(get_args(cmd.Command))


def test_several_and_none() -> None:
    """Of several the first; nothing where nothing was done, or where the page shows it."""
    both = [cmd.PauseAgent("bob", True), cmd.PauseAgent("eve", True)]
    assert confirmation(both, AGENTS) == "bob: held, and 1 more"
    assert confirmation([], AGENTS) == ""
    for page in LOG_PAGES:
        assert confirmation(both, replace(AGENTS, trail=(page,))) == ""
