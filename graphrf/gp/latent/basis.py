r"""A basis of the fixed effects that does not depend on where their zero is, and its prior.

The coefficients of columns X are b = T c. Of the columns X T, each is orthogonal to those whose
nonzero rows are among its own. The default prior of the fixed part,

.. math:: c \sim N\big(0, \; v \, (T^\top X^\top X T / m)^{-1}\big), \quad v =
    (10^3\,\mathrm{unit})^2,

depends on the span of the columns alone, as the g-prior does: a constant that is added to a
covariate, where the formula has an intercept, and another coding of categories leave it as it is.

Source: Zellner 1986, "On assessing prior distributions and Bayesian regression analysis with
g-prior distributions".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# The deviation of the fixed part at a typical row, in units of the linear predictor: as good as
# flat, and the precision of all variables is positive definite.
_FLAT = 1e3


class FixedEffects(NamedTuple):
    """Columns X T of a well-conditioned basis, T, and the prior of c around `middle`."""

    matrix: np.ndarray  # X T, (m, p)
    transform: np.ndarray  # T, (p, p)
    precision: np.ndarray  # of c, (p, p)
    middle: np.ndarray  # (p,)

    @classmethod
    def of(cls, design: np.ndarray, unit: float, deviation: float | None) -> FixedEffects:
        """The basis of a design, whose coefficients have independent priors of this deviation, or a
        flat one.
        """
        transform = _transform(design)
        matrix = design @ transform
        if deviation is None:
            precision = matrix.T @ matrix / (max(len(design), 1) * (_FLAT * unit) ** 2)
        else:
            precision = transform.T @ transform / deviation**2
        return cls(matrix, transform, precision, np.zeros(len(transform)))


def _transform(design: np.ndarray) -> np.ndarray:
    """T: each column is made orthogonal to those whose nonzero rows are among its own, twice
    against rounding.

    Columns of few nonzero rows, such as those of categories, come first and stay as sparse as they
    are.
    """
    width = np.maximum(np.abs(design).max(axis=0, initial=0.0), 1e-300)
    nonzero = (design != 0.0).astype(np.float64)
    together, counts = nonzero.T @ nonzero, nonzero.sum(axis=0)

    order = np.argsort(counts, kind="stable")
    transform, columns = np.diag(1.0 / width), design / width

    for number, j in enumerate(order):
        before = [i for i in order[:number] if together[i, j] == counts[i]]
        for _ in range(2):
            for i in before:
                share = float(columns[:, i] @ columns[:, j]) / float(columns[:, i] @ columns[:, i])
                columns[:, j] -= share * columns[:, i]
                transform[:, j] -= share * transform[:, i]

        size = max(float(np.sqrt(np.mean(np.square(columns[:, j])))), 1e-300)
        columns[:, j] /= size
        transform[:, j] /= size
    return transform
