"""Budgets: how much an agent, an agent with all it started, or all agents together may use (paper, Token Budget
Management).

What flies counts by estimate until it has ended and its real usage is known. While that might use up the rest, nothing
more is let go, so a budget is overshot by no more than what was in flight when it ran out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hivemind.scheduler.events import BudgetState, BudgetWarned, PriceUnknown
from hivemind.scheduler.ledger.accounts import Account, Spent
from hivemind.scheduler.ticket import Agent, Refusal, Ticket
from hivemind.scheduler.types import Price, Usage

if TYPE_CHECKING:
    from hivemind.scheduler.scheduler import Scheduler

WARN_SHARE = 0.85


def spent(agent: Agent) -> Refusal | None:
    """Why nothing of the agent's need wait any longer: a budget of its is used up."""
    for account in agent.limits:
        if account.shut and account.exhausted:
            return Refusal("budget", None, 403, account.state())
    return None


def unknown_price(scheduler: Scheduler, ticket: Ticket) -> Refusal | None:
    """Why a model without a known price isn't asked on a budget in dollars, where the settings have it so."""
    if scheduler.config.budget.unpriced == "count" or scheduler.price is None:
        return None
    model = ticket.request.model
    for account in ticket.agent.limits:
        if account.budget.dollars is not None and scheduler.price(ticket.lane.config.provider, model, Usage()) is None:
            return Refusal("price_unknown", None, 403, account.state(), model)
    return None


def warning_of(agent: Agent) -> BudgetState | None:
    """The budget of which most is used, where that is so much that its agent should know."""
    most = max((account.state() for account in agent.limits), key=lambda state: state.share, default=None)
    return most if most is not None and most.share >= WARN_SHARE else None


def hold(scheduler: Scheduler, agent: Agent) -> bool:
    """Leave the agent out of the order, or put it back, as it has to be now. Returns whether that changed."""
    held = agent.on_hold or agent.gate != "open" or agent.out_of_budget
    if held is agent.held:
        return False
    agent.held = held
    for lane in scheduler.lanes.values():
        lane.queue.pause(agent.name, held)
    return True


# --- A ticket's way through the books ---------------------------------------------------------------------------------


def has_room(scheduler: Scheduler, ticket: Ticket) -> bool:
    """Whether a ticket whose turn it is fits into what its agent's budgets have left; if not, its agent is held until
    something that flies has ended."""
    agent = ticket.agent
    tokens, dollars = ticket.estimated_input + ticket.estimated_output, _estimate(scheduler, ticket)
    for account in agent.limits:
        if not account.has_room(tokens, dollars):
            account.short[agent.name] = agent
            hold(scheduler, agent)
            return False
    return True


def reserve(scheduler: Scheduler, ticket: Ticket) -> None:
    """The ticket flies: set aside what it will likely use."""
    agent = ticket.agent
    tokens = ticket.reserved_tokens = ticket.estimated_input + ticket.estimated_output
    dollars = ticket.reserved_dollars = _estimate(scheduler, ticket)
    for account in agent.accounts:
        account.flying += 1
        account.reserved_tokens += tokens
        account.reserved_dollars += dollars
    for account in agent.limits:
        if account.full:
            _set_shut(scheduler, account, True)


def settle(scheduler: Scheduler, ticket: Ticket, usage: Usage | None, now: float) -> None:
    """The attempt has ended: what was set aside is free, what was really used is charged."""
    agent = ticket.agent
    tokens, dollars = ticket.reserved_tokens, ticket.reserved_dollars
    for account in agent.accounts:
        account.flying -= 1
        account.reserved_tokens -= tokens
        account.reserved_dollars -= dollars
    ticket.reserved_tokens, ticket.reserved_dollars, ticket.so_far = 0, 0.0, None
    if usage is not None:
        charge(scheduler, agent, ticket.lane.config.provider, ticket.request.model, usage, now)
    scheduler.unsaved.add(agent.name)


def charge(scheduler: Scheduler, agent: Agent, provider: str, model: str, usage: Usage, now: float) -> None:
    """Write down what was used."""
    if scheduler.price is None:
        scheduler.unpriced.append((agent.name, provider, model, usage))
        _add(agent, Spent(usage.total))
        return
    amount = _priced(scheduler.price, provider, model, usage)
    _add(agent, amount)
    if amount.unpriced and model not in agent.unpriced_models:
        agent.unpriced_models.add(model)
        if any(account.budget.dollars is not None for account in agent.limits):
            scheduler.events.append(PriceUnknown(now, agent.name, model))


def cost(scheduler: Scheduler, ticket: Ticket, usage: Usage) -> Spent:
    """What a usage of the ticket's comes to; in tokens alone while there are no prices."""
    if scheduler.price is None:
        return Spent(usage.total)
    return _priced(scheduler.price, ticket.lane.config.provider, ticket.request.model, usage)


def _priced(price: Price, provider: str, model: str, usage: Usage) -> Spent:
    tokens, dollars = usage.total, price(provider, model, usage)
    return Spent(tokens, 0.0, tokens) if dollars is None else Spent(tokens, dollars)


def price_by(scheduler: Scheduler, price: Price, now: float) -> None:
    """Prices are known from now on, for what was used before too."""
    scheduler.price = price
    waiting, scheduler.unpriced = scheduler.unpriced, []
    for name, provider, model, usage in waiting:
        agent = scheduler.agents.get(name)
        if agent is not None:
            _add(agent, _priced(price, provider, model, usage).minus(Spent(usage.total)))
            scheduler.unsaved.add(name)
    for agent in list(scheduler.agents.values()):
        if agent.limits:
            weigh(scheduler, agent, now)


def _add(agent: Agent, amount: Spent) -> None:
    for account in agent.accounts:
        ever = account.ever
        ever.tokens += amount.tokens
        ever.dollars += amount.dollars
        ever.unpriced += amount.unpriced


def _estimate(scheduler: Scheduler, ticket: Ticket) -> float:
    """In dollars; asked for only where somebody counts them."""
    limits = ticket.agent.limits
    if not limits or scheduler.price is None or all(account.budget.dollars is None for account in limits):
        return 0.0
    usage = Usage(input_tokens=ticket.estimated_input, output_tokens=ticket.estimated_output)
    return scheduler.price(ticket.lane.config.provider, ticket.request.model, usage) or 0.0


# --- What follows from it ---------------------------------------------------------------------------------------------


def weigh(scheduler: Scheduler, agent: Agent, now: float) -> None:
    """See what the agent's budgets come to, after one of them or what was used has changed."""
    for account in agent.limits:
        _review(scheduler, account, agent, now)


def _review(scheduler: Scheduler, account: Account, agent: Agent, now: float) -> None:
    warning = _warning(account, agent, now)
    if warning is not None:
        scheduler.events.append(warning)
    released = list(account.short.values())
    account.short.clear()
    if _set_shut(scheduler, account, account.full):
        released = list(account.members.values())
    if account.shut and account.exhausted:
        refusal = Refusal("budget", None, 403, account.state())
        for member in list(account.members.values()):
            scheduler.turn_away(member, refusal, now)
    for member in released:
        hold(scheduler, member)
    _let_go(scheduler, released, now)


def _set_shut(scheduler: Scheduler, account: Account, shut: bool) -> bool:
    """Returns whether that changed."""
    if shut is account.shut:
        return False
    account.shut = shut
    for member in account.members.values():
        hold(scheduler, member)
    return True


def _let_go(scheduler: Scheduler, agents: Iterable[Agent], now: float) -> None:
    for agent in agents:
        if not agent.held and agent.tickets:
            scheduler.let_go(agent, now)


def _warning(account: Account, agent: Agent, now: float) -> BudgetWarned | None:
    """The mark that was crossed since this was asked last, the higher where both were; each is told once a budget."""
    if not account.budget:
        return None
    share = account.state().share
    mark = 2 if account.exhausted else 1 if share >= WARN_SHARE else 0
    if mark <= account.warned:
        return None
    account.warned = mark
    return BudgetWarned(now, account.owner or agent.name, account.state(), exhausted=mark == 2)


def relimit(scheduler: Scheduler, account: Account, now: float) -> None:
    """The account has another budget, or none, or counts from another moment."""
    account.warned = 0
    account.members.clear()
    account.short.clear()
    account.shut = bool(account.budget) and account.full
    touched = _charged(scheduler, account)
    for agent in touched:
        if account.budget:
            account.members[agent.name] = agent
        agent.limits = tuple(each for each in agent.accounts if each.budget)
        hold(scheduler, agent)
    if account.budget and touched:
        owner = scheduler.agents.get(account.owner or "", touched[0])
        _review(scheduler, account, owner, now)
    _let_go(scheduler, touched, now)


def _charged(scheduler: Scheduler, account: Account) -> list[Agent]:
    """Agents at hand whose requests the account is charged with."""
    agents, name = scheduler.agents, account.owner
    owner = None if name is None else agents.get(name) or agents.past.get(name)
    if owner is None or owner.has_children:
        return [agent for agent in agents.values() if account in agent.accounts]
    return [owner] if owner.name in agents else []
