"""Base class of Gaussian-process regressors in the weights of random Fourier features."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from graphrf._base import checks
from graphrf._base.warn import warn
from graphrf.euclidean.frequencies.draw import draw_frequencies
from graphrf.euclidean.gp.ascent import Ascent, Objective, Point, ascend, value_at
from graphrf.euclidean.gp.weight_space import (
    BLOCK_NUMBERS,
    CosineBasis,
    backward_evidence,
    evidence_by_gram,
    row_blocks,
)
from graphrf.euclidean.kernels import lengthscales

LENGTHSCALES = ("ard", "shared")
MEANS = ("constant", "zero")

# Ranges of lengthscales as multiples of the deviations of
# X, and of scale and noise as those of the variance of y.
_LENGTHSCALE_RANGE = (1e-2, 1e3)
_SCALE_RANGE = (1e-3, 1e3)
_NOISE_RANGE = (1e-6, 10.0)
_GRID_LENGTHSCALES = (0.5, 1.0, 2.0, 4.0, 8.0)
_GRID_NOISE = (0.01, 0.1, 0.5)


# In this range, squares of the largest entries of X
# and y, and of 1e-10 of them, are normal numbers.
_SMALLEST, _LARGEST = 1e-140, 1e140


class Observed(NamedTuple):
    """Training data in their own units."""

    # (n, d), centred: kernels depend on differences only, and small numbers have more digits.
    x: Tensor
    sides: Tensor  # [1, (y - offset) / unit], (n, 1 + p)
    centre: np.ndarray  # means of the columns of X
    spread: np.ndarray  # their standard deviations; 1 for a constant one
    offset: np.ndarray  # (p,)
    unit: float
    block_numbers: int = BLOCK_NUMBERS  # of features, in a block of rows


class WeightHyperparameters(NamedTuple):
    """Lengthscales, () or (d,), output scale and noise variance, in units of `Observed.unit`."""

    lengthscale: Tensor
    scale: Tensor
    noise: Tensor


class WeightPosterior(Protocol):
    """Posterior of a fitted regressor, in units of `Observed.unit`."""

    constant: Tensor

    def mean(self, x: Tensor) -> Tensor:
        """Posterior mean without the constant, shape (q, p)."""
        ...

    def variances(self, x: Tensor) -> Tensor:
        """Variances of the noise-free function, shape (q, p) or (q, 1)."""
        ...

    def sample(self, x: Tensor, n_samples: int, rng: np.random.Generator) -> Tensor:
        """Draws of the noise-free function without the constant, shape (n_samples, q, p)."""
        ...


class WeightSpaceRegressor(RegressorMixin, BaseEstimator):
    """Base class of regressors in weights of random features: settings, training, predictions."""

    mean_: float | np.ndarray
    frequencies_: np.ndarray
    lengthscale_: float | np.ndarray
    output_scale_: float
    noise_: float
    converged_: bool
    seed_: int

    n_frequencies: int
    kernel: Any
    directions: str
    norms: Any
    lengthscale: Any
    output_scale: float | None
    noise: float | None
    mean: str
    n_starts: int
    max_iterations: int
    seed: int | None

    # The attribute with the maximum of the objective.
    _objective_name: str

    @abstractmethod
    def _refined(
        self, found: Ascent, data: Observed, rng: np.random.Generator, steps: int
    ) -> Ascent:
        """Train all parameters of the model from the maximum `found` for fixed frequencies."""

    @abstractmethod
    def _posterior_at(self, data: Observed, point: Point) -> WeightPosterior:
        """The posterior for known hyperparameters; sets more fitted attributes of the subclass."""

    def fit(self, X: Any, y: Any) -> Any:
        """Train the hyperparameters and condition on the observations.

        Parameters
        ----------
        X : array_like, shape (n, d)
        y : array_like, shape (n,) or (n, p)
            Several outputs share all hyperparameters except the mean: scale them alike first.

        Raises
        ------
        TypeError, ValueError
            If settings are out of range, X or y are not finite or have different lengths, or the
            largest entry of y or of a column of X is below 1e-140 (but not 0) or above 1e140.

        Warns
        -----
        UserWarning
            If y is constant: no variance can be learned, and nothing is trained.
        """
        n = checks.integer("n_frequencies", self.n_frequencies, low=1)
        checks.choice("mean", self.mean, MEANS)
        for name in ("output_scale", "noise"):
            if getattr(self, name) is not None:
                checks.number(name, getattr(self, name), low=0, include_low=False)
        checks.integer("n_starts", self.n_starts, low=1)
        checks.integer("max_iterations", self.max_iterations, low=1)
        if isinstance(self.lengthscale, str):
            checks.choice("lengthscale", self.lengthscale, LENGTHSCALES)
        seed = checks.seed(self.seed)
        fresh = self._check_settings()

        X, y = validate_data(
            self,
            checks.to_array_like("X", X),
            checks.to_array_like("y", y),
            multi_output=True,
            y_numeric=True,
            dtype=np.float64,
        )
        y = y.astype(np.float64)
        _check_sizes("X", np.abs(X).max(0), _SMALLEST)
        _check_sizes("y", np.abs(y).max(), _SMALLEST)
        if not isinstance(self.lengthscale, str):
            lengthscales(self.lengthscale, X.shape[1])
        self._m, self._single = n, y.ndim == 1

        # Training needs gradients even if the caller has disabled them.
        with torch.inference_mode(False), torch.enable_grad():
            data, varies = self._observed(X, y.reshape(X.shape[0], -1))
            # for a constant y only the start is evaluated
            effort = (self.n_starts, self.max_iterations) if varies else (1, 0)
            found = self._search(data, seed, fresh, *effort)
            self._posterior = self._posterior_at(data, found.point)

        self._centre, self._offset, self._unit = data.centre, data.offset, data.unit
        constant = data.offset + data.unit * self._posterior.constant.numpy()
        self.mean_ = float(constant[0]) if self._single else constant

        given = self._hyperparameters(tensors(found.point), data)
        self.frequencies_ = found.point["frequencies"]
        values = given.lengthscale.numpy()
        self.lengthscale_ = values if values.ndim else float(values)
        self.output_scale_ = float(given.scale) * data.unit**2
        self.noise_ = float(given.noise) * data.unit**2
        setattr(self, self._objective_name, found.value - y.size * math.log(data.unit))
        self.converged_, self.seed_ = found.converged, seed
        return self

    def predict(self, X: Any, return_std: bool | str = False) -> Any:
        """The posterior mean, shape (q,) or (q, p), and standard deviations alike if requested.

        Time per point: O(m d) for its features, O(m p) for the mean and O(m^2) for the standard
        deviation, with m replaced by n where n is smaller. Memory: blocks of about 32 MB.

        Parameters
        ----------
        X : array_like, shape (q, d)
        return_std : bool or "observation"
            True: standard deviations of the noise-free function. "observation": of a new
            observation.
        """
        if not isinstance(return_std, bool | np.bool_) and return_std != "observation":
            raise checks.value_error(
                "return_std",
                f"must be True, False or 'observation', got {checks.describe(return_std)}",
            )
        x = self._points(X)
        blocks = row_blocks(x.shape[0], 2 * self._m)
        mean = torch.cat([self._posterior.mean(x[rows]) for rows in blocks]).numpy()
        mean = self._offset + self._unit * (mean + self._posterior.constant.numpy())
        if not return_std:
            return self._shaped(mean)
        variance = (
            torch.cat([self._posterior.variances(x[rows]) for rows in blocks]).numpy()
            * self._unit**2
        )
        if return_std == "observation":
            variance = variance + self.noise_
        std = np.broadcast_to(np.sqrt(variance), mean.shape).copy()
        return self._shaped(mean), self._shaped(std)

    def sample(self, X: Any, n_samples: int = 1, seed: int | None = None) -> np.ndarray:
        """Joint draws of the noise-free function, shape (n_samples, q), or (n_samples, q, p).

        A draw is one function on R^d, determined by the seed and the draw's number alone.

        Parameters
        ----------
        X : array_like, shape (q, d)
        n_samples : int
        seed : int in [0, 2^63), optional
            None draws one.
        """
        n_samples = checks.integer("n_samples", n_samples, low=1)
        x = self._points(X)
        rng = np.random.default_rng(checks.seed(seed))
        draws = self._posterior.sample(x, n_samples, rng).numpy()
        return self._shaped(self._offset + self._unit * (draws + self._posterior.constant.numpy()))

    # -- settings and data -------------------------------------------------------------------------

    @abstractmethod
    def _check_settings(self) -> bool:
        """Validate the settings of the subclass; True if every ascent draws its own frequencies."""

    def _observed(self, x: np.ndarray, y: np.ndarray) -> tuple[Observed, bool]:
        """The data, and True if y varies about its mean."""
        centre, spread = x.mean(0), x.std(0)
        offset = y.mean(0) if self.mean == "constant" else np.zeros(y.shape[1])
        largest = float(np.abs(y).max())
        unit = float(np.sqrt(np.square(y - offset).mean()))
        varies = unit > 1e-10 * largest
        if not varies:
            warn("`y` is constant: hyperparameters cannot be learned from it")
            unit = largest or 1.0
        sides = np.hstack([np.ones((y.shape[0], 1)), (y - offset) / unit])
        spread = np.where(spread > 1e-12 * np.abs(x).max(0), spread, 1.0)
        return Observed(
            torch.tensor(x - centre), torch.tensor(sides), centre, spread, offset, unit
        ), varies

    def _points(self, X: Any) -> Tensor:
        check_is_fitted(self)
        X = validate_data(self, checks.to_array_like("X", X), dtype=np.float64, reset=False)
        _check_sizes("X", np.abs(X).max(0), 0.0)
        return torch.tensor(X - self._centre)

    def _shaped(self, array: np.ndarray) -> np.ndarray:
        return array[..., 0] if self._single else array

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        # Without a seed, every fit draws other features.
        tags.non_deterministic = self.seed is None
        return tags

    # -- the search --------------------------------------------------------------------------------

    def _hyperparameters(self, point: dict[str, Tensor], data: Observed) -> WeightHyperparameters:
        """Hyperparameters of a point of the search; fixed ones are those of the settings."""
        if "lengthscale" in point:
            lengthscale = point["lengthscale"].exp()
        else:
            lengthscale = torch.tensor(lengthscales(self.lengthscale, data.x.shape[1]))
        scale, noise = (
            point[name].exp()
            if name in point
            else torch.tensor(np.float64(getattr(self, name)) / data.unit**2)
            for name in ("output_scale", "noise")
        )
        return WeightHyperparameters(lengthscale, scale, noise)

    def _bounds(self, data: Observed) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Bounds on the logarithms of the trained hyperparameters."""
        spread = data.spread
        low, high = _LENGTHSCALE_RANGE
        bounds = {}
        if isinstance(self.lengthscale, str):
            if self.lengthscale == "shared":
                spread = np.asarray(np.exp(np.log(spread).mean()))
            bounds["lengthscale"] = np.log(low * spread), np.log(high * spread)
        for name, ends in (("output_scale", _SCALE_RANGE), ("noise", _NOISE_RANGE)):
            if getattr(self, name) is None:
                bounds[name] = np.log(ends[0]), np.log(ends[1])
        return bounds

    def _grid(self, data: Observed) -> list[Point]:
        """Starting points of several lengthscales and shares of noise; the rest is signal."""
        bounds = self._bounds(data)
        factors = _GRID_LENGTHSCALES if "lengthscale" in bounds else (1.0,)
        ratios = _GRID_NOISE if "noise" in bounds else (0.1,)
        points = []
        for factor, ratio in itertools.product(factors, ratios):
            point: Point = {}
            if "lengthscale" in bounds:
                point["lengthscale"] = bounds["lengthscale"][0] + np.log(
                    factor / _LENGTHSCALE_RANGE[0]
                )
            if "output_scale" in bounds:
                point["output_scale"] = np.log(1 - ratio)
            if "noise" in bounds:
                point["noise"] = np.log(ratio)
            points.append(
                {name: np.asarray(value, dtype=np.float64) for name, value in point.items()}
            )
        return points

    def _search(self, data: Observed, seed: int, fresh: bool, n_starts: int, steps: int) -> Ascent:
        """The best of several ascents of up to `steps` iterations, with its frequencies."""
        rng = np.random.default_rng(seed)
        seeds = [seed, *rng.integers(2**62, size=n_starts - 1).tolist()]
        found = []

        for number in range(n_starts):
            matrix = draw_frequencies(
                self._m,
                data.x.shape[1],
                kernel=self.kernel,
                directions=self.directions,
                norms=self.norms,
                seed=seeds[number if fresh else 0],
            ).matrix

            objective = self.evidence(data, torch.tensor(matrix))
            start = max(self._grid(data), key=lambda point: value_at(objective, point))
            if number and "lengthscale" in start:
                moved = start["lengthscale"] + rng.standard_normal(start["lengthscale"].shape)
                start["lengthscale"] = np.clip(moved, *self._bounds(data)["lengthscale"])
            summit = ascend(objective, start, self._bounds(data), steps)
            summit = summit._replace(point=summit.point | {"frequencies": matrix})
            found.append(self._refined(summit, data, rng, steps))

        return max(found, key=lambda summit: summit.value)

    def evidence(self, data: Observed, frequencies: Tensor | None = None) -> Objective:
        """The log marginal likelihood of the data in their units, at a point of the search."""

        def objective(point: dict[str, Tensor]) -> float:
            given = self._hyperparameters(point, data)
            matrix = point["frequencies"] if frequencies is None else frequencies
            basis = CosineBasis(given.lengthscale, matrix)
            constant = self.mean == "constant"
            if data.x.shape[0] < 2 * self._m:
                phi = basis(data.x)
                value = evidence_by_gram(
                    phi @ phi.T, data.sides, given.scale, given.noise, constant
                )
                if value.requires_grad:
                    value.backward()
                return float(value.detach())
            return backward_evidence(
                basis.sums,
                data.x,
                data.sides,
                2 * self._m,
                given.scale,
                given.noise,
                constant,
                data.block_numbers,
            )

        return objective


def _check_sizes(name: str, sizes: np.ndarray, smallest: float) -> None:
    """Raise an error for data whose largest entries (not 0) have no squares in float64."""
    for size in np.ravel(sizes):
        if size > _LARGEST or 0 < size < smallest:
            least = f"at least {smallest:g} and " if smallest else ""
            raise checks.value_error(
                name,
                f"must be {least}at most {_LARGEST:g} in size, whose squares float64 can hold, "
                f"got {size:g}: rescale it",
            )


def tensors(point: Point) -> dict[str, Tensor]:
    """The arrays of a point as tensors without gradients."""
    return {name: torch.tensor(value) for name, value in point.items()}
