"""The optimiser. Only this module imports Optuna, which is an optional dependency."""

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
"""Random trials before the sampler learns from results."""


class Search:
    """A search by tree-structured Parzen estimators, deterministic for a seed, a space and results.

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
        """Make these the first parameters of :meth:`ask`."""
        self._study.enqueue_trial(dict(params))

    def ask(self, count: int) -> list[Params]:
        """Return the next parameters to try."""
        self._asked = [self._study.ask(self._ranges) for _ in range(count)]
        return [dict(trial.params) for trial in self._asked]

    def tell(self, answers: Sequence[tuple[float, Mapping[str, float]] | None]) -> None:
        """Report for each of these its cost and by how much it violates each constraint (at most 0: it doesn't).

        None: it can't be simulated.
        """
        for trial, answer in zip(self._asked, answers, strict=True):
            if answer is None:
                self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
                continue
            cost, violations = answer
            for name, amount in violations.items():
                trial.set_constraint(name, amount)
            self._study.tell(trial, cost)

    def _range(self, each: Dimension) -> BaseDistribution:
        if each.whole:
            return self._optuna.distributions.IntDistribution(int(each.low), int(each.high), log=each.log)
        return self._optuna.distributions.FloatDistribution(each.low, each.high, log=each.log)
