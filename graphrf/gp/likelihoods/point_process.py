"""The likelihood of a point pattern: a Poisson process whose intensity is exp(f)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from graphrf._base import checks
from graphrf.gp.likelihoods.likelihood import LogLink


@dataclass(frozen=True)
class PointProcess(LogLink):
    r"""Places of events, with the intensity exp(f) of events per unit of area.

    .. math:: \log p = \sum_{\mathrm{events}} f(s_i) - \int e^{f(s)} \, ds
              \approx \sum_{\mathrm{events}} f(s_i) - \sum_q w_q e^{f(s_q)}

    with points s_q and weights w_q of a quadrature, as `TriangleMesh.quadrature` gives. Rows of
    data are events, with the response 1, and points of the quadrature, with the response 0 and the
    weight as their exposure. The exposure of events is not used.

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> pattern = grf.gp.PointProcess()
    >>> pattern.log_density(np.array([1.0, 0.0]), np.log([3.0, 2.0])).round(3)
    array([ 1.099, -2.   ])

    Source: Simpson, Illian, Lindgren, Sørbye and Rue 2016, "Going off grid: computationally
    efficient inference for log-Gaussian Cox processes", Eq. 3.
    """

    def checked(self, y: np.ndarray, trials: np.ndarray | None) -> np.ndarray:
        y = super().checked(y, trials)
        if not np.isin(y, (0.0, 1.0)).all() or not y.any() or y.all():
            raise checks.value_error(
                "y",
                "must be 1 for events and 0 for points of a quadrature of the region, some of "
                "each, for likelihood='point_process': append the rows of mesh.quadrature()",
            )
        return y

    def check_without_exposure(self) -> None:
        raise checks.value_error(
            "exposure",
            "must be given for likelihood='point_process': the weights of the quadrature's points, "
            "as mesh.quadrature() returns them, and any number for events",
        )

    def log_exposure(self, y: np.ndarray, exposure: np.ndarray) -> np.ndarray:
        return super().log_exposure(y, np.where(y == 1, 1.0, exposure))

    def start(self, y: np.ndarray, offset: np.ndarray) -> float:
        return math.log(y.sum() / np.exp(offset[y == 0]).sum())

    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.where(y == 1, f, -np.exp(np.where(y == 1, 0.0, f)))

    def variance(self, f: np.ndarray) -> np.ndarray:
        """The variance of the number of events in a unit of area."""
        return self.mean(f)

    def sample(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Numbers of events in a unit of area."""
        return rng.poisson(self.mean(f)).astype(np.float64)
