"""What operators decided, as commands for another process of the same proxy."""

from __future__ import annotations

from hivemind.scheduler import commands as cmd
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.types import Priority

LANE = LaneConfig("lab", "lab")


def scheduler() -> Scheduler:
    return Scheduler(SchedulerConfig(), lambda: 0.5)


def apply(to: Scheduler, *commands: cmd.Command) -> None:
    for command in commands:
        to.expect(1.0, command)
        to.apply(1.0, command, "test")


def test_another_process_decides_alike() -> None:
    """The commands bring an empty scheduler to the same decisions, so that it would name the same ones."""
    one, other = scheduler(), scheduler()
    one.open_lane(0.0, "lab:all", LANE)
    apply(
        one,
        cmd.SetPriority("alice", Priority.CRITICAL),
        cmd.SetPriority("alice", Priority.LOW),
        cmd.PauseAgent("bob", True),
        cmd.PauseAgent("carol", True),
        cmd.PauseAgent("carol", False),
        cmd.StopAgent("dave", True),
        cmd.BoostAgent("erin", 60.0),
        cmd.PauseAdmissions(True),
        cmd.Tune("rpm", 30.0),
        cmd.Tune("tpm", 1000.0, "lab"),
        cmd.Tune("retry.max_attempts", 2.0),
    )
    standing = one.standing(11.0)
    assert cmd.BoostAgent("erin", 50.0) in standing
    assert not any(getattr(each, "agent", "") == "carol" for each in standing)
    for command in standing:
        other.expect(11.0, command)
        other.apply(11.0, command, "test")
    assert other.standing(11.0) == standing
    assert other.config.retry.max_attempts == 2
    lane = other.open_lane(12.0, "lab:all", LANE)
    assert (lane.config.rpm, lane.config.tpm) == (30, 1000)


def test_nothing_decided() -> None:
    """A scheduler in which nothing was decided names nothing, whatever agents it knows."""
    one = scheduler()
    apply(one, cmd.PauseAgent("alice", True), cmd.PauseAgent("alice", False))
    assert one.standing(2.0) == []
