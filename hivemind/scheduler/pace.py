"""How long requests take alone, and what more of them at once bring.

Long prompts and long answers take long on an idle server too, so latency is a sign of load only as far as it goes
beyond what the same request would take alone. That is learned of each kind of answer as the least that was seen: of any
answer, of an input token and of an output token. No load makes a request quicker, so each is a bound, whatever was in
flight; a request that was alone and took longer raises them.

Throughput is counted in the same measure, so that prompts of any length can be compared: seconds that answers would
have taken alone, in a second. A server that computes one request after another gives 1 whatever is in flight, one that
batches gives more, up to its knee.
"""

from __future__ import annotations

import math

from msgspec import Struct

ALONE = 1.001
"""Requests in flight on average, up to which a request counts as alone."""
LEAST = 2.0
"""The lowest level that throughput leads to: one request is on its way while another is computed."""
_RATE = 0.2  # weight of each sample, in what is averaged
_SAMPLES = 6  # before which a throughput isn't known
_STALE_S = 600.0
_WORTH = 1.1
"""What twice as many in flight have to bring, as a factor of the throughput, to be worth while."""
_DOUBLE = 2  # steps


class Alone(Struct):
    """What one kind of answer takes without load, in seconds: the largest of three bounds."""

    any_s: float = math.inf
    input_token_s: float = math.inf
    output_token_s: float = math.inf

    def estimate(self, inputs: float, outputs: float = 0.0) -> float:
        """Return the seconds for so many tokens; infinity: nothing is known yet."""
        least_s = self.any_s
        if inputs and (inputs_s := self.input_token_s * inputs) > least_s:
            least_s = inputs_s
        if outputs and (outputs_s := self.output_token_s * outputs) > least_s:
            least_s = outputs_s
        return least_s

    def learn(self, took_s: float, inputs: float, outputs: float, *, alone: bool) -> None:
        """Learn from an answer."""
        if alone and took_s > (known := self.estimate(inputs, outputs)) > 0:
            grown = 1 + _RATE * (took_s / known - 1)
            self.any_s *= grown
            self.input_token_s *= grown
            self.output_token_s *= grown
        if took_s < self.any_s:
            self.any_s = took_s
        if inputs and took_s < self.input_token_s * inputs:
            self.input_token_s = took_s / inputs
        if outputs and took_s < self.output_token_s * outputs:
            self.output_token_s = took_s / outputs


class Pace(Struct):
    """What answers of one family of models take alone."""

    first: Alone
    """To the first content of a stream."""
    rest: Alone
    """From there to its end."""
    whole: Alone

    @classmethod
    def new(cls) -> Pace:
        return cls(Alone(), Alone(), Alone())


class _Throughput(Struct):
    mean: float = 0.0
    samples: int = 0
    at: float = -math.inf


class Knee:
    """A lane's throughput, by how many requests were in flight."""

    def __init__(self) -> None:
        self._known: dict[int, _Throughput] = {}

    def learn(self, now: float, in_flight: float, took_s: float, alone_s: float) -> None:
        """Learn from an answer during which so many were in flight on average: by Little's law the throughput is their
        number, as far as they weren't stretched."""
        step = _step(in_flight)
        if (known := self._known.get(step)) is None or now - known.at > _STALE_S:
            known = self._known[step] = _Throughput()
        known.samples += 1
        known.mean += max(_RATE, 1 / known.samples) * (in_flight * alone_s / took_s - known.mean)
        known.at = now

    def reach(self, now: float, level: float) -> float:
        """Return the level up to which more in flight bring more, as seen from this finite one: a lower one, if that
        brings hardly less; this one, if twice as many bring hardly more; infinity, where that isn't known."""
        step = _step(level)
        here = self._mean(now, step)
        if not here:
            return math.inf
        below = [each for each in self._known if each <= step - _DOUBLE and self._mean(now, each) * _WORTH > here]
        if below:
            return max(LEAST, math.pow(2.0, max(below) / 2))
        return level if 0 < self._mean(now, step + _DOUBLE) < _WORTH * here else math.inf

    def _mean(self, now: float, step: int) -> float:
        """Return the throughput of a step; 0: it isn't known."""
        known = self._known.get(step)
        return 0.0 if known is None or known.samples < _SAMPLES or now - known.at > _STALE_S else known.mean


def _step(in_flight: float) -> int:
    """Return the number of a range of requests in flight; :data:`_DOUBLE` steps double it."""
    return round(2 * math.log2(max(in_flight, 1.0)))
