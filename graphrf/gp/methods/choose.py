"""The choice of a method, before anything is trained, from what each would cost; and that of a
fitted model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from graphrf.gp.methods.costs import (
    SERIES_SPEED,
    TRAINED,
    column_products,
    deviation_products,
    factored_precision,
    is_thick,
    series_or_features,
    solve_products,
)
from graphrf.gp.methods.features import FeaturesMethod
from graphrf.gp.methods.precision import PrecisionMethod
from graphrf.gp.methods.protocol import Method, TrainedKernel
from graphrf.gp.methods.series import SeriesMethod
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.named import Diffusion
from graphrf.operators.precision.areal import precision_of
from graphrf.operators.precision.markov import (
    SparsePrecision,
    has_sparse_inverse,
    has_sparse_precision,
    require_sparse_precision,
)
from graphrf.operators.precision.protocol import KernelPrecision
from graphrf.operators.sparse.ordering import FactorTooLargeError
from graphrf.sampling.sample import require_sampler

# Sparse factors with one power of the Laplacian that training takes for each Laplacian.
_RESOLVENTS = 30
# Factors and selected inverses, each as long as a factor, of a search for a mode.
_EVALUATIONS = 100
# Multiply-adds of dense factorisations a second (two cores).
_DENSE_SPEED = 1e10
# The names of methods.
NAMES = (SeriesMethod.name, PrecisionMethod.name, FeaturesMethod.name)


class Choice(NamedTuple):
    """A method, and the kernels that it serves."""

    method: Method
    kernels: Sequence[TrainedKernel]


def choose_method(
    graph: Graph,
    kernels: Sequence[TrainedKernel],
    n_observed: int,
    *,
    method: str,
    automatic: bool,
    sampler: object,
    n_points: int,
    n_threads: int | None,
    remote: bool = False,
) -> Choice:
    """The method of a fit, and the kernels that it serves.

    With method="auto" it is the sparse precision where its factors cost less than the series, and
    the series unless sampled features cost a quarter of it at most. Of `automatic` kernels a method
    may serve some.
    """
    if method == "precision":
        precision, fitting = factored_precision(graph, kernels)
        return Choice(PrecisionMethod(graph, precision, n_threads), fitting)

    if (
        method == "auto"
        and (cheaper := _cheaper(graph, kernels, n_observed, automatic, n_points)) is not None
    ):
        return Choice(PrecisionMethod(graph, cheaper[0], n_threads), cheaper[1])

    if method == "auto":
        method = series_or_features(graph, n_observed, min(n_observed, TRAINED))

    if method == "features":
        # 128 steps serve diffusion up to far longer lengthscales than the other kernels.
        if automatic:
            laplacians = dict.fromkeys(kernel.laplacian for kernel, _ in kernels)
            diffusions = [Diffusion(laplacian=laplacian) for laplacian in laplacians]
            kernels = [*kernels, *((kernel, ("lengthscale",)) for kernel in diffusions)]
        return Choice(
            FeaturesMethod(graph, sampler, n_threads, 0 if remote else n_observed), kernels
        )

    return Choice(SeriesMethod(graph, n_threads), kernels)


def method_named(
    graph: Graph, method: str, kernels: Sequence[Kernel], sampler: object, n_threads: int | None
) -> Method:
    """The method of a fitted model by its name, for the posteriors of its kernels; ValueError where
    it does not serve them.
    """
    if (sampler is None) == (method == "features"):
        raise ValueError("its method and its sampler are inconsistent")
    if method == "precision":
        for kernel in kernels:
            require_sparse_precision(kernel)
        return PrecisionMethod(graph, precision_of(graph, kernels[0]), n_threads)
    if method == "features":
        if {kernel.laplacian for kernel in kernels} != {require_sampler(sampler).laplacian}:
            raise ValueError("its sampler and its kernel are of different Laplacians")
        return FeaturesMethod(graph, sampler, n_threads, 0)
    return SeriesMethod(graph, n_threads)


def _cheaper(
    graph: Graph, kernels: Sequence[TrainedKernel], n_observed: int, automatic: bool, n_points: int
) -> tuple[KernelPrecision, Sequence[TrainedKernel]] | None:
    """The sparse precision and its kernels, if training and posteriors by it take less time.

    Of automatic kernels only those are served whose precision has no hidden layers.
    """
    serves = has_sparse_inverse if automatic else has_sparse_precision
    served = [each for each in kernels if serves(each[0]) and not {"nu", "power"} & set(each[1])]
    if not served or (len(served) < len(kernels) and not automatic) or is_thick(graph):
        return None
    try:
        costed = SparsePrecision(graph, served[0][0])
        # layers are not ordered only to see that they take longer
        if not automatic and not _is_cheaper(costed, served, n_observed, n_points):
            return None
        precision, fitting = factored_precision(graph, served, costed)
        if len(fitting) < len(served) and not automatic:
            return None
        return (precision, fitting) if _is_cheaper(costed, fitting, n_observed, n_points) else None
    except (FactorTooLargeError, ImportError, ValueError):
        return None


def _is_cheaper(
    precision: SparsePrecision, served: Sequence[TrainedKernel], n_observed: int, n_points: int
) -> bool:
    """True if some kernels take less time by factors of their precisions than by the series."""
    by_series = _series_seconds(precision.graph, served, n_observed, n_points)
    return _precision_seconds(precision, served, n_points) < by_series


def _precision_seconds(
    precision: SparsePrecision, served: Sequence[TrainedKernel], n_points: int
) -> float:
    """Seconds of training and of the deviations of all nodes by factors."""
    laplacians = len({kernel.laplacian for kernel, _ in served})
    factor = max(precision.with_kernel(kernel).seconds for kernel, _ in served)
    result = 2 * n_points * factor + laplacians * _RESOLVENTS * precision.elimination(1).seconds
    if n_points == 1 and any(names for _, names in served):  # the mode is sought by factors of Q
        result += _EVALUATIONS * factor
    return result


def _series_seconds(
    graph: Graph, served: Sequence[TrainedKernel], n_observed: int, n_points: int
) -> float:
    """Seconds of training and of the deviations of all nodes by the series."""
    laplacians = len({kernel.laplacian for kernel, _ in served})
    products = laplacians * column_products(graph, min(n_observed, TRAINED))
    products += n_points * (solve_products(graph, n_observed) + deviation_products(graph))
    return products / SERIES_SPEED + n_points * n_observed**3 / 3 / _DENSE_SPEED


def estimated_seconds(
    graph: Graph, kernels: Sequence[TrainedKernel], n_observed: int, automatic: bool, n_points: int
) -> dict[str, float]:
    """Seconds by the series and, where it serves the kernels, by the sparse precision."""
    result = {SeriesMethod.name: _series_seconds(graph, kernels, n_observed, n_points)}
    serves = has_sparse_inverse if automatic else has_sparse_precision
    served = [each for each in kernels if serves(each[0])]
    if served and (automatic or len(served) == len(kernels)):
        costed = SparsePrecision(graph, served[0][0])
        result[PrecisionMethod.name] = _precision_seconds(costed, served, n_points)
    return result
