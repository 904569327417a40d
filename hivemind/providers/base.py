"""Interface of the wire formats: reading requests, replies and streams, and writing errors in the provider's format.

The path selects the *dialect* (usage, errors, stream form), the upstream the *profile* (limits, timings). Nothing
here does I/O or reads a clock; the time is an argument where a date is compared with it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from enum import Enum
from typing import Literal, Protocol

from msgspec import Struct, field

from hivemind.scheduler.config import AimdConfig
from hivemind.scheduler.types import Computed, Failure, Usage, Utilisation, WindowReading

Headers = Sequence[tuple[bytes, bytes]]
"""Names in lower case."""

Steps = Generator[None, None, None]
"""Work in steps of a few milliseconds at most, so that an event loop can run other work between them. A thread would
not help: parsing holds the interpreter."""


WorkKind = Literal["background", "batch", "video", "job"]


class StreamForm(Enum):
    """How a reply arrives."""

    WHOLE = "whole"
    SSE = "sse"
    NDJSON = "ndjson"
    JSON_ARRAY = "json_array"
    FRAMES = "frames"
    """Binary frames of Amazon's (application/vnd.amazon.eventstream)."""
    ANY = "any"
    """Unknown; it is forwarded as it arrives."""


class Facts(Struct, frozen=True):
    """The fields of a request that scheduling needs."""

    model: str = ""
    stream: bool = False
    """It requests a stream that can be answered with 200 and keepalives before its first event. A reply as one JSON
    array (Google without `alt=sse`) can't."""
    size_chars: int = 0
    """Prompt length in characters, without base64 payloads."""
    max_output_tokens: int | None = None
    continues_state: bool = False
    """It continues or creates state on the server (threads, previous_response_id, conversation, store: true), so it
    is retried only if it certainly never arrived."""
    unmetered: bool = False
    """The reply may omit its usage (a batch, an unknown path); the estimate is charged then."""
    tier: str = ""
    """Tier of service that it asks for (:mod:`.tiers`); empty: the standard one."""
    prefix: int = 0
    """Common to requests whose prompts begin alike (:func:`.outline.prefix`); 0: it isn't known."""
    session: str = ""
    """A session id in the body (Claude Code's metadata.user_id, prompt_cache_key)."""
    form: StreamForm = StreamForm.WHOLE
    """The expected form of the reply; the reply's content type overrides it."""
    unread: str = ""
    """Why not all of the body was read; fields may be missing then, and the size is an estimate."""
    begins: WorkKind | None = None
    """What it begins that goes on after its reply."""


class WorkSign(Struct, frozen=True):
    """What a reply says of work that goes on after it."""

    name: str
    """The provider's id for it."""
    kind: WorkKind
    goes_on: bool
    """It hasn't ended."""
    sure: bool = False
    """It surely is such work; else it is where the name is known."""
    names: tuple[str, ...] = ()
    """Ids of files with its results."""


class TapState(Struct):
    """What a tap has read of one reply so far."""

    usage: Usage | None = None
    usage_final: bool = False
    """The usage is the provider's final count, not a running one."""
    content_started: bool = False
    """The first content (text, tool call, thinking; not the empty start of a block) has arrived: the reply is
    forwarded and can't be retried any more."""
    output_chars: int = 0
    """Characters of content so far, for showing progress before the provider reports usage."""
    complete: bool = False
    """The dialect's end marker has arrived (message_stop, [DONE], response.completed, done:true, finishReason;
    for a whole reply, in a stream's place too, any end but one within its JSON)."""
    decided: bool = False
    """The reply says why it ended, so that nothing but its end marker can be missing."""
    unexplained: bool = False
    """Its end marker came without a reason, as where llama-cpp-python leaves a stream for the next request."""
    streamed: bool = False
    """It is an event stream, though its head says otherwise."""
    recognised: bool = False
    """It is a stream of a dialect that its path didn't tell, so that its end can be judged."""
    error: Failure | None = None
    """An error event in the stream, or in a whole reply with status 200, classified like the same error with a
    status. Whether content had begun isn't considered."""
    document: bool = False
    """A JSON document came in place of a stream. Its end is that of the body, not a marker."""
    gave_up: str = ""
    """Why the rest of the reply isn't read and its usage is an estimate; empty while it is read."""
    model: str = ""
    """The model that the request asked for."""
    watches: bool = False
    """What it says of work that goes on after it is looked for."""
    work: WorkSign | None = None
    listed: list[TapState] | None = None
    """What a list says of each piece of work in it."""
    computed: Computed | None = None
    """How long the server says that it computed; None: it says nothing."""
    used: dict[str, Usage] | None = None
    """What is used apart from :attr:`usage`, by model: what a batch's results state, or other models in the course of
    an answer; by this name, empty for that of the request."""
    tier: str = ""
    """Tier of service that the request asked for, until the reply states the one that was billed (:mod:`.tiers`)."""

    @property
    def failed(self) -> bool:
        """Whether an error came before any content. What follows it, an end marker say, changes nothing."""
        return self.error is not None and not self.content_started


class Tap(Protocol):
    """Reader beside the stream. It never raises; unreadable bytes are ignored."""

    @property
    def state(self) -> TapState:
        """What it has read so far."""

    @property
    def ends(self) -> tuple[bytes, ...]:
        """Every way in which an event of the stream can end; none, if another event can't simply follow."""

    @property
    def is_between(self) -> bool:
        """Whether what came so far ends with a whole event, so that another one can follow."""

    def feed(self, data: bytes) -> Steps | None:
        """Read the next bytes as received (still content-encoded). Return the remaining steps of that work, which
        must run before the tap is used again, or None if it is done, as for nearly all pieces of a stream.
        """

    def end(self) -> Steps | None:
        """Handle the clean end of the body. Returns as :meth:`feed` does."""


class Profile(Struct, frozen=True):
    """What is assumed of a provider before its first reply (paper, Table of provider defaults)."""

    name: str
    pattern: str
    """Regular expression searched in the upstream URL; empty for the fallback."""
    rpm: int
    tpm: int
    max_concurrency: int
    auth_headers: tuple[bytes, ...]
    """Headers that may carry the credential, most specific first."""
    auth_query: tuple[bytes, ...] = ()
    """Query fields that may carry it."""
    one_lane: bool = False
    """Its limits are shared by all credentials: it needs none, or it is unknown which one it reads."""
    aimd: AimdConfig = field(default_factory=AimdConfig)
    reserve_max_tokens: bool = False
    count_cache_reads: bool = True
    priced_as: str | None = None
    """Its name in the library of prices. `litellm` means the model's maker, which may be written before its name
    (`anthropic/claude-…`), as gateways do. None: its models cost nothing, since they run at home."""
    grows: bool = False
    """Nobody knows its limits: those above are only where it begins."""
    anybodys: bool = False
    """Whatever key and path it takes, so that it says nothing of whose they are."""
    stops: Literal["always", "streams", "never"] = "always"
    """Which answers it stops computing when the client leaves; the others it computes to their last token."""
    computes_s: float = 0.0
    """How long it may compute without a byte of an answer, in seconds: of a long prompt, or to its last token where all
    comes then. A shorter timeout doesn't hold. 0: it is no server at home."""


class Limits(Struct, frozen=True):
    """What a reply's headers say about rate windows."""

    readings: tuple[WindowReading, ...] = ()
    plan: tuple[Utilisation, ...] = ()
