"""What keeps an agent from going on, and what letting it go on takes. Pure."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass

from hivemind.agents.run import TOLD_WITHIN_S, RunOutcome
from hivemind.agents.session import Ask, Session
from hivemind.api_types import AgentBudget, BudgetsPart
from hivemind.control.client import ControlError
from hivemind.scheduler.commands import ClaimTask, Command, FinishTask, Rejected, RetryTask
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
    """A budget of which nothing is left, and without which the agent gets no answer."""

    @property
    def held(self) -> bool:
        """Somebody paused or stopped it, as far as that is known."""
        return self.known and (self.view is None or self.view.paused or self.view.stopped)

    @property
    def only_paused(self) -> bool:
        """It was held, and never cut off, so it goes on by itself."""
        return self.view is not None and self.view.paused and not self.view.stopped

    @property
    def runs(self) -> bool:
        """The process that the runner started does."""
        return self.view is not None and self.view.running is True

    def is_past(self, checkpoint: Checkpoint) -> bool:
        """The agent ran again since that was kept, and ended well."""
        view = self.view
        ended_well = view is not None and view.running is False and view.exit_code == 0
        return ended_well and checkpoint.exit_code != 0 and not self.held


UNKNOWN = AgentStatus(False, None, None)


def standing(agent: str, world: Snapshot, books: BudgetsPart) -> AgentStatus:
    """How an agent stands, of everything that a proxy tells."""
    view = next((each for each in world.agents if each.name == agent), None)
    known = view is not None or any(each.agent == agent for each in books.agents)
    return AgentStatus(known, view, used_up(agent, books))


def used_up(agent: str, books: BudgetsPart) -> BudgetState | None:
    """The first budget of which nothing is left: its own, one that covers it too, or everybody's."""
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
