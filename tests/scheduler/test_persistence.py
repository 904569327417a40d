"""What a restart must know: whatever was written last, the books agree with each other and with what happened."""

from __future__ import annotations

from dataclasses import dataclass, field

from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler.driving import Hands, lane_config, request

from hivemind.records import replace
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.accounts import POOL, Account, Spent, Unpriced
from hivemind.scheduler.config import BudgetConfig, SchedulerConfig
from hivemind.scheduler.events import BudgetWarned
from hivemind.scheduler.persistence import SavedAgent
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.tasks import SavedTask
from hivemind.scheduler.ticket import Agent, Ticket, TicketState
from hivemind.scheduler.types import Priority, TaskSpec, Usage

PARENTS = {"a": None, "b": "a", "c": "b", "b/x": "b", "b/x/y": "b/x", "d": None}
NAMES = list(PARENTS)


@dataclass(frozen=True)
class Disk:
    """What was written: whole records in place of earlier ones, as the database does it."""

    agents: dict[str, SavedAgent] = field(default_factory=dict)
    tasks: dict[str, SavedTask] = field(default_factory=dict)
    in_flight: dict[str, Spent] = field(default_factory=dict)

    def after(self, scheduler: Scheduler, most: int | None = None) -> Disk:
        """With all that has changed, of so many agents at `most`."""
        unsaved = scheduler.take_unsaved(most)
        tasks, used = self.tasks | unsaved.tasks, self.in_flight | unsaved.in_flight
        return Disk(
            self.agents | unsaved.agents,
            {name: task for name, task in tasks.items() if task is not None},
            {name: spent for name, spent in used.items() if spent is not None},
        )

    def revived(self, *, new_run: bool = False) -> Hands:
        """A scheduler that goes on from it."""
        hands = fresh()
        hands.scheduler.restore(self.agents.values(), self.tasks.values(), self.in_flight, 0.0, new_run=new_run)
        return hands


def fresh(budget: BudgetConfig | None = None) -> Hands:
    """Prices are a fraction that adds up exactly; that of the model called dark is unknown."""
    hands = Hands(lane_config(slots=50), config=SchedulerConfig(budget=budget or BudgetConfig()))
    hands.scheduler.ledger.price_by(lambda _, model, usage: None if model == "dark" else usage.total / 1024)
    return hands


def agent_of(scheduler: Scheduler, name: str) -> Agent:
    return scheduler.agents.get(name) or scheduler.agents.past[name]


def in_flight(scheduler: Scheduler, account: Account) -> Spent:
    """What is known to be used by what is in flight, on that account."""
    total = Spent()
    for agent in scheduler.agents.values():
        for ticket in agent.tickets.values() if account in agent.accounts else ():
            if ticket.so_far is not None:
                tokens, dark = ticket.so_far.total, ticket.request.model == "dark"
                total = total.plus(Spent(tokens, tokens / 1024, 0, tokens if dark else 0))
    return total


Facts = dict[str, object]


def facts(scheduler: Scheduler, names: set[str]) -> Facts:
    """Everything that must survive, what is in flight counted as used."""
    told: Facts = {}
    for name in names - {POOL}:
        agent = agent_of(scheduler, name)
        told[name] = (agent.parent and agent.parent.name, agent.priority, agent.paused, agent.stopped, agent.budget)
        told[f"{name} own"], told[f"{name} tree"] = (used(scheduler, each) for each in (agent.own, agent.tree))
    told["pool"] = (used(scheduler, scheduler.pool), scheduler.pool.budget)
    told["tasks"] = [
        (task.spec, task.number, task.state, task.attempt, task.runner, task.note, task.priority, task.missing)
        for task in scheduler.tasks.values()
    ]
    return told


def used(scheduler: Scheduler, account: Account) -> list[Spent]:
    return [account.used(period).plus(in_flight(scheduler, account)) for period in ("ever", "day", "run")]


Step = tuple[str, int, int]
KINDS = ["ask", "ask", "tell", "answer", "answer", "leave", "write", "write", "run", "day", "budget", "decide"]
KINDS += ["submit", "claim", "finish", "cancel", "forget"]
NUMBERS = st.integers(0, 5), st.integers(1, 1000)
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), *NUMBERS), max_size=60)


class Story:
    """A scheduler to which things happen."""

    def __init__(self, hands: Hands) -> None:
        self.hands = hands
        self.tickets: list[Ticket] = []
        self.tasks = 0

    def take(self, step: Step) -> None:
        """One of them."""
        kind, number, tokens = step
        name, scheduler = NAMES[number], self.hands.scheduler
        in_flight = [ticket for ticket in self.tickets if ticket.state is TicketState.IN_FLIGHT]
        if kind == "ask":
            wanted = request(name, parent=PARENTS[name], family="dark" if tokens % 3 == 0 else "m")
            self.tickets.append(self.hands.take(wanted))
        elif kind in ("tell", "answer", "leave") and in_flight:
            ticket = in_flight[tokens % len(in_flight)]
            if kind == "tell":
                scheduler.progress(self.hands.now, ticket, tokens, Usage(tokens, 0, 0, 1))
            elif kind == "answer":
                self.hands.succeed(ticket, Usage(0, tokens, 0, 1))
            else:
                self.hands.leave(ticket, Usage(0, 0, tokens, 0) if tokens % 2 else None)
        elif kind == "day":
            scheduler.begin_period(self.hands.now, "day")
        else:
            self._order(kind, name, tokens)

    def _order(self, kind: str, name: str, tokens: int) -> None:
        known = list(self.hands.scheduler.tasks)
        task = known[tokens % len(known)] if known else ""
        decisions: list[cmd.Command] = [
            cmd.PauseAgent(name, True),
            cmd.SetPriority(name, Priority.LOW),
            cmd.SetBudget(None, 10**6),
        ]
        spec = TaskSpec(f"t{self.tasks}", after=tuple(known[-2:]), batch=str(self.tasks // 3))
        commands: dict[str, cmd.Command] = {
            "run": cmd.BeginAgent(name, PARENTS[name]),
            "budget": cmd.SetBudget(name, tokens * 50, covers="subtree" if tokens % 2 else "agent", per="day"),
            "decide": decisions[tokens % 3],
            "submit": cmd.SubmitTasks((spec,)),
            "claim": cmd.ClaimTask(task, "runner"),
            "finish": cmd.FinishTask(task, tokens % 4 > 0, "so it went"),
            "cancel": cmd.CancelTask(task),
            "forget": cmd.ForgetTasks(str(tokens % 3)),
        }
        if kind in commands:
            try:
                self.hands.apply(commands[kind])
            except cmd.Rejected:
                return
            self.tasks += kind == "submit"


@settings(max_examples=examples(150), deadline=None)
@given(STEPS)
def test_any_write_may_be_the_last(steps: list[Step]) -> None:
    """After each of them a restart finds what there was, as often as it happens; nothing is lost or counted twice."""
    story, disk = Story(fresh()), Disk()
    for step in [*steps, ("write", 0, 1)]:
        story.take(step)
        if step[0] != "write":
            continue
        scheduler = story.hands.scheduler
        disk = disk.after(scheduler)
        assert {name for name, agent in scheduler.agents.items() if agent.own.ever.tokens} <= set(disk.agents)
        expected = facts(scheduler, set(disk.agents))
        later = disk
        for _ in range(3):
            revived = later.revived().scheduler
            assert facts(revived, set(disk.agents)) == expected
            later = later.after(revived)


def test_what_an_earlier_version_saved_without_prices_is_charged() -> None:
    """Its tokens were counted, its dollars weren't."""
    hands = fresh()
    hands.succeed(hands.arrive("a"), Usage(1024, 0, 0, 0))
    disk = Disk().after(hands.scheduler)
    disk.agents["a"] = replace(disk.agents["a"], unpriced=(Unpriced("", "m", Usage(2048, 0, 0, 0)),))
    again = disk.revived().scheduler
    spent = [account.ever for account in (agent_of(again, "a").own, again.pool)]
    assert [(each.tokens, each.dollars) for each in spent] == [(1024, 3.0)] * 2
    assert Disk().after(again).agents["a"].unpriced == ()


@settings(max_examples=examples(100), deadline=None)
@given(STEPS, STEPS)
def test_lives_add_up(first: list[Step], second: list[Step]) -> None:
    """The pool is what all agents used, over a crash and beyond it, and a subtree what its members did; the states of
    tasks stay such as they can come to be."""
    story, disk = Story(fresh()), Disk()
    for step in first:
        story.take(step)
    disk = disk.after(story.hands.scheduler)
    again = Story(disk.revived())
    again.tasks = 1000
    for step in second:
        again.take(step)
    scheduler = disk.after(again.hands.scheduler).revived().scheduler
    agents = [*scheduler.agents.values(), *scheduler.agents.past.values()]
    assert scheduler.pool.ever == added([each for each in agents if each.lead is None])
    for agent in agents:
        assert agent.tree.ever == added(
            [each for each in agents if agent in line(each) and (each is agent or not each.lead)]
        )
    for task in scheduler.tasks.values():
        before = [scheduler.tasks[name].state for name in task.spec.after if name in scheduler.tasks]
        if task.state in ("ready", "running"):
            assert set(before) <= {"done"}
        if task.state == "waiting":
            assert set(before) != {"done"}


def added(agents: list[Agent]) -> Spent:
    total = Spent()
    for agent in agents:
        total = total.plus(agent.own.ever)
    return total


def line(agent: Agent | None) -> list[Agent]:
    """The agent and all above it."""
    return [] if agent is None else [agent, *line(agent.parent)]


def test_nothing_to_write() -> None:
    """Where nothing happened, and again after it was taken."""
    hands = fresh()
    assert not hands.scheduler.take_unsaved()
    hands.succeed(hands.arrive("a"), Usage(1, 0, 0, 0))
    assert hands.scheduler.take_unsaved()
    assert not hands.scheduler.take_unsaved()


def test_a_part_at_a_time() -> None:
    """After the last part all is as if it had been taken at once, also of an agent that got a parent meanwhile."""
    hands = fresh()
    tickets = {name: hands.arrive(name) for name in ("a", "b", "c", "d")}
    for number, ticket in enumerate(tickets.values()):
        hands.scheduler.progress(0.0, ticket, 1, Usage(1024 << number))
    unsaved = hands.scheduler.take_unsaved(3)
    assert (len(unsaved.agents), len(unsaved.in_flight)) == (4, 3)
    disk = Disk(dict(unsaved.agents), in_flight={name: used for name, used in unsaved.in_flight.items() if used})
    hands.apply(cmd.BeginAgent("d", "a"))
    while hands.scheduler.has_unsaved:
        before, disk = disk, disk.after(hands.scheduler, 1)
        assert sum(before.agents.get(name) != agent for name, agent in disk.agents.items()) <= 3
    assert {name: used.dollars for name, used in disk.in_flight.items()} == {"a": 1, "b": 2, "c": 4, "d": 8}
    scheduler = disk.revived().scheduler
    assert scheduler.ledger.pool.ever.dollars == 15
    trees = {name: agent_of(scheduler, name).tree.ever.dollars for name in tickets}
    assert trees == {"a": 9, "b": 2, "c": 4, "d": 8}


def test_what_earlier_versions_saved_of_requests_in_flight() -> None:
    """It stood in the counts of each account. It is used once, and saved as such."""
    hands = fresh()
    hands.succeed(hands.arrive("a"), Usage(10, 0, 0, 0))
    agents = Disk().after(hands.scheduler).agents
    for name, saved in agents.items():
        own, tree = (replace(counts, in_flight=Spent(4)) for counts in (saved.own, saved.tree))
        agents[name] = replace(saved, own=own, tree=tree)
    for disk in (Disk(agents), Disk(agents).after(Disk(agents).revived().scheduler)):
        scheduler = disk.revived().scheduler
        a = agent_of(scheduler, "a")
        assert [account.ever.tokens for account in (a.own, a.tree, scheduler.ledger.pool)] == [14, 14, 14]


def used_up() -> Disk:
    """What is kept of two agents whose budgets are used up: a's of the run, b's for ever."""
    hands = fresh()
    hands.apply(cmd.SetBudget("a", 100, per="run"))
    hands.apply(cmd.SetBudget("b", 100, per="ever"))
    for name in ("a", "b"):
        hands.succeed(hands.arrive(name), Usage(150, 0, 0, 0))
    return Disk().after(hands.scheduler)


def test_a_new_run() -> None:
    """What counts for a run begins again, what counts for ever goes on."""
    disk = used_up()
    assert [disk.revived().arrive(name).refusal is None for name in ("a", "b")] == [False, False]
    assert [disk.revived(new_run=True).arrive(name).refusal is None for name in ("a", "b")] == [True, False]


def test_a_budget_that_is_used_up_is_reported_once() -> None:
    """At the start; not that of a run which is over."""
    disk = used_up()

    def told(revived: Hands) -> list[str]:
        return sorted(event.agent for event in revived.scheduler.events if isinstance(event, BudgetWarned))

    assert told(disk.revived()) == ["a", "b"]
    assert told(disk.revived(new_run=True)) == ["b"]


def test_the_settings_budget_is_not_a_decision() -> None:
    """An agent without a decision has the settings' budget as it is now, and what it used before counts."""
    hands = fresh(BudgetConfig(tokens=1000, per="ever"))
    hands.succeed(hands.arrive("a"), Usage(500, 0, 0, 0))
    disk = Disk().after(hands.scheduler)
    again = fresh(BudgetConfig(tokens=400, per="ever"))
    again.scheduler.restore(disk.agents.values(), (), {}, 0.0, new_run=True)
    refusal = again.arrive("a").refusal
    assert refusal is not None
    assert refusal.budget is not None
    assert (refusal.budget.tokens, refusal.budget.used_tokens) == (400, 500)


def test_an_agent_of_earlier_runs_is_not_live() -> None:
    """It takes no place until it asks."""
    hands = fresh()
    hands.leave(hands.arrive("a"))
    hands.apply(cmd.PauseAgent("a", True))
    again = Hands(lane_config(slots=50), config=SchedulerConfig(max_agents=1))
    disk = Disk().after(hands.scheduler)
    again.scheduler.restore(disk.agents.values(), (), {}, 0.0, new_run=True)
    assert again.scheduler.agents["a"].paused
    assert again.arrive("b").state is TicketState.IN_FLIGHT


def test_deep_and_in_any_order() -> None:
    """Children may have been seen longer ago than their parents."""
    hands = fresh()
    for number in range(8, 0, -1):
        parent = None if number == 8 else f"n{number + 1}"
        hands.succeed(hands.arrive(f"n{number}", parent=parent), Usage(number, 0, 0, 0))
    disk = Disk().after(hands.scheduler)
    for agents in (disk.agents, dict(reversed(disk.agents.items()))):
        scheduler = Disk(agents).revived().scheduler
        assert [agent_of(scheduler, f"n{number}").tree.ever.tokens for number in (1, 3, 8)] == [1, 6, 36]
        assert scheduler.pool.ever.tokens == 36


def test_a_forgotten_child_stays_in_its_parents_books() -> None:
    """It was pruned, but what it used was used under them."""
    hands = fresh()
    hands.succeed(hands.arrive("a"), Usage(10, 0, 0, 0))
    hands.succeed(hands.arrive("b", parent="a"), Usage(5, 0, 0, 0))
    disk = Disk().after(hands.scheduler)
    del disk.agents["b"]
    scheduler = disk.revived().scheduler
    assert (agent_of(scheduler, "a").tree.ever.tokens, scheduler.pool.ever.tokens) == (15, 15)
