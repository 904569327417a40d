"""What a restart must know, as plain records: usage, budgets and decisions of each agent, and the tasks.

Each record is whole and replaces the one before it, so that nothing is counted twice however often it is written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import islice

from msgspec import Struct, field

from hivemind.records import replace
from hivemind.scheduler.accounts import NOTHING, POOL, Account, Budget, Spent, Unpriced
from hivemind.scheduler.dispatcher import Dispatcher
from hivemind.scheduler.events import AgentRecalled, BudgetWarned
from hivemind.scheduler.tasks import SavedTask
from hivemind.scheduler.ticket import Agent
from hivemind.scheduler.types import Priority
from hivemind.scheduler.work import Work


class AccountCounts(Struct, frozen=True, omit_defaults=True):
    """The counts of one account."""

    ever: Spent = field(default_factory=Spent)
    at_day: Spent = field(default_factory=Spent)
    at_run: Spent = field(default_factory=Spent)  # what `ever` was when the day, and the run, began
    in_flight: Spent | None = None
    """Known use of requests in flight, as earlier versions wrote it; it counts as used."""
    at_month: Spent | None = None  # likewise when the month began; None: an earlier version's, taken for the day's


class SavedAgent(Struct, frozen=True):
    """An agent, or the pool."""

    name: str
    parent: str | None
    priority: Priority | None  # as the operator decided
    paused: bool
    stopped: bool
    budget: Budget | None  # None: undecided, so the settings hold
    own: AccountCounts
    tree: AccountCounts
    """With all that it started; runs began for the subtree when they did for this agent, so it isn't a mere sum."""
    unpriced: tuple[Unpriced, ...] = ()
    """What it used, requests in flight included, before prices were known: their tokens are counted above, without
    dollars."""

    @property
    def decided(self) -> bool:
        """Whether a decision about it must not be forgotten."""
        return self.priority is not None or self.paused or self.stopped or self.budget is not None


class Unsaved(Struct, frozen=True):
    """What changed since the last call."""

    agents: dict[str, SavedAgent] = field(default_factory=dict)
    seen: dict[str, float] = field(default_factory=dict)
    """When the agents were seen last, by the scheduler's clock; without those that weren't since it began."""
    tasks: dict[str, SavedTask | None] = field(default_factory=dict)  # None: it is forgotten
    forgotten: frozenset[str] = frozenset()
    """Agents that aren't remembered any more. One that is among :attr:`agents` too has come again, with new counts."""

    works: dict[str, Work | None] = field(default_factory=dict)
    """Work that goes on after the reply that began it, by id; None: it is forgotten."""
    in_flight: dict[str, Spent | None] = field(default_factory=dict)
    """Known use of an agent's requests in flight, which counts as used if no later record is written; None: nothing."""

    def __bool__(self) -> bool:
        return bool(self.agents or self.tasks or self.forgotten or self.works or self.in_flight)


def take_unsaved(dispatcher: Dispatcher, most: int | None = None) -> Unsaved:
    """Return what has to be saved now, and count it as saved; of `most` agents, and those that started them."""
    agents, ledger, board = dispatcher.agents, dispatcher.ledger, dispatcher.tasks
    taken = set(islice(ledger.unsaved, most))
    ledger.unsaved -= taken
    used = taken | set(islice(ledger.unsaved_use, most and most - len(taken)))
    ledger.unsaved_use -= used
    in_flight = {name: None if (agent := agents.find(name)) is None else ledger.use_in_flight(agent) for name in used}
    names = set(taken)
    for name in taken:
        agent = agents.find(name)
        while agent is not None and (agent := agent.parent) is not None and agent.name not in names:
            names.add(agent.name)  # its subtree's account has changed too
    changed = [agent for name in names if (agent := agents.find(name)) is not None]
    saved = {agent.name: _saved(agent) for agent in changed}
    if names:
        decided = ledger.pool.budget if ledger.pool_budgeted else None
        counts = _counts(ledger.pool)
        saved[POOL] = SavedAgent(POOL, None, None, False, False, decided, counts, AccountCounts())
    tasks = {name: None if task is None else task.saved() for name, task in board.unsaved.items()}
    seen = {agent.name: agent.last_seen for agent in changed if agent.last_seen > -math.inf}
    forgotten = frozenset(agents.forgotten)
    board.unsaved, agents.forgotten = {}, set()
    return Unsaved(saved, seen, tasks, forgotten, in_flight=in_flight)


def restore(
    dispatcher: Dispatcher,
    agents: Iterable[SavedAgent],
    tasks: Iterable[SavedTask],
    in_flight: Mapping[str, Spent],
    now: float,
    *,
    new_run: bool,
) -> None:
    """Go on from what was saved, the agents that were seen longest ago first; to be called before the first request.

    `new_run`: the last run had come to its end. What was `in_flight` when the last record was written, by agent, counts
    as used, and is to be saved as such at once.
    """
    ledger, events = dispatcher.ledger, dispatcher.events
    dispatcher.tasks.restore(tasks, now)
    dispatcher.tasks_moved([*dispatcher.tasks.values()], now)
    found = {saved.name: saved for saved in agents}
    pool = found.pop(POOL, None)
    for saved in found.values():
        _bring_back(dispatcher, saved, now)
    _reunite(dispatcher, found, now)
    # By now every agent has been charged for its descendants, but some of those may be forgotten.
    for saved in found.values():
        agent = dispatcher.agents.find(saved.name)
        if agent is not None:
            _set(agent.own, saved.own)
            _set(agent.tree, saved.tree)
    if pool is not None:
        _set(ledger.pool, pool.own)
        if pool.budget is not None:
            ledger.pool.budget = pool.budget
            ledger.pool_budgeted = True
    for name, used in in_flight.items():
        if (agent := dispatcher.agents.find(name)) is not None:
            for account in agent.accounts:
                account.ever = account.ever.plus(used)
    ledger.unsaved = {name for name, saved in found.items() if saved.tree.in_flight is not None} | in_flight.keys()
    for saved in found.values():
        if saved.unpriced and (agent := dispatcher.agents.find(saved.name)) is not None:
            ledger.recall(agent, saved.unpriced)
    if new_run:
        dispatcher.carry_out(ledger.begin("run", now), now)
    # Warnings so far were of counts that weren't complete yet.
    events[:] = [event for event in events if not isinstance(event, BudgetWarned)]
    dispatcher.carry_out(ledger.relimit([account for account in ledger.accounts() if account.budget], now), now)
    for agent in dispatcher.agents.values():
        parent = None if agent.parent is None else agent.parent.name
        events.append(AgentRecalled(now, agent.name, parent, agent.priority, agent.paused, agent.stopped))


def _bring_back(dispatcher: Dispatcher, saved: SavedAgent, now: float) -> None:
    agent = Agent(saved.name, -math.inf, saved.priority, paused=saved.paused, stopped=saved.stopped)
    _set(agent.own, saved.own)
    _set(agent.tree, saved.own)
    if saved.budget is not None:
        agent.budgeted = True
        account = agent.own if saved.budget.covers == "agent" else agent.tree
        account.budget = saved.budget
    dispatcher.agents.past[saved.name] = agent
    if not agent.ordinary:
        dispatcher.meet(saved.name, now)
    else:
        dispatcher.ledger.join(agent)


def _reunite(dispatcher: Dispatcher, found: dict[str, SavedAgent], now: float) -> None:
    """Give agents their parents: oldest generation first, so that descendants needn't be searched for."""
    done: set[str] = set()
    for name in found:
        line = []
        each = found.get(name)
        while each is not None and each.name not in done:
            done.add(each.name)
            line.append(each)
            each = found.get(each.parent or POOL)
        for saved in reversed(line):
            agent, parent = dispatcher.agents.find(saved.name), dispatcher.agents.find(saved.parent or POOL)
            if agent is not None and parent is not None:
                dispatcher.adopt(agent, parent, now)


def _set(account: Account, counts: AccountCounts) -> None:
    account.ever = counts.ever.plus(counts.in_flight or NOTHING)
    account.at_day, account.at_run = counts.at_day, counts.at_run
    account.at_month = counts.at_day if counts.at_month is None else counts.at_month


def _saved(agent: Agent) -> SavedAgent:
    return SavedAgent(
        agent.name,
        None if agent.parent is None else agent.parent.name,
        agent.priority,
        agent.paused,
        agent.stopped,
        agent.budget if agent.budgeted else None,
        _counts(agent.own),
        _counts(agent.tree),
    )


def _counts(account: Account) -> AccountCounts:
    return AccountCounts(replace(account.ever), account.at_day, account.at_run, at_month=account.at_month)
