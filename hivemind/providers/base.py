"""What a dialect knows of its wire: reading requests, replies and streams, and speaking in the provider's own voice.

The *dialect* (usage, errors, stream form) is recognised by the path; the *profile* (limits, timings) by the upstream.
Nothing here does I/O or keeps a clock; wall-clock time comes in where a date must be read against it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from hivemind.scheduler.config import AimdConfig
from hivemind.scheduler.types import Failure, Usage, Utilisation, WindowReading, record

Headers = Sequence[tuple[bytes, bytes]]
"""Names in lower case."""

Steps = Generator[None, None, None]
"""Work that is done while somebody iterates over it: each step takes a few milliseconds at most, so whoever does it on
an event loop gives way in between."""


class StreamForm(Enum):
    """How a reply arrives."""

    WHOLE = "whole"
    SSE = "sse"
    NDJSON = "ndjson"
    JSON_ARRAY = "json_array"
    ANY = "any"
    """Nothing is known of it; it is passed on as it comes."""


@record
class Facts:
    """What a request says of itself."""

    model: str = ""
    stream: bool = False
    """It asks for a stream that may be committed, and kept alive, before its first event. A reply in pieces of one JSON
    array (Google without `alt=sse`) isn't one."""
    size_chars: int = 0
    """Prompt length in characters, without base64 payloads."""
    max_output_tokens: int | None = None
    continues_state: bool = False
    """It continues or creates state on the server (threads, previous_response_id, conversation, store: true), so it
    may be sent again only when it surely never arrived."""
    unmetered: bool = False
    """The reply need not say what was used (a batch, an unknown path), so the estimate is charged where it doesn't."""
    session: str = ""
    """A session id carried in the body (Claude Code's metadata.user_id, prompt_cache_key)."""
    form: StreamForm = StreamForm.WHOLE
    """How the reply is expected to arrive; a reply's own content type has the last word."""
    unread: str = ""
    """Why not all of the body was read, so that what it says may be missing here and its size is an estimate."""


@dataclass(slots=True)
class TapState:
    """What the tap has seen so far of one reply."""

    usage: Usage | None = None
    usage_final: bool = False
    """The provider's own closing count, not a running one."""
    content_started: bool = False
    """The first content (text, tool call, thinking…; not the empty beginning of a block) has come: bytes may flow,
    retry is over."""
    output_chars: int = 0
    """Characters of content so far, to show progress before the provider counts."""
    complete: bool = False
    """The dialect's own end marker came (message_stop, [DONE], response.completed, done:true, finishReason, or, for a
    whole reply, any end)."""
    error: Failure | None = None
    """An error event inside the stream, or in a whole reply with status 200, judged as the same error is judged when it
    comes as a status: whether content had begun is for the reader of this state to weigh."""
    gave_up: str = ""
    """Why the rest of the reply isn't looked at, so that its usage is an estimate; empty while it is."""


class Tap(Protocol):
    """Reads beside the stream. Never raises on bad input: bytes it can't read it ignores."""

    state: TapState

    def feed(self, data: bytes) -> Steps | None:
        """Look at the next bytes as they came from the wire (still content-encoded). Returns what is left of that work,
        to be done before anything else is asked of the tap; None, as for nearly all pieces of a stream, when it's done.
        """

    def end(self) -> Steps | None:
        """The body ended cleanly; settle what only the end decides. Returns as :meth:`feed` does."""


class Dialect(Protocol):
    """One API's wire. Stateless; one instance each."""

    name: str
    """`anthropic`, `openai_chat`, `openai_responses`, `google`, `ollama`, `plain`."""

    def facts(self, path: str, query: str, headers: Headers, body: bytes) -> Facts:
        """Read a request. `path` comes without our own prefixes. `body` as sent: a compressed one is decoded in a copy.
        Never raises: what can't be read is left at its default."""

    def is_opaque(self, headers: Headers) -> bool:
        """Whether a request's body is of a kind that :meth:`facts` doesn't read, as sound and pictures are."""

    def tap(self, status: int, headers: Headers, facts: Facts) -> Tap:
        """A tap for one reply, by its content type and content encoding (identity, gzip, deflate, br, zstd)."""

    def classify(self, status: int, headers: Headers, body: bytes, now_wall_s: float) -> Failure | None:
        """What an answer with this status and (still encoded) error body means; None for success.

        Retry-After in all its forms, retry-after-ms, x-should-retry, Google's retryDelay and every code that means
        "never retry" are read here. `status` below 400 gives None."""

    def refusal(
        self, status: int, reason: str, message: str, retry_after_s: float | None
    ) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """An error of our own in the provider's shape: headers (content-type, x-should-retry, retry-after where given,
        RetryInfo in the body for Google) and body. `reason` is the provider-neutral word: `circuit_open`, `queue_full`,
        `wait_too_long`, `draining`, `upstream_unreachable`, `too_many_agents`, `unknown_route` …"""

    def stream_error(self, status: int, reason: str, message: str) -> bytes:
        """The same as the last event(s) of a stream that was committed with 200, in the form that makes the dialect's
        clients raise it."""

    def failure_event(self, failure: Failure, body: bytes) -> bytes:
        """An upstream's own error answer (already classified; `body` decoded) retold as an event of a committed stream,
        keeping the provider's error object where it is one."""

    def keepalive(self, client: str) -> bytes:
        """What may be sent again and again into a committed stream before its first event, by client
        (:attr:`hivemind.providers.clients.Client.name`)."""

    def stream_headers(self, facts: Facts) -> list[tuple[bytes, bytes]]:
        """Headers of a 200 committed before the upstream answered (content-type, cache-control …)."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What we assume of a provider before its first reply (paper, Table of provider defaults)."""

    name: str
    pattern: str
    """Regular expression searched in the upstream URL; empty for the fallback."""
    rpm: int
    tpm: int
    max_concurrency: int
    auth_headers: tuple[bytes, ...]
    """Headers that may carry the credential, most specific first."""
    auth_query: tuple[bytes, ...] = ()
    """Fields of the query that may."""
    one_lane: bool = False
    """Its limits hold for all who ask it, whatever credential they show: it needs none, or nobody knows which of those
    shown it reads."""
    limit_headers: tuple[bytes, ...] = ()
    """Names of its rate-limit headers, for people and tests; :func:`read_limits` understands them all everywhere."""
    retryable_statuses: frozenset[int] = frozenset({408, 429, 500, 502, 503, 504, 529})
    aimd: AimdConfig = field(default_factory=AimdConfig)
    reserve_max_tokens: bool = False
    count_cache_reads: bool = True


@dataclass(frozen=True, slots=True)
class Limits:
    """Everything a reply's headers say about rate windows."""

    readings: tuple[WindowReading, ...] = ()
    plan: tuple[Utilisation, ...] = ()
