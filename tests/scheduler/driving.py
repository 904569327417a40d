"""A scheduler driven by hand: the test says what happens and what time it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hivemind.scheduler.commands import Command
from hivemind.scheduler.config import CircuitConfig, LaneConfig, QueueConfig, RetryConfig, SchedulerConfig
from hivemind.scheduler.events import Event, apart
from hivemind.scheduler.invariants import violations
from hivemind.scheduler.lane import Lane
from hivemind.scheduler.lease import LaneReport, Lease, LeaseState
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import Failure, FailureKind, Priority, Request, Usage

LANE = "up/1"
CHECKED_EACH = 150
"""Calls after which each the invariants are checked."""
CHECKED_EVERY = 150  # later calls, as of tests that count thousands of grants
E = TypeVar("E", bound=Event)

__all__ = ["LANE", "Hands", "circuit_lane", "failure", "lane_config", "request"]


def lane_config(
    *, slots: int = 1, rpm: int = 0, tpm: int = 0, rpm_binding: bool = False, reserve_max_tokens: bool = False
) -> LaneConfig:
    """A lane with so many slots and, unless said otherwise, no rate windows."""
    return LaneConfig(
        "up",
        "generic",
        max_concurrency=slots,
        rpm=rpm,
        tpm=tpm,
        rpm_binding=rpm_binding,
        reserve_max_tokens=reserve_max_tokens,
    )


def circuit_lane(*, slots: int = 8, when_open: str = "hold", window: int = 4) -> LaneConfig:
    return LaneConfig(
        "up",
        "generic",
        max_concurrency=slots,
        rpm=0,
        tpm=0,
        circuit=CircuitConfig(window=window, threshold=0.5, cooldown_s=10.0, when_open=when_open),  # type: ignore[arg-type]
    )


def request(
    agent: str = "a",
    *,
    lane: str = LANE,
    size: int = 400,
    max_out: int | None = None,
    priority: Priority | None = None,
    patience_s: float | None = None,
    family: str = "m",
    parent: str | None = None,
    waited_s: float = 0.0,
    prefix: int = 0,
    deadline_s: float | None = None,
) -> Request:
    return Request(
        agent,
        lane,
        family,
        family,
        size,
        max_out,
        True,
        priority=priority,
        patience_s=patience_s,
        parent=parent,
        waited_s=waited_s,
        prefix=prefix,
        deadline_s=deadline_s,
    )


def failure(
    kind: FailureKind = FailureKind.SERVER_ERROR, *, retryable: bool = True, delay_s: float | None = None
) -> Failure:
    return Failure(kind, retryable, delay_s=delay_s)


class Hands:
    """One scheduler, one lane, and a clock that is set by hand. Every event is kept in `log`."""

    def __init__(
        self,
        lane: LaneConfig | None = None,
        *,
        queue: QueueConfig | None = None,
        retry: RetryConfig | None = None,
        config: SchedulerConfig | None = None,
        draw: Callable[[], float] = lambda: 0.0,
        checked: bool = True,
        leasing: bool = False,
    ) -> None:
        self.now = 0.0
        self._checked = checked
        self._calls = 0
        self.log: list[Event] = []
        self.granted: list[Ticket] = []
        self.ending: list[Ticket] = []
        """Flying tickets whose attempt the scheduler wants ended."""
        settings = config or SchedulerConfig(queue=queue or QueueConfig(), retry=retry or RetryConfig())
        self.scheduler = Scheduler(settings, draw)
        self.scheduler.joins = True
        self.scheduler.leasing = leasing
        self.lane: Lane = self.scheduler.open_lane(0.0, LANE, lane or lane_config())

    def arrive(self, agent: str = "a", **about: object) -> Ticket:
        return self.take(request(agent, **about))  # type: ignore[arg-type]

    def take(self, wanted: Request) -> Ticket:
        ticket = self.scheduler.arrive(self.now, wanted)
        self.gather()
        return ticket

    def content(self, ticket: Ticket) -> None:
        self.scheduler.first_content(self.now, ticket)
        self.gather()

    def succeed(self, ticket: Ticket, usage: Usage | None = None) -> None:
        self.scheduler.succeed(self.now, ticket, 200, usage)
        self.gather()

    def fail(self, ticket: Ticket, what: Failure | None = None) -> float | None:
        again = self.scheduler.fail(self.now, ticket, what or failure())
        self.gather()
        return again

    def leave(self, ticket: Ticket, usage: Usage | None = None) -> None:
        self.scheduler.abandon(self.now, ticket, usage)
        self.gather()

    def apply(self, command: Command) -> None:
        self.scheduler.apply(self.now, command, "you")
        self.gather()

    def lease(self, state: LeaseState = LeaseState.LEASED, **about: object) -> None:
        self.scheduler.take_lease(self.now, LANE, Lease(state, **about))  # type: ignore[arg-type]
        self.gather()

    def report(self) -> LaneReport:
        report = self.scheduler.lease_report(self.now, LANE)
        assert report is not None
        self.gather()
        return report

    def wait(self, seconds: float) -> None:
        """Let time pass, stopping wherever the scheduler wants to act."""
        self.until(self.now + seconds)

    def until(self, at: float) -> None:
        while (due := self.scheduler.wake_at()) is not None and due <= at:
            self.now = max(self.now, due)
            self.scheduler.advance(self.now)
            self.gather()
        self.now = max(self.now, at)

    def gather(self) -> None:
        """Keep what happened, and check that every invariant holds."""
        self.log += [each for event in self.scheduler.events for each in apart(event)]
        self.scheduler.events.clear()
        in_flight = [ticket for ticket in self.scheduler.decisions if ticket.state is TicketState.IN_FLIGHT]
        self.granted += [ticket for ticket in in_flight if ticket.refusal is None]
        self.ending += [ticket for ticket in in_flight if ticket.refusal is not None]
        self.scheduler.decisions.clear()
        self._calls += 1
        if self._checked and (self._calls <= CHECKED_EACH or not self._calls % CHECKED_EVERY):
            assert not (broken := violations(self.scheduler, self.now)), broken

    def seen(self, kind: type[E]) -> list[E]:
        """Every event of this kind so far."""
        return [event for event in self.log if isinstance(event, kind)]
