"""What holds whatever happens, in whatever order: random histories, each step checked against a simple model."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal
from unittest import mock

from examples import of_histories
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from scheduler.driving import LANE, Hands, failure, lane_config
from scheduler.reference import Entry, Reference, next_of

from hivemind.records import replace
from hivemind.scheduler import agents as agents_module
from hivemind.scheduler import commands as cmd
from hivemind.scheduler import lane as lane_module
from hivemind.scheduler.accounts import Account, Spent
from hivemind.scheduler.admission.queue import AWAITED_S, LaneQueue
from hivemind.scheduler.config import LaneConfig, QueueConfig, RetryConfig, SchedulerConfig
from hivemind.scheduler.events import Abandoned, AttemptFailed, BudgetState, Event, Finished, Granted, Refused
from hivemind.scheduler.explain import lane_state
from hivemind.scheduler.persistence import SavedAgent
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.tasks import OPEN, SavedTask
from hivemind.scheduler.ticket import Agent, Ticket, TicketState
from hivemind.scheduler.types import Failure, FailureKind, Priority, Request, TaskSpec, Usage, WindowKind, WindowReading
from hivemind.world.gauges import by_owner
from hivemind.world.world import World

AGENTS = st.sampled_from(["ann", "ann/sub", "ann/deeper", "ben", "cem", "dora"])
PARENTS = {"ann/sub": "ann", "ann/deeper": "ann/sub", "ben": "ann/sub", "cem": "ben", "dora": None, "ann": None}
"""As requests tell them; commands may say otherwise."""
MAX_ATTEMPTS = 4
LANES = st.sampled_from([LANE, LANE, "up/2", "up/3", "other/1"])
TASKS = st.sampled_from(["t0", "t1", "t2", "t3"])
COMMANDS: st.SearchStrategy[cmd.Command] = st.one_of(
    st.builds(cmd.SetPriority, AGENTS, st.sampled_from(Priority)),
    st.builds(cmd.Tune, st.just("max_concurrency"), st.integers(0, 6)),
    st.builds(cmd.Tune, st.sampled_from(["rpm", "tpm"]), st.sampled_from([0, 5, 3000])),
    st.builds(cmd.Tune, st.just("aimd.floor"), st.floats(1, 3)),
    st.builds(cmd.Tune, st.just("circuit.window"), st.integers(1, 30)),
    st.builds(cmd.PinLevel, st.one_of(st.none(), st.floats(1, 6))),
    st.builds(cmd.SetCircuit, st.sampled_from(["auto", "open", "closed", "probe"])),
    st.builds(cmd.PauseAdmissions, st.booleans()),
    st.builds(cmd.Drain, st.booleans()),
    st.builds(cmd.PauseAgent, AGENTS, st.booleans()),
    st.builds(cmd.StopAgent, AGENTS, st.booleans()),
    st.builds(
        cmd.SetBudget,
        st.one_of(AGENTS, st.none()),
        st.sampled_from([None, 1, 800, 5000]),
        st.sampled_from([None, None, 0.0001, 0.01]),
        st.sampled_from([None, "run", "day", "ever"]),
        st.sampled_from([None, "agent", "subtree"]),
    ),
    st.builds(cmd.BeginAgent, AGENTS, st.one_of(st.none(), AGENTS), resumed=st.booleans()),
    st.builds(cmd.EndAgent, AGENTS, st.sampled_from([None, 0, 1])),
    st.builds(cmd.BoostAgent, AGENTS, st.sampled_from([0, 1, 30])),
    st.just(cmd.ReleaseLane(LANE)),
    st.builds(
        lambda name, priority, after, agent, skip: cmd.SubmitTasks(
            (TaskSpec(name, priority, 0, tuple(after), agent, on_failure="skip" if skip else "block"),)
        ),
        TASKS,
        st.sampled_from(Priority),
        st.lists(TASKS, max_size=2),
        AGENTS,
        st.booleans(),
    ),
    st.builds(cmd.ClaimTask, TASKS),
    st.builds(cmd.FinishTask, TASKS, st.booleans(), again=st.booleans()),
    st.builds(cmd.CancelTask, TASKS),
    st.builds(cmd.RetryTask, TASKS),
    st.builds(cmd.SetTaskPriority, TASKS, st.sampled_from(Priority)),
)


class Told(Hands):
    """A scheduler of several lanes; whatever it does is told to the model."""

    def __init__(
        self, lane: LaneConfig, config: SchedulerConfig, draw: float, reference: Reference | None = None
    ) -> None:
        self.reference = reference or Reference(config)
        super().__init__(lane, config=config, draw=lambda: draw, leasing=reference is not None)
        self.first = lane
        self.steered = False
        self.gather()

    def take(self, wanted: Request) -> Ticket:
        self.scheduler.open_lane(self.now, wanted.lane, replace(self.first, upstream=wanted.lane.partition("/")[0]))
        ticket = self.scheduler.arrive(self.now, wanted)
        self.reference.entries[ticket.id] = Entry(ticket, self.now + min(300.0, wanted.patience_s or 300.0))
        if wanted.patience_s == 0:
            self.reference.entries[ticket.id].expires_at = self.now
        self.gather()
        return ticket

    def fail(self, ticket: Ticket, what: Failure | None = None) -> float | None:
        self.reference.failing = what = what or failure()
        self.reference.usage_sent = what.kind is not FailureKind.CONNECT
        again = super().fail(ticket, what)
        self.reference.usage_sent = True
        return again

    def apply(self, command: cmd.Command) -> None:
        self.steered = True
        try:
            self.scheduler.apply(self.now, command, "you")
            self._note(command)
        finally:
            self.gather()
            self.steered = False

    def _note(self, command: cmd.Command) -> None:
        model = self.reference
        match command:
            case cmd.PauseAdmissions(paused):
                model.paused = paused
            case cmd.Drain(draining):
                model.draining = draining
            case cmd.PauseAgent(agent, paused):
                (model.held.add if paused else model.held.discard)(agent)
            case cmd.StopAgent(agent, stopped):
                (model.stopped.add if stopped else model.stopped.discard)(agent)
                for entry in model.of("in flight") if stopped else ():
                    entry.cut = entry.cut or agent in model.line(entry.agent)
            case cmd.BeginAgent(agent):
                model.stopped.discard(agent)
            case cmd.SetCircuit(mode):
                for road in model.roads.values():
                    road.forced_open = mode == "open"
            case cmd.ReleaseLane(lane):
                model.roads[lane].paused_until = -math.inf
                model.roads[lane].pauses.clear()
            case cmd.Tune(knob, value):
                for road in model.roads.values():
                    if knob == "rpm":
                        road.rpm = int(value), value > 0
                    elif knob == "tpm":
                        road.tpm = int(value), value > 0

    def gather(self) -> None:
        if self.now > 0 or hasattr(self, "scheduler"):
            model, scheduler = self.reference, self.scheduler
            model.leads = {a.name: a.lead.name for a in scheduler.agents.values() if a.lead is not None}
            model.pass_time(self.now)
            model.see(scheduler.events, reclassed=self.steered)
            model.roads = {key: road for key, road in model.roads.items() if key in scheduler.lanes}
        super().gather()


def dollars(_: str, model: str, usage: Usage) -> float | None:
    """Of one of the two models; the other's price isn't known."""
    return usage.weighted * 1e-6 if model == "m" else None


def _ancestors(agent: Agent) -> list[Agent]:
    above = []
    while agent.parent is not None:
        agent = agent.parent
        above.append(agent)
    return above


class Histories(RuleBasedStateMachine):
    """Requests come, are sent, fail, succeed and leave; time passes; an operator steers."""

    def __init__(self) -> None:
        super().__init__()
        self.tickets: list[Ticket] = []
        self.earlier: list[Event] = []
        """What happened before the last restart."""
        self.lost: Counter[str] = Counter()
        self.budgets: dict[str | None, tuple[BudgetState, ...]] = {}
        self.moved: Counter[tuple[str | None, bool]] = Counter()
        """What requests in flight had used when the proxy died, by agent."""
        self.disk: tuple[dict[str, SavedAgent], dict[str, SavedTask], dict[str, Spent | None]] = {}, {}, {}
        self.patches: list[Any] = [
            mock.patch.object(LaneQueue, "pick", self.picked(LaneQueue.pick)),
            mock.patch.multiple(lane_module, KEPT=4, UNPROVEN_KEPT=3),
            mock.patch.multiple(agents_module, KEPT=3),
        ]
        for patch in self.patches:
            patch.start()

    def picked(self, pick: Callable[..., tuple[Ticket | None, float]]) -> Callable[..., Any]:
        """Compare what a queue picks with the first of all its tickets."""

        def compared(
            queue: LaneQueue, now: float, delay_s: Callable[[Ticket, float], float], free: float = math.inf
        ) -> tuple[Ticket | None, float]:
            found, again_in_s = pick(queue, now, delay_s, free)
            first = next_of(queue, self.hands.scheduler, now, delay_s)
            assert found is first or (found is None and again_in_s <= AWAITED_S + 1e-6), (
                f"{found and found.id} goes before {first and first.id}"
            )
            return found, again_in_s

        return compared

    @initialize(
        slots=st.sampled_from([0, 1, 1, 2, 3, 4]),
        rpm=st.sampled_from([0, 0, 5, 60]),
        tpm=st.sampled_from([0, 0, 3000]),
        depth=st.sampled_from([3, 100]),
        draw=st.floats(0, 0.999),
        total=st.sampled_from([0, 0, 2, 3]),
        when_open=st.sampled_from(("hold", "refuse")),
        max_passes=st.sampled_from([4, 8, 50]),
        ageing_s=st.sampled_from([5.0, 30.0]),
    )
    def begin(
        self,
        slots: int,
        rpm: int,
        tpm: int,
        depth: int,
        draw: float,
        total: int,
        when_open: Literal["hold", "refuse"],
        max_passes: int,
        ageing_s: float,
    ) -> None:
        config = SchedulerConfig(
            queue=QueueConfig(max_depth=depth, max_wait_s=300.0, max_passes=max_passes, ageing_s=ageing_s),
            retry=RetryConfig(max_attempts=MAX_ATTEMPTS),
        )
        lane = lane_config(slots=slots, rpm=rpm, tpm=tpm)
        circuit = replace(lane.circuit, when_open=when_open)
        lane = replace(lane, max_concurrency_per_upstream=total, circuit=circuit)
        self.hands = self.make(lane, config, draw)

    def make(self, lane: LaneConfig, config: SchedulerConfig, draw: float) -> Told:
        return Told(lane, config, draw)

    def some(self, *states: TicketState) -> list[Ticket]:
        return [ticket for ticket in self.tickets if ticket.state in states]

    def pick(self, which: int, *states: TicketState) -> Ticket:
        found = self.some(*states)
        return found[which % len(found)]

    @property
    def in_flight(self) -> bool:
        return bool(self.some(TicketState.IN_FLIGHT))

    # --- What may happen -------------------------------------------------------------------------------------------

    @rule(
        agent=AGENTS,
        size=st.integers(0, 8000),
        priority=st.one_of(st.none(), st.sampled_from(Priority)),
        patience_s=st.sampled_from([None, 0.0, 5.0, 100.0]),
        family=st.sampled_from(["m", "n"]),
        lane=LANES,
        waited_s=st.sampled_from([0.0, 0.0, 30.0, 500.0]),
    )
    def arrive(self, agent: str, priority: Priority | None, **about: Any) -> None:
        self.tickets.append(self.hands.arrive(agent, parent=PARENTS[agent], priority=priority, **about))

    @rule(
        burst=st.lists(
            st.tuples(AGENTS, st.sampled_from([4, 400, 4000, 200_000]), st.sampled_from([None, None, *Priority])),
            min_size=3,
            max_size=10,
        ),
        tells=st.booleans(),
    )
    def many_arrive(self, burst: list[tuple[str, int, Priority | None]], tells: bool) -> None:
        """So many that some wait for others; whose parts their agents are may be told later."""
        for agent, size, priority in burst:
            parent = PARENTS[agent] if tells else None
            self.tickets.append(self.hands.arrive(agent, parent=parent, size=size, priority=priority))

    @precondition(lambda self: self.in_flight)
    @rule(count=st.integers(1, 12), used=st.integers(0, 2000), seconds=st.sampled_from([0.0, 0.02, 1.0, 9.0]))
    def many_succeed(self, count: int, used: int, seconds: float) -> None:
        """One after the other, the oldest first."""
        for _ in range(count):
            if self.in_flight:
                self.hands.succeed(self.some(TicketState.IN_FLIGHT)[0], Usage(used, 0, 0, used // 10))
                self.hands.wait(seconds)

    @precondition(lambda self: self.in_flight)
    @rule(which=st.integers(0, 99))
    def first_content(self, which: int) -> None:
        ticket = self.pick(which, TicketState.IN_FLIGHT)
        if not ticket.content_started:
            self.hands.content(ticket)

    @precondition(lambda self: self.in_flight)
    @rule(which=st.integers(0, 99), output=st.integers(0, 2000))
    def progress(self, which: int, output: int) -> None:
        ticket = self.pick(which, TicketState.IN_FLIGHT)
        if ticket.content_started:
            self.hands.scheduler.progress(self.hands.now, ticket, output, Usage(100, 0, 0, output))
            self.hands.gather()

    @precondition(lambda self: self.in_flight)
    @rule(which=st.integers(0, 99), known=st.booleans(), output=st.integers(0, 2000))
    def succeed(self, which: int, known: bool, output: int) -> None:
        self.hands.succeed(self.pick(which, TicketState.IN_FLIGHT), Usage(100, 10, 5, output) if known else None)

    @precondition(lambda self: self.in_flight)
    @rule(
        which=st.integers(0, 99),
        kind=st.sampled_from(FailureKind),
        retryable=st.booleans(),
        delay_s=st.sampled_from([None, None, 0.0, 0.5, 20.0, 1000.0]),
    )
    def fail(self, which: int, kind: FailureKind, retryable: bool, delay_s: float | None) -> None:
        if kind in (FailureKind.QUOTA, FailureKind.CLIENT_ERROR):
            retryable = False
        if kind is FailureKind.CUT:
            delay_s = None  # no provider stated it
        self.hands.fail(self.pick(which, TicketState.IN_FLIGHT), failure(kind, retryable=retryable, delay_s=delay_s))

    @precondition(lambda self: self.in_flight)
    @rule(
        which=st.integers(0, 99),
        kind=st.sampled_from(WindowKind),
        limit=st.sampled_from([None, -1, 0, 5, 1000]),
        share=st.floats(0, 1),
        reset_in_s=st.one_of(st.none(), st.floats(-5, 120)),
    )
    def headers(self, which: int, kind: WindowKind, limit: int | None, share: float, reset_in_s: float | None) -> None:
        reading = WindowReading(kind, limit, int(share * max(limit or 5, 0)), reset_in_s)
        ticket = self.pick(which, TicketState.IN_FLIGHT)
        self.hands.scheduler.headers(self.hands.now, ticket, (reading,))
        self.hands.reference.roads[ticket.request.lane].stated.add(ticket.request.family)
        self.hands.gather()

    @precondition(lambda self: bool(self.tickets))
    @rule(which=st.integers(0, 99))
    def leave(self, which: int) -> None:
        self.hands.leave(self.tickets[which % len(self.tickets)])

    @rule(command=COMMANDS)
    def command(self, command: cmd.Command) -> None:
        before = self.used_by()
        try:
            self.hands.apply(command)
            if isinstance(command, cmd.BeginAgent):  # an agent that is moved is charged to others from now on
                after = self.used_by()
                self.moved.update({key: used - after.get(key, 0) for key, used in before.items()})
        except cmd.Rejected:
            named = cmd.SetPriority | cmd.PauseAgent | cmd.StopAgent | cmd.BoostAgent | cmd.EndAgent | cmd.Tune
            named |= cmd.ReleaseLane | cmd.TaskCommand
            assert isinstance(command, named) or (isinstance(command, cmd.SetBudget) and command.agent is None)

    @precondition(lambda self: bool(self.hands.ending))
    @rule(used=st.integers(0, 500))
    def end(self, used: int) -> None:
        self.hands.leave(self.hands.ending.pop(), Usage(100, 0, 0, used))

    @rule()
    def prices_come(self) -> None:
        self.hands.scheduler.ledger.price_by(dollars)
        self.hands.gather()

    @rule()
    def midnight(self) -> None:
        self.hands.scheduler.begin_period(self.hands.now, "day")
        self.hands.gather()

    @rule()
    def save(self) -> None:
        """As the store does, whole records one after the other."""
        agents, tasks, in_flight = self.disk
        records = self.hands.scheduler.take_unsaved()
        for name in records.forgotten:
            agents.pop(name, None)
            in_flight.pop(name, None)
        agents.update(records.agents)
        in_flight.update(records.in_flight)
        for name, task in records.tasks.items():
            if task is None:
                tasks.pop(name, None)
            else:
                tasks[name] = task

    @rule(new_run=st.booleans())
    def restart(self, new_run: bool) -> None:
        """The books of the next scheduler are those of the last one, with what was in flight."""
        self.save()
        hands, last = self.hands, self.hands.scheduler
        for ticket in self.some(TicketState.IN_FLIGHT):
            self.lost[ticket.agent.name] += ticket.so_far.total if ticket.so_far else 0
        model, hands.reference = hands.reference, type(hands.reference)(last.config)
        hands.reference.held, hands.reference.stopped = model.held, model.stopped
        hands.scheduler = Scheduler(last.config, last._draw)
        hands.scheduler.leasing = last.leasing
        agents, tasks, in_flight = self.disk
        used = {name: spent for name, spent in in_flight.items() if spent is not None}
        hands.scheduler.restore(agents.values(), tasks.values(), used, hands.now, new_run=new_run)
        hands.lane = hands.scheduler.open_lane(hands.now, LANE, hands.first)
        self.earlier += self.hands.log
        self.hands.log, self.tickets, self.hands.ending = [], [], []
        hands.gather()
        check_restored(last, hands.scheduler)

    @rule(seconds=st.sampled_from([0.001, 0.3, 2.0, 15.0, 70.0, 400.0]))
    def pass_time(self, seconds: float) -> None:
        self.hands.wait(seconds)

    # --- What always holds -----------------------------------------------------------------------------------------

    @invariant()
    def the_model_agrees(self) -> None:
        if not hasattr(self, "hands"):
            return
        self.hands.reference.check(self.hands.now)

    @invariant()
    def decisions_hold_for_what_came_before_them(self) -> None:
        """Each waiting ticket is in its agent's class, and none waits whose agent is stopped."""
        if not hasattr(self, "hands"):
            return
        for agent in self.hands.scheduler.agents.values():
            for ticket in agent.tickets.values():
                if ticket.waiting:
                    assert ticket.priority is agent.priority_of(ticket.request)
                    assert not agent.cut_off, "it waits though its agent is stopped"
                else:
                    assert ticket.refusal is not None or not agent.cut_off, "it goes on though its agent is stopped"

    @property
    def accounts(self) -> dict[tuple[str | None, bool], Account]:
        """All accounts, by owner and whether they are of its own use alone."""
        agents = self.hands.scheduler.agents.everyone
        accounts: dict[tuple[str | None, bool], Account] = {(None, False): self.hands.scheduler.pool}
        for agent in agents:
            accounts |= {(agent.name, True): agent.own, (agent.name, False): agent.tree}
        return accounts

    def used_by(self) -> dict[tuple[str | None, bool], int]:
        """What all agents used that an account is charged for now."""
        used = Counter[str](self.lost)
        for event in (*self.earlier, *self.hands.log):
            used[getattr(event, "agent", "")] += usage.total if (usage := getattr(event, "usage", None)) else 0
        agents = list(self.hands.scheduler.agents.everyone)
        under = {
            key: [each.name for each in agents if account in each.accounts] for key, account in self.accounts.items()
        }
        return {key: sum(used[name] for name in names) for key, names in under.items()}

    @invariant()
    def the_books_agree(self) -> None:
        """An agent's account is the sum of its own and its parts', a subtree's that of all in it, the pool's of all."""
        if not hasattr(self, "hands"):
            return
        agents, used = list(self.hands.scheduler.agents.everyone), self.used_by()
        for key, account in self.accounts.items():
            assert account.ever.tokens == used[key] + self.moved[key]
            assert account.ever.tokens >= account.used("day").tokens >= 0
        for agent in agents:
            alone = {each.name for each in agents if agent in each.line}
            below = {each.name for each in agents if each is agent or agent in _ancestors(each)}
            assert {each.name for each in agents if agent.own in each.accounts} == alone
            assert {each.name for each in agents if agent.tree in each.accounts} == below

    @invariant()
    def changes_of_budgets_are_all_of_them(self) -> None:
        if hasattr(self, "hands"):
            changes, states = (ledger := self.hands.scheduler.ledger).changes(), by_owner(ledger.states())
            self.budgets = states if changes is None else self.budgets | by_owner(changes)
            assert self.budgets == states

    @invariant()
    def nothing_is_negative_or_beyond_its_bounds(self) -> None:
        if not hasattr(self, "hands"):
            return
        for lane in self.hands.scheduler.lanes.values():
            assert lane.aimd.shared or lane.aimd.level >= min(lane.aimd.config.floor, lane.aimd.ceiling)
            assert lane.aimd.shared or lane.aimd.level <= lane.aimd.ceiling
            assert 0 <= lane.circuit.errors <= lane.circuit.results
            state = lane_state(lane, self.hands.now, paused=False)
            assert all(w.used > -1e-6 and w.reserved > -1e-6 and w.remaining >= 0 for w in state.windows)
            assert len(state.upcoming) == lane.queue.waiting + len(lane.backing_off)
        assert all(ticket.attempts <= MAX_ATTEMPTS for ticket in self.tickets)

    # --- How it ends -----------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        try:
            if hasattr(self, "hands"):
                self.check_the_end()
        finally:
            for patch in self.patches:
                patch.stop()

    def check_the_end(self) -> None:
        self.let_everything_end()
        lanes = list(self.hands.scheduler.lanes.values())
        assert all(lane.gate.active == lane.queue.waiting == len(lane.backing_off) == 0 for lane in lanes)
        assert all(gate.active == 0 for gate in self.hands.scheduler._totals.values())
        self.hands.wait(61.0)
        allowances = [allowance for lane in lanes for allowance in lane.allowances.values()]
        for window in (each for allowance in allowances for each in allowance.windows.values()):
            assert window.delay_s(self.hands.now, 0.0) >= 0
            assert abs(window.reserved) < 1e-6
            assert abs(window.stated._pending) < 1e-6
        check_events(self.hands.log, self.tickets)
        check_world(self.hands.log, self.hands.now)

    def let_everything_end(self) -> None:
        """Without faults and pauses every ticket is sent or is refused, whatever budgets there are."""
        names = list(self.hands.scheduler.agents)
        commands: list[cmd.Command] = [cmd.SetCircuit("auto"), cmd.PauseAdmissions(False), cmd.Drain(False)]
        commands += [each(name, False) for name in names for each in (cmd.PauseAgent, cmd.StopAgent)]
        tasks = self.hands.scheduler.tasks.values()
        commands += [cmd.CancelTask(task.spec.id) for task in tasks if task.state in OPEN]
        for command in commands:
            with contextlib.suppress(cmd.Rejected):  # a task may have been skipped with another one
                self.hands.apply(command)
        while live := self.some(TicketState.QUEUED, TicketState.BACKING_OFF, TicketState.IN_FLIGHT):
            self.before_each_end()
            in_flight = self.some(TicketState.IN_FLIGHT)
            if in_flight:
                self.hands.succeed(in_flight[0], Usage(10, 0, 0, 10))
            else:
                wake = self.hands.scheduler.wake_at()
                assert wake is not None, [ticket.state for ticket in live]
                self.hands.until(max(self.hands.now, wake))

    def before_each_end(self) -> None:
        """Do what has to be done for what still waits to end."""


def check_restored(last: Scheduler, new: Scheduler) -> None:
    """Nothing that was used, decided or submitted is lost with a scheduler, and nothing is counted twice."""
    in_flight = Counter[Account]()
    for agent in last.agents.values():
        for ticket in agent.tickets.values():
            for account in agent.accounts if ticket.so_far is not None and not ticket.waiting else ():
                in_flight[account] += ticket.so_far.total if ticket.so_far else 0
    assert new.pool.ever.tokens == last.pool.ever.tokens + in_flight[last.pool]
    for before in last.agents.everyone:
        after = new.agents.find(before.name)
        if after is None:
            assert before.own.ever == Spent(), before.name
            decided = before.budget, before.priority is not None, before.paused, before.stopped
            assert not any(decided)
            assert before.parent is None
            continue
        for old, fresh in ((before.own, after.own), (before.tree, after.tree)):
            assert fresh.ever.tokens == old.ever.tokens + in_flight[old]
            assert fresh.used("day").tokens == old.used("day").tokens + in_flight[old]
            assert (fresh.budget or None) == (old.budget or None)
        assert (after.priority, after.paused, after.stopped) == (before.priority, before.paused, before.stopped)
        parents = [None if each.parent is None else each.parent.name for each in (before, after)]
        leads = [None if each.lead is None else each.lead.name for each in (before, after)]
        assert parents[0] == parents[1], before.name
        assert leads[0] == leads[1], before.name
        if before.name in new.agents and before.name in last.agents:
            assert (after.task_gate, after.task_priority) == (before.task_gate, before.task_priority)
    assert {name: task.saved() for name, task in new.tasks.items()} == {
        name: task.saved() for name, task in last.tasks.items()
    }


def check_events(log: list[Event], tickets: list[Ticket]) -> None:
    """Time never goes back, every ticket ends exactly once, and its attempts are reported one by one."""
    assert all(sooner.at <= later.at for sooner, later in itertools.pairwise(log))
    ends: Counter[int | None] = Counter()
    grants: Counter[int] = Counter()
    for event in log:
        if isinstance(event, Finished | Abandoned | Refused) or (
            isinstance(event, AttemptFailed) and event.retry_in_s is None
        ):
            ends[event.ticket] += 1
        if isinstance(event, Granted):
            grants[event.ticket] += 1
            assert event.attempt == grants[event.ticket]
            assert not ends[event.ticket]
    assert ends == Counter({ticket.id: 1 for ticket in tickets})
    assert all(grants[ticket.id] == ticket.attempts for ticket in tickets)


def check_world(log: list[Event], now: float) -> None:
    """The fold takes every event and comes to the same counts."""
    world = World(at=0.0, wall=0.0, address="http://127.0.0.1", upstreams=())
    for event in log:
        world.apply(event)
    snapshot = world.snapshot(now)
    totals = snapshot.totals
    assert (snapshot.queued, len(snapshot.slots)) == (0, 0)
    assert totals.requests == totals.finished + totals.failed + totals.refused + totals.abandoned
    assert totals.finished == sum(isinstance(event, Finished) for event in log)
    assert sum(agent.finished for agent in snapshot.agents) == totals.finished
    assert sum(agent.requests for agent in snapshot.agents) == totals.requests
    assert all(agent.in_flight == agent.queued == 0 for agent in snapshot.agents)


TestHistories = Histories.TestCase
TestHistories.settings = of_histories(200, few=10)
