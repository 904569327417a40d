"""Random outcome of each request, drawn from a seed: its fault, length and latency."""

from __future__ import annotations

import random
import string
from enum import Enum

from msgspec import Struct

from hivemind_mock.provider.config import FaultConfig, MockConfig

_ALPHABET = string.ascii_letters + string.digits
_SHORTEST_S = 0.001


class Fault(Enum):
    """How an answer goes wrong. The values are the fields of :class:`~hivemind_mock.provider.config.FaultConfig`."""

    BAD_GATEWAY = "bad_gateway"
    OVERLOADED = "overloaded"
    RATE_LIMITED = "rate_limited"
    QUOTA = "quota"
    RESET = "reset"
    RESET_EARLY = "reset_early"
    RESET_MID = "reset_mid"
    TRUNCATED = "truncated"
    ERROR_EARLY = "error_early"
    ERROR_MID = "error_mid"


REFUSALS = frozenset({Fault.OVERLOADED, Fault.RATE_LIMITED, Fault.QUOTA})
"""Faults in which the provider does no work, so nothing is charged to the window."""

STREAM_FAULTS = frozenset({Fault.ERROR_EARLY, Fault.ERROR_MID})
"""Faults that only a stream can show; a whole answer escapes them."""


class Fate(Struct, frozen=True):
    """Everything that chance decides about one request."""

    fault: Fault | None
    strikes: float
    """0 to 1: how far into the wait, or the body, the fault comes."""
    first_s: float
    """To the first token of an answer to a short prompt."""
    tokens: int
    from_edge: bool
    start: int
    """Where in the stock of words the answer begins."""
    ident: str
    """24 letters and digits, from which the ids of the answer are made."""


class Dice:
    """Draws one fate after another; every one takes the same number of draws, so that they don't shift each other."""

    def __init__(self, config: MockConfig) -> None:
        self._rng = random.Random(config.seed)
        self._config = config
        self._faults = [(fault, getattr(config.faults, fault.value)) for fault in Fault]

    def draw(self, *, stream: bool) -> Fate:
        """The fate of the next request."""
        rng, latency, reply = self._rng, self._config.latency, self._config.reply
        fault = self._fault(rng.random())
        spike = latency.spike_factor if rng.random() < latency.spike else 1.0
        first_s = (latency.base_s + latency.jitter_s * (2 * rng.random() - 1)) * spike
        return Fate(
            fault=None if fault in STREAM_FAULTS and not stream else fault,
            strikes=rng.random(),
            first_s=max(_SHORTEST_S, first_s),
            tokens=max(1, reply.tokens + round(reply.spread * (2 * rng.random() - 1))),
            from_edge=rng.random() < self._config.faults.edge,
            start=rng.getrandbits(16),
            ident="".join(rng.choices(_ALPHABET, k=24)),
        )

    def _fault(self, drawn: float) -> Fault | None:
        for fault, rate in self._faults:
            if drawn < rate:
                return fault
            drawn -= rate
        return None


def in_spell(config: FaultConfig, age_s: float) -> bool:
    """Whether the provider, `age_s` after its start, is in a spell of overload."""
    every_s = config.spell_every_s
    since_first_s = age_s - (config.spell_first_s or every_s)
    return every_s > 0 and since_first_s >= 0 and since_first_s % every_s < config.spell_s
