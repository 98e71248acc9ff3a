"""The mean function: zero, a constant, or a constant and a linear trend in covariates of the nodes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from graphrf._base import checks

_NAMED = ("constant", "zero")
# Singular values of the scaled basis below this share of the largest count as 0.
_COLLINEAR = 1e-9
# Covariates, and their range in units of their spread at the observed nodes, whose squares are safe in sums.
_LARGEST = 1e150


class MeanFunction(NamedTuple):
    """A basis H of the mean at all nodes, and how its coefficients are told in the covariates' own units.

    Covariates are centred and scaled at the observed nodes, so that their units and origin (metres above the sea,
    grid coordinates of a country) cost no digits.

    Attributes
    ----------
    basis : ndarray, shape (N, 0) for a zero mean, (N, 1 + b) with b covariates else
        The first column is 1.
    centre, width : ndarray, shape (b,)
        Column 1 + k is (covariate k - centre[k]) / width[k].
    """

    basis: np.ndarray
    centre: np.ndarray
    width: np.ndarray

    @classmethod
    def of(cls, mean: Any, n_nodes: int, observed: np.ndarray) -> MeanFunction:
        """From the checked setting `mean` and the distinct observed nodes; ValueError if these do not suffice."""
        covariates = checked_mean(mean, n_nodes)
        if not covariates.shape[1]:
            nothing = np.zeros(0)
            return cls(np.ones((n_nodes, 1 if mean == "constant" else 0)), nothing, nothing)
        there = covariates[observed]
        centre = there.mean(axis=0)
        width = np.sqrt(np.square(there - centre).mean(axis=0))
        fixed = np.flatnonzero(width <= 1e-12 * np.maximum(np.abs(there).max(axis=0), 1e-200))
        if fixed.size:
            raise checks.value_error(
                "mean",
                f"must hold covariates that vary over the observed nodes, and column {fixed[0]} does not; "
                "drop it: the mean has a constant anyway",
            )
        with np.errstate(over="ignore"):
            basis = np.column_stack([np.ones(n_nodes), (covariates - centre) / width])
        far = np.flatnonzero(np.abs(basis).max(axis=0) > _LARGEST)
        if far.size:
            raise checks.value_error(
                "mean",
                f"must hold covariates that elsewhere are within {_LARGEST:g} times their spread at the "
                f"observed nodes, and column {far[0] - 1} is not; rescale or drop it",
            )
        singular = np.linalg.svd(basis[observed], compute_uv=False)
        rank = int((singular > _COLLINEAR * singular[0]).sum())
        if rank < basis.shape[1]:
            raise checks.value_error(
                "mean",
                f"must hold covariates that are not collinear at the observed nodes, but with the constant "
                f"its {basis.shape[1]} columns have rank {rank} at {observed.size} nodes; drop columns, or "
                "observe more nodes",
            )
        return cls(basis, centre, width)

    def centred(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values less their mean, where there is a constant to take it up, and that mean, shape (p,).

        What is left of rounding becomes 0, so that constant values are seen to be constant.
        """
        offset = values.mean(axis=0) if self.basis.shape[1] else np.zeros(values.shape[1])
        rest = values - offset
        rest[np.abs(rest) <= 8 * np.finfo(np.float64).eps * np.abs(offset)] = 0.0
        return rest, offset

    def deviations(self, covariance: np.ndarray) -> np.ndarray:
        """Standard deviations of the constant and the trend in the covariates' own units, shape (columns,)."""
        if not self.basis.shape[1]:
            return np.zeros(0)
        own = np.diag(np.concatenate([[1.0], 1 / self.width]))
        own[0, 1:] = -self.centre / self.width
        return np.sqrt(np.maximum(np.diagonal(own @ covariance @ own.T), 0.0))

    def parts(self, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The constant, shape (p,), and the trend, shape (b, p), of coefficients of shape (columns, p)."""
        if not self.basis.shape[1]:
            return np.zeros(coefficients.shape[1]), np.zeros((0, coefficients.shape[1]))
        trend = coefficients[1:] / self.width[:, None]
        return coefficients[0] - self.centre @ trend, trend


def checked_mean(mean: Any, n_nodes: int) -> np.ndarray:
    """Covariates as float64 of shape (N, b); of shape (N, 0) for a name."""
    if isinstance(mean, str):
        if mean not in _NAMED:
            raise checks.value_error(
                "mean", f"must be one of 'constant', 'zero', or an array of covariates at all nodes, got {mean!r}"
            )
        return np.zeros((n_nodes, 0))
    mean = checks.plain("mean", mean)
    try:
        array = np.asarray(mean)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        raise checks.type_error(
            "mean",
            f"must be 'constant', 'zero', or an array of covariates at all nodes, got {checks.describe(mean)}",
        )
    if array.ndim not in (1, 2) or array.shape[0] != n_nodes or array.size == 0:
        raise checks.value_error(
            "mean",
            f"must hold covariates of shape ({n_nodes},) or ({n_nodes}, b), a row for each node of the "
            f"graph, got {array.shape}",
        )
    values = checks.finite("mean", array.astype(np.float64))
    largest = float(np.abs(values).max())
    if largest > _LARGEST:
        raise checks.value_error(
            "mean",
            f"must hold covariates of at most {_LARGEST:g} in size, whose squares float64 can hold, "
            f"got {largest:g}; multiply them by a constant",
        )
    return values[:, None] if values.ndim == 1 else values
