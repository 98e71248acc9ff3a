"""The checks of the settings of a Gaussian process, and of the observed values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf._base.threads import thread_count
from graphrf.gp.model.numerics import Numerics
from graphrf.gp.model.prior import FLAT, HyperparameterPrior
from graphrf.graph.graph import Graph, require_graph
from graphrf.kernels.areal import BYM2, CAR, ICAR
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.named import Diffusion, Leroux, Matern, RegularizedLaplacian
from graphrf.operators.precision.markov import has_sparse_inverse, require_sparse_precision
from graphrf.sampling.sample import require_sampler

KERNELS: dict[str, type[Kernel]] = {
    "diffusion": Diffusion,
    "matern": Matern,
    "regularized_laplacian": RegularizedLaplacian,
    "icar": ICAR,
    "car": CAR,
    "leroux": Leroux,
    "bym2": BYM2,
}
# Kernels of districts, which have their own conventions of scale.
AREAL = (BYM2, CAR, ICAR, Leroux)
AUTO = "auto"
HYPERPARAMETERS = ("average", "mode")
METHODS = ("auto", "series", "precision", "features")
SOLVERS = ("auto", "cholesky", "cg")
STD_METHODS = ("auto", "exact", "sampled")

# Between these, variances, and the largest absolute value of y, are safe in sums of squares.
_SMALLEST, _LARGEST = 1e-140, 1e140
# Of latent functions.
_LATENT = 1e70

# The kernel's hyperparameters that `optimize=True` leaves as chosen: smoothness is a modelling
# choice, and data hardly separate it from the lengthscale.
_CHOSEN = ("nu", "power")


def checked_settings(gp: Any) -> list[tuple[Kernel, tuple[str, ...]]]:
    """Each kernel to compare, with the names of what is trained, once all of a regressor's settings
    are legal.

    scikit-learn wants estimators to keep what they are given, so `fit` checks it and not
    `__init__`.
    """
    if isinstance(gp.kernel, str) and gp.kernel == AUTO:
        require_graph(gp.graph).require_undirected("a Gaussian process on its nodes")
        trained_names(gp.optimize, Diffusion())
        if gp.optimize is not True:
            raise checks.value_error(
                "optimize",
                "must be True with kernel='auto', which trains the kernels that it compares; name "
                "a kernel to fix its hyperparameters",
            )
        kernels = automatic_kernels(gp.graph, getattr(gp.numerics.sampler, "laplacian", None))
        if checked_method(gp.method) == "precision":
            kernels = [kernel for kernel in kernels if has_sparse_inverse(kernel)]
    else:
        kernels = [gp.kernel]

    result = [checked_kernel(gp, gp.numerics, kernel, areal=True) for kernel in kernels]
    checks.choice("hyperparameters", gp.hyperparameters, HYPERPARAMETERS)
    checked_prior(gp.prior)
    if np.ndim(gp.noise) == 0 and not isinstance(gp.noise, Mapping):
        _check_variance("noise", gp.noise)
    checks.flag("progress", gp.progress)
    _check_numerics(gp.numerics, checked_method(gp.method))
    return result


def _check_numerics(numerics: Numerics, method: str) -> None:
    checks.choice("solver", numerics.solver, SOLVERS)
    checks.choice("std_method", numerics.std_method, STD_METHODS)
    checks.number("tol", numerics.tol, low=1e-14, high=1, include_high=False)
    checks.integer("max_iterations", numerics.max_iterations, low=1)

    if method == "precision" and numerics.solver == "cg":
        raise checks.value_error(
            "solver", "must be 'auto' or 'cholesky' for method='precision', got 'cg'"
        )

    if numerics.feature_sampler is None:
        return
    if not callable(numerics.feature_sampler):
        raise checks.type_error(
            "feature_sampler",
            "must be a callable with the arguments of graphrf.sample_features, or None, got "
            f"{checks.describe(numerics.feature_sampler)}",
        )

    if method in ("series", "precision"):
        raise checks.value_error(
            "feature_sampler", f"is for method='features'; {method!r} samples nothing"
        )


def is_normalized(numerics: Numerics, kernel: Kernel) -> bool:
    """True if K is divided by its mean variance."""
    return not isinstance(kernel, AREAL) if numerics.normalize is None else bool(numerics.normalize)


def automatic_kernels(graph: Graph, laplacian: str | None = None) -> list[Kernel]:
    """The kernels that kernel="auto" compares: Matern kernels of four degrees of smoothness, for
    each Laplacian.

    Diffusion is not among them: its intervals for smooth values on meshes are too narrow
    (`benchmarks/calibration.py`). Where all degrees are equal one Laplacian is enough.
    """
    laplacians: tuple[str, ...] = (
        ("normalized", "combinatorial") if laplacian is None else (laplacian,)
    )
    degrees = graph.walk_degrees
    if laplacian is None and degrees.size and float(np.ptp(degrees)) <= 1e-9 * float(degrees.max()):
        laplacians = ("normalized",)
    return [
        kernel
        for own in laplacians
        for kernel in [Matern(nu=nu, laplacian=own) for nu in (0.5, 1.0, 2.0, 3.0)]
    ]


def checked_prior(prior: Any) -> HyperparameterPrior:
    """The prior of the hyperparameters that `prior` stands for."""
    if prior is None:
        return FLAT
    if isinstance(prior, str):
        checks.choice("prior", prior, ("weak",))
        return HyperparameterPrior()

    if isinstance(prior, Mapping):
        known = [field.name for field in dataclasses.fields(HyperparameterPrior)]
        for name in prior:
            checks.choice("the name of a prior", name, known)
        return HyperparameterPrior(**prior)

    if not isinstance(prior, HyperparameterPrior):
        raise checks.type_error(
            "prior",
            "must be 'weak', None, a mapping or a HyperparameterPrior, got "
            f"{checks.describe(prior)}",
        )
    return prior


def checked_noise(noise: Any, n: int) -> tuple[float | None, np.ndarray | None]:
    """A noise variance (None trains it), and relative precisions of n observations if each has its
    own.
    """
    if noise is None or np.ndim(noise) == 0:
        return None if noise is None else float(noise), None
    variances = checks.finite("noise", np.asarray(noise, dtype=np.float64))
    if variances.shape != (n,):
        raise checks.value_error(
            "noise",
            f"must be a number, or have shape ({n},), a variance for each observation, got "
            f"{variances.shape}",
        )
    for value in (float(variances.min()), float(variances.max())):
        _check_variance("noise", value)
    typical = float(np.exp(np.log(variances).mean()))
    return typical, typical / variances


def checked_kernel(
    gp: Any, numerics: Any, kernel: Any, areal: bool = False
) -> tuple[Kernel, tuple[str, ...]]:
    """The kernel to start from and what is trained, once what regressor and classifier share is
    legal.

    `numerics` has sampler, normalize, max_train and n_threads. With `areal`, kernels are served
    that are no function of the Laplacian.
    """
    require_graph(gp.graph).require_undirected("a Gaussian process on its nodes")
    if isinstance(kernel, str):
        known = (AUTO, *KERNELS) if areal else KERNELS
        kernel = KERNELS[checks.choice("kernel", kernel, known)]()
    elif not isinstance(kernel, Kernel):
        raise checks.type_error(
            "kernel",
            f"must be a graphrf kernel or one of {', '.join(map(repr, KERNELS))}, got "
            f"{checks.describe(kernel)}",
        )

    method = checked_method(gp.method)
    if not kernel.is_series:
        if not areal:
            raise checks.value_error(
                "kernel",
                "must be a function of the Laplacian here, such as Leroux or Matern, got "
                f"{kernel!r}",
            )
        if method not in ("auto", "precision"):
            raise checks.value_error(
                "method",
                f"must be 'auto' or 'precision' with {kernel!r}, which is not a function of the "
                f"Laplacian, got {method!r}; Leroux is an areal kernel that all methods serve",
            )
        for name in ("sampler", "feature_sampler"):
            if getattr(numerics, name, None) is not None:
                raise checks.value_error(
                    name,
                    f"must be None with {kernel!r}, which is not a function of the Laplacian and "
                    "has no features",
                )

    if numerics.sampler is not None:
        _check_sampler(numerics.sampler, method, kernel)
    if method == "precision":
        require_sparse_precision(kernel)

    _check_variance("output_scale", gp.output_scale)
    if numerics.normalize is not None:
        checks.flag("normalize", numerics.normalize)
    checks.integer("max_train", numerics.max_train, low=1)
    thread_count(numerics.n_threads)

    names = trained_names(gp.optimize, kernel)
    if method == "precision" and set(names) & set(_CHOSEN):
        raise checks.value_error(
            "optimize",
            "must not name 'nu' or 'power' with method='precision', which has them fixed",
        )
    return kernel, names


def checked_method(method: Any) -> str:
    """One of `METHODS`."""
    return checks.choice("method", method, METHODS)


def _check_variance(name: str, value: Any) -> None:
    if value is None:
        return
    variance = checks.number(name, value, low=0, include_low=False)
    if not _SMALLEST <= variance <= _LARGEST:
        raise ValueError(
            f"`{name}` must be in [{_SMALLEST:g}, {_LARGEST:g}], got {variance:g}; change the "
            "units of y"
        )


def check_latent_scale(value: float | None) -> None:
    """Refuse an output scale of latent functions whose fourth power leaves float64; it is a checked
    variance.
    """
    if value is not None and not 1 / _LATENT <= value <= _LATENT:
        raise checks.value_error(
            "output_scale",
            f"must be in [{1 / _LATENT:g}, {_LATENT:g}], got {value:g}: latent functions have "
            "variances of 1 to 1000",
        )


def _check_sampler(sampler: Any, method: str, kernel: Kernel) -> None:
    require_sampler(sampler)
    if method in ("series", "precision"):
        raise checks.value_error("sampler", f"is for method='features'; {method!r} samples nothing")
    if sampler.laplacian != kernel.laplacian:
        raise checks.value_error(
            "sampler",
            f"must walk the {kernel.laplacian} Laplacian, as the kernel, got {sampler.laplacian!r}",
        )


def trained_names(optimize: Any, kernel: Kernel) -> tuple[str, ...]:
    own = kernel.hyperparameters
    if isinstance(optimize, bool | np.bool_):
        return tuple(name for name in own if name not in _CHOSEN) if optimize else ()

    if isinstance(optimize, str) or not isinstance(optimize, Sequence):
        raise checks.type_error(
            "optimize",
            "must be True, False or a sequence of hyperparameter names, got "
            f"{checks.describe(optimize)}",
        )

    for name in optimize:
        if name not in own:
            raise checks.value_error(
                "optimize",
                f"must name hyperparameters of {kernel!r} ({', '.join(own)}), got {name!r}",
            )
    return tuple(name for name in own if name in optimize)


def checked_targets(y: Any, n: int, noun: str = "node") -> tuple[np.ndarray, bool]:
    """The values observed at `n` nodes or places as float64 (n, p), and whether they came without
    an axis of outputs.
    """
    y = checks.to_array_like("y", y)
    try:
        array = np.asarray(y)
    except ValueError as error:  # rows of different lengths
        raise checks.value_error("y", f"must have shape ({n},) or ({n}, p): {error}") from None

    if array.dtype.kind not in "biuf":
        way_out = ""
        if array.dtype.kind in "OUST":
            way_out = "; numpy.asarray(y, float) makes numbers of those that are"
            if noun == "node":
                way_out += ", and GraphGPClassifier takes labels"
        raise checks.type_error("y", f"must be real numbers, got {checks.describe(array)}{way_out}")

    if n == 0:
        raise checks.value_error(f"{noun}s", f"must hold at least one {noun}, got none")
    if array.ndim not in (1, 2) or array.shape[0] != n or array.size == 0:
        raise checks.value_error(
            "y",
            f"must have shape ({n},) or ({n}, p), one value for each {noun} of `{noun}s`, got "
            f"{array.shape}",
        )

    values = checks.finite("y", array.astype(np.float64))
    largest = float(np.abs(values).max())
    if largest and not _SMALLEST <= largest <= _LARGEST:
        raise checks.value_error(
            "y",
            f"must be at most {_LARGEST:g} and not all below {_SMALLEST:g}, whose squares leave "
            f"float64, got {largest:g} as the largest absolute value; multiply it by a constant",
        )
    return (values[:, None], True) if values.ndim == 1 else (values, False)
