"""What a recorded run is made of: requests with their attempts, orders, and what followed from what."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Request, Usage


@dataclass(slots=True, eq=False)
class Try:
    """An attempt as it was recorded."""

    granted_at: float
    flying: int
    """In flight in the lane when it began, itself included."""
    first_s: float | None = None
    """To the first content."""
    headed_s: float | None = None
    """To the head, where that told of rate limits."""
    took_s: float = 0.0
    """To its end."""
    usage: Usage | None = None
    failure: ev.AttemptFailed | None = None
    status: int = 200
    whole: bool = False
    """It came to an end of its own: answered or failed."""
    first_number: int | None = None
    """Of its first content among all steps, as :attr:`Step.number`."""
    end_number: int | None = None
    """Likewise, of its end."""


@dataclass(slots=True, eq=False)
class Step:
    """Something that was done, and what was done because it was over, so many seconds later."""

    at: float
    """When it began, as recorded."""
    after: list[tuple[float, Step]] = field(default_factory=list)
    number: int = 0
    """Its place among all steps: of what comes at the same moment the lower one is first."""
    awaits: int = 1
    """Over must so many of those be whose `after` it is in."""


@dataclass(slots=True, eq=False)
class Order(Step):
    """A command that was carried out."""

    who: str = ""
    name: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    tasks: list[ev.TaskAdded] = field(default_factory=list)
    """Those that it submitted."""


@dataclass(slots=True, eq=False)
class Asked(Step):
    """A request. Its `after` is what its end brought about."""

    arrived: ev.Arrived = None  # type: ignore[assignment]  # always given; fields of a base class have defaults
    tries: list[Try] = field(default_factory=list)
    own: list[Try] = field(default_factory=list)
    """Of these the ones that befell it for no reason that a simulation would find by itself."""
    beside: list[tuple[float, Step]] = field(default_factory=list)
    """What followed from its arrival: an agent that sends several at once."""
    end: str = "open"
    """`answered`, `failed`, `refused`, `left` or `open`."""
    ended_at: float = 0.0
    left_flying_s: float | None = None
    """Its client left so long after its last attempt had begun."""
    repeats: Asked | None = None
    """The failed one that its client asks again."""

    request: Request | None = None
    """The same for the scheduler, once it is wanted."""

    @property
    def answered(self) -> Try | None:
        """The attempt that was, if one was."""
        return next((one for one in reversed(self.tries) if one.whole and one.failure is None), None)

    @property
    def repeated(self) -> int:
        """How often it had been asked for before."""
        count, each = 0, self.repeats
        while each is not None:
            count, each = count + 1, each.repeats
        return count

    @property
    def kind(self) -> tuple[int, str, str, bool]:
        """What a repetition of it has in common with it."""
        arrived = self.arrived
        return arrived.size_chars, arrived.model, arrived.path, arrived.stream

    @property
    def left_after_s(self) -> float | None:
        """Its client left so long after its arrival."""
        return self.ended_at - self.at if self.end == "left" else None
