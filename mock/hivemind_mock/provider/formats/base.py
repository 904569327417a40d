"""What every wire format answers to, and the provider-neutral values that it renders."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import msgspec
from msgspec import Struct

from hivemind.scheduler.admission.warmth import CACHING
from hivemind_mock.provider.cache import Prompt, unmarked
from hivemind_mock.provider.limits import Reading

Headers = list[tuple[bytes, bytes]]
Body = Mapping[str, Any]


class Request(Struct, frozen=True):
    """A request as the mock understands it."""

    model: str
    stream: bool
    input_tokens: int
    """Four characters a token, at least one."""
    max_tokens: int = 0
    """Longest answer wanted; 0: not said."""
    show_usage: bool = True
    """Whether a stream reports its usage (OpenAI's `stream_options.include_usage`)."""
    variant: str = ""
    """Which of several operations or spellings of the format this is."""


class ToolCall(Struct, frozen=True):
    """A call of a tool in place of text."""

    name: str
    space: str
    arguments: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The arguments as JSON."""
        return msgspec.json.encode(self.arguments).decode()


class MockReply(Struct, frozen=True):
    """A good answer, in no format yet."""

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
    """For formats that report how long it took."""
    call: ToolCall | None = None
    """In place of the text."""
    cache_read: int = 0
    """Of the input tokens, those that count as read from a cache."""
    cache_written: int = 0
    """Likewise written to one."""
    cache_written_1h: int = 0
    """Of those, the ones to be kept for an hour."""

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class ErrorKind(Enum):
    """Why the mock answers with an error."""

    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    BAD_GATEWAY = "bad_gateway"
    QUOTA = "quota"


class ApiError(Struct, frozen=True):
    """An error, in no format yet."""

    kind: ErrorKind
    message: str
    ident: str
    retry_after_s: float | None = None

    @property
    def retry_after(self) -> Headers:
        """The `retry-after` header in whole seconds, rounded up; none where there is nothing to say."""
        return [] if self.retry_after_s is None else [(b"retry-after", b"%d" % math.ceil(self.retry_after_s))]


class Format(ABC):
    """One provider's wire format. Stateless."""

    name: str
    stream_type = b"text/event-stream; charset=utf-8"
    """Content type of its streams."""
    profile: str
    """The product's name of the provider."""

    @abstractmethod
    def parse(self, path: str, query: str, body: Body) -> Request | None:
        """Read a POST; None where the path isn't this format's."""

    def said(self, body: Body) -> tuple[object, ...]:
        """What counts as input of a request that :meth:`parse` has read, in the order in which it is cached."""
        return ()

    def prompt(self, body: Body) -> Prompt:
        """What a cache sees of a request that :meth:`parse` has read."""
        caching = CACHING.get(self.profile)
        return Prompt() if caching is None else unmarked("".join(texts(list(self.said(body)))), caching.kept_s)

    def states_written(self, request: Request, tokens: int) -> int:
        """How many of the tokens that were written to a cache its usage states, because they have a price."""
        return 0

    @abstractmethod
    def whole(self, request: Request, reply: MockReply) -> Body:
        """The answer in one piece."""

    def opening(self, request: Request, reply: MockReply) -> bytes:
        """What a stream says before its first content."""
        return b""

    @abstractmethod
    def piece(self, request: Request, reply: MockReply, index: int) -> bytes:
        """The stream's event with piece number `index`."""

    @abstractmethod
    def closing(self, request: Request, reply: MockReply) -> bytes:
        """What a stream says after its last content."""

    @abstractmethod
    def error(self, error: ApiError) -> tuple[int, Headers, Body]:
        """Status, headers and body of an error."""

    @abstractmethod
    def stream_error(self, request: Request, error: ApiError, sent: int) -> bytes:
        """The same inside a stream that has begun and brought `sent` pieces."""

    def headers(self, request: Request, ident: str, readings: Sequence[Reading], wall: float) -> Headers:
        """Rate-limit and request-id headers of every reply; `wall` is the time in seconds since the epoch."""
        return []


def event(kind: str, **fields: object) -> bytes:
    """A server-sent event whose data repeats its name as their type."""
    return b"event: %s\n" % kind.encode() + unnamed({"type": kind, **fields})


def unnamed(data: Body) -> bytes:
    """A server-sent event without a name."""
    return b"data: %s\n\n" % msgspec.json.encode(data)


def objects(value: object) -> Iterator[Body]:
    """The objects of a list; none of anything else."""
    return (each for each in (value if isinstance(value, list) else ()) if isinstance(each, Mapping))


def count_tokens(*values: object) -> int:
    """Input tokens of the texts under `values`: four characters a token, at least one."""
    return max(1, count_chars(*values) // 4)


def count_chars(*values: object) -> int:
    """Characters of the texts under `values`."""
    return sum(len(text) for value in values for text in texts(value))


def texts(value: object) -> Iterator[str]:
    """All texts within a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in ("role", "type", "data", "cache_control"):
                yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


def positive(value: object) -> int:
    """A positive whole number as sent, 0 for anything else."""
    return value if isinstance(value, int) and value > 0 else 0


def rfc3339(wall: float) -> str:
    """A moment as providers write it, to the second, rounded up so that no client comes back too early.

    The rounding error of a float on a whole second isn't a reason to name the next one.
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
