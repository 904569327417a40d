"""What keeps an agent from going on, and what letting it go on takes. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from hivemind.api_types import AgentBudget, BudgetsPart
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
