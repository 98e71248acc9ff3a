"""The choice of a method, before anything is trained, from what each would cost; and that of a
fitted model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from graphrf.gp.methods.costs import TRAINED, factored_precision, is_thick, series_or_features
from graphrf.gp.methods.features import FeaturesMethod
from graphrf.gp.methods.precision import PrecisionMethod
from graphrf.gp.methods.protocol import Method, TrainedKernel
from graphrf.gp.methods.seconds import precision_seconds, series_seconds
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

# Seconds that are not worth a comparison, and up to which the series, which is exact, is preferred
# to precisions with layers, which are not.
_QUICK, _AFFORDABLE = 1.0, 5.0
# The names of methods.
NAMES = (SeriesMethod.name, PrecisionMethod.name, FeaturesMethod.name)


class Choice(NamedTuple):
    """A method, and the kernels that it serves."""

    method: Method
    kernels: Sequence[TrainedKernel]


def choose_method(
    graph: Graph,
    kernels: Sequence[TrainedKernel],
    nodes: np.ndarray,
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
        and (cheaper := _cheaper(graph, kernels, nodes, automatic, n_points)) is not None
    ):
        return Choice(PrecisionMethod(graph, cheaper[0], n_threads), cheaper[1])

    if method == "auto":
        method = series_or_features(graph, nodes.size, min(nodes.size, TRAINED))

    if method == "features":
        # 128 steps serve diffusion up to far longer lengthscales than the other kernels.
        if automatic:
            laplacians = dict.fromkeys(kernel.laplacian for kernel, _ in kernels)
            diffusions = [Diffusion(laplacian=laplacian) for laplacian in laplacians]
            kernels = [*kernels, *((kernel, ("lengthscale",)) for kernel in diffusions)]
        return Choice(
            FeaturesMethod(graph, sampler, n_threads, 0 if remote else nodes.size), kernels
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
    graph: Graph,
    kernels: Sequence[TrainedKernel],
    nodes: np.ndarray,
    automatic: bool,
    n_points: int,
) -> tuple[KernelPrecision, Sequence[TrainedKernel]] | None:
    """The sparse precision and its kernels, if training and posteriors by it take less time.

    Of automatic kernels only those are served whose precision has no hidden layers.
    """
    served = _with_precision(kernels, automatic)
    if not served or is_thick(graph):
        return None
    try:
        costed = SparsePrecision(graph, served[0][0])
        # layers are not ordered only to see that they take longer
        if not _is_preferred(costed, served, nodes, n_points):
            return None
        precision, fitting = factored_precision(graph, served, costed)
        return None if len(fitting) < len(served) and not automatic else (precision, fitting)
    except (FactorTooLargeError, ImportError, ValueError):
        return None


def _with_precision(kernels: Sequence[TrainedKernel], automatic: bool) -> list[TrainedKernel]:
    """The kernels with a sparse precision, of given ones all or none."""
    serves = has_sparse_inverse if automatic else has_sparse_precision
    served = [each for each in kernels if serves(each[0]) and not {"nu", "power"} & set(each[1])]
    return served if automatic or len(served) == len(kernels) else []


def _is_preferred(
    precision: SparsePrecision, served: Sequence[TrainedKernel], nodes: np.ndarray, n_points: int
) -> bool:
    """True if factors of precisions take less time than the series, or next to none; with layers,
    which are not exact, only in place of a long wait.
    """
    seconds = precision_seconds(precision, served, n_points)
    exact = all(has_sparse_inverse(kernel) for kernel, _ in served)
    if exact and seconds < _QUICK:
        return True
    try:
        by_series = series_seconds(precision.graph, served, nodes, n_points)
    except ValueError:  # it does not serve lengthscales as long as these
        return True
    return seconds < by_series and (exact or by_series > _AFFORDABLE)


def estimated_seconds(
    graph: Graph,
    kernels: Sequence[TrainedKernel],
    nodes: np.ndarray,
    automatic: bool,
    n_points: int,
) -> dict[str, float]:
    """Seconds of the processor by the series and, where it serves the kernels, by the sparse
    precision.
    """
    result = {SeriesMethod.name: series_seconds(graph, kernels, nodes, n_points)}
    if served := _with_precision(kernels, automatic):
        costed = SparsePrecision(graph, served[0][0])
        result[PrecisionMethod.name] = precision_seconds(costed, served, n_points)
    return result
