"""Predictions: arguments, shapes, and the titles of their data frames."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphrf._base import checks
from graphrf.graph.alignment import labels_of
from graphrf.graph.tables import frame_of


class Titles(NamedTuple):
    """Titles of rows and columns, as in the data frames of `fit`; None where these had none."""

    levels: tuple[Hashable, ...] | None = None  # of the index
    outputs: tuple[Hashable, ...] | None = None

    @classmethod
    def of(cls, outputs: Any, *tables: Any) -> Titles:
        """The titles of the first index that has any, and those of the columns of the outputs."""
        levels = next(filter(None, map(levels_of, tables)), None)
        columns = getattr(outputs, "columns", None)
        return cls(levels, None if columns is None else tuple(columns))

    def frame(
        self,
        names: Sequence[Hashable],
        columns: Mapping[str, np.ndarray],
        nodes: Any = None,
        usual: str = "node",
    ) -> Any:
        """A data frame with a row for each name; columns of several outputs are pairs of titles."""
        table: dict[Any, np.ndarray] = {}
        for title, values in columns.items():
            if values.ndim == 1:
                table[title] = values
            else:
                outputs = range(values.shape[1]) if self.outputs is None else self.outputs
                table |= {
                    (title, output): each for output, each in zip(outputs, values.T, strict=True)
                }
        return frame_of(names, table, levels_of(nodes) or self.levels, usual)


def levels_of(table: Any) -> tuple[Hashable, ...] | None:
    """The titles of the levels of an index, or of what has one; None if there are none."""
    labels, numbered = labels_of(table)
    titles = getattr(table if labels is None else labels, "names", None)
    if numbered or titles is None or callable(titles) or all(title is None for title in titles):
        return None
    return tuple(titles)


class Question(NamedTuple):
    """The checked arguments of a call of `predict`: what it asks for beside means."""

    return_std: bool | str
    return_cov: bool
    levels: np.ndarray | None  # of quantiles, in the order asked for
    latent: bool
    as_frame: bool

    @classmethod
    def of(
        cls,
        return_std: Any,
        return_cov: Any = False,
        quantiles: Any = None,
        *,
        latent: Any = False,
        as_frame: Any = False,
    ) -> Question:
        """The question, once no two of its arguments exclude each other."""
        return_cov, latent = checks.flag("return_cov", return_cov), checks.flag("latent", latent)
        as_frame = checks.flag("as_frame", as_frame)

        if return_std and return_cov:
            raise checks.value_error(
                "return_std",
                "and `return_cov` exclude each other; the covariance's diagonal has both",
            )
        if not isinstance(return_std, bool | np.bool_) and return_std != "observation":
            raise checks.value_error(
                "return_std",
                f"must be True, False or 'observation', got {checks.describe(return_std)}",
            )
        if return_cov and as_frame:
            raise checks.value_error(
                "as_frame", "is for means, deviations and quantiles: set return_cov=False"
            )
        if latent and return_std == "observation":
            raise checks.value_error(
                "return_std", "= 'observation' is not of the latent function: set latent=False"
            )

        alone = as_frame or return_std == "observation" or not return_std
        levels = None if quantiles is None else _checked_levels(quantiles, alone and not return_cov)
        return cls(return_std, return_cov, levels, latent, as_frame)

    @property
    def of_observation(self) -> bool:
        """True if deviations or quantiles are those of a new observation, noise included."""
        return isinstance(self.return_std, str)

    @property
    def of_everything(self) -> bool:
        """True if quantiles come beside means and deviations, in one data frame."""
        return self.as_frame and bool(self.return_std) and self.levels is not None

    def columns(self, answer: Any) -> dict[str, np.ndarray]:
        """An answer by the titles of its columns: "mean" and "std", and "0.025" for a level."""
        if self.levels is None:
            parts = answer if self.return_std else (answer,)
            return dict(zip(("mean", "std"), parts, strict=False))
        *moments, quantiles = answer if self.of_everything else (answer,)
        by_level = zip(map(str, self.levels.tolist()), np.moveaxis(quantiles, -1, 0), strict=True)
        return dict(zip(("mean", "std"), moments, strict=False)) | dict(by_level)


def _checked_levels(quantiles: Any, alone: bool) -> np.ndarray:
    """Levels of quantiles, in (0, 1); an error unless they are asked for alone."""
    if not alone:
        raise checks.value_error(
            "quantiles",
            "are returned alone: as_frame=True has means, standard deviations and quantiles in one "
            "table, and return_std='observation' makes them those of a new observation",
        )
    levels = checks.finite(
        "quantiles", np.atleast_1d(checks.array("quantiles", quantiles, np.float64))
    )
    if levels.ndim != 1 or not levels.size or (levels <= 0).any() or (levels >= 1).any():
        raise checks.value_error(
            "quantiles", f"must be levels between 0 and 1, got {checks.describe(quantiles)}"
        )
    return levels


def deviations_like(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Standard deviations in the shape of the mean (q, p), of variances (q,) that all outputs
    share, or (q, p).
    """
    std = np.sqrt(variance)
    return np.broadcast_to(std[:, None] if std.ndim == 1 else std, mean.shape).copy()


def checked_bounds(above: Any, below: Any) -> tuple[float, float]:
    """The ends of the interval of a probability."""
    if above is None and below is None:
        raise checks.value_error(
            "above", "or `below` must be given: the threshold whose probability is asked for"
        )
    low = -np.inf if above is None else checks.number("above", above)
    high = np.inf if below is None else checks.number("below", below)
    if low >= high:
        raise checks.value_error("above", f"must be less than `below`, got {low:g} and {high:g}")
    return low, high
