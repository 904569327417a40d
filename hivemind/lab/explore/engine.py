"""Whether settings B serve live traffic better than A, from slices of time that take turns.

Pure: it is given measured slices, and says which settings come next, or that it is over and why. After each pair of
slices it looks; each look spends a part of the 5 % by which all looks together may see a difference that isn't there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import fmean, stdev
from typing import Literal

from hivemind.lab.student_t import t_quantile
from hivemind.text.humanise import duration, percent

Side = Literal["A", "B"]
Verdict = Literal["better", "worse", "none", "stopped"]
"""Of B: `none`: no difference was found; `stopped`: it ended before that could be told."""
ALPHA = 0.05
_LEAST_PAIRS = 3
_SPENDING = 3
"""Power by which the 5 % are spent over the planned pairs: little at first, most at the end."""


@dataclass(frozen=True, slots=True)
class Slice:
    """What was measured under one of the settings."""

    side: Side
    seconds: float
    answered: int
    failed: int
    """Requests that ended in an error for their agents."""
    tokens: int
    waits: tuple[float, ...]
    """Seconds that each request which ended has waited, pauses between attempts included."""
    first_tokens: tuple[float, ...] = ()
    """Seconds from the grant to the first content."""

    @property
    def errors(self) -> float:
        """Share of the ended requests that failed."""
        ended = self.answered + self.failed
        return self.failed / ended if ended else 0.0

    @property
    def wait_p95(self) -> float:
        """Seconds that 95 % of the requests waited at most."""
        return _percentile(self.waits, 0.95)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What ends an experiment at once."""

    errors: float = 0.1
    """Largest share of failed requests in a slice."""
    wait_p95_s: float = math.inf
    answered: int = 5
    """Requests that the slices of a pair must have answered on average; a pair with fewer doesn't count."""

    def broken(self, found: Slice) -> str:
        """Say which bound a slice is beyond; empty: none."""
        if found.errors > self.errors and found.failed > 1:
            return f"{percent(found.errors)} of the requests failed (bound: {percent(self.errors)})"
        if found.waits and found.wait_p95 > self.wait_p95_s:
            return f"waits had a p95 of {duration(found.wait_p95)} (bound: {duration(self.wait_p95_s)})"
        return ""


@dataclass(frozen=True, slots=True)
class Difference:
    """A measure under both settings, over the pairs that count."""

    measure: str
    a: float
    b: float
    low: float
    """Of the interval of `b` less `a`: for a rate as a share of `a`, else in the measure's unit. It holds however often
    was looked."""
    high: float
    relative: bool

    @property
    def middle(self) -> float:
        """The difference itself."""
        if self.relative:
            return math.sqrt((1 + self.low) * (1 + self.high)) - 1
        return (self.low + self.high) / 2


@dataclass(slots=True)
class Experiment:
    """The slices so far, and what follows from them."""

    pairs: int
    """Pairs that are planned at most."""
    bounds: Bounds = field(default_factory=Bounds)
    seed: int | None = None
    """Draws which of a pair comes first; None: they take turns (A B, B A, A B)."""
    verdict: Verdict | None = field(default=None, init=False)
    """None: it goes on."""
    reason: str = field(default="", init=False)
    counted: list[tuple[Slice, Slice]] = field(default_factory=list, init=False)
    """A and B of each pair that counts."""
    skipped: int = field(default=0, init=False)
    """Pairs with too few requests."""
    _half: Slice | None = field(default=None, init=False)
    _orders: Random = field(init=False)
    _order: tuple[Side, Side] = field(init=False)

    def __post_init__(self) -> None:
        self._orders = Random(self.seed or 0)
        self._order = self._next_order()

    @property
    def side(self) -> Side:
        """The settings that are to be in force now: A once it is over, whatever it found."""
        if self.verdict is not None:
            return "A"
        return self._order[0 if self._half is None else 1]

    @property
    def done(self) -> int:
        """Pairs that are complete, counted or not."""
        return len(self.counted) + self.skipped

    def check(self, found: Slice) -> bool:
        """Stop if what is measured so far of the present slice is beyond a bound; return whether it goes on."""
        if self.verdict is None and (broken := self.bounds.broken(found)):
            worse = found.side == "B"
            self._end("worse" if worse else "stopped", f"with {'B' if worse else 'A, as it is set,'} {broken}")
        return self.verdict is None

    def add(self, found: Slice) -> None:
        """Take the next slice, measured under :attr:`side`, and decide what follows."""
        if found.side != self.side:
            raise ValueError(f"a slice of {found.side} came where {self.side} was to be measured")
        if not self.check(found):
            return
        if self._half is None:
            self._half = found
            return
        pair = (self._half, found) if found.side == "B" else (found, self._half)
        self._half = None
        if (pair[0].answered + pair[1].answered) / 2 < self.bounds.answered:
            self.skipped += 1
        else:
            self.counted.append(pair)
            self._look()
        if self.verdict is None and self.done >= self.pairs:
            few = len(self.counted) < _LEAST_PAIRS
            self._end(
                *(("stopped", "too few pairs with enough requests") if few else ("none", "the planned time is over"))
            )
        self._order = self._next_order()

    def stop(self, reason: str) -> None:
        """End it before it is over."""
        if self.verdict is None:
            self._end("stopped", reason)

    def rate(self) -> Difference | None:
        """Return the difference in answered requests a minute, by which it is judged; None: too few pairs."""
        return self._relative(
            "answered a minute", [(_rate(a, a.answered), _rate(b, b.answered)) for a, b in self.counted]
        )

    def table(self) -> list[Difference]:
        """Return the difference in each measure."""
        rate = self.rate()
        if rate is None:
            return []
        tokens = [(_rate(a, a.tokens), _rate(b, b.tokens)) for a, b in self.counted]
        found = [rate, self._relative("tokens a minute", tokens)]
        found.append(self._plain("errors %", [(100 * a.errors, 100 * b.errors) for a, b in self.counted]))
        found.append(self._plain("wait p95 s", [(a.wait_p95, b.wait_p95) for a, b in self.counted]))
        first = [
            (_percentile(a.first_tokens, 0.5), _percentile(b.first_tokens, 0.5))
            for a, b in self.counted
            if a.first_tokens and b.first_tokens
        ]
        found.append(self._plain("first token p50 s", first))
        return [each for each in found if each is not None]

    def _look(self) -> None:
        found = self.rate()
        if found is not None and found.low > 0:
            self._end("better", "the interval says that B is better")
        elif found is not None and found.high < 0:
            self._end("worse", "the interval says that B is worse")

    def _end(self, verdict: Verdict, reason: str) -> None:
        self.verdict, self.reason = verdict, reason

    def _next_order(self) -> tuple[Side, Side]:
        backwards = self.done % 2 == 1 if self.seed is None else self._orders.random() < 0.5
        return ("B", "A") if backwards else ("A", "B")

    def _level(self) -> float:
        """Return the part of the 5 % that this look may spend."""
        look, last = len(self.counted), max(self.pairs, len(self.counted))
        before = look - 1 if look > _LEAST_PAIRS else 0
        return ALPHA * ((look / last) ** _SPENDING - (before / last) ** _SPENDING)

    def _relative(self, measure: str, pairs: Sequence[tuple[float, float]]) -> Difference | None:
        if any(a <= 0 or b <= 0 for a, b in pairs):
            return None
        found = self._interval([math.log(b / a) for a, b in pairs])
        if found is None:
            return None
        low, high = (math.expm1(min(each, 700.0)) for each in found)
        return Difference(measure, fmean(a for a, _ in pairs), fmean(b for _, b in pairs), low, high, relative=True)

    def _plain(self, measure: str, pairs: Sequence[tuple[float, float]]) -> Difference | None:
        found = self._interval([b - a for a, b in pairs])
        if found is None:
            return None
        return Difference(measure, fmean(a for a, _ in pairs), fmean(b for _, b in pairs), *found, relative=False)

    def _interval(self, differences: Sequence[float]) -> tuple[float, float] | None:
        pairs = len(differences)
        if pairs < _LEAST_PAIRS:
            return None
        half = t_quantile(pairs - 1, self._level()) * stdev(differences) / math.sqrt(pairs)
        return fmean(differences) - half, fmean(differences) + half


def _rate(found: Slice, number: int) -> float:
    """Return how many a minute; half a one more, so that a slice without any has a logarithm."""
    return (number + 0.5) / found.seconds * 60


def _percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0
