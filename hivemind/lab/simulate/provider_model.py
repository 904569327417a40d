"""A fitted provider at work: what becomes of each attempt of a simulation."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from hivemind.lab.fit.limits import Amounts, Limiter, Pools
from hivemind.lab.fit.provider import Provider, Spell
from hivemind.lab.fit.refusals import amounts_of, uncharged
from hivemind.lab.simulate.steps import Asked, Try
from hivemind.scheduler.types import Failure, FailureKind, Usage, WindowReading

_NOTHING = Amounts(0, 0)
_LIKE_IT = 8
"""Answers that are looked at to find one to a request of the same kind."""


@dataclass(slots=True)
class Answer:
    """What becomes of one attempt."""

    took_s: float
    first_s: float | None = None
    """To the first content, where that comes before the end."""
    headed_s: float | None = None
    """To the head, where that comes before the end."""
    usage: Usage | None = None
    failure: Failure | None = None
    """None: it is answered."""
    status: int = 200
    charged: bool = True
    recorded: Try | None = None
    """What was recorded of this very attempt, where it is that."""


class Upstream:
    """The upstream of one lane in one simulation."""

    def __init__(
        self,
        provider: Provider,
        began_at: float,
        wall_offset: float,
        rng: random.Random,
        *,
        draws: bool,
        pools: Pools | None = None,
    ) -> None:
        """`wall_offset` is added to a moment to have the time of day; `draws`: faults and latencies are drawn anew;
        `pools` is what the upstreams of a simulation share."""
        self._provider = provider
        self._rng = rng
        self._draws = draws
        self._limiter = Limiter(provider.limits, began_at, wall_offset, reserves=provider.reserves, pools=pools)
        self._began_at = began_at
        self._at_work = 0
        self._again = self._spell = 0
        self._in_spell = 0
        self._used: dict[Asked, int] = {}
        """How many of its tries in the present spell each request has had."""

    def answer(self, now: float, asked: Asked, own: Try | None, flying: int) -> Answer:
        """What becomes of an attempt that begins now with so many in flight, itself included; `own` is what was
        recorded of it, None where nothing was."""
        provider = self._provider
        spell = self._spell_at(now)
        if spell is not None:
            answer = _as(self._in_that(spell, asked))
            answer.charged = False
            return answer
        if provider.most_flying is not None and self._at_work >= provider.most_flying:
            return self._refusal(FailureKind.OVERLOADED, 529, None)
        chosen = self._drawn(asked, own)
        if chosen is None:
            return Answer(
                provider.refused_s, usage=Usage(asked.arrived.estimated_input, 0, 0, 1), charged=False
            )  # nothing was ever answered
        if not uncharged(chosen):
            family, amounts = asked.arrived.family, amounts_of(asked, chosen)
            wait_s = self._limiter.wait_s(now, family, amounts)
            if wait_s > 0:
                return self._refusal(FailureKind.RATE_LIMITED, 429, float(math.ceil(wait_s)))
            self._limiter.charge(now, family, amounts)
        answer = _as(chosen)
        answer.recorded = chosen if chosen is own else None
        self._at_work += answer.charged
        self._scale(answer, chosen, now, flying)
        return answer

    def over(self, now: float, asked: Asked, answer: Answer) -> None:
        """The attempt has ended."""
        if answer.charged:
            self._at_work -= 1
            self._limiter.settle(now, asked.arrived.family, answer.usage)

    def left(self, answer: Answer) -> None:
        """The attempt was given up."""
        self._at_work -= answer.charged

    def readings(self, now: float, family: str) -> tuple[WindowReading, ...]:
        """What a reply says of the rate windows."""
        return self._limiter.readings(now, family)

    def _spell_at(self, now: float) -> Spell | None:
        spells, lasted_s = self._provider.spells, self._provider.lasted_s
        if not spells:
            return None
        again = int((now - self._began_at) / lasted_s)
        at = now - again * lasted_s
        if again != self._again:
            self._again, self._spell = again, 0
            self._used.clear()
        while self._spell < len(spells) and spells[self._spell].ended_at <= at:
            self._spell += 1
            self._used.clear()
        if self._spell < len(spells) and spells[self._spell].began_at <= at:
            return spells[self._spell]
        return None

    def _in_that(self, spell: Spell, asked: Asked) -> Try:
        """What befell this very request in the spell, as long as that lasts; then what befell others."""
        own = spell.of.get(asked)
        if own is not None:
            used = self._used.get(asked, 0)
            if used < len(own):
                self._used[asked] = used + 1
                return own[used]
        self._in_spell += 1
        return spell.tries[self._in_spell % len(spell.tries)]

    def _refusal(self, kind: FailureKind, status: int, delay_s: float | None) -> Answer:
        failure = Failure(kind, True, status, delay_s)
        return Answer(self._provider.refused_s, failure=failure, status=status, charged=False)

    def _drawn(self, asked: Asked, own: Try | None) -> Try | None:
        """What was recorded, or, where nothing was or it is to be drawn anew, what might have been."""
        provider, rng = self._provider, self._rng
        if own is not None and not self._draws:
            return own
        answered = asked.answered
        if (self._draws or answered is None) and provider.faults and rng.random() < provider.fault_rate:
            return rng.choice(provider.faults)[1]
        return self._like(asked, answered)

    def _like(self, asked: Asked, answered: Try | None) -> Try | None:
        """An answer as long as this one was, if it was answered, with the luck of another request of its kind."""
        provider, rng = self._provider, self._rng
        good = provider.good
        if not good:
            return answered
        arrived = asked.arrived
        for _ in range(_LIKE_IT):
            other, pattern = rng.choice(good)
            if other.arrived.stream == arrived.stream and other.arrived.model == arrived.model:
                break
        usage = pattern.usage if answered is None else answered.usage
        first_s = pattern.took_s if pattern.first_s is None else pattern.first_s
        rest_s = pattern.took_s - first_s
        first_s *= provider.latency.size_factor(arrived.size_chars, other.arrived.size_chars)
        if usage is not None and pattern.usage is not None:
            rest_s *= provider.pace.size_factor(usage.output_tokens, pattern.usage.output_tokens)
        status = pattern.status if answered is None else answered.status
        return Try(
            pattern.granted_at,
            pattern.flying,
            first_s,
            took_s=first_s + rest_s,
            usage=usage,
            status=status,
            whole=True,
        )

    def _scale(self, answer: Answer, chosen: Try, now: float, flying: int) -> None:
        provider = self._provider
        first_s = answer.took_s if answer.first_s is None else answer.first_s
        rest_s = answer.took_s - first_s
        slower = provider.latency.factor(now, flying, chosen.granted_at, chosen.flying)
        first_s *= slower
        if answer.headed_s is not None:
            answer.headed_s *= slower
        if answer.first_s is not None:
            rest_s *= provider.pace.factor(now, flying, chosen.granted_at, chosen.flying)
            answer.first_s = first_s
        answer.took_s = first_s + rest_s


def _as(one: Try) -> Answer:
    """What was recorded, once more."""
    told = one.failure
    if told is None:
        first_s = one.first_s if one.first_s is not None and one.first_s < one.took_s else None
        headed_s = one.headed_s if one.headed_s is not None and one.headed_s < one.took_s else None
        return Answer(one.took_s, first_s, headed_s, one.usage, None, one.status)
    failure = Failure(told.kind, told.retryable, told.status, told.delay_s, told.message)
    return Answer(
        one.took_s,
        one.first_s,  # once content has come, nobody tries again
        usage=one.usage,
        failure=failure,
        status=one.status,
        charged=not uncharged(one),
    )
