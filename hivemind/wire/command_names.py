"""What commands say and what is shown of it: names that they give to agents and tasks, and notes for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from hivemind.agent_names import BadName, KnownNames, normalised
from hivemind.redaction.text import redact
from hivemind.scheduler.commands import (
    BeginAgent,
    BoostAgent,
    Command,
    EndAgent,
    FinishTask,
    PauseAgent,
    Rejected,
    SetBudget,
    SetPriority,
    StopAgent,
    SubmitTasks,
)
from hivemind.scheduler.types import TaskSpec

NOTE_LENGTH = 200
"""Of what is said about a task's end, at most."""


def fit_to_show(command: Command) -> Command:
    """The command, its note one line of bounded length without secrets: it is of a program's making."""
    if not isinstance(command, FinishTask) or not command.note:
        return command
    note = " ".join(redact(command.note[: 10 * NOTE_LENGTH]).split())
    note = "".join(letter if letter.isprintable() else "?" for letter in note)
    return replace(command, note=note if len(note) <= NOTE_LENGTH else note[: NOTE_LENGTH - 1] + "…")


def spelled(command: Command, names: KnownNames, known: Callable[[str], bool]) -> Command:
    """The command, each agent called as it is known; `known` tells of names that somebody goes by already, which may be
    of an earlier version and stay as they are.

    Raises: Rejected: a new name can't be an agent's, or a task's.
    """

    def agent(name: str) -> str:
        if not name or known(name):
            return name
        try:
            found = names.find(name) or names.find(normalised(name))
            if found is not None:
                return found
            return names.spelled(normalised(name)) if introduces else name
        except BadName as error:
            if introduces:
                raise Rejected(str(error)) from None
            return name  # it is nobody's, which the scheduler says

    introduces = isinstance(command, SetBudget | BeginAgent | SubmitTasks)
    match command:
        case BeginAgent():
            return replace(command, agent=agent(command.agent), parent=command.parent and agent(command.parent))
        case SubmitTasks():
            for name in _of_tasks(command):
                _check(name, known)
            return replace(command, tasks=tuple(_with_agent(spec, agent) for spec in command.tasks))
        case SetBudget(agent=None):
            return command
        case SetPriority() | PauseAgent() | BoostAgent() | StopAgent() | EndAgent() | SetBudget(agent=str()):
            return replace(command, agent=agent(command.agent or ""))
    return command


def _with_agent(spec: TaskSpec, agent: Callable[[str], str]) -> TaskSpec:
    """A task's agent is called as the task where that isn't said."""
    name = agent(spec.agent or spec.id)
    return spec if name == (spec.agent or spec.id) else replace(spec, agent=name)


def _of_tasks(command: SubmitTasks) -> Iterator[str]:
    for spec in command.tasks:
        yield from (spec.id, spec.batch)


def _check(name: str, known: Callable[[str], bool]) -> None:
    """Raises: Rejected: no task or batch can be called so."""
    if name and not known(name):
        try:
            normalised(name)
        except BadName as error:
            raise Rejected(str(error)) from None
