"""Finds what explains how long answers take.

Explanations are compared by the likelihood that they give to blocks of time they weren't fitted to. One is added to
those already found if that makes the recording so much more likely that it can't be chance; in the end those are
dropped that the others have made unnecessary. What none explains is the luck of each answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from hivemind.lab.fit.answers import BINS, Answers
from hivemind.lab.fit.regression import Regression, fit_regression
from hivemind.lab.fit.service import Service
from hivemind.lab.fit.size import PARTS, Size, kind_of
from hivemind.lab.fit.speed import ALONE, Drift, Law, Speed
from hivemind.lab.trace.steps import Work
from hivemind.records import replace

_MIN_ANSWERS = 30
"""With fewer answers nothing is fitted."""
_MOST_COMPARED = 2_000
"""Answers by which explanations are compared; of more, every second, third, ..."""
_BLOCKS = 20
_FOLDS = 4
_GAIN = 6.0
"""By so much the logarithm of the likelihood must rise: the odds are e^6 = 400 to 1."""
_LOSS = 3.0
"""An explanation is kept if it would fall by more than this without it."""
_NOISE = 1.0
"""The rise must be so many of its standard errors, by blocks."""
_SEEN_GAIN = 8.0
"""What else is in process explains times, although blocks differ in that, if nothing explains them better and a fit to
all answers gains so much: often all slots are taken until the last agents are left, so that only one block tells."""
_DOUBT = 3.0
"""An explanation that is worse by fewer logarithms may be the right one."""
_SIMPLER = 2.0
"""By so many logarithms a speed is less likely before anything is seen than the one found: it is more complex."""
_TEMPERED = 0.5
_MOST_ALTERNATIVES = 4
_NO_WORK = math.log(1e-4)
_IMPOSSIBLE = -20.0
_STAGES = 9
_KNOTS = 4
"""Of a speed that changes with the time."""
_SPREAD = 0.7
"""The standard deviation of the logarithm of factors, before anything is seen."""


class Explanation(Struct, frozen=True):
    """What the time of answers may depend on."""

    parts: tuple[int, ...] = ()
    """Places in :data:`PARTS`: the work has a part in proportion to each of these."""
    kinds: tuple[str, ...] = ()
    speed: Speed = ALONE
    places: int | None = None
    knots: int = 0

    @property
    def complexity(self) -> int:
        """How many numbers it has."""
        loaded = (self.speed.law != "alone") + (self.places is not None)
        return len(self.parts) + len(self.kinds) + loaded + self.knots


class _Score(Struct, frozen=True):
    explanation: Explanation
    """The best of its family for all answers."""
    by_row: np.ndarray
    """The logarithm of the likelihood of each answer, by a fit to other blocks."""
    fitted: float
    """That of all answers, by a fit to all of them."""
    luck: np.ndarray
    """What that fit leaves unexplained of each answer."""


class _Search:
    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.kinds = answers.kinds()
        every = max(1, -(-answers.count // _MOST_COMPARED))
        self.rows = np.arange(0, answers.count, every)
        blocks = min(_BLOCKS, len(self.rows) // 5)
        self.block = np.arange(len(self.rows)) * blocks // max(1, len(self.rows))
        self._times: dict[tuple[Speed, int | None], tuple[np.ndarray, np.ndarray]] = {}

    def times(self, speed: Speed, places: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the logarithms of the work of all answers and of the speed at their ends."""
        key = speed, places
        found = self._times.get(key)
        if found is None:
            answers = self.answers
            work = answers.work(answers.done(speed, places, Drift()), places)[: answers.count]
            found = self._times[key] = np.log(work), answers.speeds_at_end(speed, places)
        return found

    def design(self, of: Explanation) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the columns of parts and of factors for all answers, and the precisions of the latter."""
        answers = self.answers
        columns = [np.ones(answers.count)]
        columns += [answers.sizes[:, each] / max(1e-9, answers.sizes[:, each].mean()) for each in of.parts]
        factors: list[np.ndarray] = []
        for name in of.kinds:
            for kind in self.kinds[name]:
                factors.append(np.array([kind_of(request, name) == kind for request, _ in answers.answered], float))
        if of.knots:
            factors += list(_hats(answers.middles, answers.began_at, answers.bin_s * BINS, of.knots).T)
        precisions = np.full(len(factors), _SPREAD**-2)
        made = np.stack(factors, axis=1) if factors else np.zeros((answers.count, 0))
        return np.stack(columns, axis=1), made, precisions

    def score(self, family: Sequence[Explanation]) -> _Score:
        """Fit each to all but one fold of blocks, take the best of these, and see how likely it makes that fold."""
        rows, fold = self.rows, self.block % _FOLDS
        parts, factors, precisions = self.design(family[0])  # which those of a family have in common
        parts, factors = parts[rows], factors[rows]
        start: Regression | None = None
        best = [-np.inf] * _FOLDS
        held_out = np.zeros(len(rows))
        total, likeliest, luck = -np.inf, family[0], np.zeros(len(rows))
        for each in family:
            times, speeds = self.times(each.speed, each.places)
            times, speeds = times[rows], speeds[rows]
            start = fit_regression(times, parts, factors, precisions, start=start)
            likely = _likely(start, times, parts, factors, speeds)
            if likely.sum() > total:
                total, likeliest = float(likely.sum()), each
                luck = times - start.expected(parts, factors)
            for number in range(_FOLDS):
                seen = fold != number
                fit = fit_regression(times[seen], parts[seen], factors[seen], precisions, start=start)
                likely = _likely(fit, times, parts, factors, speeds)
                fitted = float(likely[seen].sum())
                if fitted > best[number]:
                    best[number] = fitted
                    held_out[~seen] = likely[~seen]
        return _Score(likeliest, held_out, total, luck)

    def gain(self, old: _Score, new: _Score) -> tuple[float, float]:
        """Return by how much the new one makes all more likely, and the standard error of that."""
        by_block = np.bincount(self.block, new.by_row - old.by_row)
        return float(by_block.sum()), float(np.sqrt(len(by_block) * by_block.var()))

    def families(self, of: Explanation) -> Iterator[list[Explanation]]:
        """Yield families of explanations that go further than one."""
        answers = self.answers
        varied = [n for n in range(len(PARTS)) if answers.sizes[:, n].std() > 1e-3 * answers.sizes[:, n].mean()]
        for n in varied:
            if n not in of.parts:
                yield [replace(of, parts=tuple(sorted((*of.parts, n))))]
        for name in self.kinds:
            if name not in of.kinds:
                yield [replace(of, kinds=(*of.kinds, name))]
        most = answers.most
        if most > 1:
            for law, amounts in _laws(most).items():
                if law != of.speed.law:
                    yield [replace(of, speed=Speed(law, amount), places=None) for amount in amounts]
            yield [replace(of, speed=ALONE, places=places) for places in _counts(most)]
        if not of.knots:
            yield [replace(of, knots=_KNOTS)]

    def simpler(self, of: Explanation) -> Iterator[Explanation]:
        """Yield the explanation without each of its parts."""
        for n in of.parts:
            yield replace(of, parts=tuple(each for each in of.parts if each != n))
        for name in of.kinds:
            yield replace(of, kinds=tuple(each for each in of.kinds if each != name))
        if of.speed.law != "alone":
            yield replace(of, speed=ALONE)
        if of.places is not None:
            yield replace(of, places=None)
        if of.knots:
            yield replace(of, knots=0)

    def run(self) -> tuple[Explanation, list[tuple[float, Speed, int | None]]]:
        """Return the simplest explanation that is about as good as any.

        Also how many logarithms other speeds and places are worse by, of those that aren't by much.
        """
        current = self.score([Explanation()])
        others: list[tuple[float, Speed, int | None]] = []
        for _ in range(_STAGES):
            best, most = None, 0.0
            loaded: _Score | None = None
            by_load, by_else = _SEEN_GAIN, 0.0
            others.clear()
            for family in self.families(current.explanation):
                new = self.score(family)
                gain, error = self.gain(current, new)
                loads = new.explanation.speed, new.explanation.places
                more = new.explanation.complexity - current.explanation.complexity
                seen = (new.fitted - current.fitted) / _run_length(new.luck) - more
                if loads == (current.explanation.speed, current.explanation.places):
                    by_else = max(by_else, seen)
                else:
                    if gain > -_DOUBT:
                        others.append((max(0.0, _SIMPLER - gain), *loads))
                    if gain > 0 and seen > by_load:
                        loaded, by_load = new, seen
                if gain > (_GAIN if more > 0 else _LOSS) and gain > _NOISE * error and gain - more > most:
                    best, most = new, gain - more
            best = best or (loaded if by_load > by_else else None)
            if best is None:
                break
            current = best
        return self._without_needless(current), others

    def _without_needless(self, current: _Score) -> Explanation:
        while True:
            least, best = _LOSS, None
            for each in self.simpler(current.explanation):
                simpler = self.score([each])
                loss = -self.gain(current, simpler)[0]
                if loss < least:
                    least, best = loss, simpler
            if best is None:
                return current.explanation
            current = best


def fit_answers(answers: Answers) -> Service:
    """Fit the time of answers."""
    search = _Search(answers)
    if answers.count < _MIN_ANSWERS:
        return _service(search, Explanation())
    chosen, others = search.run()
    chosen, near = _refined(search, chosen)
    others = sorted([*near, *others], key=lambda each: each[0])[:_MOST_ALTERNATIVES]
    alternatives = [
        (math.exp(-worse), _service(search, replace(chosen, speed=speed, places=places)))
        for worse, speed, places in others
        if (speed, places) != (chosen.speed, chosen.places)
    ]
    return replace(_service(search, chosen), alternatives=alternatives)


def _likely(
    fit: Regression, times: np.ndarray, parts: np.ndarray, factors: np.ndarray, speeds: np.ndarray
) -> np.ndarray:
    """Return the logarithm of the density of the moment at which each answer ended."""
    likely = fit.log_likelihood(times - fit.expected(parts, factors)) - times + speeds
    # An answer that ends before its turn comes contradicts the number of places.
    return np.where(times < _NO_WORK, _IMPOSSIBLE, likely)


def _refined(search: _Search, chosen: Explanation) -> tuple[Explanation, list[tuple[float, Speed, int | None]]]:
    """Return it with the amount of its speed between those that were tried, and about how much less or more it is."""
    if chosen.speed.law == "alone":
        return chosen, []
    parts, factors, precisions = search.design(chosen)
    amount, width = chosen.speed.amount, 0.25
    best, start = -np.inf, None
    tried: dict[float, float] = {}
    for _ in range(4):
        for factor in (1.0, 1.0 - width, 1.0 + width):
            speed = Speed(chosen.speed.law, amount * factor)
            times, speeds = search.times(speed, chosen.places)
            start = fit_regression(times, parts, factors, precisions, start=start)
            likely = tried[speed.amount] = float(_likely(start, times, parts, factors, speeds).sum())
            if likely > best:
                best, chosen = likely, replace(chosen, speed=speed)
        amount, width = chosen.speed.amount, width / 2
    # Errors of neighbours are alike, so the likelihood says more than it knows.
    worse = sorted(((best - each) * _TEMPERED, other) for other, each in tried.items() if other != amount)
    return chosen, [(by, Speed(chosen.speed.law, each), chosen.places) for by, each in worse if by < _DOUBT]


def _service(search: _Search, chosen: Explanation) -> Service:
    """Return the service by an explanation."""
    answers = search.answers
    if not answers.count:
        return Service(Size(), Speed(), None, Drift(), (), (), (), {})
    parts, factors, precisions = search.design(chosen)
    times, _ = search.times(chosen.speed, chosen.places)
    fit = fit_regression(times, parts, factors, precisions)
    drift = _drift(answers, chosen, fit)
    done = answers.done(chosen.speed, chosen.places, drift)
    work = answers.work(done, chosen.places)
    timeless = replace(chosen, knots=0)
    parts, factors, precisions = search.design(timeless)
    times = np.log(work[: answers.count])
    fit = fit_regression(times, parts, factors, precisions)
    luck = times - fit.expected(parts, factors)
    begins = np.interp(answers.service_begins(chosen.places), answers.times, done)
    firsts = np.interp(answers.firsts, answers.times, done) - begins
    heads = np.interp(answers.heads, answers.times, done) - begins
    pools: dict[tuple[bool, str], list[int]] = {}
    for row, (request, _) in enumerate(answers.answered):
        pools.setdefault((request.arrived.stream, request.arrived.model), []).append(row)
    return Service(
        _size(search, timeless, fit),
        chosen.speed,
        chosen.places,
        drift,
        answers.answered,
        [Work(*each) for each in zip(work.tolist(), firsts.tolist(), heads.tolist(), strict=True)],
        luck.tolist(),
        pools,
        answers.most,
    )


def _size(search: _Search, chosen: Explanation, fit: Regression) -> Size:
    sizes = search.answers.sizes
    parts = [0.0] * len(PARTS)
    base_s, *shares = np.exp(fit.shares).tolist()
    for n, share in zip(chosen.parts, shares, strict=True):
        parts[n] = share / float(sizes[:, n].mean())
    kinds = dict(
        zip([(name, kind) for name in chosen.kinds for kind in search.kinds[name]], fit.effects.tolist(), strict=True)
    )
    a, b, c, d = parts
    return Size(base_s, (a, b, c, d), kinds)


def _drift(answers: Answers, chosen: Explanation, fit: Regression) -> Drift:
    if not chosen.knots:
        return Drift()
    at = answers.began_at + answers.bin_s * (np.arange(BINS) + 0.5)
    effects = fit.effects[len(fit.effects) - chosen.knots :]
    slower = _hats(at, answers.began_at, answers.bin_s * BINS, chosen.knots) @ effects
    slower -= slower.mean()
    return Drift(answers.began_at, answers.bin_s, tuple(np.exp(-slower).tolist()))


def _hats(at: np.ndarray, began_at: float, lasts: float, knots: int) -> np.ndarray:
    """Return columns whose sums are lines between so many knots and a fixed one in the beginning."""
    place = np.clip((at - began_at) / max(1e-9, lasts), 0.0, 1.0) * knots
    return np.maximum(0.0, 1.0 - np.abs(place[:, None] - np.arange(1, knots + 1)[None, :]))


def _laws(most: int) -> dict[Law, list[float]]:
    """Return the laws to try, with amounts."""
    return {
        "power": [0.05, 0.1, 0.2, 0.3, 0.4, 0.55, 0.7, 0.85, 1.0, 1.25],
        "shared": np.geomspace(0.004, 3.0, 11).tolist(),
        "late": (np.geomspace(0.3, 4.0, 7) * max(2, most)).tolist(),
        "knee": [float(each) for each in _counts(most)],
    }


def _counts(most: int) -> list[int]:
    """Return numbers of places to try."""
    if most <= 16:
        return list(range(1, most))
    return sorted({round(each) for each in np.geomspace(1, most - 1, 20)})


def _run_length(luck: np.ndarray) -> int:
    """Return for how many answers in a row luck lasts: more than 1 if that of neighbours is alike."""
    count = len(luck)
    if count < _MIN_ANSWERS:
        return 1
    centred = np.clip(luck - np.median(luck), -3 * luck.std(), 3 * luck.std())
    alike = float(centred[1:] @ centred[:-1]) / max(1e-12, float(centred @ centred))
    if alike < 3 / np.sqrt(count):
        return 1
    return int(min(count // 4, max(2, round(2 * (1 + alike) / (1 - min(alike, 0.95))))))
