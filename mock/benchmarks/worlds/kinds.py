"""Kinds of providers, each with hidden parameters drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from benchmarks.worlds.provider import Cost, Rules
from benchmarks.worlds.rules import (
    AlignedWindow,
    ByLoad,
    Chance,
    Failing,
    Gate,
    Places,
    Spells,
    Windows,
    exactly,
    nothing,
)
from hivemind.records import replace
from hivemind_mock.provider.config import LimitConfig
from hivemind_mock.provider.faults import Fault
from hivemind_mock.provider.formats.base import ErrorKind


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the agents of a world ask for at most, which limits are drawn by so that they matter."""

    requests_per_min: float
    tokens_per_min: float
    agents: int
    length_s: float
    """About how long the run takes undisturbed."""


_Window = Literal["fixed", "sliding", "bucket"]
Kind = Callable[[random.Random, Rules, Traffic], Rules]
"""Return the rules with one more cause."""


def _cost(rng: random.Random) -> Cost:
    return Cost(
        base_s=rng.uniform(0.3, 1.5),
        input_s=rng.uniform(0.00005, 0.0004),
        output_s=rng.uniform(0.004, 0.025),
        jitter=rng.uniform(0.05, 0.3),
    )


def plain(rng: random.Random) -> Rules:
    """Return a provider without limits, with its speed."""
    return Rules(_cost(rng))


def _gated(rules: Rules, *gates: Callable[[], Gate]) -> Rules:
    before = rules.gates
    return replace(rules, gates=lambda: (*before(), *(make() for make in gates)))


def _failing(rules: Rules, *failing: Failing) -> Rules:
    return replace(rules, failing=(*rules.failing, *failing))


def _bucket(rng: random.Random, rules: Rules, traffic: Traffic, low: float, high: float) -> Rules:
    share = rng.uniform(low, high)
    kind = rng.choice(("rpm", "tpm", "itpm"))
    rate = traffic.requests_per_min if kind == "rpm" else traffic.tokens_per_min
    limit = max(4, round(rate * share))
    span_s = rng.choice((20.0, 60.0, 60.0))
    limits = {name: limit if name == kind else 0 for name in ("rpm", "tpm", "itpm")}
    config = LimitConfig(limits["rpm"], limits["tpm"], limits["itpm"], window="bucket", window_s=span_s)
    return _gated(rules, partial(Windows, config))


def bucket(rng: random.Random, rules: Rules, traffic: Traffic) -> Rules:
    """A token bucket that is often empty."""
    return _bucket(rng, rules, traffic, 0.3, 0.8)


def large_bucket(rng: random.Random, rules: Rules, traffic: Traffic) -> Rules:
    """A token bucket that is seldom used by more than a part."""
    return _bucket(rng, rules, traffic, 3.0, 20.0)


def burst_bucket(rng: random.Random, rules: Rules, traffic: Traffic) -> Rules:
    """A bucket that holds little and is refilled fast, as some providers enforce requests a minute."""
    rpm = max(6, round(traffic.requests_per_min * rng.uniform(0.5, 1.2)))
    return _gated(rules, partial(Windows, LimitConfig(rpm=rpm, window="bucket", burst=rng.randint(2, 6))))


def window(rng: random.Random, rules: Rules, traffic: Traffic) -> Rules:
    """A window that begins with the first request, or is aligned to the clock, or slides."""
    share = rng.uniform(0.4, 0.9)
    which: _Window | Literal["aligned", "tokens"] = rng.choice(("fixed", "aligned", "sliding", "tokens"))
    requests = max(4, round(traffic.requests_per_min * share))
    if which == "aligned":
        return _gated(rules, partial(AlignedWindow, requests))
    if which == "tokens":
        return _gated(rules, partial(Windows, LimitConfig(tpm=max(100, round(traffic.tokens_per_min * share)))))
    return _gated(rules, partial(Windows, LimitConfig(rpm=requests, window=which)))


def silent(rng: random.Random, rules: Rules, traffic: Traffic) -> Rules:
    """A gateway with a limit that it doesn't tell."""
    requests = max(4, round(traffic.requests_per_min * rng.uniform(0.4, 0.8)))
    which: _Window = rng.choice(("fixed", "sliding", "bucket"))
    config = LimitConfig(rpm=requests, window=which, stated=False)
    return _gated(rules, partial(Windows, config, rng.choice((exactly, nothing))))


def places(rng: random.Random, rules: Rules, traffic: Traffic) -> Rules:
    """A limit of requests at once."""
    most = rng.randint(2, max(3, traffic.agents // 2))
    kind = rng.choice((ErrorKind.RATE_LIMITED, ErrorKind.RATE_LIMITED, ErrorKind.OVERLOADED))
    after = rng.choice((None, 1.0, 2.0, 5.0))
    return _gated(rules, partial(Places, most, kind, after))


def batching(rng: random.Random, rules: Rules, traffic: Traffic) -> Rules:
    """All requests in service get slower together."""
    if rng.random() < 0.5:
        exponent = rng.uniform(0.2, 0.9)
        return replace(rules, speed=_times(rules.speed, lambda at, active: max(1, active) ** -exponent))
    half = rng.uniform(3.0, 12.0)
    return replace(rules, speed=_times(rules.speed, lambda at, active: 1 / (1 + active / half)))


def queue(rng: random.Random, rules: Rules, traffic: Traffic) -> Rules:
    """So many are served at once, the others wait at the provider."""
    return replace(rules, places=rng.randint(2, max(3, traffic.agents // 2)))


def drift(rng: random.Random, rules: Rules, traffic: Traffic) -> Rules:
    """The speed changes over the run, slowly or at once."""
    end = rng.choice((rng.uniform(0.25, 0.5), rng.uniform(2.0, 3.5)))
    length_s = traffic.length_s * rng.uniform(0.6, 1.2)
    if rng.random() < 0.5:
        return replace(rules, speed=_times(rules.speed, lambda at, _: end ** min(1.0, at / length_s)))
    turns_at = length_s * rng.uniform(0.25, 0.6)
    return replace(rules, speed=_times(rules.speed, lambda at, _: 1.0 if at < turns_at else end))


def cache(rng: random.Random, rules: Rules, traffic: Traffic) -> Rules:
    """Prompts of a conversation are kept for some time; the input takes long without."""
    cost = replace(rules.cost, input_s=rng.uniform(0.0005, 0.002))
    return replace(rules, cost=cost, cache_s=rng.choice((5.0, 15.0, 60.0, 300.0)))


def spells(rng: random.Random, rules: Rules, traffic: Traffic) -> Rules:
    """Bursts in which all requests, or most, are refused as overloaded."""
    share = rng.choice((1.0, 0.8, 0.6))
    every_s, lasts_s = rng.uniform(25.0, 70.0), rng.uniform(4.0, 12.0)
    until = traffic.length_s * 6
    if rng.random() < 0.5:
        first = rng.uniform(0.2, 1.0) * every_s
        times = [(first + n * every_s, first + n * every_s + lasts_s) for n in range(int(until / every_s))]
    else:
        times, at = [], 0.0
        while at < until:
            at += rng.expovariate(1 / every_s)
            times.append((at, at + lasts_s * rng.uniform(0.5, 1.5)))
            at = times[-1][1]
    return _failing(rules, Spells(times, share))


def load(rng: random.Random, rules: Rules, traffic: Traffic) -> Rules:
    """The more are active, the more are refused as overloaded."""
    at = rng.uniform(0.4, 0.9) * traffic.agents
    return _failing(rules, ByLoad(at, max(0.5, at / rng.uniform(3.0, 6.0))))


def chance(rng: random.Random, rules: Rules, traffic: Traffic) -> Rules:
    """Some fail without a reason."""
    rate = rng.uniform(0.02, 0.12)
    return _failing(rules, Chance(((Fault.BAD_GATEWAY, rate * 0.6), (Fault.RESET, rate * 0.4))))


def _times(one: Callable[[float, int], float], other: Callable[[float, int], float]) -> Callable[[float, int], float]:
    return lambda at, active: one(at, active) * other(at, active)


KINDS: Mapping[str, Kind] = {
    kind.__name__.replace("_", "-"): kind
    for kind in (
        *(bucket, large_bucket, burst_bucket, window, silent, places),
        *(batching, queue, drift, cache, spells, load, chance),
    )
}
"""Every kind by its name."""
_MIXED: Sequence[tuple[str, ...]] = (
    ("bucket", "batching"),
    ("window", "chance"),
    ("places", "drift"),
    ("silent", "chance"),
    ("cache", "bucket"),
    ("batching", "spells"),
    ("places", "spells"),
    ("queue", "window"),
    ("drift", "bucket", "chance"),
    ("batching", "places", "chance"),
)


def kinds_of(seed: int) -> tuple[str, ...]:
    """Return the kinds of the world of a seed: each in turn, then mixtures."""
    singles = len(KINDS)
    number = seed % (singles + len(_MIXED))
    return (list(KINDS)[number],) if number < singles else _MIXED[number - singles]


def rules_of(kinds: Sequence[str], rng: random.Random, traffic: Traffic) -> Rules:
    """Return a provider of these kinds."""
    rules = plain(rng)
    for name in kinds:
        rules = KINDS[name](rng, rules, traffic)
    return rules
