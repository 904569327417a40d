"""Records to write and to read again."""

from __future__ import annotations

from hivemind.scheduler.accounts import Budget, Spent
from hivemind.scheduler.persistence import AccountCounts, SavedAgent
from hivemind.scheduler.tasks import SavedTask
from hivemind.scheduler.types import Priority, TaskSpec
from hivemind.store.schema import SavedBatch, SavedRun

DAY_S = 86400.0


def agent(name: str = "a", tokens: int = 10, *, decided: bool = False) -> SavedAgent:
    counts = AccountCounts(ever=Spent(tokens, 0.1, 3), at_day=Spent(2), at_run=Spent(1), in_flight=Spent(4))
    return SavedAgent(
        name,
        parent=None,
        priority=Priority.LOW if decided else None,
        paused=False,
        stopped=decided,
        budget=Budget(5, 1.5, "day", "subtree") if decided else None,
        own=counts,
        tree=counts,
    )


def task(name: str, state: str = "done", *, batch: str = "", after: tuple[str, ...] = (), number: int = 1) -> SavedTask:
    spec = TaskSpec(name, Priority.HIGH, 7, after, "worker", batch, ("sh", "-c", "true"), "skip", 3)
    return SavedTask(spec, number, state, attempt=2, runner="r", note="exit code 1")


def run(number: int, name: str = "a", *, ended_at: float | None = None, started_at: float = 0.0) -> SavedRun:
    return SavedRun(number, name, ("claude", "-p", "hello"), "/tmp", "t", started_at, ended_at, -9, 5, 0.25, 1)


def batch(*agents: SavedAgent, wall: float = 0.0, day: str = "", clean: bool = False) -> SavedBatch:
    """Of agents that were seen just then."""
    return SavedBatch(
        {each.name: each for each in agents}, {each.name: wall for each in agents}, wall=wall, day=day, clean=clean
    )
