"""Resuming an agent: what prevents it from continuing, and its task."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass

from hivemind.agents.run import TOLD_WITHIN_S, RunOutcome, exit_text
from hivemind.agents.session import Session
from hivemind.api_types import AgentBudget, BudgetsPart
from hivemind.control.client import ControlError
from hivemind.scheduler.commands import ClaimTask, FinishTask, Rejected, RetryTask
from hivemind.scheduler.events import BudgetState
from hivemind.store.checkpoints import Checkpoint
from hivemind.text.amounts import how_used, owner, raise_command
from hivemind.world.snapshot import AgentView, Snapshot


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """An agent as the running proxy knows it."""

    known: bool
    view: AgentView | None
    """None: it was seen in an earlier run of the proxy only, or never."""
    used_up: BudgetState | None
    """An exhausted budget that covers the agent."""

    @property
    def held(self) -> bool:
        """Whether it is paused or stopped, or that isn't known."""
        return self.known and (self.view is None or self.view.paused or self.view.stopped)

    @property
    def only_paused(self) -> bool:
        """Whether it was paused and not stopped, so that it continues by itself."""
        return self.view is not None and self.view.paused and not self.view.stopped

    @property
    def runs(self) -> bool:
        """Whether the process that a runner started is running."""
        return self.view is not None and self.view.running is True

    def is_past(self, checkpoint: Checkpoint) -> bool:
        """Whether the agent ran again since the checkpoint, and succeeded."""
        view = self.view
        ended_well = view is not None and view.running is False and view.exit_code == 0
        return ended_well and checkpoint.exit_code != 0 and not self.held


UNKNOWN = AgentStatus(False, None, None)


def standing(agent: str, world: Snapshot, books: BudgetsPart) -> AgentStatus:
    """Return the status of an agent in a proxy's responses."""
    view = next((each for each in world.agents if each.name == agent), None)
    known = view is not None or any(each.agent == agent for each in books.agents)
    return AgentStatus(known, view, used_up(agent, books))


def used_up(agent: str, books: BudgetsPart) -> BudgetState | None:
    """Return the first exhausted budget: its own, an ancestor's that covers it, or the pool."""
    by_name = {each.agent: each for each in books.agents}
    found: AgentBudget | None = by_name.pop(agent, None)
    states = [] if found is None else [found.budget]
    while found is not None:
        found = by_name.pop(found.parent, None) if found.parent else None
        if found is not None and found.budget is not None and found.budget.covers == "subtree":
            states.append(found.budget)
    states.append(books.pool.budget)
    return next((state for state in states if state is not None and state.share >= 1), None)


def how_to_raise(agent: str, state: BudgetState) -> str:
    """Return one line that says how an agent without budget goes on."""
    used = f"{owner(state)} is used up ({how_used(state)})"
    return f"{used}; raise it with `{raise_command(state)}`, then resume {agent} again"


_WHO = "resume"


@dataclass
class Taken:
    """The outcome of the task, to be set by the caller."""

    outcome: RunOutcome | None = None
    """How the command ended; None: it wasn't started."""


@contextlib.asynccontextmanager
async def taken_on(session: Session, task: str | None) -> AsyncIterator[Taken]:
    """Claim the task of an agent that is resumed while its command runs, and report how that ended.

    For a task that failed or was stopped this is another attempt: no other runner starts it meanwhile, and its
    dependents continue once it is done. Any other task isn't changed.

    Raises: Rejected: another runner has started it, or it couldn't succeed; ControlError.
    """
    found = (await session.ask(lambda client: client.tasks())).tasks if task is not None else ()
    state = next((each for each in found if each.spec.id == task), None)
    if state is None or state.state not in ("failed", "ready"):
        yield Taken()
        return
    name = state.spec.id
    if state.state == "failed":
        await session.order(RetryTask(name), _WHO)
    await session.order(ClaimTask(name, f"resume-{os.getpid()}-{secrets.token_hex(4)}"), _WHO)
    taken = Taken()
    try:
        yield taken
    finally:
        end = FinishTask(name, False, state.note, again=state.state == "ready")
        if taken.outcome is not None:
            code = taken.outcome.exit_code
            end = FinishTask(name, code == 0, exit_text(code) if code else "")
        with contextlib.suppress(Rejected, ControlError):  # another client has ended it, or the proxy is gone
            await session.order(end, _WHO, within_s=TOLD_WITHIN_S)
