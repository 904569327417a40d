"""The task of an agent that is resumed: taken on again for as long as its command runs, and told how that ended."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass

from hivemind.agents.run import TOLD_WITHIN_S, RunOutcome
from hivemind.agents.session import Ask, Session
from hivemind.control.client import ControlError
from hivemind.scheduler.commands import ClaimTask, Command, FinishTask, Rejected, RetryTask

_WHO = "resume"


@dataclass
class Taken:
    """What becomes of the task."""

    outcome: RunOutcome | None = None
    """How the command ended; None: it wasn't started."""


@contextlib.asynccontextmanager
async def taken_on(session: Session, task: str | None) -> AsyncIterator[Taken]:
    """Of a task that failed, or was stopped, this is another attempt; then nobody else runs it meanwhile, and whatever
    waits for it goes on once it is done. Of any other, as of none, nothing is told.

    Raises: Rejected: somebody else has begun it, or it couldn't succeed; NoAnswer.
    """
    found = await session.ask(lambda client: client.tasks()) if task is not None else None
    state = next((each for each in found.tasks if each.spec.id == task), None) if found is not None else None
    if state is None or state.state not in ("failed", "ready"):
        yield Taken()
        return
    name, note = state.spec.id, state.note
    if state.state == "failed":
        await session.ask(_ordering(RetryTask(name)))
    await session.ask(_ordering(ClaimTask(name, f"resume-{os.getpid()}-{secrets.token_hex(4)}")))
    taken = Taken()
    try:
        yield taken
    finally:
        end = FinishTask(name, False, note, again=state.state == "ready")
        if taken.outcome is not None:
            end = FinishTask(name, taken.outcome.exit_code == 0, _ending(taken.outcome.exit_code))
        with contextlib.suppress(Rejected, ControlError):  # somebody else has ended it, or nobody is there to be told
            await session.patiently(_ordering(end), within_s=TOLD_WITHIN_S)


def _ordering(command: Command) -> Ask[object]:
    return lambda client: client.command(command, _WHO)


def _ending(code: int) -> str:
    if not code:
        return ""
    return f"exit code {code}" if code > 0 else f"killed by signal {-code}"
