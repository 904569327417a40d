"""What every wire format answers to, and the provider-neutral values they put into words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Protocol

from hivemind_mock.provider.limits import Reading

Headers = list[tuple[bytes, bytes]]
Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """A request as the mock understands it."""

    model: str
    stream: bool
    input_tokens: int
    """Four characters a token, at least one."""
    max_tokens: int = 0
    """Longest answer wanted; 0: not said."""
    show_usage: bool = True
    """Whether a stream tells its usage (OpenAI's `stream_options.include_usage`)."""
    variant: str = ""
    """Which of several operations or spellings of the format this is."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A good answer."""

    ident: str
    """24 letters and digits."""
    created: int
    """Seconds since the epoch."""
    pieces: tuple[str, ...]
    """The text, in the parts in which a stream brings it."""
    output_tokens: int
    cut: bool
    """It ended because `max_tokens` was reached."""
    took_s: float
    """For formats that tell how long it took."""

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class Trouble(Enum):
    """Why the mock answers with an error."""

    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    BAD_GATEWAY = "bad_gateway"
    QUOTA = "quota"
    BAD_REQUEST = "bad_request"
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True)
class Problem:
    """An error before a format has put it into words."""

    trouble: Trouble
    message: str
    ident: str
    retry_after_s: float | None = None

    @property
    def retry_after(self) -> Headers:
        """The `retry-after` header in whole seconds, rounded up; none where there is nothing to say."""
        return [] if self.retry_after_s is None else [(b"retry-after", b"%d" % math.ceil(self.retry_after_s))]


class Format(Protocol):
    """One provider's wire. Stateless."""

    name: str
    stream_type: bytes
    """Content type of its streams."""

    def ask(self, path: str, query: str, body: Body) -> Ask | None:
        """Read a POST; None where the path isn't this format's."""

    def whole(self, ask: Ask, reply: Reply) -> Body:
        """The answer in one piece."""

    def opening(self, ask: Ask, reply: Reply) -> bytes:
        """What a stream says before its first content; may be empty."""

    def piece(self, ask: Ask, reply: Reply, index: int) -> bytes:
        """The stream's event with piece number `index`."""

    def closing(self, ask: Ask, reply: Reply) -> bytes:
        """What a stream says after its last content."""

    def problem(self, problem: Problem) -> tuple[int, Headers, Body]:
        """Status, headers and body of an error."""

    def stream_problem(self, ask: Ask, problem: Problem, sent: int) -> bytes:
        """The same inside a stream that has begun and brought `sent` pieces."""

    def headers(self, ask: Ask | None, ident: str, readings: Sequence[Reading], wall: float) -> Headers:
        """Rate-limit and request-id headers of every reply; `wall` is the time in seconds since the epoch."""


def text_length(value: object) -> int:
    """Characters in every string under `value`, for counting tokens as a provider might."""
    return sum(len(text) for text in _texts(value))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in ("role", "type", "data"):
                yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def count_tokens(*values: object) -> int:
    """Input tokens of the texts under `values`: four characters a token, at least one."""
    return max(1, sum(map(text_length, values)) // 4)


def positive(value: object) -> int:
    """A positive whole number as sent, 0 for anything else."""
    return value if isinstance(value, int) and value > 0 else 0


def rfc3339(wall: float) -> str:
    """A moment as providers write it, to the second, rounded up so that nobody comes back too early.

    What a float leaves of a whole second isn't a reason to name the next one.
    """
    return datetime.fromtimestamp(math.ceil(round(wall, 3)), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def go_duration(seconds: float) -> str:
    """A duration as Go prints it (OpenAI's reset headers): `20ms`, `1.5s`, `6m0s`, `1h2m3s`; rounded up to the ms."""
    ms = math.ceil(seconds * 1000)
    if ms < 1000:
        return f"{ms}ms" if ms else "0s"
    minutes, rest = divmod(ms, 60_000)
    hours, minutes = divmod(minutes, 60)
    tail = f"{rest / 1000:g}s"
    if hours:
        return f"{hours}h{minutes}m{tail}"
    return f"{minutes}m{tail}" if minutes else tail
