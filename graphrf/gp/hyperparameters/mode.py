"""The most probable hyperparameters, by exact gradients of the likelihood from the best
of a grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from graphrf._base.blas import linear_algebra
from graphrf._base.warn import warn
from graphrf.gp.hyperparameters.blocks import BLOCK, observed_blocks
from graphrf.gp.hyperparameters.kernel_axis import KernelAxis
from graphrf.gp.hyperparameters.likelihood_search import (
    Divisor,
    LikelihoodResult,
    LikelihoodSearch,
    TrainingBlock,
    precision_divisor,
    spectral_divisor,
    unit_divisor,
)
from graphrf.gp.hyperparameters.parameters import Parameters
from graphrf.gp.hyperparameters.precision_search import PrecisionSearch
from graphrf.gp.model.hyperparameters import Hyperparameters
from graphrf.gp.model.problem import NormalProblem
from graphrf.gp.model.progress import Step
from graphrf.gp.routes.mean_variance import mean_variance
from graphrf.gp.routes.protocol import Grams, Route
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
    route: Route,
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
    search = LikelihoodSearch(
        (),
        Parameters(axis.kernel, tuple(axis.ranges), axis.ranges),
        scale,
        problem.noise,
        mode_divisor(graph, starts[0].kernel, normalize, seed, route.precision),
        problem.prior,
        problem.unit,
        axis.unit,
        step,
    )
    if route.precision is not None:
        precision = route.precision.with_kernel(starts[0].kernel)
        search = PrecisionSearch(precision, problem.observations, search)
    else:
        search.blocks = _blocks(problem, route, axis.kernel, grams)
    with linear_algebra(min(problem.observations.nodes.size, problem.max_train), problem.n_threads):
        points = []
        for start in starts:
            output_scale = start.amplitude * search.divided_by(start.kernel)
            points.append(search.point(start.kernel, output_scale, start.noise))
        result = search.run(points)
        if scale is not None and problem.normalize:  # once more, with the mean variance at the mode
            search.divisor = mode_divisor(graph, result.kernel, True, seed, route.precision)
            result = search.run([result.point])
    if warns:
        _warn_of_bounds(axis, result)
    divisor = mean_variance(graph, result.kernel, seed, route.precision) if normalize else 1.0
    amplitude, scale = (
        (result.amplitude, result.amplitude * divisor)
        if scale is None
        else (scale / divisor, scale)
    )
    return Mode(
        Hyperparameters(result.kernel, amplitude, scale, result.noise, 1.0), result.converged
    )


def _blocks(
    problem: NormalProblem, route: Route, kernel: Kernel, grams: Grams
) -> list[TrainingBlock]:
    """Up to `max_train` observed nodes together, or blocks of 250 of them."""
    observed, most = problem.observations.nodes, min(problem.max_train, route.largest_block)
    size = most if observed.size <= most else min(BLOCK, most)
    rng = np.random.default_rng(problem.seed)
    nodes = observed_blocks(problem.graph, observed, rng, size=size, count=max(most // size, 1))
    exact = route.exact_grams(grams, kernel, nodes, problem.seed)
    return [
        TrainingBlock(gram, problem.at(block))
        for gram, block in zip(exact.each, nodes, strict=True)
    ]


def mode_divisor(
    graph: Graph, kernel: Kernel, normalize: bool, seed: int, precision: KernelPrecision | None
) -> Divisor:
    """The divisor of K: 1, or its mean variance, by a quadrature that is exact at `kernel`."""
    if not normalize:
        return unit_divisor()
    if not kernel.is_series:
        return precision_divisor(precision or precision_of(graph, kernel))
    points, weights = density_of_states(graph, kernel.laplacian, np.random.default_rng(seed))
    scale = graph.laplacian_scale(kernel.laplacian)
    rough = spectral_divisor(points, weights, scale)(kernel, (), [])[0]
    return spectral_divisor(
        points, weights * (mean_variance(graph, kernel, seed, precision) / rough), scale
    )


def _warn_of_bounds(axis: KernelAxis, result: LikelihoodResult) -> None:
    """Warn of hyperparameters at the bounds of the search, where the data do not determine them."""
    order = "are nodes and y in the same order?"
    reasons = {
        "largest lengthscale": (
            "so the data do not determine it: y is smoother than the kernel, or has a trend. "
            "Predictions may still be good, but the lengthscale is meaningless: compare a smoother "
            "kernel on held-out values (kernel='diffusion'), or fix the lengthscale "
            "(optimize=False)"
        ),
        "smallest lengthscale": (
            f"so y at a node carries no information on y at its neighbours: {order}"
        ),
        "smallest output_scale": f"so only a mean and noise were found: {order}",
        "largest noise": f"so only noise was found: {order}",
        "smallest noise": (
            "so intervals at observed nodes are as narrow as without noise: if there is noise, "
            "pass its variance as `noise`, or a `prior` for it"
        ),
    }
    if axis.is_cut:  # the route's limitation is warned of
        del reasons["largest lengthscale"]
    values = {"noise": result.noise, **result.kernel.hyperparameters}
    for name, end in result.ends.items():
        if (reason := reasons.get(f"{end} {name}")) is not None:
            at = f", {values[name]:.3g}" if name in values else ""
            warn(f"training ended with the {end} {name} that is searched{at}, {reason}")
