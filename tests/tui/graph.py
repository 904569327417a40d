"""A made-up world of processes: agents that started others, a task graph, a budget for all."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tui.worlds import world

from hivemind.records import replace
from hivemind.scheduler.events import BudgetState
from hivemind.scheduler.types import Priority
from hivemind.world.snapshot import AgentView, Snapshot, TaskView

PARENTS = {"bob": "alice", "carol": "alice", "dave": "carol", "heidi": "grace"}
PROCESSES: dict[str, dict[str, Any]] = {
    "alice": {"running": True, "task": "nightly.review"},
    "bob": {"running": False, "exit_code": 1},
    "erin": {"running": False, "exit_code": -9},
    "ivan": {"running": False, "exit_code": None},
    "judy": {"running": False, "exit_code": 0},
}
POOL = BudgetState(None, None, 20.0, "day", "all", 9_100_000, 17.6, 0)
_AFTER = {
    "lint": (),
    "build": (),
    "unit": ("build",),
    "types": ("build",),
    "docs": ("lint",),
    "e2e": ("unit", "types"),
    "review": ("unit",),
    "bench": ("e2e",),
    "package": ("e2e", "docs", "types"),
    "publish": ("package", "review"),
    "announce": ("publish",),
    "sweep": (),
    "triage": (),
}
_STATES = {
    "lint": "done",
    "build": "done",
    "unit": "done",
    "types": "failed",
    "docs": "running",
    "e2e": "blocked",
    "review": "running",
    "bench": "skipped",
    "package": "blocked",
    "sweep": "ready",
    "triage": "cancelled",
}


def processes(agents: int = 11) -> Snapshot:
    """Families, ends of processes, tasks in every state, and a pool that runs low."""
    full = world(agents=agents)
    crew = tuple(_member(agent) for agent in full.agents)
    tasks = tuple(_task(number, name) for number, name in enumerate(_AFTER))
    return replace(full, agents=crew, pool=POOL, tasks=tasks, task_counts=dict(Counter(task.state for task in tasks)))


def _member(agent: AgentView) -> AgentView:
    about = PROCESSES.get(agent.name, {})
    return replace(agent, parent=PARENTS.get(agent.name), **about)


def _task(number: int, name: str) -> TaskView:
    state = _STATES.get(name, "waiting")
    begun = state in ("done", "failed", "running")
    own = Priority.LOW if name == "sweep" else Priority.NORMAL
    return TaskView(
        id=f"nightly.{name}",
        batch="nightly",
        agent="alice" if name == "review" else f"nightly.{name}",
        state=state,
        priority=Priority.HIGH if name in ("docs", "review", "package", "publish") else own,
        own_priority=Priority.HIGH if name == "publish" else own,
        estimated_tokens=0 if name == "sweep" else 20_000 * (1 + number % 4),
        after=tuple(f"nightly.{each}" for each in _AFTER[name]),
        attempt=2 if name in ("types", "review") else int(begun),
        note={"failed": "exit code 1", "blocked": "nightly.types is failed", "skipped": "nightly.e2e is blocked"}.get(
            state, ""
        ),
        since_s=40.0 + 9 * number,
        ran_s=61.0 + 17 * number if begun else 0.0,
        tokens=18_400 + 7_300 * number if begun else 0,
        dollars=round(0.06 + 0.031 * number, 4) if begun else 0.0,
    )
