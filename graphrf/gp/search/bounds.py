"""Warnings of hyperparameters that a search left at the bounds of their range."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from graphrf._base.warn import warn
from graphrf.gp.search.coordinates import Coordinates

# How near to a bound a coordinate is at it.
_NEAR = 1e-6
_ORDER = "are places (nodes) and y in the same order?"
# What an end of a range tells about the data.
_REASONS = {
    "largest lengthscale": "the data do not determine it, because y is smoother than the kernel, "
    "or has a trend. Predictions may still be good, but the lengthscale is meaningless: fix it, "
    "state a prior, or compare a smoother kernel on held-out values",
    "largest range": "the data do not determine it, because y is smoother than the field, or has a "
    "trend. Predictions may still be good, but the range is meaningless: fix it, or state a prior",
    "smallest range": f"y carries no information on y at places nearby: {_ORDER}",
    "smallest lengthscale": f"y carries no information on y at neighbours: {_ORDER}",
    "smallest output_scale": f"only a mean and noise were found: {_ORDER}",
    "largest noise": f"only noise was found: {_ORDER}",
    "smallest noise": "intervals at observed places are as narrow as without noise: if there is "
    "noise, fix its variance, or state a prior for it",
}
# Exponents, whose ranges end where the data hardly determine them.
_SILENT = ("nu", "power")
_OTHERS = "the data do not determine it: fix it if it is known, state a prior, or leave it out"


def warn_of_bounds(
    coordinates: Coordinates, vector: np.ndarray, without: Collection[str] = ()
) -> None:
    """Warn of hyperparameters at the bounds of the search, except for those `without` a warning,
    such as "largest lengthscale".
    """
    for parameter, x, (low, high) in zip(
        coordinates.parameters, vector, coordinates.box, strict=True
    ):
        inside = low == high or min(x - low, high - x) >= _NEAR
        if inside or parameter.name in _SILENT:
            continue
        end = f"{'smallest' if x - low < high - x else 'largest'} {parameter.name}"
        if end not in without:
            value = parameter.within(parameter.value(x))
            # output scales are searched in another unit than is reported
            at = "" if parameter.name == "output_scale" else f", {value:.3g}"
            reason = _REASONS.get(end, _OTHERS)
            warn(f"training ended with the {end} that is searched{at}: {reason}")
