"""What to expect of points of the space from the few that were tried: a Gaussian process."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist
from scipy.special import ndtr

Floats = NDArray[np.float64]

TREND = 1 / 2
"""Share of a linear trend in the covariance; the rest is Matern's with nu 5/2 and a length of 1, a range's width."""
LEAST_SIGNAL = 1 / 4
"""Share of the values' variance that the points account for at least, however much noise there seems to be."""
TIED = 1e-9
"""What counts as nothing: of two expected improvements, as a share of the higher; of a variance, as it is."""


class GaussianProcess:
    """Kriging with a linear trend. Its lengths are not fitted: a few points say too little of them."""

    def __init__(self, places: Floats, values: Floats, variances: Floats) -> None:
        """Learn from values, of shape (points,), at places, (points, dimensions), and from their noise's variances."""
        self._places, self._middle, self._mean = places, places.mean(axis=0), float(values.mean())
        spread = float(values.var())
        self._scale = max(spread - float(variances.mean()), LEAST_SIGNAL * spread, TIED)
        self._factor = cho_factor(self._covariance(places, places) + np.diag(variances + TIED))
        self._weights = cho_solve(self._factor, values - self._mean)

    def expect(self, places: Floats) -> tuple[Floats, Floats]:
        """Return the mean and the standard deviation that are to be expected at each place."""
        across = self._covariance(places, self._places)
        prior = TREND * ((places - self._middle) ** 2).sum(axis=1) + 1 - TREND
        explained = (across * cho_solve(self._factor, across.T).T).sum(axis=1)
        return self._mean + across @ self._weights, np.sqrt(np.maximum(self._scale * prior - explained, TIED**2))

    def most_promising(self, places: Floats) -> int:
        """Return which place improves most on the best point that was tried, by expectation; the first in a tie."""
        mean, deviation = self.expect(places)
        gain = mean - self.expect(self._places)[0].max()
        far = gain / deviation
        improvement = gain * ndtr(far) + deviation * np.exp(-(far**2) / 2) / np.sqrt(2 * np.pi)
        return int(np.flatnonzero(improvement >= improvement.max() * (1 - TIED))[0])

    def _covariance(self, a: Floats, b: Floats) -> Floats:
        apart = np.sqrt(5) * cdist(a, b)
        matern = (1 + apart + apart**2 / 3) * np.exp(-apart)
        trend = (a - self._middle) @ (b - self._middle).T
        covariance: Floats = self._scale * (TREND * trend + (1 - TREND) * matern)
        return covariance
