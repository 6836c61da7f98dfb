"""What to expect of points of the space from the few that were tried: a Gaussian process."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Floats = NDArray[np.float64]

TREND = 1 / 2
"""Share of a linear trend in the covariance; the rest is Matern's with nu 5/2 and a length of 1, a range's width."""
LEAST_SIGNAL = 1 / 4
"""Share of the values' variance that the points account for at least, however much noise there seems to be."""
LEAST_VARIANCE = 1e-9
"""Of signal and of noise: where all values are the same, or without noise, equations can still be solved."""


def expect(places: Floats, *, tried: Floats, values: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation that are to be expected at each place, both of shape ``(places,)``.

    ``places`` and ``tried`` are of shape ``(points, dimensions)``. Tried points have ``values``, with noise of these
    ``variances``, each of shape ``(tried,)``. Only scale and mean are fitted: a few points say too little of lengths.
    """
    # imported late: scikit-learn takes a second that most commands do not need
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Matern

    spread, middle, mean = float(values.var()), tried.mean(axis=0), float(values.mean())
    scale = max(spread - float(variances.mean()), LEAST_SIGNAL * spread, LEAST_VARIANCE)
    trend = ConstantKernel(scale * TREND, "fixed") * DotProduct(0.0, "fixed")
    kernel = trend + ConstantKernel(scale * (1 - TREND), "fixed") * Matern(1.0, "fixed", nu=2.5)
    process = GaussianProcessRegressor(kernel, alpha=variances + LEAST_VARIANCE, optimizer=None)
    expected, deviation = process.fit(tried - middle, values - mean).predict(places - middle, return_std=True)
    return mean + expected, deviation


def expected_improvement(places: Floats, *, tried: Floats, values: Floats, variances: Floats) -> Floats:
    """Return by how much each place is expected to improve on the best that was tried, >= 0, of shape ``(places,)``.

    A tried point counts with its expected value, as its measured value is noisy. Arguments are those of ``expect``.
    """
    every = np.vstack([places, tried])
    mean, deviation = expect(every, tried=tried, values=values, variances=variances)
    gain = mean[: len(places)] - mean[len(places) :].max()
    doubt = np.maximum(deviation[: len(places)], LEAST_VARIANCE)
    density = np.exp(-((gain / doubt) ** 2) / 2) / np.sqrt(2 * np.pi)
    improvement: Floats = gain * ndtr(gain / doubt) + doubt * density
    return improvement
