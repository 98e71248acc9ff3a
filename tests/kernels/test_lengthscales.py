"""The range of kernels in edges: correlations there are those of R-INLA's convention."""

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.kernels import correlation_range

SIDE = 41
GRID = grf.load_graph(nx.convert_node_labels_to_integers(nx.grid_2d_graph(SIDE, SIDE)))
LINE = grf.from_edges(range(300), range(1, 301))


def correlation(kernel, graph, middle, step, distance):
    """The correlation of a middle node with a place at a distance in a straight line."""
    covariance = kernel.dense(graph)
    deviation = np.sqrt(np.diag(covariance))
    away = np.arange(18)
    nodes = middle + step * away
    return np.interp(
        distance, away, covariance[middle, nodes] / (deviation[middle] * deviation[nodes])
    )


@pytest.mark.parametrize("laplacian", ["normalized", "combinatorial"])
@pytest.mark.parametrize(
    "kernel",
    [
        grf.Matern(nu=1.5, lengthscale=8.0),
        grf.Matern(nu=2.0, lengthscale=8.0),
        grf.Matern(nu=3.0, lengthscale=8.0),
        grf.RegularizedLaplacian(lengthscale=4.0, power=2.0),
        grf.Diffusion(lengthscale=7.0),
    ],
)
def test_correlations_at_the_range_are_about_a_seventh(kernel, laplacian):
    # The walk matrix of the combinatorial Laplacian makes a step for each of four edges.
    shorter = kernel.lengthscale / (2 if laplacian == "combinatorial" else 1)
    kernel = kernel.replace(laplacian=laplacian, lengthscale=shorter)
    middle = (SIDE // 2) * SIDE + SIDE // 2
    found = correlation(kernel, GRID, middle, 1, correlation_range(kernel, GRID))
    assert 0.115 < found < 0.15
    kernel = kernel.replace(lengthscale=0.7 * kernel.lengthscale)
    found = correlation(kernel, LINE, 150, 1, correlation_range(kernel, LINE, dimension=1))
    assert 0.125 < found < 0.15


def test_fields_without_a_variance_at_points_have_no_range():
    assert np.isnan(correlation_range(grf.Matern(nu=1.0), GRID))
    assert correlation_range(grf.Matern(nu=1.0), GRID, dimension=1) > 0


@pytest.mark.parametrize("kernel", [grf.Leroux(), grf.ICAR(), grf.kernels.InverseCosine()])
def test_kernels_without_a_lengthscale_are_refused(kernel):
    with pytest.raises(ValueError, match="`kernel` must be Diffusion, Matern or Reg"):
        correlation_range(kernel, GRID)
