"""What commands say and what is shown of it: names that they give to agents and tasks, and notes for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from hivemind.redaction.text import redact
from hivemind.scheduler.commands import BeginAgent, Command, FinishTask, Rejected, SetBudget, SubmitTasks

from .identity import BadIdentity, checked_name

NOTE_LENGTH = 200
"""Of what is said about a task's end, at most."""


def fit_to_show(command: Command) -> Command:
    """The command, its note one line of bounded length without secrets: it is of a program's making."""
    if not isinstance(command, FinishTask) or not command.note:
        return command
    note = " ".join(redact(command.note[: 10 * NOTE_LENGTH]).split())
    note = "".join(letter if letter.isprintable() else "?" for letter in note)
    return replace(command, note=note if len(note) <= NOTE_LENGTH else note[: NOTE_LENGTH - 1] + "…")


def check_names(command: Command, known: Callable[[str], bool]) -> None:
    """Look at names that nobody has so far.

    Raises: Rejected: one of them can't be an agent's.
    """
    for name in _given(command):
        if name and not known(name):
            try:
                checked_name(name)
            except BadIdentity as error:
                raise Rejected(str(error)) from None


def _given(command: Command) -> Iterator[str | None]:
    match command:
        case SetBudget():
            yield command.agent
        case BeginAgent():
            yield from (command.agent, command.parent)
        case SubmitTasks():
            for spec in command.tasks:
                yield spec.agent
                yield spec.id
                yield spec.batch
