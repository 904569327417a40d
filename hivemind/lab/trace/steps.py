"""The steps of a recorded run: requests with their attempts, and commands.

A request follows from answers of its agent or sub-agents, or from the start of its process.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from hivemind.control.parsing import command_from
from hivemind.journal.records import UNEXPLAINED
from hivemind.scheduler import events as ev
from hivemind.scheduler.commands import Command, SubmitTasks
from hivemind.scheduler.types import Failure, FailureKind, Request, TaskSpec, Usage

REPEAT_S = 120.0
"""Within this time after an error, the same request is taken for a retry of the client."""
AT_ONCE_S = 0.05
"""Requests of one agent that arrive within this time of each other were sent concurrently."""
_MOST_LEAVES = 100
_UNCHARGED = frozenset({FailureKind.RATE_LIMITED, FailureKind.OVERLOADED, FailureKind.QUOTA, FailureKind.CONNECT})
"""Kinds of failures before any work."""
_REPEATED = frozenset({"failed", "refused", "left"})


class Work(NamedTuple):
    """The work of a recorded answer, in seconds of the service clock since the provider began with it."""

    whole: float
    first: float
    """Until its first content."""
    head: float
    """Until its head; below 0 if that came before the provider began with the answer."""


@dataclass(slots=True, eq=False)
class TracedAttempt:
    """An attempt as it was recorded, or as it is simulated."""

    granted_at: float = 0.0
    in_flight: int = 0
    """Requests in flight in the lane when the attempt began, itself included."""
    first_s: float | None = None
    """Seconds to the first content."""
    headed_s: float | None = None
    """Seconds to the response head, where its headers reported rate limits."""
    duration_s: float = 0.0
    usage: Usage | None = None
    failure: Failure | None = None
    retry_in_s: float | None = None
    """The delay before the next attempt, if it failed and another one followed."""
    status: int = 200
    complete: bool = False
    """It was answered or failed; otherwise its client left or the recording ended first."""
    first_number: int | None = None
    """The :attr:`TraceStep.number` of its first content; None if that isn't the request's own."""
    end_number: int | None = None
    """The :attr:`TraceStep.number` of its end; None if the attempt isn't the request's own."""
    charged: bool = True
    """Simulated limits count it."""
    unused_s: float = math.inf
    """For how long its conversation hadn't been used when it began; infinity: it was the first."""
    row: int = -1
    """Its place in :attr:`hivemind.lab.fit.service.Service.work`; -1: it isn't there."""
    work: Work | None = None
    """What its answer takes the simulated provider; None: its times are given in seconds."""

    def failed_as(self, kind: FailureKind) -> bool:
        """Return whether it failed in this way."""
        return self.failure is not None and self.failure.kind is kind

    @property
    def uncharged(self) -> bool:
        """It failed before any work, so that limits don't count it; so is taken of what isn't recorded."""
        return self.failed_somehow or (self.failure is not None and self.failure.kind in _UNCHARGED)

    @property
    def failed_somehow(self) -> bool:
        """Another program's recording doesn't say how it failed."""
        return self.failure is not None and self.failure.message == UNEXPLAINED

    def slow_down(self, by: float) -> None:
        """Let it take so many times as long."""
        self.duration_s *= by
        self.first_s = None if self.first_s is None else self.first_s * by
        self.headed_s = None if self.headed_s is None else self.headed_s * by
        if self.work is not None:
            self.work = Work(*(each * by for each in self.work))


@dataclass(slots=True, eq=False)
class TraceStep:
    """A recorded request or command, and the steps that followed from its end."""

    at: float
    """When it began."""
    after: list[tuple[float, TraceStep]] = field(default_factory=list)
    """The steps that waited for its end, each with the seconds between the two."""
    number: int = 0
    """Its place among all steps, which orders simultaneous ones."""
    awaits: int = 1
    """How many steps have this one in their `after`; all of them must be over before it begins."""


@dataclass(slots=True, eq=False)
class CommandStep(TraceStep):
    """A command that was carried out."""

    who: str = ""
    name: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    tasks: list[ev.TaskAdded] = field(default_factory=list)
    """The tasks that it submitted."""

    @property
    def setting(self) -> str | None:
        """The setting that it changed, named as in a what-if change."""
        arguments = self.arguments
        names = {
            "Tune": arguments.get("knob"),
            "SetPriority": f"agent.{arguments.get('agent')}.priority",
            "SetBudget": f"agent.{arguments.get('agent')}.budget",
        }
        return names.get(self.name)

    def command(self) -> Command:
        """Return the scheduler's command. Raises: Rejected: the command is unknown, or its arguments are invalid."""
        if self.name == "SubmitTasks":
            return SubmitTasks(
                tuple(
                    TaskSpec(each.task, each.priority, each.estimated_tokens, each.after, each.agent, each.batch)
                    for each in self.tasks
                )
            )
        return command_from(self.name, self.arguments)


@dataclass(slots=True, eq=False, kw_only=True)
class RequestStep(TraceStep):
    """A request. The steps in its `after` followed from its end."""

    arrived: ev.Arrived
    request: Request
    """As the scheduler takes it."""
    attempts: list[TracedAttempt] = field(default_factory=list)
    unrefused: list[TracedAttempt] = field(default_factory=list)
    """The complete attempts that neither rate limits nor places refused."""
    at_fault: bool = False
    """It fails whenever it is sent."""
    inherent: list[TracedAttempt] = field(default_factory=list)
    """The attempts whose outcome neither limits nor spells explain, so that a simulation repeats it."""
    concurrent: list[tuple[float, TraceStep]] = field(default_factory=list)
    """The steps that followed from its arrival, where an agent sends several requests at once."""
    end: str = "open"
    """`answered`, `failed`, `refused`, `left` or `open`."""
    ended_at: float = 0.0
    proxy: int = 0
    """Which of several proxies it was recorded at."""
    left_in_flight_s: float | None = None
    """Seconds from the beginning of its last attempt until its client left."""
    repeats: RequestStep | None = None
    """The unanswered request that its client repeated by this one."""

    @property
    def answered(self) -> TracedAttempt | None:
        """The attempt that was answered, if any."""
        return next((one for one in reversed(self.attempts) if one.complete and one.failure is None), None)

    @property
    def repeated(self) -> int:
        """How often the same request had been sent before."""
        count, each = 0, self.repeats
        while each is not None:
            count, each = count + 1, each.repeats
        return count

    @property
    def signature(self) -> tuple[int, str, str, bool]:
        """What a repetition has in common with the original."""
        arrived = self.arrived
        return arrived.size_chars, arrived.model, arrived.path, arrived.stream


RequestAttempt = tuple[RequestStep, TracedAttempt]
"""An attempt and its request."""


def usage_at_start(usage: Usage | None) -> Usage | None:
    """Return the part of an answer's usage that is known when the answer begins."""
    if usage is None:
        return None
    return usage.with_output(min(1, usage.output_tokens))


@dataclass(slots=True, eq=False)
class AgentHistory:
    """The latest steps of an agent, from which its next request may follow."""

    parent: AgentHistory | None
    """The agent whose latest step its first request follows from."""
    started_by: CommandStep | None = None
    """The command that started its process, until its first request."""
    last_request: RequestStep | None = None
    """The latest request to arrive."""
    last_ended: RequestStep | None = None
    """The latest request to end."""
    unfollowed: list[RequestStep] = field(default_factory=list)
    """Requests that are over and from which nothing has followed yet, by their ends."""
    open: int = 0
    """Requests that aren't over."""
    children: dict[AgentHistory, float] = field(default_factory=dict)
    """Sub-agents that it hasn't waited for yet, and when they began."""

    def anchors(self, request: RequestStep) -> tuple[list[RequestStep | CommandStep], bool]:
        """Return the steps that its next request follows from, and whether from their ends or from one's beginning.

        Also sets which request it repeats.
        """
        if self.started_by is not None:
            started_by, self.started_by = self.started_by, None
            return [started_by], True
        if self.last_request is None:
            return ([], True) if self.parent is None else self.parent._latest()
        again = self._repeated(request)
        if again is not None:
            request.repeats = again
            self.unfollowed.remove(again)
            return [again], True
        awaited = self._awaited()
        if awaited:
            self.unfollowed.clear()
            return list(awaited), True
        if not self.unfollowed:
            return self._latest()
        # Was it sent concurrently with the latest request?
        came = self.last_request.at
        if came >= self.unfollowed[-1].ended_at and request.at - came < AT_ONCE_S:
            return [self.last_request], False
        if not self.open and self._were_concurrent():
            leaves, self.unfollowed = self.unfollowed, []
            return list(leaves), True
        return [self.unfollowed.pop()], True

    def arrived(self, request: RequestStep) -> None:
        """Record the arrival of a request."""
        self.last_request = request
        self.open += 1

    def ended(self, request: RequestStep) -> None:
        """Record the end of a request."""
        self.last_ended = request
        self.unfollowed.append(request)
        del self.unfollowed[:-_MOST_LEAVES]
        self.open -= 1

    def _latest(self) -> tuple[list[RequestStep | CommandStep], bool]:
        """Return its latest step, if nothing better is known."""
        request, ended = self.last_request, self.last_ended
        if request is None:
            return ([], True) if self.started_by is None else ([self.started_by], True)
        if ended is None or (request is not ended and request.at > ended.ended_at):
            return [request], False
        return [ended], True

    def _repeated(self, request: RequestStep) -> RequestStep | None:
        """Return the unanswered request that this one repeats, if any."""
        for last in reversed(self.unfollowed):
            if request.at - last.ended_at > REPEAT_S:
                return None
            if last.end in _REPEATED and last.signature == request.signature and request.arrived.size_chars:
                return last
        return None

    def _awaited(self) -> list[RequestStep]:
        """Return the last requests of sub-agents that it waited for, doing nothing else meanwhile."""
        if self.open or not self.children or self.last_ended is None:
            return []
        over = [
            child
            for child, since in self.children.items()
            if not child.open and child.last_ended is not None and since >= self.last_ended.ended_at
        ]
        for child in over:
            del self.children[child]
        return [child.last_ended for child in over if child.last_ended is not None]

    def _were_concurrent(self) -> bool:
        """Return whether all requests that are over were sent concurrently."""
        if len(self.unfollowed) < 2:
            return False
        came = sorted(each.at for each in self.unfollowed)
        return all(two - one < AT_ONCE_S for one, two in pairwise(came))
