"""A regression of the logarithm of a time: a sum of parts, times factors, with an error that may have outliers.

The time is `(b0 x0 + b1 x1 + ...) * exp(c0 z0 + c1 z1 + ...) * luck`, with no `b` below 0. The logarithm of the luck
has Student's t distribution, so that a few answers that took five times as long say little.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

DEGREES = 5.0
"""Degrees of freedom of the error."""
_LEAST_SIGMA = 2e-3
_ITERATIONS = 40
_ENOUGH = 1e-5
_LONGEST_STEP = 2.0
_RIDGE = 1e-6
_LOWEST = -12.0
"""The logarithm of a part's share below which it counts as none."""
_CONSTANT = math.lgamma((DEGREES + 1) / 2) - math.lgamma(DEGREES / 2) - 0.5 * math.log(DEGREES * math.pi)


class Regression(Struct, frozen=True):
    """A fit."""

    shares: np.ndarray
    """The logarithms of the parts' coefficients, for columns scaled to a mean of 1."""
    effects: np.ndarray
    """The coefficients of the factors."""
    sigma: float
    """The scale of the error."""

    def expected(self, parts: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Return the logarithms of the expected times."""
        return np.asarray(np.log(parts @ np.exp(self.shares)) + factors @ self.effects)

    def log_likelihood(self, errors: np.ndarray) -> np.ndarray:
        """Return the logarithm of the density of each error."""
        z = errors / self.sigma
        return _CONSTANT - math.log(self.sigma) - (DEGREES + 1) / 2 * np.log1p(z * z / DEGREES)


def fit_regression(
    times: np.ndarray, parts: np.ndarray, factors: np.ndarray, precisions: np.ndarray, start: Regression | None = None
) -> Regression:
    """Fit the logarithms of times.

    `parts` are columns with a mean of about 1; `precisions` are those of the factors' coefficients before anything is
    seen (1 / variance).
    """
    count = parts.shape[1]
    if start is None:
        theta = np.concatenate([np.full(count, np.median(times) - math.log(count)), np.zeros(factors.shape[1])])
        sigma = max(_LEAST_SIGMA, float(np.std(times)))
    else:
        theta, sigma = np.concatenate([start.shares, start.effects]), start.sigma
    prior = np.concatenate([np.full(count, _RIDGE), precisions])
    prior_of = np.concatenate([np.zeros(count), precisions])
    before = math.inf
    # Room for what each iteration computes: most of the time of small arrays goes into making them.
    slopes = np.hstack([parts, factors])
    each, weighted, square = np.empty_like(parts), np.empty_like(slopes), np.empty_like(times)
    for _ in range(_ITERATIONS):
        np.multiply(parts, np.exp(theta[:count]), out=each)
        whole = _sums_of_rows(each)
        errors = times - np.log(whole)
        errors -= factors @ theta[count:]
        np.divide(errors, sigma, out=square)
        np.multiply(square, square, out=square)
        square += DEGREES
        trust = np.divide(DEGREES + 1, square, out=square)
        sigma = max(_LEAST_SIGMA, math.sqrt(float(trust @ (errors * errors)) / len(times)))
        np.divide(each, whole[:, None], out=slopes[:, :count])
        np.multiply(slopes, trust[:, None], out=weighted)
        matrix = weighted.T @ slopes
        matrix.flat[:: len(theta) + 1] += prior * sigma * sigma + _RIDGE
        step = np.linalg.solve(matrix, weighted.T @ errors - prior_of * sigma * sigma * theta)
        longest = float(np.abs(step).max())
        if longest > _LONGEST_STEP:
            step *= _LONGEST_STEP / longest
        theta = theta + step
        theta[:count] = np.maximum(theta[:count], theta[:count].max() + _LOWEST)
        if longest < _ENOUGH or (longest < 0.02 and abs(before - sigma) < _ENOUGH * sigma):
            break
        before = sigma
    return Regression(theta[:count], theta[count:], sigma)


def _sums_of_rows(of: np.ndarray) -> np.ndarray:
    """Return the sum of each row of a few numbers, column by column, which takes a tenth of the time of `sum`."""
    found = of[:, 0].copy()
    for column in range(1, of.shape[1]):
        found += of[:, column]
    return found
