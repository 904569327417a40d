"""Budgets over several schedulers in virtual time, with the script that the store runs, lost messages and kills."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from fleet.lua import FRESH_S, State, sync_budgets
from scheduler.driving import LANE, Hands, lane_config

from hivemind.fleet.budget_member import BudgetMember, _budget
from hivemind.fleet.budgets import CHUNK_S, BudgetDecision, BudgetReply
from hivemind.records import replace
from hivemind.scheduler.accounts import Account, Budget, Spent
from hivemind.scheduler.commands import BeginAgent, EndAgent, SetBudget
from hivemind.scheduler.config import BudgetConfig, SchedulerConfig
from hivemind.scheduler.persistence import SavedAgent
from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import Request, Usage


class Proxy:
    """One proxy of the fleet, whose state outlives its process."""

    def __init__(self, fleet: Fleet, name: str, config: BudgetConfig) -> None:
        self.fleet = fleet
        self.name = name
        self.config = config
        self.starts = 0
        self.saved: dict[str, SavedAgent] = {}
        self.saved_use: dict[str, Spent] = {}
        self.start()

    def start(self, *, clean: bool = False) -> None:
        """Start on what was saved; `clean`: the last process had come to its end."""
        self.starts += 1
        self.hands = Hands(lane_config(slots=1000), config=SchedulerConfig(budget=self.config))
        self.hands.now = self.fleet.now
        scheduler = self.hands.scheduler
        scheduler.restore(self.saved.values(), (), self.saved_use, self.fleet.now, new_run=clean)
        self.sharing = scheduler.share_budgets(self.fleet.now)
        self.member = BudgetMember(self.name, f"{self.name}{self.starts}", self.name, self.config)

    def save(self) -> None:
        unsaved = self.hands.scheduler.take_unsaved()
        self.saved |= unsaved.agents
        used = self.saved_use | unsaved.in_flight
        self.saved_use = {name: spent for name, spent in used.items() if spent is not None}

    def sync(self, *, arrives: bool = True, answered: bool = True, leaving: bool = False) -> BudgetReply | None:
        """Report, and take the answer, unless one of the two is lost."""
        fleet, now = self.fleet, self.fleet.now
        self.hands.now = now
        report = self.member.report(self.sharing.report(now), "2026-11-23", leaving=leaving)
        self.hands.gather()
        if not arrives:
            return None
        reply = sync_budgets(fleet.state, report, now, f"seed{now}")
        if not answered:
            return None
        lease = self.member.take(reply, now)
        lease.lost = self.member.lost
        self.sharing.take(now, lease)
        self.hands.gather()
        return reply

    def ask(self, agent: str = "a", size: int = 400, parent: str | None = None) -> Ticket:
        self.hands.now = self.fleet.now
        request = Request(agent, LANE, "m", "m", size, 20, True, parent=parent)
        return self.hands.take(request)

    def finish(self, ticket: Ticket, tokens: int) -> None:
        self.hands.now = self.fleet.now
        self.hands.succeed(ticket, Usage(tokens - 1, 0, 0, 1))
        self.save()

    @property
    def in_flight(self) -> list[Ticket]:
        tickets = [t for agent in self.hands.scheduler.agents.values() for t in agent.tickets.values()]
        return [ticket for ticket in tickets if ticket.state is TicketState.IN_FLIGHT]

    @property
    def waiting(self) -> list[Ticket]:
        tickets = [t for agent in self.hands.scheduler.agents.values() for t in agent.tickets.values()]
        return [ticket for ticket in tickets if ticket.waiting]


class Fleet:
    """Proxies and their store."""

    def __init__(self, count: int, *configs: BudgetConfig) -> None:
        self.now = 1000.0
        self.state = State()
        given = [*configs, *[BudgetConfig()] * count][:count]
        self.proxies = [Proxy(self, f"p{number}", config) for number, config in enumerate(given)]

    def wait(self, seconds: float, *, each_s: float = 0.25) -> None:
        """Let time pass while all sync."""
        end = self.now + seconds
        while self.now < end:
            self.now += each_s
            for proxy in self.proxies:
                proxy.sync()

    def total(self, of: Callable[[Proxy], Account]) -> tuple[int, int, int]:
        """Used, reserved and in flight at all proxies together."""
        accounts = [of(proxy) for proxy in self.proxies]
        return (
            sum(account.spent.tokens for account in accounts),
            sum(account.reserved_tokens for account in accounts),
            sum(account.in_flight for account in accounts),
        )


def pool(proxy: Proxy) -> Account:
    return proxy.hands.scheduler.pool


def estimate(ticket: Ticket) -> int:
    return ticket.estimated_input + ticket.estimated_output


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 20))])
def test_together_they_use_no_more_than_one_would(seed: int) -> None:
    """Each request that is granted fits into what the whole fleet has left, requests in flight included, or is the only
    one in flight; whatever is lost, killed or cut off. In the end, nothing waits for ever."""
    random = Random(seed)
    fleet = Fleet(random.choice([2, 3, 5]))
    limit = random.choice([1_000, 5_000, 50_000])
    fleet.proxies[0].hands.apply(SetBudget(None, limit))
    fleet.wait(3.0)
    away = dict[Proxy, float]()

    def check(proxy: Proxy, before: int) -> None:
        used, reserved, in_flight = fleet.total(pool)
        if pool(proxy).in_flight > before:
            assert used + reserved <= limit or in_flight == 1, (used, reserved, limit, in_flight)

    for _ in range(300):
        proxy = random.choice(fleet.proxies)
        before = pool(proxy).in_flight
        what = random.random()
        if what < 0.35:
            proxy.ask(random.choice("ab"), random.choice([40, 400, 4_000]))
        elif what < 0.5 and proxy.in_flight:
            ticket = random.choice(proxy.in_flight)
            proxy.finish(ticket, random.randrange(2, max(3, estimate(ticket))))
        elif what < 0.9:
            if away.get(proxy, 0.0) <= fleet.now:
                proxy.sync(arrives=random.random() < 0.9, answered=random.random() < 0.9)
        elif what < 0.92:
            away[proxy] = fleet.now + random.choice([1.0, 10.0, CHUNK_S / 4])
        elif what < 0.94:
            proxy.save()
            proxy.start()
            proxy.sync()
        elif what < 0.95:
            fleet.now += random.choice([2.0, CHUNK_S / 4])
        fleet.now += random.choice([0.0, 0.05, 0.25])
        check(proxy, before)
    for _ in range(400):
        for proxy in fleet.proxies:
            for ticket in proxy.in_flight:
                proxy.finish(ticket, max(2, estimate(ticket) // 2))
        fleet.wait(0.5)
        if not any(proxy.waiting for proxy in fleet.proxies) or any(proxy.in_flight for proxy in fleet.proxies):
            continue
        assert fleet.total(pool)[0] < limit
    assert not any(proxy.waiting or proxy.in_flight for proxy in fleet.proxies)


def ready(count: int, command: SetBudget, *configs: BudgetConfig) -> Fleet:
    fleet = Fleet(count, *configs)
    fleet.proxies[0].hands.apply(command)
    fleet.wait(FRESH_S + 1.0)
    return fleet


def use_up(fleet: Fleet, agent: str = "a", *, tokens: int = 100, parent: str | None = None, rounds: int = 200) -> int:
    """Have all proxies ask until they are refused; return the tokens used."""
    refused, used = set[str](), 0
    for _ in range(rounds):
        for proxy in fleet.proxies:
            for ticket in proxy.in_flight:
                proxy.finish(ticket, tokens)
                used += tokens
            if not proxy.waiting and proxy.name not in refused:
                ticket = proxy.ask(agent if parent is None else f"{agent}-{proxy.name}", 40, parent)
                if ticket.refusal is not None:
                    assert ticket.refusal.reason == "budget"
                    refused.add(proxy.name)
        fleet.wait(0.25)
        if len(refused) == len(fleet.proxies):
            return used
    raise AssertionError("they were never refused")


@pytest.mark.parametrize("covers", ["agent", "subtree"])
def test_an_agent_of_one_name_everywhere(covers: str) -> None:
    """Its budget, set at one proxy, holds for what all have used, or also for what agents used that it started."""
    fleet = ready(3, SetBudget("a", 5_000, covers=covers))  # type: ignore[arg-type]
    used = use_up(fleet, parent="a" if covers == "subtree" else None)
    assert 5_000 <= used <= 5_300
    fleet.wait(6.0)
    for proxy in fleet.proxies:
        agent = proxy.hands.scheduler.agents["a"]
        (state,) = (account.state() for account in (agent.own, agent.tree) if account.budget)
        assert (state.tokens, state.used_tokens) == (5_000, used)
        assert state.here_tokens is not None
        assert state.here_tokens < used


def test_a_budget_is_raised_and_lifted_everywhere() -> None:
    """By any proxy; a later decision holds, wherever it was made."""
    fleet = ready(2, SetBudget("a", 1_000))
    use_up(fleet)
    first, second = fleet.proxies
    second.hands.apply(SetBudget("a", 2_000))
    fleet.wait(1.0)
    assert first.ask(size=40).refusal is None
    first.hands.apply(SetBudget("a"))
    fleet.wait(1.0)
    assert not second.hands.scheduler.agents["a"].budget
    ticket = second.ask(size=400_000)
    assert ticket.state is TicketState.IN_FLIGHT


@pytest.mark.parametrize("odd", [{"per": "year"}, {"covers": "world"}, {"tokens": -5}])
def test_a_decision_that_makes_no_sense_is_none(odd: dict[str, Any]) -> None:
    """A proxy of another version may have written it."""
    assert _budget(replace(BudgetDecision(1, "a", tokens=5), **odd)) is None
    assert _budget(BudgetDecision(1, "a", tokens=5, covers="all")) == Budget(5)


def test_a_budget_that_comes_late_counts_what_all_used_before() -> None:
    """Nothing is given out until all members have told."""
    fleet = Fleet(2)
    fleet.wait(FRESH_S + 1.0)
    for proxy in fleet.proxies:
        proxy.finish(proxy.ask(), 600)
    first, second = fleet.proxies
    first.hands.apply(SetBudget("a", 1_000))
    waits = first.ask(size=40)
    first.sync()
    first.sync()
    assert waits.waiting
    second.sync()
    second.sync()
    first.sync()
    assert waits.refusal is not None


def test_the_smallest_settings_hold_everywhere() -> None:
    """For each agent, and for the pool."""
    fleet = Fleet(2, BudgetConfig(tokens=1_000), BudgetConfig(tokens=3_000, pool_tokens=2_000))
    fleet.wait(FRESH_S + 1.0)
    assert 1_000 <= use_up(fleet) <= 1_200
    assert 1_000 <= use_up(fleet, "b") <= 1_200
    states = [state for proxy in fleet.proxies for state in proxy.hands.scheduler.ledger.states()]
    assert {(state.owner, state.tokens) for state in states} == {(None, 2_000), ("a", 1_000), ("b", 1_000)}


def test_a_proxy_that_is_started_again_counts_once() -> None:
    """Its figures replace those of the process before; a kill loses at most what wasn't saved, and not in the sum."""
    fleet = ready(2, SetBudget("a", 10_000, per="ever"))
    first, second = fleet.proxies
    for proxy in fleet.proxies:
        ticket = proxy.ask(size=40)
        fleet.wait(0.5)
        proxy.finish(ticket, 1_000)
    fleet.wait(1.0)
    first.start()
    first.ask(size=40)
    fleet.wait(5.0)
    used = second.hands.scheduler.agents["a"].own.state().used_tokens
    assert used == 2_000
    last = first.in_flight[0]
    first.hands.succeed(last, Usage(499, 0, 0, 1))  # told to the fleet, but not saved
    fleet.wait(1.0)
    first.start()
    first.ask(size=40)
    fleet.wait(5.0)
    assert second.hands.scheduler.agents["a"].own.state().used_tokens == 2_500


def test_a_lost_state_is_rebuilt() -> None:
    """From the members, and what only the state knew of a member that isn't there from what they remember."""
    fleet = ready(3, SetBudget("a", 10_000))
    for proxy in fleet.proxies:
        ticket = proxy.ask(size=40)
        fleet.wait(0.5)
        proxy.finish(ticket, 1_000)
    fleet.wait(1.0)
    gone = fleet.proxies.pop()
    fleet.state = State()
    fleet.wait(10.0)
    agents = [proxy.hands.scheduler.agents["a"] for proxy in fleet.proxies]
    assert [agent.own.state().used_tokens for agent in agents] == [3_000, 3_000]
    fleet.proxies.append(gone)
    fleet.wait(10.0)
    assert [agent.own.state().used_tokens for agent in agents] == [3_000, 3_000]
    assert agents[0].budget.tokens == 10_000


def test_without_the_store_the_hold_is_used_and_no_more() -> None:
    """Then requests wait; they go on when it is back."""
    fleet = ready(2, SetBudget("a", 10_000))
    first, second = fleet.proxies
    for proxy in fleet.proxies:
        proxy.ask(size=40)
    fleet.wait(1.0)
    for _ in range(200):
        for proxy in fleet.proxies:
            for ticket in proxy.in_flight:
                proxy.finish(ticket, estimate(ticket))
            if not proxy.waiting:
                proxy.ask(size=40)
    used, _, _ = fleet.total(lambda proxy: proxy.hands.scheduler.agents["a"].own)
    assert 2_000 < used < 10_000
    assert first.waiting
    assert second.waiting
    assert first.ask("free").state is TicketState.IN_FLIGHT
    fleet.wait(1.0)
    assert not first.waiting


def test_a_run_ends_with_the_last_that_goes_on() -> None:
    """An agent's run here adds to its run there; when none goes on any more, the next one counts from nothing."""
    fleet = ready(2, SetBudget("a", 1_000))
    first, second = fleet.proxies
    for proxy in fleet.proxies:
        proxy.hands.apply(BeginAgent("a"))
    use_up(fleet)
    first.hands.apply(EndAgent("a", 0))
    fleet.wait(1.0)
    first.hands.apply(BeginAgent("a"))
    fleet.wait(1.0)
    used = first.hands.scheduler.agents["a"].own.state().used_tokens
    assert 0 < used < 1_000  # what the second's run has used, which goes on
    first.hands.apply(EndAgent("a", 0))
    second.hands.apply(EndAgent("a", 0))
    fleet.wait(1.0)
    first.hands.apply(BeginAgent("a"))
    ticket = first.ask(size=40)
    fleet.wait(1.0)
    assert ticket.state is TicketState.IN_FLIGHT
    assert first.hands.scheduler.agents["a"].own.state().used_tokens == 0


def test_a_proxy_that_leaves_frees_its_hold() -> None:
    """And a budget that is decided while it is away holds when it is back."""
    fleet = ready(2, SetBudget("a", 10_000))
    first, second = fleet.proxies
    second.ask(size=40)
    fleet.wait(1.0)
    second.save()
    fleet.proxies.remove(second)
    second.sync(leaving=True)
    first.hands.apply(SetBudget("a", 700))
    large = first.ask(size=1_600)
    fleet.wait(1.0)
    assert large.state is TicketState.IN_FLIGHT
    second.start(clean=True)
    fleet.proxies.append(second)
    fleet.wait(1.0)
    assert second.hands.scheduler.agents["a"].budget.tokens == 700
