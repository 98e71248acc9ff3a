"""The most probable hyperparameters, by exact gradients of the likelihood from the best
of a grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from graphrf._base.blas import linear_algebra
from graphrf.gp.hyperparameters.blocks import BLOCK, observed_blocks
from graphrf.gp.hyperparameters.kernel_axis import KernelAxis
from graphrf.gp.hyperparameters.likelihood_search import (
    LikelihoodSearch,
    MeanVariance,
    TrainingBlock,
    precision_mean_variance,
    spectral_mean_variance,
    unit_mean_variance,
)
from graphrf.gp.hyperparameters.precision_search import PrecisionSearch
from graphrf.gp.hyperparameters.space import Model, Space, Units
from graphrf.gp.methods.mean_variance import mean_variance
from graphrf.gp.methods.protocol import Grams, Method
from graphrf.gp.model.hyperparameters import Hyperparameters
from graphrf.gp.model.problem import NormalProblem
from graphrf.gp.model.progress import Step
from graphrf.gp.search.bounds import warn_of_bounds
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.operators.precision.areal import precision_of
from graphrf.operators.precision.protocol import KernelPrecision
from graphrf.operators.series.density_of_states import density_of_states


class Mode(NamedTuple):
    """The most probable hyperparameters of a kernel, and whether the gradient vanishes there."""

    best: Hyperparameters
    converged: bool


def find_mode(
    problem: NormalProblem,
    method: Method,
    axis: KernelAxis,
    starts: Sequence[Hyperparameters],
    grams: Grams,
    step: Step | None,
    *,
    warns: bool = False,
) -> Mode:
    """The mode of likelihood times prior of one kernel, without tempering; `warns` of a mode at a
    bound.

    The likelihood is that of all observations with a sparse precision, else of up to `max_train`
    observed nodes, in blocks of 250 above 250.
    """
    graph, seed, scale = problem.graph, problem.seed, problem.output_scale
    # A trained output scale multiplies K over its mean variance; `normalize` is for the one that is
    # reported.
    normalize = problem.normalize or scale is None
    space = Space.of(
        axis.kernel,
        axis.ranges,
        problem.prior,
        Units(problem.unit, axis.unit),
        output_scale=scale,
        noise=problem.noise,
    )

    mean_variance_at = mean_variance_near(
        graph, starts[0].kernel, normalize, seed, method.precision
    )
    search = LikelihoodSearch((), space, mean_variance_at, step)

    if method.precision is not None:
        precision = method.precision.with_kernel(starts[0].kernel)
        search = PrecisionSearch(precision, problem.observations, search)
    else:
        search.blocks = _blocks(problem, method, axis.kernel, grams)

    with linear_algebra(min(problem.observations.nodes.size, problem.max_train), problem.n_threads):
        points = []
        for start in starts:
            output_scale = start.amplitude * search.mean_variance_of(start.kernel)
            points.append(space.vector_of(Model(start.kernel, output_scale, noise=start.noise)))
        result = search.run(points)
        if scale is not None and problem.normalize:  # once more, with the mean variance at the mode
            search.mean_variance = mean_variance_near(
                graph, result.model.kernel, True, seed, method.precision
            )
            result = search.run([result.vector])

    if warns:  # of the method's limitation there is another warning
        without = ("largest lengthscale",) if axis.is_cut else ()
        warn_of_bounds(space, result.vector, without)

    kernel = result.model.kernel
    of_all_nodes = mean_variance(graph, kernel, seed, method.precision) if normalize else 1.0
    amplitude, scale = (
        (result.amplitude, result.amplitude * of_all_nodes)
        if scale is None
        else (scale / of_all_nodes, scale)
    )
    best = Hyperparameters(kernel, amplitude, scale, result.model.noise, 1.0)
    return Mode(best, result.converged)


def _blocks(
    problem: NormalProblem, method: Method, kernel: Kernel, grams: Grams
) -> list[TrainingBlock]:
    """Up to `max_train` observed nodes together, or blocks of 250 of them."""
    observed, most = problem.observations.nodes, min(problem.max_train, method.largest_block)
    size = most if observed.size <= most else min(BLOCK, most)
    rng = np.random.default_rng(problem.seed)
    nodes = observed_blocks(problem.graph, observed, rng, size=size, count=max(most // size, 1))
    exact = method.exact_grams(grams, kernel, nodes, problem.seed)
    return [
        TrainingBlock(gram, problem.at(block))
        for gram, block in zip(exact.each, nodes, strict=True)
    ]


def mean_variance_near(
    graph: Graph, kernel: Kernel, normalize: bool, seed: int, precision: KernelPrecision | None
) -> MeanVariance:
    """The mean variance of K over all nodes, by a quadrature that is exact at `kernel`; 1 without
    `normalize`.
    """
    if not normalize:
        return unit_mean_variance()
    if not kernel.is_series:
        return precision_mean_variance(precision or precision_of(graph, kernel))
    points, weights = density_of_states(graph, kernel.laplacian, np.random.default_rng(seed))
    scale = graph.laplacian_scale(kernel.laplacian)
    rough = spectral_mean_variance(points, weights, scale)(kernel, (), [])[0]
    return spectral_mean_variance(
        points, weights * (mean_variance(graph, kernel, seed, precision) / rough), scale
    )
