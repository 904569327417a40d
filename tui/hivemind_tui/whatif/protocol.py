"""Messages to and from the simulation process."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hivemind.lab.foresight.told import Answer
from hivemind.lab.simulate.overrides import Change


class ReadRecording(msgspec.Struct, frozen=True, tag=True):
    """A request to read a recording."""

    path: str


class Simulate(msgspec.Struct, frozen=True, tag=True):
    """A request to foretell what these changes do to a recording."""

    path: str
    changes: tuple[Change, ...]


class Progress(msgspec.Struct, frozen=True, tag=True):
    """Progress of the answer."""

    words: str
    share: float | None = None
    """Of the work, 1 being all; None if unknown."""


class RecordingSummary(msgspec.Struct, frozen=True, tag=True):
    """What a recording holds."""

    name: str
    began_wall: float
    """Seconds since the epoch."""
    lasts_s: float
    requests: int
    agents: int
    upstreams: Mapping[str, Mapping[str, float]]
    """By name, the knobs that the recording began with."""
    turned: Mapping[str, int]
    """By knob, how often the operator tuned it while it was recorded."""
    defects: tuple[str, ...]
    """What is wrong with the recording, a line each."""
    foreign: bool = False
    """Whether it was recorded without HiveMind."""


class RunSeries(msgspec.Struct, frozen=True):
    """A run over time, in intervals of equal length; each value is the mean of its interval."""

    width_s: float
    in_flight: list[float]
    waiting: list[float]
    """In the queue, or between two attempts."""
    level: list[float | None]
    """The sum of all lanes; None where there was no limit."""

    @property
    def lasts_s(self) -> float:
        """Seconds to the end of the last interval."""
        return self.width_s * len(self.in_flight)


class WhatIfResult(msgspec.Struct, frozen=True, tag=True):
    """The answer to :class:`Simulate`."""

    answer: Answer
    recorded: RunSeries
    tried: RunSeries
    """Simulated with the changes and the recorded luck, and as long as the answer says: the simulation's own length has
    the model's error, and the luck of one run."""
    diverged_after_s: float | None
    """Seconds until the runs simulated without and with the changes differ; None if they never do."""


class WhatIfFailed(msgspec.Struct, frozen=True, tag=True):
    """The reason why there is no answer."""

    why: str


Question = ReadRecording | Simulate
Message = Progress | RecordingSummary | WhatIfResult | WhatIfFailed
QUESTIONS: msgspec.msgpack.Decoder[Question] = msgspec.msgpack.Decoder(Question)
MESSAGES: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
