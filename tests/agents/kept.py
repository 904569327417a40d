"""Checkpoints for tests, made without a proxy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hivemind.scheduler.accounts import Spent
from hivemind.scheduler.events import BudgetState
from hivemind.store.checkpoints import Checkpoint, StoppedRequest, TaskPlace, checkpoint_name, folder_in, write

AT = 1_795_000_000.25
BODY = b'{"model":"m","messages":[{"role":"user","content":"hi there"}]}'
BUDGET = BudgetState("alice", 100, None, "run", "agent", 120, 0.5, 0)


def checkpoint(agent: str = "alice", at: float = AT, body: bytes | None = BODY, **changes: Any) -> Checkpoint:
    """One of an agent that used up its budget."""
    given: dict[str, Any] = {
        "parent": "boss",
        "exit_code": 1,
        "run": Spent(120, 0.5),
        "ever": Spent(1_120, 4.5, 20),
        "budgets": (BUDGET,),
        "tasks": (TaskPlace("n.lint", "running", "n", "high", 1, "", (), ("n.test",)),),
        "task": "n.lint",
        "command": ("agent", "--go"),
        "cwd": "/work",
        "request": StoppedRequest("POST", "/v1/messages", "lab", "claude-code", "anthropic", "m", at - 1),
        **changes,
    }
    length = 0 if body is None else len(body)
    name = checkpoint_name(agent, at)
    return Checkpoint(name, agent, "budget", "its budget is used up", at, conversation_bytes=length, **given)


def keep(state: Path, agent: str = "alice", at: float = AT, body: bytes | None = BODY, **changes: Any) -> Path:
    """Written in that state directory: the file."""
    made = checkpoint(agent, at, body, **changes)
    write(folder_in(state), made, body)
    return folder_in(state) / f"{made.name}.json"
