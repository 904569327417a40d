"""What goes to the simulating process and what comes back: MessagePack, each message with its length in front."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import msgspec

from hivemind.journal.figures import Figures
from hivemind.lab.tune.overrides import Change

HEAD = struct.Struct(">I")
"""A message's length in bytes."""
MESSAGE_LIMIT = 4 << 20
"""A longer message means that the two sides no longer understand each other."""


class Look(msgspec.Struct, frozen=True, tag=True):
    """Read a recording."""

    path: str


class Try(msgspec.Struct, frozen=True, tag=True):
    """Simulate a recording with these changes, and with none."""

    path: str
    changes: tuple[Change, ...]


class Stage(msgspec.Struct, frozen=True, tag=True):
    """What is being done now."""

    words: str
    share: float | None = None
    """How much of it is done, 1 being all; None: nobody knows."""


class Looked(msgspec.Struct, frozen=True, tag=True):
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
    """By knob, how often the operator turned it meanwhile."""
    told: tuple[str, ...]
    """What is wrong with it, a line each."""
    foreign: bool = False
    """It was recorded without HiveMind."""


class Course(msgspec.Struct, frozen=True):
    """A run over time, in stretches of equal length from its begin on; each value is the mean of its stretch."""

    width_s: float
    flying: list[float]
    waiting: list[float]
    """In the queue, or between two attempts."""
    level: list[float | None]
    """Of all lanes together; None: there was no limit."""

    @property
    def lasts_s(self) -> float:
        """To the end of the last stretch."""
        return self.width_s * len(self.flying)


class Run(msgspec.Struct, frozen=True):
    """What a run came to, and its course."""

    figures: Figures
    course: Course


class Outcome(msgspec.Struct, frozen=True, tag=True):
    """The answer to :class:`Try`."""

    changes: tuple[Change, ...]
    recorded: Run
    replayed: Run
    """Simulated with the recorded settings: how far the model is to be trusted."""
    tried: Run
    """Simulated with the changes; the same as `replayed` where there are none."""
    parted_s: float | None
    """From the begin until the two simulated runs differ; None: they never do."""
    foreign: bool = False
    """It was recorded without HiveMind, so `replayed` is what HiveMind's usual settings would have made of it."""


class Refused(msgspec.Struct, frozen=True, tag=True):
    """There is no answer, and why."""

    why: str


Question = Look | Try
Answer = Looked | Outcome | Refused
Message = Stage | Answer


def pack(message: Question | Message) -> bytes:
    """The message as it goes through the pipe."""
    body = msgspec.msgpack.encode(message)
    return HEAD.pack(len(body)) + body
