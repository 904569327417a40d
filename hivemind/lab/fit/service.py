"""How long answers take, fitted to the recorded ones."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hivemind.lab.fit.latency import LatencyModel, Sample, fit_latency
from hivemind.lab.trace.steps import RequestAttempt, RequestStep, TracedAttempt

_TRIES = 8
"""Recorded answers drawn to find one to a request of the same kind."""


@dataclass(frozen=True, slots=True)
class Service:
    """The time of answers."""

    latency: LatencyModel
    """To the first content."""
    pace: LatencyModel
    """From the first content to the end."""
    answered: Sequence[RequestAttempt]

    def sentences(self) -> Iterator[str]:
        """Say what was found."""
        if self.latency.by_in_flight or self.pace.by_in_flight:
            yield "answers take longer the more requests are in flight"

    def answer_like(
        self, request: RequestStep, answered: TracedAttempt | None, rng: random.Random
    ) -> TracedAttempt | None:
        """Return an answer as long as the recorded one, if any, with the latency of another request of its kind."""
        if not self.answered:
            return answered
        arrived = request.arrived
        for _ in range(_TRIES):
            other, pattern = rng.choice(self.answered)
            if other.arrived.stream == arrived.stream and other.arrived.model == arrived.model:
                break
        usage = pattern.usage if answered is None else answered.usage
        first_s, rest_s = pattern.parts_s
        first_s *= self.latency.size_factor(arrived.size_chars, other.arrived.size_chars)
        if usage is not None and pattern.usage is not None:
            rest_s *= self.pace.size_factor(usage.output_tokens, pattern.usage.output_tokens)
        status = pattern.status if answered is None else answered.status
        return TracedAttempt(
            pattern.granted_at,
            pattern.in_flight,
            first_s,
            duration_s=first_s + rest_s,
            usage=usage,
            status=status,
            complete=True,
        )

    def scale(self, answer: TracedAttempt, chosen: TracedAttempt, now: float, in_flight: int) -> None:
        """Scale an answer chosen from the recording to another time and with other requests in flight."""
        first_s, rest_s = answer.parts_s
        slower = self.latency.factor(now, in_flight, chosen.granted_at, chosen.in_flight)
        first_s *= slower
        if answer.headed_s is not None:
            answer.headed_s *= slower
        if answer.first_s is not None:
            rest_s *= self.pace.factor(now, in_flight, chosen.granted_at, chosen.in_flight)
            answer.first_s = first_s
        answer.duration_s = first_s + rest_s


def fit_service(answered: Sequence[RequestAttempt]) -> Service:
    """Fit the time of answers."""
    return Service(
        fit_latency([Sample(t.granted_at, t.in_flight, a.arrived.size_chars, t.parts_s[0]) for a, t in answered]),
        fit_latency(
            [
                Sample(t.granted_at, t.in_flight, t.usage.output_tokens, t.duration_s - t.first_s)
                for _, t in answered
                if t.usage is not None and t.first_s is not None and t.duration_s > t.first_s
            ]
        ),
        answered,
    )
