"""Events as a real scheduler tells them, of whatever somebody may think of doing with it."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from scheduler.driving import LANE, Hands, failure, lane_config

from hivemind.scheduler import commands as cmd
from hivemind.scheduler.config import RetryConfig, SchedulerConfig
from hivemind.scheduler.events import Event
from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import FailureKind, Priority, TaskSpec, Usage

AGENTS = ("ann", "ben", "ann/sub", "b.t1", "cem")
TASKS = ("b.t1", "b.t2", "b.t3", "lone")
LANES = (LANE, "up/2")
KINDS = tuple(FailureKind)
PRIORITIES = tuple(Priority)
OPS = ("arrive", "content", "progress", "succeed", "fail", "leave", "wait", "sample", "command")

Op = tuple[str, int, int]
"""What is done, and two numbers that say with whom and how."""


def price(_: str, model: str, usage: Usage) -> float | None:
    """Of one of the two models; the other's isn't known."""
    return usage.total / 300 if model == "m" else None


def randomly(seed: int, count: int) -> list[Op]:
    """So many of them, the likelier ones more often."""
    draw = Random(seed)
    likely = (*OPS, *("arrive", "succeed", "wait", "content", "sample") * 3)
    return [(draw.choice(likely), draw.randrange(1000), draw.randrange(1000)) for _ in range(count)]


def command(which: int, how: int) -> cmd.Command:
    """One of those there are."""
    agent, task = AGENTS[how % len(AGENTS)], TASKS[how % len(TASKS)]
    batch = (
        TaskSpec("b.t1", batch="b", estimated_tokens=300),
        TaskSpec("b.t2", Priority.HIGH, 500, ("b.t1",), agent="ann", batch="b", attempts=2),
        TaskSpec("b.t3", after=("b.t2",), agent="ann", batch="b", on_failure="skip"),
    )
    commands: tuple[cmd.Command, ...] = (
        cmd.SetPriority(agent, PRIORITIES[how % 4]),
        cmd.BoostAgent(agent, (0.0, 3.0, 30.0)[how % 3]),
        cmd.PauseAgent(agent, how % 3 == 0),
        cmd.StopAgent(agent, how % 6 == 0),
        cmd.SetBudget(agent, (None, 900, 900_000)[how % 3], covers="subtree" if how % 2 else "agent"),
        cmd.SetBudget(None, (None, None, 9_000, 900_000)[how % 4]),
        cmd.PauseAdmissions(how % 9 == 0),
        cmd.Drain(how % 40 == 0),
        cmd.Tune("aimd.beta", 0.6),
        cmd.PinLevel((None, 2.0, 5.0)[how % 3]),
        cmd.BeginAgent(agent, AGENTS[how % 3], task if how % 2 else None, resumed=how % 5 == 0),
        cmd.EndAgent(agent, (0, 1, -9, None)[how % 4]),
        cmd.SubmitTasks(batch),
        cmd.SubmitTasks((TaskSpec("lone", agent="ben"),)),
        cmd.ClaimTask(task, "r"),
        cmd.ClaimTask(task, "r"),
        cmd.FinishTask(task, how % 2 == 0, "exit code 1", again=how % 3 == 0),
        cmd.CancelTask(task),
        cmd.RetryTask(task),
        cmd.SetTaskPriority(task, PRIORITIES[how % 4]),
        cmd.ForgetTasks(("b", "")[how % 2]),
    )
    return commands[which % len(commands)]


class History:
    """A scheduler with two lanes, one of them without a limit, to which these things are done."""

    def __init__(self) -> None:
        config = SchedulerConfig(retry=RetryConfig(max_attempts=3))
        self.hands = Hands(lane_config(slots=3), config=config, draw=lambda: 0.5)
        self.hands.scheduler.open_lane(0.0, LANES[1], lane_config(slots=0, tpm=20_000))
        self.hands.gather()
        self.tickets: list[Ticket] = []

    def after(self, ops: Iterable[Op]) -> list[Event]:
        """Do all of this. Returns what happened, from the beginning."""
        for what, which, how in ops:
            self.step(what, which, how)
        return self.hands.log

    def step(self, what: str, which: int, how: int) -> None:
        """Do one thing, if it can be done."""
        hands = self.hands
        if what == "wait":
            hands.wait((0.0, 0.01, 0.3, 1.0, 7.0)[which % 5])
        elif what == "sample":
            hands.gather()
            hands.log.append(hands.scheduler.sample(hands.now))
        elif what == "command":
            try:
                hands.apply(command(which, how))
            except cmd.Rejected:
                return
        elif what == "arrive":
            self._arrive(which, how)
        else:
            self._go_on(what, which, how)

    def _arrive(self, which: int, how: int) -> None:
        agent = AGENTS[which % len(AGENTS)]
        about = {"lane": LANES[how % 2], "size": how * 3, "family": ("m", "n")[how % 3 == 0]}
        parent = "ann" if agent == "ann/sub" else None
        self.tickets.append(self.hands.arrive(agent, priority=PRIORITIES[which % 4], parent=parent, **about))

    def _go_on(self, what: str, which: int, how: int) -> None:
        hands = self.hands
        in_flight = [ticket for ticket in self.tickets if ticket.state is TicketState.IN_FLIGHT]
        waiting = [ticket for ticket in self.tickets if ticket.state is TicketState.QUEUED]
        some = in_flight or (waiting if what == "leave" else [])
        if not some:
            return
        ticket = some[which % len(some)]
        usage = None if how % 5 == 0 else Usage(how, how % 7, 3, how // 2)
        match what:
            case "content":
                hands.content(ticket)
            case "progress":
                hands.scheduler.progress(hands.now, ticket, how)
                hands.gather()
            case "succeed":
                hands.succeed(ticket, usage)
            case "fail":
                delay_s = 2.0 if how % 4 == 0 else None
                hands.fail(ticket, failure(KINDS[how % len(KINDS)], retryable=how % 9 != 0, delay_s=delay_s))
            case _:
                hands.leave(ticket, usage)
