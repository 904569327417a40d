"""Names that commands give to agents and tasks: they are shown, so they must be fit for that."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hivemind.scheduler.commands import BeginAgent, Command, Rejected, SetBudget, SubmitTasks

from .identity import BadIdentity, checked_name


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
