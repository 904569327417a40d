"""What holds whatever happens, in whatever order: random histories, checked after every step."""

from __future__ import annotations

import itertools
from collections import Counter

from examples import examples
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from scheduler.driving import LANE, Hands, failure, lane_config

from hivemind.scheduler.commands import (
    BeginAgent,
    BoostAgent,
    Command,
    Drain,
    EndAgent,
    PauseAdmissions,
    PauseAgent,
    PinLevel,
    Rejected,
    ReleaseLane,
    SetBudget,
    SetCircuit,
    SetPriority,
    StopAgent,
    Tune,
)
from hivemind.scheduler.config import QueueConfig, RetryConfig, SchedulerConfig
from hivemind.scheduler.events import Abandoned, AttemptFailed, Event, Finished, Granted, Refused
from hivemind.scheduler.explain import lane_state
from hivemind.scheduler.ticket import Agent, Ticket, TicketState
from hivemind.scheduler.types import FailureKind, Priority, Usage, WindowKind, WindowReading
from hivemind.world.world import World

AGENTS = st.sampled_from(["ann", "ann/sub", "ann/deeper", "ben", "cem", "dora"])
PARENTS = {"ann/sub": "ann", "ann/deeper": "ann/sub", "ben": "ann/sub", "cem": "ben", "dora": None, "ann": None}
"""As requests tell them; commands may say otherwise."""
MAX_ATTEMPTS = 4
COMMANDS: st.SearchStrategy[Command] = st.one_of(
    st.builds(SetPriority, AGENTS, st.sampled_from(Priority)),
    st.builds(Tune, st.just("max_concurrency"), st.integers(0, 6)),
    st.builds(Tune, st.sampled_from(["rpm", "tpm"]), st.sampled_from([0, 5, 3000])),
    st.builds(Tune, st.just("aimd.floor"), st.floats(1, 3)),
    st.builds(Tune, st.just("circuit.window"), st.integers(1, 30)),
    st.builds(PinLevel, st.one_of(st.none(), st.floats(1, 6))),
    st.builds(SetCircuit, st.sampled_from(["auto", "open", "closed", "probe"])),
    st.builds(PauseAdmissions, st.booleans()),
    st.builds(Drain, st.booleans()),
    st.builds(PauseAgent, AGENTS, st.booleans()),
    st.builds(StopAgent, AGENTS, st.booleans()),
    st.builds(
        SetBudget,
        st.one_of(AGENTS, st.none()),
        st.sampled_from([None, 1, 800, 5000]),
        st.sampled_from([None, None, 0.0001, 0.01]),
        st.sampled_from([None, "run", "day", "ever"]),
        st.sampled_from([None, "agent", "subtree"]),
    ),
    st.builds(BeginAgent, AGENTS, st.one_of(st.none(), AGENTS), resumed=st.booleans()),
    st.builds(EndAgent, AGENTS, st.sampled_from([None, 0, 1])),
    st.builds(BoostAgent, AGENTS, st.sampled_from([0, 1, 30])),
    st.just(ReleaseLane(LANE)),
)


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

    @initialize(
        slots=st.integers(0, 4),
        rpm=st.sampled_from([0, 5, 60]),
        tpm=st.sampled_from([0, 3000]),
        depth=st.sampled_from([3, 100]),
        draw=st.floats(0, 0.999),
    )
    def begin(self, slots: int, rpm: int, tpm: int, depth: int, draw: float) -> None:
        config = SchedulerConfig(
            queue=QueueConfig(max_depth=depth, max_wait_s=300.0), retry=RetryConfig(max_attempts=MAX_ATTEMPTS)
        )
        self.hands = Hands(lane_config(slots=slots, rpm=rpm, tpm=tpm), config=config, draw=lambda: draw)

    def some(self, *states: TicketState) -> list[Ticket]:
        return [ticket for ticket in self.tickets if ticket.state in states]

    def pick(self, which: int, *states: TicketState) -> Ticket:
        found = self.some(*states)
        return found[which % len(found)]

    @property
    def flying(self) -> bool:
        return bool(self.some(TicketState.IN_FLIGHT))

    # --- What may happen -------------------------------------------------------------------------------------------

    @rule(
        agent=AGENTS,
        size=st.integers(0, 8000),
        priority=st.one_of(st.none(), st.sampled_from(Priority)),
        patience_s=st.sampled_from([None, 0.0, 5.0, 100.0]),
        family=st.sampled_from(["m", "n"]),
    )
    def arrive(self, agent: str, size: int, priority: Priority | None, patience_s: float | None, family: str) -> None:
        self.tickets.append(
            self.hands.arrive(
                agent, size=size, priority=priority, patience_s=patience_s, family=family, parent=PARENTS[agent]
            )
        )

    @precondition(lambda self: self.flying)
    @rule(which=st.integers(0, 99))
    def first_content(self, which: int) -> None:
        ticket = self.pick(which, TicketState.IN_FLIGHT)
        if not ticket.content_started:
            self.hands.content(ticket)

    @precondition(lambda self: self.flying)
    @rule(which=st.integers(0, 99), known=st.booleans(), output=st.integers(0, 2000))
    def succeed(self, which: int, known: bool, output: int) -> None:
        self.hands.succeed(self.pick(which, TicketState.IN_FLIGHT), Usage(100, 10, 5, output) if known else None)

    @precondition(lambda self: self.flying)
    @rule(
        which=st.integers(0, 99),
        kind=st.sampled_from(FailureKind),
        retryable=st.booleans(),
        delay_s=st.sampled_from([None, None, 0.0, 0.5, 20.0, 1000.0]),
    )
    def fail(self, which: int, kind: FailureKind, retryable: bool, delay_s: float | None) -> None:
        if kind in (FailureKind.QUOTA, FailureKind.CLIENT_ERROR):
            retryable = False
        self.hands.fail(self.pick(which, TicketState.IN_FLIGHT), failure(kind, retryable=retryable, delay_s=delay_s))

    @precondition(lambda self: self.flying)
    @rule(
        which=st.integers(0, 99),
        kind=st.sampled_from(WindowKind),
        limit=st.sampled_from([None, -1, 0, 5, 1000]),
        share=st.floats(0, 1),
        reset_in_s=st.one_of(st.none(), st.floats(-5, 120)),
    )
    def headers(self, which: int, kind: WindowKind, limit: int | None, share: float, reset_in_s: float | None) -> None:
        reading = WindowReading(kind, limit, int(share * max(limit or 5, 0)), reset_in_s)
        self.hands.scheduler.headers(self.hands.now, self.pick(which, TicketState.IN_FLIGHT), (reading,))

    @precondition(lambda self: bool(self.tickets))
    @rule(which=st.integers(0, 99))
    def leave(self, which: int) -> None:
        self.hands.leave(self.tickets[which % len(self.tickets)])

    @rule(command=COMMANDS)
    def command(self, command: Command) -> None:
        try:
            self.hands.scheduler.apply(self.hands.now, command, "you")
        except Rejected:
            named = SetPriority | PauseAgent | StopAgent | BoostAgent | EndAgent | Tune
            assert isinstance(command, named) or (isinstance(command, SetBudget) and command.agent is None)
        self.hands.gather()

    @precondition(lambda self: bool(self.hands.ending))
    @rule(used=st.integers(0, 500))
    def end(self, used: int) -> None:
        self.hands.leave(self.hands.ending.pop(), Usage(100, 0, 0, used))

    @rule()
    def prices_come(self) -> None:
        self.hands.scheduler.price_by(dollars, self.hands.now)
        self.hands.gather()

    @rule()
    def midnight(self) -> None:
        self.hands.scheduler.begin_period(self.hands.now, "day")
        self.hands.gather()

    @rule(seconds=st.sampled_from([0.001, 0.3, 2.0, 15.0, 70.0]))
    def pass_time(self, seconds: float) -> None:
        self.hands.wait(seconds)

    # --- What always holds -----------------------------------------------------------------------------------------

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "hands"):
            return
        lane = self.hands.lane
        assert lane.gate.active == len(self.some(TicketState.IN_FLIGHT))
        assert lane.queue.waiting == len(self.some(TicketState.QUEUED))
        assert len(lane.backing_off) == len(self.some(TicketState.BACKING_OFF))
        for agent in self.hands.scheduler.agents.values():
            flying = [ticket for ticket in self.some(TicketState.IN_FLIGHT) if ticket.agent is agent]
            assert agent.in_flight == len(flying)
            assert agent.held is (any(each.paused for each in agent.line) or agent.out_of_budget)
            assert agent.limits == tuple(account for account in agent.accounts if account.budget)
            assert all(ticket.state is not TicketState.DONE for ticket in agent.tickets.values())

    @invariant()
    def the_books_agree(self) -> None:
        """An agent's account is the sum of its own and its parts', a subtree's that of all in it, the pool's of all."""
        if not hasattr(self, "hands"):
            return
        scheduler = self.hands.scheduler
        agents = list(scheduler.agents.values())
        used, flying = Counter[str](), self.some(TicketState.IN_FLIGHT)
        for event in self.hands.log:
            used[getattr(event, "agent", "")] += usage.total if (usage := getattr(event, "usage", None)) else 0
        for account in {scheduler.pool, *(each for agent in agents for each in (agent.own, agent.tree))}:
            under = {agent.name for agent in agents if account in agent.accounts}
            mine = [ticket for ticket in flying if ticket.agent.name in under]
            assert account.in_flight == len(mine)
            assert account.reserved_tokens == sum(t.estimated_input + t.estimated_output for t in mine)
            assert account.ever.tokens == sum(used[name] for name in under)
            assert account.ever.tokens >= account.used("day").tokens >= 0
        for agent in agents:
            alone = {each.name for each in agents if agent in each.line}
            below = {each.name for each in agents if each is agent or agent in _ancestors(each)}
            assert {each.name for each in agents if agent.own in each.accounts} == alone
            assert {each.name for each in agents if agent.tree in each.accounts} == below
        for account in (scheduler.pool, *(each for agent in agents for each in agent.accounts)):
            assert account.shut is (bool(account.budget) and account.full)
            assert account.in_flight or not account.short, "an agent waits for nothing"

    @invariant()
    def nothing_is_negative_or_beyond_its_bounds(self) -> None:
        if not hasattr(self, "hands"):
            return
        lane, now = self.hands.lane, self.hands.now
        assert lane.aimd.level >= min(lane.aimd.config.floor, lane.aimd.ceiling)
        assert lane.aimd.level <= lane.aimd.ceiling
        assert 0 <= lane.circuit.errors <= lane.circuit.results
        state = lane_state(lane, now, paused=False)
        assert all(w.used > -1e-6 and w.reserved > -1e-6 and w.remaining >= 0 for w in state.windows)
        assert len(state.upcoming) == lane.queue.waiting + len(lane.backing_off)
        assert all(ticket.attempts <= MAX_ATTEMPTS for ticket in self.tickets)

    # --- How it ends -----------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        if not hasattr(self, "hands"):
            return
        self.let_everything_end()
        lane = self.hands.lane
        assert lane.gate.active == lane.queue.waiting == len(lane.backing_off) == 0
        self.hands.wait(61.0)
        for window in (each for allowance in lane.allowances.values() for each in allowance.windows.values()):
            assert window.delay_s(self.hands.now, 0.0) >= 0
            assert abs(window.reserved) < 1e-6
            assert abs(window.stated._pending) < 1e-6
        check_events(self.hands.log, self.tickets)
        check_world(self.hands.log, self.hands.now)

    def let_everything_end(self) -> None:
        """Without faults and pauses every ticket is sent or is refused, whatever budgets there are."""
        names = list(self.hands.scheduler.agents)
        commands: list[Command] = [SetCircuit("auto"), PauseAdmissions(False), Drain(False)]
        commands += [each(name, False) for name in names for each in (PauseAgent, StopAgent)]
        for command in commands:
            self.hands.scheduler.apply(self.hands.now, command, "you")
        self.hands.gather()
        while live := self.some(TicketState.QUEUED, TicketState.BACKING_OFF, TicketState.IN_FLIGHT):
            flying = self.some(TicketState.IN_FLIGHT)
            if flying:
                self.hands.succeed(flying[0], Usage(10, 0, 0, 10))
            else:
                wake = self.hands.scheduler.wake_at()
                assert wake is not None, [ticket.state for ticket in live]
                self.hands.until(max(self.hands.now, wake))


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
    assert all(agent.flying == agent.queued == 0 for agent in snapshot.agents)


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=examples(60),
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
