"""How long answers take, fitted to the recorded ones.

An answer is so much work. The provider's *service clock* shows the work that one request gets done: it advances by the
speed, which depends on how many requests are being answered (:class:`~hivemind.lab.fit.speed.Speed`) and on the time
(:class:`~hivemind.lab.fit.speed.Drift`). An answer ends when the clock has advanced by its work.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from hivemind.lab.fit.luck import luck
from hivemind.lab.fit.size import Size
from hivemind.lab.fit.speed import Drift, Speed
from hivemind.lab.trace.steps import RequestAttempt, RequestStep, TracedAttempt, Work
from hivemind.scheduler.types import Usage

_LEAST_LEFT = 0.1
_LITTLE_MORE = 1.001
"""An answer whose end wasn't recorded takes at least by so much longer than recorded."""


class Service(Struct, frozen=True):
    """The time of answers."""

    size: Size
    speed: Speed
    places: int | None
    """So many are answered at once, the others wait at the provider, first come, first served; None: all at once."""
    drift: Drift
    answered: Sequence[RequestAttempt]
    work: Sequence[Work]
    """By :attr:`~hivemind.lab.trace.steps.TracedAttempt.row`: of the answers, then of what had no end."""
    luck: Sequence[float]
    """By row: the logarithm of the work's ratio to the expected one."""
    pools: Mapping[tuple[bool, str], Sequence[int]]
    """By stream and model: the rows of such answers, in order of time."""
    most: int = 0
    """The most in process in the recording."""
    alternatives: Sequence[tuple[float, Service]] = ()
    """With other speeds that are about as good, each with its likelihood relative to this one's."""

    def drawn(self, rng: random.Random) -> Service:
        """Return another one that the recording allows as well."""
        weights = [1.0, *(weight for weight, _ in self.alternatives)]
        (found,) = rng.choices([self, *(each for _, each in self.alternatives)], weights)
        return found

    @property
    def plain(self) -> bool:
        """The time of an answer depends on nothing but the answer."""
        return self.speed.law == "alone" and self.places is None and not self.drift.speeds

    def sentences(self) -> Iterator[str]:
        """Say what was found."""
        if not self.answered:
            return
        yield self._by_size()
        if self.places is not None:
            yield f"the provider answers about {self.places} at once; others wait there for their turn"
        compared = min(10, self.most)
        slower = 1.0 / self.speed.of(compared)
        if slower > 1.0:
            yield (
                f"with {compared} in flight everything is {slower:.1f} times as slow as with 1"
                f" (fitted up to {self.most})"
            )
        if self.drift.speeds:
            ratio = self.drift.speeds[0] / self.drift.speeds[-1]
            slow, fast = min(self.drift.speeds), max(self.drift.speeds)
            if max(ratio, 1 / ratio) > 1.1:
                how = f"{ratio:.1f} times slower" if ratio > 1 else f"{1 / ratio:.1f} times faster"
                yield f"the provider was {how} at the end than at the beginning"
            else:
                yield f"the provider was {fast / slow:.1f} times slower at some times than at others"

    def _by_size(self) -> str:
        names = ("an uncached input token", "a cached input token", "an output token", "a character of the request")
        parts = [f"{self.size.base_s:.2g} s"]
        parts += [f"{1000 * each:.2g} ms {name}" for each, name in zip(self.size.parts_s, names, strict=True) if each]
        return f"an answer takes {' + '.join(parts)}"


class ServiceState:
    """What answers are drawn in one simulation.

    The luck of a request depends on the seed and the request alone, so that simulations of different settings compare.
    """

    def __init__(self, service: Service, seed: int) -> None:
        self.service = service
        self._seed = seed

    def answer_like(self, request: RequestStep, answered: TracedAttempt | None) -> TracedAttempt | None:
        """Return an answer as big as the recorded one, if any, with the luck of another request of its kind."""
        service = self.service
        if not service.answered:
            return answered
        row = self._other(request)
        other, work = service.answered[row][1], service.work[row]
        usage = other.usage if answered is None else answered.usage
        whole = service.size.of(request, usage) * math.exp(service.luck[row])
        scale = whole / work.whole
        return TracedAttempt(
            headed_s=None if other.headed_s is None else max(0.0, work.head) * scale,
            first_s=None if other.first_s is None else work.first * scale,
            duration_s=whole,
            usage=usage,
            status=other.status if answered is None else answered.status,
            complete=True,
            work=Work(whole, work.first * scale, work.head * scale),
        )

    def begin(self, answer: TracedAttempt, chosen: TracedAttempt) -> None:
        """Set the work of an answer that is simulated, where it isn't drawn."""
        if answer.failure is None and answer.work is None and chosen.row >= 0 and not self.service.plain:
            answer.work = self.service.work[chosen.row]

    def resize(self, request: RequestStep, answer: TracedAttempt, usage: Usage | None) -> None:
        """Set what an answer uses, and let it take as much longer or shorter as this makes it, before its content."""
        size = self.service.size
        scale = size.of(request, usage) / max(1e-9, size.of(request, answer.usage))
        answer.usage = usage
        if scale == 1.0:
            return
        if answer.work is not None:
            whole, first, head = answer.work
            more = whole * (scale - 1.0)
            answer.work = Work(whole + more, _later(first, more), _later(head, more) if head > 0 else head)
        more_s = answer.duration_s * (scale - 1.0)
        answer.duration_s += more_s
        answer.first_s = None if answer.first_s is None else _later(answer.first_s, more_s)
        answer.headed_s = None if answer.headed_s is None else _later(answer.headed_s, more_s)

    def outlast(self, answer: TracedAttempt, unfinished: TracedAttempt, leaves_s: float | None) -> None:
        """Let an answer take longer than one whose end wasn't recorded. `leaves_s`: when its client left, if it did."""
        longer_s = unfinished.duration_s * _LITTLE_MORE if leaves_s is None else leaves_s * 2
        answer.duration_s = max(answer.duration_s, longer_s)
        if answer.work is not None and 0 <= unfinished.row < len(self.service.work):
            least = self.service.work[unfinished.row].whole * (_LITTLE_MORE if leaves_s is None else 2.0)
            answer.work = answer.work._replace(whole=max(answer.work.whole, least))

    def _other(self, request: RequestStep) -> int:
        """Return the row whose luck a request has."""
        arrived, answered = request.arrived, self.service.answered
        pool = self.service.pools.get((arrived.stream, arrived.model)) or range(len(answered))
        return pool[int(luck(self._seed, request.number, 0) * len(pool))]


def _later(at: float, more: float) -> float:
    """Return a time that is later, or sooner but not by all of it."""
    return max(_LEAST_LEFT * at, at + more)
