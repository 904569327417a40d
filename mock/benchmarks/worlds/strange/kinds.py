"""Kinds of strange providers, and the worlds of seeds that have them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from functools import partial

from benchmarks.worlds.kinds import KINDS, Kind, Traffic, plain
from benchmarks.worlds.provider import Rules
from benchmarks.worlds.rules import Gate
from benchmarks.worlds.strange.rules import Acceleration, AdaptivePlaces, DebtBucket, TokensActive
from benchmarks.worlds.world import World, drawn_world
from hivemind.records import replace


def _gated(rules: Rules, make: Callable[[], Gate]) -> Rules:
    before = rules.gates
    return replace(rules, gates=lambda: (*before(), make()))


def adaptive(rng: random.Random, rules: Rules, traffic: Traffic) -> Rules:
    """A limit of requests at once that shrinks with each refusal."""
    most = rng.uniform(3.0, max(4.0, 0.7 * traffic.agents))
    return _gated(rules, partial(AdaptivePlaces, most, max(1.0, most / 3), rng.uniform(0.03, 0.2)))


def tokens_active(rng: random.Random, rules: Rules, traffic: Traffic) -> Rules:
    """A limit of tokens in flight."""
    each = traffic.tokens_per_min / traffic.requests_per_min
    return _gated(rules, partial(TokensActive, round(each * rng.uniform(2.5, 6.0)), rng.choice((None, 1.0, 3.0))))


def debt(rng: random.Random, rules: Rules, traffic: Traffic) -> Rules:
    """A token bucket that may be in debt."""
    per_s = traffic.tokens_per_min / 60 * rng.uniform(0.4, 0.9)
    return _gated(rules, partial(DebtBucket, per_s, per_s * rng.uniform(5.0, 40.0)))


def acceleration(rng: random.Random, rules: Rules, traffic: Traffic) -> Rules:
    """A limit of how fast the number of requests may grow."""
    span_s = rng.uniform(5.0, 15.0)
    usual = traffic.requests_per_min / 60 * span_s
    return _gated(rules, partial(Acceleration, span_s, rng.uniform(1.05, 1.4), max(2, round(usual * 0.3))))


def two_pools(rng: random.Random, rules: Rules, traffic: Traffic) -> Rules:
    """Two servers behind a balancer that draws lots, each with places or a shared speed."""
    if rng.random() < 0.5:
        return replace(rules, pools=2, places=rng.randint(1, max(2, traffic.agents // 4)))
    half = rng.uniform(2.0, 6.0)
    return replace(rules, pools=2, speed=lambda at, active: 1 / (1 + active / half))


def last_first(rng: random.Random, rules: Rules, traffic: Traffic) -> Rules:
    """A queue at the provider in which the last one is next."""
    return replace(rules, places=rng.randint(2, max(3, traffic.agents // 2)), last_first=True)


def convex(rng: random.Random, rules: Rules, traffic: Traffic) -> Rules:
    """The work grows with more than the length of the prompt."""
    input_s = rng.uniform(0.0004, 0.0015)
    return replace(rules, cost=replace(rules.cost, input_s=input_s, power=rng.uniform(1.3, 1.9)))


def tides(rng: random.Random, rules: Rules, traffic: Traffic) -> Rules:
    """The speed goes up and down with the time of day."""
    every_s, by = traffic.length_s * rng.uniform(0.15, 1.0), rng.uniform(0.25, 0.6)
    phase = rng.uniform(0.0, 2 * math.pi)
    return replace(rules, speed=lambda at, active: 1 + by * math.sin(2 * math.pi * at / every_s + phase))


def stalls(rng: random.Random, rules: Rules, traffic: Traffic) -> Rules:
    """Some answers take many times as long as others."""
    return replace(rules, cost=replace(rules.cost, stalls=rng.uniform(0.02, 0.08)))


def tiring(rng: random.Random, rules: Rules, traffic: Traffic) -> Rules:
    """A speed that falls in steps with the number of requests."""
    steps = sorted(rng.randint(2, max(3, traffic.agents)) for _ in range(3))
    by = rng.uniform(0.6, 0.85)
    return replace(rules, speed=lambda at, active: by ** sum(active >= each for each in steps))


STRANGE: Mapping[str, Kind] = {
    kind.__name__.replace("_", "-"): kind
    for kind in (
        *(adaptive, tokens_active, debt, acceleration, two_pools),
        *(last_first, convex, tides, stalls, tiring),
    )
}
"""Every strange kind by its name."""
_ALSO = ("", "", "bucket", "chance")
"""What a strange provider may be besides."""
_MOODY = 0.9


def strange_world(seed: int) -> World:
    """Return the strange world of a seed: each kind in turn; in half of them pauses depend on those before."""
    rng = random.Random(f"strange {seed}")
    name = list(STRANGE)[seed % len(STRANGE)]
    also = rng.choice(_ALSO)

    def rules(traffic: Traffic) -> Rules:
        found = STRANGE[name](rng, plain(rng), traffic)
        return KINDS[also](rng, found, traffic) if also else found

    made = drawn_world(f"{seed:03d}-{name}{also and f'-{also}'}", seed, rng, rules)
    moody = rng.random() < 0.5
    return replace(made, agents=tuple(replace(each, mood=_MOODY) for each in made.agents)) if moody else made
