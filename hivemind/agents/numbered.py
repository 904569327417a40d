"""Several agents of one command: a plan whose tasks are the agents, their output with names, and one exit code.

The plan is made in memory, and its tasks leave the graph when the runner ends. So their attempts, logs, restarts and
their adoption after a killed runner are those of a batch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hivemind.agents.plans.plan import Plan, PlannedTask
from hivemind.agents.plans.values import WantedDeadline, is_name
from hivemind.agents.progress import TaskRow
from hivemind.agents.run import AgentCommand
from hivemind.console import printable
from hivemind.errors import UsageError
from hivemind.scheduler.types import Priority

RESTART_DELAY_S = 1.0
"""The pause before one that crashed is started again."""
_PIECE = 1 << 16
"""Bytes read from a log at once; a longer line is written in parts."""
_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[@-Z\\-_])")
"""Sequences that a terminal takes for commands (ECMA-48)."""


def names_of(name: str, count: int) -> list[str]:
    """Return the agents' names. Raises: UsageError: they can't be tasks' names."""
    names = [f"{name}-{number}" for number in range(1, count + 1)]
    if not is_name(f"{name}.{names[-1]}"):
        raise UsageError(f"--name {name}: with --count it must be letters, digits, . _ and -, up to about 35 of them")
    return names


def plan_of(job: AgentCommand, name: str, count: int, restarts: int, *, require_traffic: bool = False) -> Plan:
    """Return the plan of `count` agents of one command, as children of an agent `name`. Raises: UsageError."""
    tasks = {}
    for agent in names_of(name, count):
        task = tasks[agent] = PlannedTask(command=list(job.command))  # type: ignore[arg-type]  # it validates a list
        task.name, task.agent, task.cwd = agent, agent, job.cwd
        task.priority, task.budget = job.priority or Priority.NORMAL, job.budget
        task.deadline = None if job.deadline is None else WantedDeadline("", job.deadline, 0.0)
        task.restarts, task.restart_delay, task.require_traffic = restarts, RESTART_DELAY_S, require_traffic
        task.start_in(job.worktree)
    return Plan(name, "hivemind run", str(job.cwd / "hivemind run"), {}, None, None, tasks)


def exit_code(rows: Iterable[TaskRow]) -> int:
    """Return 0 if all ended with 0, the exit code that all others share, else 1; 128 and more for signals."""
    codes = [1 if row.exit_code is None else row.exit_code for row in rows if row.state != "done"]
    failed = {128 - code if code < 0 else code for code in codes} - {0} or ({1} if codes else {0})
    return failed.pop() if len(failed) == 1 else 1


def shown_safely(line: str) -> str:
    """Return a line of an agent's output as text that commands no terminal."""
    return printable(_ESCAPES.sub("", line.rpartition("\r")[2] if not line.endswith("\r") else line[:-1]), " ")


@dataclass
class Output:
    """What agents append to their logs, line by line, with the agent's name in front."""

    logs: Mapping[str, Path]
    """By agent."""
    write: Callable[[str, bytes], object]
    """Takes the name and a line, without its end."""
    _ends: dict[str, int] = field(default_factory=dict)
    _rest: dict[str, bytes] = field(default_factory=dict)

    def skip(self) -> None:
        """Leave out what the logs have by now: an earlier runner has shown it."""
        for name, path in self.logs.items():
            if path.exists():
                self._ends[name] = path.stat().st_size

    def copy(self, *, last: bool = False) -> None:
        """Write the lines that were added since; `last` also one without its end."""
        for name, path in self.logs.items():
            try:
                with path.open("rb") as file:
                    file.seek(self._ends.get(name, 0))
                    while piece := file.read(_PIECE):
                        self._add(name, piece)
                    self._ends[name] = file.tell()
            except FileNotFoundError:
                continue
            if last and (rest := self._rest.pop(name, b"")):
                self.write(name, rest)

    def _add(self, name: str, piece: bytes) -> None:
        *whole, rest = (self._rest.pop(name, b"") + piece).split(b"\n")
        for line in whole:
            self.write(name, line)
        if len(rest) >= _PIECE:
            self.write(name, rest)
        elif rest:
            self._rest[name] = rest
