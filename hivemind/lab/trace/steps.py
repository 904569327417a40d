"""The steps of a recorded run: requests with their attempts, commands, and which step followed from which."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hivemind.control.commands import command_from
from hivemind.scheduler import events as ev
from hivemind.scheduler.commands import Command, SubmitTasks
from hivemind.scheduler.types import Request, TaskSpec, Usage


@dataclass(slots=True, eq=False)
class Attempt:
    """An attempt as it was recorded."""

    granted_at: float
    in_flight: int
    """Requests in flight in the lane when the attempt began, itself included."""
    first_s: float | None = None
    """Seconds to the first content."""
    headed_s: float | None = None
    """Seconds to the response head, where its headers reported rate limits."""
    duration_s: float = 0.0
    usage: Usage | None = None
    failure: ev.AttemptFailed | None = None
    status: int = 200
    complete: bool = False
    """It was answered or failed; otherwise its client left or the recording ended first."""
    first_number: int | None = None
    """The :attr:`Step.number` of its first content."""
    end_number: int | None = None
    """The :attr:`Step.number` of its end."""


@dataclass(slots=True, eq=False)
class Step:
    """A recorded request or command, and the steps that followed from its end."""

    at: float
    """When it began."""
    after: list[tuple[float, Step]] = field(default_factory=list)
    """The steps that waited for its end, each with the seconds between the two."""
    number: int = 0
    """Its place among all steps, which orders simultaneous ones."""
    awaits: int = 1
    """How many steps have this one in their `after`; all of them must be over before it begins."""


@dataclass(slots=True, eq=False)
class CommandStep(Step):
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


@dataclass(slots=True, eq=False)
class RequestStep(Step):
    """A request. The steps in its `after` followed from its end."""

    arrived: ev.Arrived = None  # type: ignore[assignment]  # always given; fields of a base class have defaults
    attempts: list[Attempt] = field(default_factory=list)
    inherent: list[Attempt] = field(default_factory=list)
    """The attempts whose outcome neither rate limits nor outages explain, so that a simulation repeats it."""
    concurrent: list[tuple[float, Step]] = field(default_factory=list)
    """The steps that followed from its arrival, where an agent sends several requests at once."""
    end: str = "open"
    """`answered`, `failed`, `refused`, `left` or `open`."""
    ended_at: float = 0.0
    left_in_flight_s: float | None = None
    """Seconds from the beginning of its last attempt until its client left."""
    repeats: RequestStep | None = None
    """The unanswered request that its client repeated by this one."""
    _request: Request | None = None

    @property
    def request(self) -> Request:
        """The request as the scheduler takes it, made once for all simulations."""
        if self._request is None:
            self._request = self._as_request()
        return self._request

    def _as_request(self) -> Request:
        arrived = self.arrived
        return Request(
            agent=arrived.agent,
            lane=arrived.lane,
            model=arrived.model,
            family=arrived.family,
            size_chars=arrived.size_chars or arrived.estimated_input * 4,
            max_output_tokens=arrived.max_output_tokens,
            stream=arrived.stream,
            priority=arrived.asked,
            patience_s=arrived.patience_s,
            client=arrived.client,
            parent=arrived.parent,
            path=arrived.path,
        )

    @property
    def answered(self) -> Attempt | None:
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

    @property
    def left_after_s(self) -> float | None:
        """Seconds from its arrival until its client left."""
        return self.ended_at - self.at if self.end == "left" else None


def usage_at_start(usage: Usage | None) -> Usage | None:
    """Return the part of an answer's usage that is known when the answer begins."""
    if usage is None:
        return None
    return Usage(usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens, min(1, usage.output_tokens))
