"""Configuration of the mock provider: rates are probabilities, durations are seconds."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

# The text under a field is also the help of its flag.


class LimitConfig(Struct, frozen=True):
    """Rate limits; 0: no limit."""

    rpm: int = 0
    """Requests a window."""
    tpm: int = 0
    """Input and output tokens together."""
    itpm: int = 0
    """Input tokens."""
    otpm: int = 0
    """Output tokens, counted as they are produced."""
    window: Literal["fixed", "bucket", "sliding"] = "fixed"
    """A fixed window, which starts at the first request after the previous one ended; a bucket refilled steadily; or
    sliding, the strictest: no span of that length may hold more than the limit."""
    window_s: float = 60.0
    """Length of a window; of a bucket, the time in which a whole limit drips in."""
    burst: int = 0
    """Requests a bucket holds when full; 0: as many as `rpm`. 1 enforces 60 a minute as one a second."""
    reserve_max_tokens: bool = False
    """Charge `max_tokens` at the start and keep it, as OpenAI does."""
    concurrency: int = 0
    """Requests in flight at once, above which the answer is "overloaded"."""
    stated: bool = True
    """Responses state the limits, and what remains of them, in their headers."""


class LatencyConfig(Struct, frozen=True):
    """How long an answer takes."""

    base_s: float = 0.08
    """To the first token of a stream, or to a whole answer."""
    jitter_s: float = 0.05
    """Added or taken off, uniformly."""
    spike: float = 0.0
    """Probability that an answer takes `spike_factor` times as long."""
    spike_factor: float = 5.0
    """How much longer."""
    token_s: float = 0.0
    """Between two tokens of a stream."""
    input_token_s: float = 0.0
    """Added for each token of the prompt that wasn't read from a cache."""
    hang_every_s: float = 0.0
    """Every so often one answer takes `hang_s` to its first token; 0: never."""
    hang_first_s: float = 0.0
    """When the first one is asked for; 0: after one interval."""
    hang_s: float = 90.0
    """How long such an answer takes."""
    slots: int = 0
    """Requests computed at once, while others wait until one of these is answered; 0: all."""


class FaultConfig(Struct, frozen=True):
    """Probability of each fault, for every request that passed the limits. Their sum may not exceed 1."""

    bad_gateway: float = 0.0
    """502."""
    overloaded: float = 0.0
    """529, or 503 where the provider says it so. Not charged to the window."""
    rate_limited: float = 0.0
    """429 out of nowhere. Not charged to the window."""
    quota: float = 0.0
    """Money is used up: a final refusal in the provider's words. Not charged to the window."""
    reset: float = 0.0
    """Connection reset before the response head."""
    reset_early: float = 0.0
    """Connection reset after the head and before the first content."""
    reset_mid: float = 0.0
    """Connection reset in the middle of the body."""
    truncated: float = 0.0
    """A stream ends cleanly without its end marker; a whole answer's connection is closed half-way."""
    error_early: float = 0.0
    """An error event before the first content; streams only."""
    error_mid: float = 0.0
    """An error event after some content; streams only."""
    spell_every_s: float = 0.0
    """Every so often a spell of overload begins, in which every request is refused as overloaded; 0: never."""
    spell_first_s: float = 0.0
    """When the first spell begins; 0: after one interval."""
    spell_s: float = 5.0
    """Length of a spell."""
    edge: float = 0.0
    """Share of the 502 answers that come as an HTML page from the edge in front of the API."""


class ReplyConfig(Struct, frozen=True):
    """What a good answer looks like."""

    tokens: int = 150
    """Length of an answer, unless its request allows less."""
    spread: int = 50
    """An answer has `tokens` plus or minus this many, uniformly."""
    event_tokens: int = 10
    """Tokens in one event of a stream."""
    encoding: Literal["identity", "gzip", "br", "zstd"] = "identity"
    """Content encoding of good answers to clients that accept it."""
    cache: bool = False
    """Keep prompts in a cache as the format's provider does, by key and model; in place of the shares that follow."""
    cache_read: float = 0.0
    """Share of the input that is stated as read from a cache, where the format can."""
    cache_write: float = 0.0
    """Share of the input that is stated as written to a cache, where the format can."""
    cache_1h: float = 0.0
    """Of what is written to a cache, the share that is to be kept for an hour (Anthropic)."""


class MockConfig(Struct, frozen=True):
    """Everything about one mock provider. The same seed and order of arrivals repeat a run exactly."""

    seed: int = 0
    formats: tuple[str, ...] = ("anthropic", "openai_chat", "openai_responses", "google", "ollama")
    """Formats served; paths of the others are unknown."""
    words: str = ""
    """The provider in whose recorded words it refuses, as far as it has them; empty: in its format's."""
    limits: LimitConfig = field(default_factory=LimitConfig)
    latency: LatencyConfig = field(default_factory=LatencyConfig)
    faults: FaultConfig = field(default_factory=FaultConfig)
    reply: ReplyConfig = field(default_factory=ReplyConfig)


_SPIKE_FACTOR = 5.0


class Scenario(Struct, frozen=True):
    """A number of agents and of requests of each, and the provider that they are sent to."""

    name: str
    agents: int
    turns: int
    rpm: int
    tpm: int
    base_s: float
    jitter_s: float
    bad_gateway: float = 0.0
    reset: float = 0.0
    spike: float = 0.0
    concurrency: int = 0
    """0: none."""

    def provider(self, seed: int, formats: tuple[str, ...] = ("anthropic",)) -> MockConfig:
        """The scenario's provider."""
        return MockConfig(
            seed=seed,
            formats=formats,
            limits=LimitConfig(rpm=self.rpm, tpm=self.tpm, concurrency=self.concurrency),
            latency=LatencyConfig(self.base_s, self.jitter_s, self.spike, _SPIKE_FACTOR),
            faults=FaultConfig(bad_gateway=self.bad_gateway, reset=self.reset),
            reply=ReplyConfig(event_tokens=30),
        )


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("micro-5", 5, 8, 50, 100_000, 0.080, 0.050),
        Scenario("micro-10", 10, 8, 50, 100_000, 0.080, 0.050),
        Scenario("micro-20", 20, 8, 50, 100_000, 0.080, 0.050),
        Scenario("micro-50", 50, 6, 50, 100_000, 0.080, 0.050),
        Scenario("replay-11", 11, 8, 60, 200_000, 0.120, 0.060, 0.08, 0.05, concurrency=5),
        Scenario("stress", 20, 10, 20, 50_000, 0.200, 0.050, 0.10, 0.05, 0.10, concurrency=3),
        Scenario("latency-spike", 10, 10, 60, 100_000, 0.100, 0.030, spike=0.20),
    )
}
