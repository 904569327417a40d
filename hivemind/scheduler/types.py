"""The scheduler's vocabulary: what a request is, how an attempt ends, what a provider's headers say.

Plain values shared by the scheduler, the wire knowledge in :mod:`hivemind.providers` and the proxy. Times are seconds
from one monotonic clock; token counts are whole tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntEnum
from typing import Literal

from msgspec import Struct

from hivemind.records import replace


class Priority(IntEnum):
    """Nice levels, most urgent first (paper, Priority Queue with Dependency DAG)."""

    CRITICAL = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3


class WindowKind(Enum):
    """What a rate window counts, each a minute's worth unless its name or a reading says otherwise."""

    REQUESTS = "requests"
    INPUT = "input"  # input tokens that count toward the limit (Anthropic: without cache reads)
    OUTPUT = "output"  # output tokens really produced
    TOKENS = "tokens"  # input and output together (OpenAI's TPM, the paper's TPM)
    REQUESTS_HOUR = "requests_hour"  # beside those of a minute; as every longer window, never leased
    TOKENS_HOUR = "tokens_hour"
    REQUESTS_DAY = "requests_day"
    TOKENS_DAY = "tokens_day"

    __hash__ = object.__hash__  # Enum's own is a Python function, called two dozen times a request

    @property
    def counts_requests(self) -> bool:
        """Whether it counts requests, not tokens."""
        return self is WindowKind.REQUESTS or self is WindowKind.REQUESTS_HOUR or self is WindowKind.REQUESTS_DAY

    @property
    def is_long(self) -> bool:
        """Whether it is longer than a minute."""
        return self.value.endswith(("_hour", "_day"))


class FailureKind(Enum):
    """How an attempt failed, which decides what it says about the upstream and whether it may be tried again."""

    RATE_LIMITED = "rate_limited"  # refused before any work because of a rate limit (429)
    OVERLOADED = "overloaded"
    """Refused before any work because the provider is full (529, Ollama's 503 busy, `overloaded_error`)."""
    SERVER_ERROR = "server_error"  # answered 5xx, or with an error event inside a stream
    CONNECT = "connect"  # never reached the upstream: refused, no route, DNS, TLS, connect timeout
    DISCONNECTED = "disconnected"
    """Sent, and the connection ended before a response (reset, "server disconnected")."""
    TIMEOUT = "timeout"  # sent, and no response header or no byte came in the time allowed
    TRUNCATED = "truncated"  # the response ended before its own end marker
    CUT = "cut"  # an operator ended the attempt; says nothing about the upstream
    QUOTA = "quota"  # money or a long quota is used up; a retry can't help
    CLIENT_ERROR = "client_error"
    """The request itself is at fault (4xx); says nothing about the upstream's health."""


class Usage(Struct, frozen=True):
    """Tokens of one response, in the parts that providers price and limit differently."""

    input_tokens: int = 0
    """Input that was neither read from nor written to a cache."""
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    cache_write_1h_tokens: int = 0
    """Of those written to a cache, the ones that it keeps for an hour instead of five minutes (Anthropic)."""
    estimated_tokens: int = 0
    """Of all of them, those that the provider didn't state."""
    tier: str = ""
    """Tier of service by which they are priced, as :mod:`hivemind.providers.tiers` names it; empty: the standard one,
    or, of a sum, several."""
    requests: int = 0
    """Of a sum that is priced as one, of how many requests it is: a price may depend on the length of each. 0: of one,
    or of several that were priced."""

    @property
    def total_input(self) -> int:
        """All input tokens, from a cache or not."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def cached(self) -> int:
        """Input tokens that were in a cache afterwards, as far as stated."""
        return self.cache_read_tokens + self.cache_write_tokens

    @property
    def total(self) -> int:
        """Input and output tokens."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens + self.output_tokens

    @property
    def weighted(self) -> float:
        """Tokens in units of one plain input token, by the usual price ratios (output 5, cache write 1.25 or, for an
        hour, 2, read 0.1).

        Fair share counts in these, so an agent isn't charged for re-reading its own cache as for new work.
        """
        return (
            self.input_tokens
            + 1.25 * self.cache_write_tokens
            + 0.75 * self.cache_write_1h_tokens
            + 0.1 * self.cache_read_tokens
            + 5 * self.output_tokens
        )

    def with_output(self, tokens: int, *, estimated: int = 0) -> Usage:
        """Return the same input with this output, of which some is `estimated`."""
        return Usage(
            self.input_tokens,
            self.cache_read_tokens,
            self.cache_write_tokens,
            tokens,
            self.cache_write_1h_tokens,
            estimated,
            self.tier,
        )

    def reading(self, tokens: int) -> Usage:
        """Return the usage with so many more tokens read from a cache instead of written or plain; negative: with
        fewer read and as many more written, for an hour if all others are."""
        tokens = max(-self.cache_read_tokens, min(tokens, self.input_tokens + self.cache_write_tokens))
        written = min(tokens, self.cache_write_tokens)
        hour = self.cache_write_1h_tokens
        hour = hour - written if 0 < hour == self.cache_write_tokens else max(0, hour - max(0, written))
        return replace(
            self,
            input_tokens=self.input_tokens - (tokens - written),
            cache_read_tokens=self.cache_read_tokens + tokens,
            cache_write_tokens=self.cache_write_tokens - written,
            cache_write_1h_tokens=hour,
        )

    def __add__(self, other: Usage) -> Usage:
        """Return the sum, part by part."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_write_1h_tokens + other.cache_write_1h_tokens,
            self.estimated_tokens + other.estimated_tokens,
            self.tier if self.tier == other.tier else "",
        )


Price = Callable[[str, str, Usage], float | None]
"""The price of a usage in US dollars, from provider, model and usage; None: it isn't known."""
DEAREST = "*"
"""In place of a model: the dearest one that the provider is known to sell."""


class WindowReading(Struct, frozen=True):
    """One rate window as a provider's reply stated it."""

    kind: WindowKind
    limit: int | None  # allowance of the whole window; None: not stated
    remaining: int | None
    reset_in_s: float | None  # seconds from the reply until the window is whole again; None: not stated


class Utilisation(Struct, frozen=True):
    """A share of a long window that is used up, as a reply states it, or as a lane has it now."""

    name: str
    """The provider's own name for it, such as `5h` or `7d`."""
    used: float
    """0 to 1."""
    reset_in_s: float | None
    status: str
    length_s: float | None = None
    """How long the window lasts; None: not stated."""
    model: str = ""
    """Part of the names of the models that it counts; empty: of all."""
    ends_in_s: float | None = None
    """When it is used up at the present rate; None: not before its reset, or unknown."""
    low_held_s: float = 0.0
    """For how long requests of the class LOW wait for it; the next likewise."""
    normal_held_s: float = 0.0


class Computed(Struct, frozen=True):
    """How long a server says that it computed an answer, in seconds, without what it kept the request waiting."""

    prompt_s: float
    answer_s: float


class Failure(Struct, frozen=True):
    """A failed attempt, as the proxy reports it to the scheduler."""

    kind: FailureKind
    retryable: bool
    """Whether another attempt could succeed and can't do harm; the scheduler decides whether it happens."""
    status: int | None = None
    delay_s: float | None = None
    """The delay that the provider asked for (Retry-After, retry-after-ms, retryDelay)."""
    message: str = ""  # one short line for people, free of credentials and of request content
    readings: tuple[WindowReading, ...] = ()
    """Rate windows that the error itself names, of providers that say nothing in headers (Google)."""
    words: tuple[int, int] | None = None
    """Of a 500 that says nothing about another attempt: hashes of the request's body and of the error's."""
    at_home: bool = False
    """It comes from a model server at home itself."""


class Request(Struct, frozen=True):
    """What the scheduler needs to know of one request."""

    agent: str
    lane: str  # key of the lane (upstream and credential)
    model: str  # as the request names it; empty where it names none
    family: str  # models that share a rate window
    size_chars: int  # length of the prompt in characters, from which input tokens are estimated
    max_output_tokens: int | None
    stream: bool
    priority: Priority | None = None
    """As the request itself names it; None: normal. The operator's decision about the agent overrules it."""
    patience_s: float | None = None
    """Longest wait for its first byte that the client is known to accept; None: no limit known."""
    client: str = ""  # the client's program, for people: `claude-code`, `codex`, `anthropic-sdk` …
    parent: str | None = None  # the agent that started this one, where the client reveals it
    path: str = ""
    """The URL's path, without its query and free of secrets. The scheduler only passes it on to the journal."""
    made_up: bool = False
    """The agent's name was made of its client's ids, or of its key; only passed on, too."""
    deadline_s: float | None = None
    """From its arrival until the moment by which its turn has to come; None: it has no deadline of its own."""
    waited_s: float = 0.0
    """Since its client first sent it, if the tries before this one were refused by HiveMind or given up unsent."""
    tier: str = ""
    """Tier of service that it asks for, as :attr:`Usage.tier`; its estimate is priced by it."""
    prefix: int = 0
    """What requests have in common whose prompts begin alike and are kept by the provider (:mod:`.first_writes`); 0: it
    isn't known."""


class TaskSpec(Struct, frozen=True):
    """A task as it is submitted (paper, Priority Queue with Dependency DAG)."""

    id: str
    """Unique: letters, digits, `.`, `_` and `-`, up to 80 of them. Of a batch's: its name, a dot, the task's."""
    priority: Priority = Priority.NORMAL
    estimated_tokens: int = 0
    """Of equally urgent tasks the smallest is first; 0: unknown, and after those that are known."""
    after: tuple[str, ...] = ()
    """Ids of tasks that must be done before."""
    agent: str = ""
    """The agent that works on it, whose requests wait while the task does. Empty: an agent of the task's name."""
    batch: str = ""
    command: tuple[str, ...] = ()
    """The command that a runner starts; empty: its outcome is reported by hand."""
    on_failure: Literal["block", "skip"] = "block"
    """What becomes of it when a task that it waits for fails (or is cancelled or skipped itself): it is blocked, until
    that is tried again, or skipped."""
    attempts: int = 1
    """How often it may be started in all, if it fails."""
    parent: str = ""
    """The agent whose run submitted it, which counts as having started the process that works on it; empty: none."""
    cwd: str = ""
    """The folder that its command is started in; empty: the runner's choice."""
    deadline: float = 0.0
    """By when the turns of its requests have to come, in seconds since the epoch; of equally urgent tasks the earliest
    is first. 0: it has none."""
    deadline_s: float = 0.0
    """The same from when it is first eligible, in seconds; 0: it has none, or a moment."""
    planned: bool = False
    """Only the runner of its batch may start it, since that has the plan with all that it needs."""
