"""A provider that differs from the recorded one as was asked: slower, with an outage, or with a fallback."""

from __future__ import annotations

from dataclasses import dataclass

from hivemind.lab.fit.limiter import LimitState
from hivemind.lab.fit.provider import ProviderModel
from hivemind.lab.fit.service import ServiceState
from hivemind.lab.fit.service_clock import ServiceClock
from hivemind.lab.trace.steps import RequestStep, TracedAttempt
from hivemind.scheduler.types import Failure, FailureKind

_OUT = Failure(FailureKind.SERVER_ERROR, True, 503, None)
_REFUSED = frozenset({FailureKind.RATE_LIMITED, FailureKind.OVERLOADED})


@dataclass(frozen=True, slots=True)
class Asked:
    """How a provider is to differ, besides its limits."""

    latency: float = 1.0
    """Answers take so many times as long."""
    outage: tuple[float, float] | None = None
    """Every attempt between these times fails."""
    fallback: str = ""
    """The lane that takes what it refuses and what comes in an outage; its own: a second provider like it."""


@dataclass(slots=True)
class AskedModel:
    """Such a provider in one simulation; used like the model of the recorded one."""

    model: ProviderModel
    asked: Asked
    fallback: ProviderModel | None = None

    @property
    def limiter(self) -> LimitState:
        """Its rate limits, which its headers state."""
        return self.model.limiter

    def answer(self, now: float, request: RequestStep, inherent: TracedAttempt | None, in_flight: int) -> TracedAttempt:
        """Decide how an attempt ends; see :meth:`~hivemind.lab.fit.provider.ProviderModel.answer`."""
        outage = self.asked.outage
        if outage is not None and outage[0] <= now < outage[1]:
            refused_s = self.model.provider.refused_s
            result = TracedAttempt(duration_s=refused_s, failure=_OUT, status=_OUT.status or 0, charged=False)
        else:
            result = self.model.answer(now, request, inherent, in_flight)
            self._slow(result)
        if self.fallback is not None and _turned_away(result):
            instead = self.fallback.answer(now, request, None, in_flight)
            instead.elsewhere = True
            return instead
        return result

    def clock_of(self, answer: TracedAttempt) -> ServiceClock | None:
        """Return the clock by which an answer ends."""
        return self._who(answer).clock

    @property
    def service(self) -> ServiceState:
        """What answers are drawn."""
        return self.model.service

    def over(self, now: float, request: RequestStep, answer: TracedAttempt) -> None:
        """End an attempt."""
        self._who(answer).over(now, request, answer)

    def left(self, answer: TracedAttempt) -> None:
        """End an attempt whose client left."""
        self._who(answer).left(answer)

    def _who(self, answer: TracedAttempt) -> ProviderModel:
        return self.fallback if answer.elsewhere and self.fallback is not None else self.model

    def _slow(self, answer: TracedAttempt) -> None:
        by = self.asked.latency
        if by != 1.0 and not _turned_away(answer):
            answer.duration_s *= by
            answer.first_s = None if answer.first_s is None else answer.first_s * by
            answer.headed_s = None if answer.headed_s is None else answer.headed_s * by
            answer.work = None if answer.work is None else answer.work.times(by)


def _turned_away(answer: TracedAttempt) -> bool:
    failure = answer.failure
    return failure is not None and not answer.charged and (failure.kind in _REFUSED or failure is _OUT)
