"""Combinations of resolvents are near to K, relative to its spectrum, for each kernel."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.methods.resolvents import ResolventFit, resolvents_between
from graphrf.gp.methods.series import SeriesMethod
from graphrf.kernels.lengthscales import LENGTHSCALES, lengthscale_unit
from graphrf.operators.precision.markov import SparsePrecision


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(0)
    geometric = nx.random_geometric_graph(150, 0.14, seed=1)
    edges = np.array(geometric.edges)
    return grf.from_edges(*edges.T, n_nodes=150, weight=rng.uniform(0.3, 3.0, len(edges)))


@pytest.mark.parametrize(
    ("nu", "laplacian"),
    [
        (0.5, "normalized"),
        (1.0, "combinatorial"),
        (1.5, "normalized"),
        (2.0, "combinatorial"),
        (3.0, "normalized"),
    ],
)
@pytest.mark.parametrize("length", [0.1, 1.0, 10.0, 100.0])
def test_the_whole_matrix_lies_between_multiples_of_k(graph, laplacian, nu, length):
    kernel = grf.Matern(
        nu=nu, lengthscale=length * lengthscale_unit(graph, laplacian), laplacian=laplacian
    )
    fit = ResolventFit(graph, laplacian)
    assert fit.serves(kernel)
    (table,) = resolvents_between(
        SparsePrecision(graph, grf.Matern(nu=1.0)), fit, [np.arange(150)], 1
    )
    exact = kernel.dense(graph)
    values, vectors = np.linalg.eigh(exact)
    noise = 1e-6 * values.mean()
    size = np.sqrt(values + noise)
    relative = (
        vectors.T
        @ (table.many([kernel])[0] + noise * np.eye(150))
        @ vectors
        / (size * size[:, None])
    )
    assert np.abs(np.linalg.eigvalsh(0.5 * (relative + relative.T)) - 1).max() < 1e-2


@pytest.mark.parametrize("kernel", [grf.Matern(nu=2.0, lengthscale=4.0), grf.Leroux(0.7)], ids=repr)
def test_blocks_and_derivatives_are_those_of_k(graph, kernel):
    blocks = [np.array([2, 5, 90, 149]), np.array([5, 7])]
    fit = ResolventFit(graph, kernel.laplacian)
    tables = resolvents_between(SparsePrecision(graph, grf.Matern(nu=1.0)), fit, blocks, 2)
    (name,) = [own for own in kernel.hyperparameters if own != "nu"]
    step = 1e-4 * kernel.hyperparameters[name]
    ends = [
        kernel.replace(**{name: kernel.hyperparameters[name] + side * step}) for side in (1, -1)
    ]
    for table, block in zip(tables, blocks, strict=True):
        places = np.ix_(block, block)
        matrix, (slope,) = table(kernel, (name,))
        exact = kernel.dense(graph)[places]
        np.testing.assert_allclose(matrix, exact, atol=1e-4 * exact.max())
        change = (ends[0].dense(graph)[places] - ends[1].dense(graph)[places]) / (2 * step)
        np.testing.assert_allclose(slope, change, atol=2e-3 * np.abs(change).max())
        np.testing.assert_allclose(table.many([ends[0], kernel])[1], matrix, rtol=1e-9)


def test_kernels_that_decay_faster_are_left_to_the_series(graph):
    fit = ResolventFit(graph, "normalized")
    assert not fit.serves(grf.Diffusion(20.0))
    method = SeriesMethod(graph, 1)
    observed = [np.arange(0, 150, 10)]
    smooth, rough = grf.Diffusion(1.0), grf.Matern(nu=0.5)
    series = next(method.grams([(smooth, ("lengthscale",))], observed, 0))
    resolvents = next(method.grams([(rough, ("lengthscale",))], observed, 0))
    assert resolvents.longest(rough) == LENGTHSCALES[1]
    places = np.ix_(observed[0], observed[0])
    np.testing.assert_allclose(series.many([smooth])[0][0], smooth.dense(graph)[places], atol=1e-8)
    np.testing.assert_allclose(
        resolvents.many([rough])[0][0], rough.dense(graph)[places], atol=1e-4
    )


def test_the_number_of_threads_changes_no_bit(graph):
    fit = ResolventFit(graph, "normalized")
    precision = SparsePrecision(graph, grf.Matern(nu=1.0))
    one, two = (
        resolvents_between(precision, fit, [np.arange(0, 150, 3)], n)[0].matrices for n in (1, 2)
    )
    np.testing.assert_array_equal(one, two)
