"""Kernels, samplers, likelihoods and other settings as JSON: by class name and arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf.gp.likelihoods.ordinal import Ordinal
from graphrf.gp.likelihoods.real import NormalNoise
from graphrf.gp.model.likelihoods import LIKELIHOODS
from graphrf.gp.model.numerics import Numerics
from graphrf.gp.model.prior import (
    BetaPrior,
    HyperparameterPrior,
    PenalisedDeviation,
    PenalisedMixing,
    PenalisedRange,
)
from graphrf.kernels.areal import BYM2, CAR, ICAR
from graphrf.kernels.explicit import LearnedModulation, PowerSeries
from graphrf.kernels.named import (
    Diffusion,
    InverseCosine,
    Leroux,
    Matern,
    PStepRandomWalk,
    RegularizedLaplacian,
)
from graphrf.sampling.powers.powers import CompressedPowers, CutPowers, ExactPowers
from graphrf.sampling.walks.auto_lengths import AutoLengths
from graphrf.sampling.walks.coupling import Coupling
from graphrf.sampling.walks.lengths import (
    IID,
    Antithetic,
    SigmaCoupled,
    Stratified,
    Survival,
    Truncated,
)
from graphrf.sampling.walks.random_walks import RandomWalks

LARGEST = 1e150  # of numbers whose squares are summed
_CLASSES: dict[str, type[Any]] = {
    known.__name__: known
    for known in (
        *(
            Diffusion,
            InverseCosine,
            LearnedModulation,
            Matern,
            PowerSeries,
            PStepRandomWalk,
            RegularizedLaplacian,
        ),
        *(ICAR, CAR, Leroux, BYM2),
        *(IID, Antithetic, SigmaCoupled, Stratified, Truncated, Survival, AutoLengths, Coupling),
        *(RandomWalks, CompressedPowers, CutPowers, ExactPowers),
        *(Decimal, Fraction, HyperparameterPrior, Numerics),
        *(BetaPrior, PenalisedDeviation, PenalisedMixing, PenalisedRange, NormalNoise),
        *LIKELIHOODS.values(),
        Ordinal,
    )
}
# The arguments of those that are no dataclasses, or whose fields are not their arguments.
_ARGUMENTS: dict[type[Any], Callable[[Any], dict[str, Any]]] = {
    Decimal: lambda value: {"value": str(value)},
    Fraction: lambda value: {"numerator": str(value)},
    PowerSeries: lambda value: {value.given: value.coefficients, "laplacian": value.laplacian},
    SigmaCoupled: lambda value: {"p_halt": value.p_halt, "coupling": value.coupling},
}


def encoded(name: str, value: Any) -> Any:
    """A setting as JSON knows it: plain values, and graphrf's objects by class and arguments."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [encoded(name, part) for part in value]

    made = type(value)
    if _CLASSES.get(made.__name__) is not made:
        raise TypeError(
            f"`{name}` must be made of graphrf's own kernels, samplers and distributions of "
            f"lengths to be saved, got {checks.describe(value)}; save its arguments yourself, and "
            "fit again"
        )

    if made in _ARGUMENTS:
        arguments = _ARGUMENTS[made](value)
    else:
        arguments = {field: getattr(value, field) for field in _fields(made)}
    return {
        "class": made.__name__,
        "arguments": {key: encoded(name, part) for key, part in arguments.items()},
    }


def attributes(whole: Any, names: Iterable[str]) -> dict[str, Any]:
    """Some attributes of an object, encoded."""
    return {name: encoded(name, getattr(whole, name)) for name in names}


def decoded(value: Any) -> Any:
    """The setting passed to `encoded`. Only classes of `_CLASSES` are created."""
    if isinstance(value, list):
        return [decoded(part) for part in value]
    if not isinstance(value, dict):
        return value
    if set(value) != {"class", "arguments"} or value["class"] not in _CLASSES:
        raise ValueError(f"it names no class of graphrf: {checks.describe(value)}")
    made = _CLASSES[value["class"]]
    arguments = {name: decoded(part) for name, part in value["arguments"].items()}
    if made in (Decimal, Fraction):
        return _exact_number(made, *arguments.values())
    # Defaults may cost what the file does not: a modulation of 10^9 terms from one number.
    if made not in _ARGUMENTS and (missing := set(_fields(made)) - set(arguments)):
        raise ValueError(f"its {value['class']} lacks {', '.join(sorted(missing))}")
    return made(**arguments)


def check_probabilities(probabilities: Iterable[float]) -> None:
    """Raise unless the probabilities of what a file averages over sum to 1."""
    if abs(sum(probabilities) - 1) > 1e-9:
        raise ValueError("the probabilities of its points do not sum to 1")


def real(name: str, array: np.ndarray, n_axes: int) -> np.ndarray:
    """An array of a file, once it is known to hold finite float64 numbers whose squares do, too."""
    if array.dtype != np.float64 or array.ndim != n_axes:
        raise checks.value_error(
            name, f"must be float64 with {n_axes} axes, got {checks.describe(array)}"
        )
    if array.size and float(np.abs(checks.finite(name, array)).max()) > LARGEST:
        raise checks.value_error(name, f"must be at most {LARGEST:g}, whose squares leave float64")
    return array


def _fields(made: type[Any]) -> list[str]:
    """The arguments of a dataclass."""
    return [field.name for field in dataclasses.fields(made) if field.init]


def _exact_number(made: Callable[[str], Any], text: Any) -> Any:
    """A Decimal or Fraction within float64: 1e999999999 as a fraction would fill the memory."""
    exponent = Decimal(str(text).partition("/")[0]).adjusted()
    if not isinstance(text, str) or not -400 <= exponent <= 400:
        raise ValueError(f"it holds a number outside the range of float64, {checks.describe(text)}")
    return made(text)
