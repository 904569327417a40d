"""The optimiser: the one module that knows Optuna, which is an extra of the installation."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hivemind.errors import UsageError
from hivemind.lab.tune.space import Dimension, Params

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import Trial

_RANDOM_TRIALS = 12
"""Tried anywhere, before what came of them says where to look closer."""


class Search:
    """A search by tree-structured Parzen estimators. The same seed, space and answers give the same questions.

    Raises: UsageError: Optuna isn't installed.
    """

    def __init__(self, dimensions: Sequence[Dimension], seed: int) -> None:
        try:
            import optuna
        except ImportError as error:
            raise UsageError(
                f"tuning needs the library Optuna ({error}): pip install 'hivemind-tui[lab]', or make setup"
            ) from None
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._optuna = optuna
        self._ranges: dict[str, BaseDistribution] = {each.name: self._range(each) for each in dimensions}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=_RANDOM_TRIALS, multivariate=True)
        self._study = optuna.create_study(sampler=sampler, direction="minimize")
        self._asked: list[Trial] = []

    def begin(self, params: Params) -> None:
        """Have this asked first."""
        self._study.enqueue_trial(dict(params))

    def ask(self, count: int) -> list[Params]:
        """What to try next, so many at once."""
        self._asked = [self._study.ask(self._ranges) for _ in range(count)]
        return [dict(trial.params) for trial in self._asked]

    def tell(self, answers: Sequence[tuple[float, Mapping[str, float]] | None]) -> None:
        """What each of these costs, and by how much it breaks which condition (0 or less: it doesn't); None: it can't
        be tried."""
        for trial, answer in zip(self._asked, answers, strict=True):
            if answer is None:
                self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
                continue
            cost, violations = answer
            for name, by in violations.items():
                trial.set_constraint(name, by)
            self._study.tell(trial, cost)

    def _range(self, each: Dimension) -> BaseDistribution:
        if each.whole:
            return self._optuna.distributions.IntDistribution(int(each.low), int(each.high), log=each.log)
        return self._optuna.distributions.FloatDistribution(each.low, each.high, log=each.log)
