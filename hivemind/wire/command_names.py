"""Names and notes in operators' commands, made fit to be shown."""

from __future__ import annotations

from collections.abc import Callable

from hivemind.agent_names import BadName, KnownNames, normalised
from hivemind.records import replace
from hivemind.redaction.text import redact
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.types import TaskSpec

NOTE_LENGTH = cmd.NOTE_MOST
"""Most characters of a note, about a task's end too."""


def fit_to_show(command: cmd.Command) -> cmd.Command:
    """Return the command with its note as one line without secrets, whoever wrote it. That about a task's end is cut,
    as programs write it; another one that is too long is refused by the scheduler."""
    if isinstance(command, cmd.AddNote):
        return replace(command, text=_line(command.text))
    if not isinstance(command, cmd.FinishTask) or not command.note:
        return command
    line = _line(command.note)
    return replace(command, note=line if len(line) <= NOTE_LENGTH else line[: NOTE_LENGTH - 1] + "…")


def _line(text: str) -> str:
    line = " ".join(redact(text[: 10 * NOTE_LENGTH]).split())
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def spelled(command: cmd.Command, names: KnownNames, known: Callable[[str], bool]) -> cmd.Command:
    """Return the command with each agent's known spelling; names for which `known` is true are in use, perhaps since an
    earlier version, and stay as they are.

    Raises: Rejected: a new name can't be an agent's or a task's.
    """

    def agent(name: str) -> str:
        if not name or known(name):
            return name
        try:
            found = names.find(name) or names.find(normalised(name))
            return found or (names.spelled(normalised(name)) if introduces else name)
        except BadName as error:
            if introduces:
                raise cmd.Conflict(str(error), bad_input=True) from None
            return name  # the scheduler rejects it as unknown

    introduces = isinstance(command, cmd.SetBudget | cmd.BeginAgent | cmd.SubmitTasks)
    match command:
        case cmd.BeginAgent():
            return replace(command, agent=agent(command.agent), parent=command.parent and agent(command.parent))
        case cmd.SubmitTasks():
            for spec in command.tasks:
                _check(spec.id, known)
                _check(spec.batch, known)
            return replace(command, tasks=tuple(_with_agent(spec, agent) for spec in command.tasks))
        case cmd.SetBudget(agent=None):
            return command
        case (
            cmd.SetPriority()
            | cmd.PauseAgent()
            | cmd.BoostAgent()
            | cmd.StopAgent()
            | cmd.CutRequest()
            | cmd.EndAgent()
        ):
            return replace(command, agent=agent(command.agent))
        case cmd.SetBudget(agent=str()):
            return replace(command, agent=agent(command.agent or ""))
    return command


def _with_agent(spec: TaskSpec, agent: Callable[[str], str]) -> TaskSpec:
    """Return the spec with its agent's known spelling; the task's id where it names no agent."""
    name = agent(spec.agent or spec.id)
    return spec if name == (spec.agent or spec.id) else replace(spec, agent=name)


def _check(name: str, known: Callable[[str], bool]) -> None:
    """Check a name for a task or batch. Raises: Rejected."""
    if name and not known(name):
        try:
            normalised(name)
        except BadName as error:
            raise cmd.Conflict(str(error), bad_input=True) from None
