"""The event log as people read it."""

from __future__ import annotations

import math
from typing import get_args

import pytest
from world.kit import (
    LANE,
    abandoned,
    arrived,
    budget,
    commanded,
    failed,
    finished,
    granted,
    refused,
    sampled,
    state,
    task_changed,
    told,
)

from hivemind.scheduler import events as ev
from hivemind.scheduler.commands import Command
from hivemind.scheduler.types import Priority, WindowKind
from hivemind.world.lines import SHOWN_BY_EVENTS, line_of

ARGUMENTS = {"agent": "ann", "priority": "low", "knob": "rpm", "value": 5, "level": 2.0, "mode": "auto", "paused": True}
ARGUMENTS |= {"for_s": 5.0, "stopped": True, "tokens": 5, "draining": True, "tasks": ["t"], "batch": "b", "text": "x"}
"""What any command may say."""


@pytest.mark.parametrize(
    ("event", "level", "tag", "who", "text"),
    [
        (failed(1.5, message="slow down"), "warn", "429", "ann", "slow down; attempt 2 in 1.5 s"),
        (failed(0.01, message="429"), "warn", "429", "ann", "rate limited; attempt 2 at once"),
        (failed(None), "bad", "429", "ann", "rate limited; passed on to the agent"),
        (finished(attempts=3), "good", "retried", "ann", "answered at attempt 3; the agent saw no error"),
        (abandoned(in_flight=True), "info", "left", "ann", "the client left while its answer came"),
        (abandoned(in_flight=False), "info", "left", "ann", "the client left in the queue"),
        (refused(), "bad", "503", "ann", "refused: queue full"),
        (ev.LevelChanged(1.0, LANE, 2.5, "rate_limited"), "warn", "aimd", LANE, "concurrency level 2.5 (rate limited)"),
        (ev.CircuitChanged(1.0, LANE, "open", "529", 10.0), "bad", "circuit", LANE, "open (529), a probe in 10 s"),
        (ev.CircuitChanged(1.0, LANE, "half_open", "x"), "warn", "circuit", LANE, "half open (x)"),
        (ev.CircuitChanged(1.0, LANE, "closed", "x"), "good", "circuit", LANE, "closed (x)"),
        (ev.LaneRateLimited(1.0, LANE, 7.0, "429"), "warn", "429", LANE, "rate-limited for 7 s"),
        (ev.LaneRateLimited(1.0, LANE, 7.0, "429", "m"), "warn", "429", LANE, "m: rate-limited for 7 s"),
        (ev.LaneRateLimited(1.0, LANE, 12.4, "429"), "warn", "429", LANE, "rate-limited for 12.4 s"),
        (ev.LaneReleased(1.0, LANE), "good", "lane", LANE, "rate limit over"),
        (
            ev.LeaseChanged(1.0, LANE, "leased", 4.0, 12.0, 3),
            "good",
            "fleet",
            LANE,
            "goes on with leases from the fleet (4 slots, 3 members)",
        ),
        (
            ev.LeaseChanged(1.0, LANE, "safe", math.inf, math.inf, 1),
            "warn",
            "fleet",
            LANE,
            "the fleet's store is away; goes on with a safe share of the limits (no limit on slots, 1 member)",
        ),
        (
            ev.ResetDoubted(1.0, LANE, "m", WindowKind.REQUESTS, 2.5e11, True),
            "warn",
            "limits",
            LANE,
            "reply states a reset of requests in 2,893,518 d 12 h, which no rate window has: not believed",
        ),
        (
            ev.ResetDoubted(1.0, LANE, "m", WindowKind.INPUT, 86400.0, False),
            "warn",
            "limits",
            LANE,
            "reply states that no input tokens are left for 1 d: one request every 45 s at most checks it",
        ),
        (
            ev.LongWindowForeseen(1.0, LANE, "5h", 0.63, 9000.0, 4500.0),
            "warn",
            "limits",
            LANE,
            "the 5h window is 63 % used; at this rate it ends in 1 h 15 min, and it resets in 2 h 30 min",
        ),
        (
            ev.LongWindowForeseen(1.0, LANE, "5h", 0.63, 9000.0, None),
            "good",
            "limits",
            LANE,
            "the 5h window is 63 % used; at this rate it lasts until it resets in 2 h 30 min",
        ),
        (ev.LaneOpened(1.0, LANE, "up", "generic"), "info", "lane", LANE, "first request (generic)"),
        (ev.BoostEnded(1.0, "ann"), "info", "boost", "ann", "boost over, its own priority again"),
        (
            ev.BudgetWarned(1.0, "ann", budget(used_tokens=4250), False),
            "warn",
            "budget",
            "ann",
            "budget runs low: 4,250 of 5,000 tokens used this run",
        ),
        (
            ev.BudgetWarned(1.0, "ann", budget(used_tokens=5100, dollars=2.0, used_dollars=1.5), True),
            "bad",
            "budget",
            "ann",
            "budget used up: 5,100 of 5,000 tokens and $1.50 of $2.00 used this run",
        ),
        (
            ev.PriceUnknown(1.0, "ann", "m-9"),
            "warn",
            "budget",
            "ann",
            "the price of m-9 isn't known, so its dollars don't count",
        ),
        (
            ev.RunSilent(1.0, "ann"),
            "warn",
            "agent",
            "ann",
            "sent no request on its own path, so nothing was counted and no budget held",
        ),
        (
            ev.RunSilent(1.0, "ann", ("claude", "bob")),
            "warn",
            "agent",
            "ann",
            "sent no request on its own path, so nothing was counted and no budget held; meanwhile its client's"
            " requests came as claude, bob",
        ),
        (ev.Noticed(1.0, "a WebSocket was declined"), "warn", "notice", "proxy", "a WebSocket was declined"),
        (
            ev.StartRefused(1.0, "ann", "the tree of lead has 32 processes"),
            "warn",
            "agent",
            "ann",
            "isn't started: the tree of lead has 32 processes",
        ),
        (ev.AgentBegan(1.0, "ann", "lead", None, False), "info", "agent", "ann", "started, by lead"),
        (ev.AgentBegan(1.0, "ann", None, "t", True), "info", "agent", "ann", "started again"),
        (ev.AgentEnded(1.0, "ann", 0), "good", "agent", "ann", "ended with exit code 0"),
        (ev.AgentEnded(1.0, "ann", 3), "bad", "agent", "ann", "ended with exit code 3"),
        (ev.AgentEnded(1.0, "ann", 130, asked=True), "info", "agent", "ann", "ended with exit code 130"),
        (
            ev.AgentEnded(1.0, "ann", 1, paused=True),
            "warn",
            "agent",
            "ann",
            "ended with exit code 1: a plan's window is used up",
        ),
        (
            ev.TaskChanged(1.0, "lint", "paused", Priority.NORMAL, 1, "used up", 600.0),
            "warn",
            "task",
            "lint",
            "paused for 10 min: used up",
        ),
        (ev.AgentEnded(1.0, "ann", -9), "bad", "agent", "ann", "killed by SIGKILL"),
        (ev.AgentEnded(1.0, "ann", None), "bad", "agent", "ann", "lost: its runner is gone"),
        (task_changed("failed", "exit code 1"), "bad", "task", "lint", "failed: exit code 1"),
        (task_changed("blocked", "a is failed"), "warn", "task", "lint", "blocked: a is failed"),
        (task_changed("done"), "good", "task", "lint", "done"),
        (task_changed("ready", "exit code 1"), "warn", "task", "lint", "to be started again: exit code 1"),
    ],
)
def test_what_people_read(event: ev.Event, level: str, tag: str, who: str, text: str) -> None:
    """One line for what matters."""
    line = line_of(event, 1001.0)
    assert line is not None
    assert (line.at, line.wall, line.level, line.tag, line.who, line.text) == (event.at, 1001.0, level, tag, who, text)


@pytest.mark.parametrize(
    "event",
    [
        arrived(),
        granted(),
        finished(),
        refused(reason="agent_stopped"),
        task_changed("ready"),
        task_changed("running"),
        task_changed("cancelled"),
        commanded("ClaimTask", task="lint", runner="r"),
        commanded("FinishTask", task="lint", ok=True),
        commanded("BeginAgent", agent="ann"),
        commanded("EndAgent", agent="ann"),
        ev.LevelChanged(1.0, LANE, 4.5, "grow"),
        ev.LevelChanged(1.0, LANE, 4.5, "operator"),
        sampled(1.0),
    ],
)
def test_what_happens_all_the_time_has_no_line(event: ev.Event) -> None:
    """Else the rest would drown; neither has what a command's own line tells."""
    assert line_of(event, 0.0) is None


@pytest.mark.parametrize(
    ("command", "who", "text"),
    [
        (commanded("SetPriority", agent="ann", priority="high"), "ann", "priority is high now"),
        (commanded("Tune", knob="aimd.beta", value=0.7, upstream="up"), "up", "aimd.beta is 0.7 now"),
        (commanded("Tune", knob="max_concurrency", value=0.0, upstream=None), "all", "max_concurrency is none now"),
        (commanded("Tune", knob="tpm", value=2e6, upstream=None), "all", "tpm is 2000000 now"),
        (commanded("PinLevel", level=6.0, lane=LANE), LANE, "concurrency level fixed at 6"),
        (commanded("PinLevel", level=None, lane=None), "all", "concurrency level back to AIMD"),
        (commanded("SetCircuit", mode="open", lane=LANE), LANE, "circuit forced open"),
        (commanded("SetCircuit", mode="closed", lane=None), "all", "circuit forced closed"),
        (commanded("SetCircuit", mode="auto", lane=LANE), LANE, "circuit is automatic again"),
        (commanded("SetCircuit", mode="probe", lane=LANE), LANE, "circuit lets one probe through"),
        (commanded("PauseAdmissions", paused=True), "all", "everything paused"),
        (commanded("PauseAdmissions", paused=False), "all", "everything resumed"),
        (commanded("PauseAgent", agent="ann", paused=True), "ann", "held"),
        (commanded("PauseAgent", agent="ann", paused=False), "ann", "released"),
        (commanded("BoostAgent", agent="ann", for_s=60.0), "ann", "critical for 60 s"),
        (commanded("BoostAgent", agent="ann", for_s=0.0), "ann", "boost ended"),
        (commanded("StopAgent", agent="ann", stopped=True), "ann", "stopped"),
        (commanded("StopAgent", agent="ann", stopped=False), "ann", "allowed again"),
        (commanded("CutRequest", agent="ann", request=7, retry=True), "ann", "request 7 cut, to be sent again"),
        (commanded("CutRequest", agent="ann", request=None, retry=False), "ann", "request cut"),
        (commanded("SetBudget", agent="ann", tokens=500_000), "ann", "budget is 500,000 tokens now"),
        (commanded("SetBudget", agent="ann", tokens=None), "ann", "has no budget any more"),
        (commanded("SubmitTasks", tasks=["a", "b"]), "all", "2 tasks added: a, b"),
        (commanded("CancelTask", task="lint"), "lint", "cancelled"),
        (commanded("RetryTask", task="lint"), "lint", "to be tried again"),
        (commanded("SetTaskPriority", task="lint", priority="high"), "lint", "priority is high now"),
        (commanded("ForgetTasks", batch="n"), "all", "tasks of batch n forgotten"),
        (commanded("Drain", draining=True), "all", "draining: refuses new requests"),
        (commanded("Drain", draining=False), "all", "accepts requests again"),
        (commanded("ReleaseLane", lane=LANE), LANE, "rate limit (Retry-After, used-up windows) ended early"),
        (commanded("FromLater", agent="ann", depth=3), "ann", "FromLater agent ann, depth 3"),
    ],
)
def test_a_command_is_a_sentence(command: ev.Commanded, who: str, text: str) -> None:
    """It says what was done to whom; where somebody else did it, who that was."""
    mine, other = line_of(command, 0.0), line_of(commanded(command.name, who="api", **command.arguments), 0.0)
    assert mine is not None
    assert other is not None
    assert (mine.level, mine.tag, mine.who, mine.text) == ("info", "you", who, text)
    assert (other.who, other.text, mine.by, other.by) == (who, f"{text}, by api", "you", "api")


@pytest.mark.parametrize("made", get_args(Command))
def test_every_command_has_its_sentence(made: type[object]) -> None:
    """None is told by its name, unless the events that it brings about tell of it."""
    line = line_of(ev.Commanded(1.0, "api", made.__name__, ARGUMENTS), 0.0)
    assert (line is None) == (made.__name__ in SHOWN_BY_EVENTS)
    assert line is None or (made.__name__ not in line.text and line.tag != "command")


@pytest.mark.parametrize(
    ("command", "tag"),
    [
        (commanded("Tune", who="api", knob="rpm", value=5.0, upstream=None), "knob"),
        (commanded("PauseAgent", who="api", agent="ann", paused=True), "hold"),
        (commanded("SetBudget", who="api", agent="ann", tokens=5), "budget"),
        (commanded("AddNote", who="api", text="new prompt"), "note"),
        (commanded("FromLater", who="api", agent="ann"), "command"),
        (ev.AlertRaised(1.0, 1, "wait", "ann", "ann waits for 61 s"), "alert"),
    ],
)
def test_a_tag_says_what_kind_of_thing_happened(command: ev.Event, tag: str) -> None:
    """Also of commands that others gave."""
    line = line_of(command, 0.0)
    assert line is not None
    assert line.tag == tag


@pytest.mark.parametrize(
    ("rule", "about", "who"),
    [("wait", "ann", "ann"), ("circuit", LANE, LANE), ("budget", "", "pool"), ("spend", "", "proxy")],
)
def test_an_alert_stands_under_what_it_is_about(rule: str, about: str, who: str) -> None:
    """When it begins and when it is over."""
    for event in (ev.AlertRaised(1.0, 1, rule, about, "text"), ev.AlertOver(2.0, 1, rule, about, "text")):
        line = line_of(event, 0.0)
        assert line is not None
        assert line.who == who


def test_a_line_says_what_was_before_where_the_world_knows_it() -> None:
    """Of a priority, a budget, and a knob on whose value all the lanes agreed."""
    lanes = [state(lane=f"up:{n}", knobs={"aimd.beta": 0.5, "rpm": n}) for n in range(2)]
    world = told(
        sampled(0.0, *lanes),
        commanded("SetPriority", agent="ann", priority="high"),
        commanded("SetPriority", agent="ann", priority="high"),
        commanded("SetBudget", agent="ann", tokens=1000),
        sampled(1.0, *lanes, budgets=(budget(tokens=1000),)),
        commanded("SetBudget", agent="ann", tokens=2000),
        commanded("Tune", knob="aimd.beta", value=0.7, upstream="up"),
        commanded("Tune", knob="rpm", value=50.0, upstream="up"),
    )
    assert [line.text for line in world.snapshot(1.0).lines] == [
        "priority normal -> high",
        "priority is high now",
        "budget is 1,000 tokens now",
        "budget 1,000 tokens -> 2,000 tokens",
        "aimd.beta 0.5 -> 0.7",
        "rpm is 50 now",
    ]
