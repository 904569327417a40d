"""When a failed attempt may be made again (paper, equation 4), and how many of them there may be."""

from __future__ import annotations

import math
from collections.abc import Callable

from hivemind.scheduler.config import RetryConfig
from hivemind.scheduler.ticket import Ticket
from hivemind.scheduler.types import Failure, FailureKind

MAX_PAUSE_S = 300.0
"""A provider that asks for a longer pause means a quota, not a rate; its reply goes to the agent."""
LATEST_WEIGHT = 0.1  # of the latest attempt, in means that follow the present
MOSTLY = 0.3  # a lane of which no larger share fails, the last failure included, mostly works
_CHANCE = frozenset({FailureKind.DISCONNECTED, FailureKind.SERVER_ERROR})
"""Failures that strike single requests while others succeed: in a lane that mostly works the first is retried at
once."""


def backoff_s(config: RetryConfig, failures: int, draw: float) -> float:
    """Return the delay d_k before the next attempt after k = `failures` earlier ones in a row: paper, equation 4.

    `draw` is uniform in [0, 1).
    """
    return min(config.max_s, config.base_s * 2.0 ** min(failures, 30) + draw * config.base_s)


class Retries:
    """A lane's retries: how its attempts have fared lately, and its retry budget.

    Retries are a share of the traffic, so that an outage isn't answered with a multiple of it. Each request earns a
    fraction of a retry, and so does each second; one that isn't covered yet is put off until it will be.
    """

    def __init__(self, config: RetryConfig) -> None:
        self.config = config
        self.failure_share = 0.5
        """Of recent attempts, each weighing less than the next; a half until there are any."""
        self.failures_in_row = 0  # since the last success of any request
        self._balance = config.budget_reserve  # retries that may be made now
        self._earned_at: float | None = None

    def note(self, *, ok: bool) -> None:
        """Count the outcome of an attempt."""
        self.failures_in_row = 0 if ok else self.failures_in_row + 1
        self.failure_share += LATEST_WEIGHT * ((not ok) - self.failure_share)

    def earn(self) -> None:
        """Credit an arrived request."""
        if self._balance < self.config.budget_reserve:
            self._balance = min(self.config.budget_reserve, self._balance + self.config.budget_ratio)

    def spend(self, now: float) -> float:
        """Take one retry. Return the seconds to put it off for: 0 if the budget covers it, inf if it never will."""
        if self._earned_at is not None:
            earned = (now - self._earned_at) * self.config.budget_rate_per_s
            self._balance = min(self.config.budget_reserve, self._balance + earned)
        self._earned_at = now
        if self._balance < 1 and not self.config.budget_rate_per_s:
            return math.inf
        self._balance -= 1
        return max(0.0, -self._balance / self.config.budget_rate_per_s) if self._balance < 0 else 0.0

    def refund(self, retries: int) -> None:
        """Return retries to the budget that no outage made necessary."""
        self._balance = min(self.config.budget_reserve, self._balance + retries)

    def next_attempt_at(self, ticket: Ticket, failure: Failure, now: float, draw: Callable[[], float]) -> float | None:
        """Return when a ticket whose attempt failed may be tried again; None: not at all.

        Counts the fault on the ticket and takes the retry from the budget, unless an operator wants it.
        """
        if failure.kind is FailureKind.CUT:
            return now if failure.retryable and not ticket.content_started else None
        stated_s = failure.delay_s or 0.0
        exact = stated_s > 0 and failure.kind is FailureKind.RATE_LIMITED
        ticket.faults += not exact
        if ticket.content_started or not failure.retryable or ticket.attempts >= self.config.max_attempts:
            return None
        if ticket.at_fault or stated_s > MAX_PAUSE_S:
            return None
        if exact:
            delay_s = stated_s
        elif not stated_s and ticket.faults == 1 and self.failure_share <= MOSTLY and failure.kind in _CHANCE:
            delay_s = 0.0
        else:
            # A failure among others' successes is bad luck, not an upstream that needs ever longer delays.
            in_row = min(ticket.faults, self.failures_in_row)
            # One that fails or is full often states the same second each time, however long that lasts.
            delay_s = max(stated_s, backoff_s(self.config, in_row - 1, draw()))
        free = failure.at_home and ticket.fault is not None and ticket.fault.free
        at = now + (delay_s if free else max(delay_s, self.spend(now)))
        ticket.expires_at = min(ticket.expires_at, ticket.arrived_at + self.config.deadline_s)
        return at if at <= ticket.expires_at else None
