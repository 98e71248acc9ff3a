"""The experiments of examples/: what they measure by is right, and they run when small."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import graphrf as grf
from tests.support.real_data import needs_data


def _draw(graph, n, seed, p=1):
    rng = np.random.default_rng(seed)
    nodes = np.sort(rng.choice(graph.n_nodes, n, replace=False))
    signal = grf.Diffusion(2.0).dense_root(graph) @ rng.standard_normal((graph.n_nodes, p))
    return nodes, 1.0 + signal[nodes] + 0.1 * rng.standard_normal((n, p))


@pytest.fixture
def task(example, grid):
    protocol = example("_gp_protocol")
    train, test = protocol.split(144, 20, seed=1)
    y = grf.Diffusion(2.0).dense_root(grid) @ np.random.default_rng(2).standard_normal(144)
    model = protocol.Model(grf.Diffusion(2.0), 1.5, 0.05, 0.25)
    return protocol.task_from(grid, train, test, y[train], y[test], model)


def test_the_exact_process_is_that_of_dense_matrices_and_its_training_that_of_the_regressor(
    example, grid
):
    exact = example("_exact_gp").ExactGP
    nodes, y = _draw(grid, 100, seed=4, p=2)
    gp = exact(grid, grf.Matern(1.5, 3.0), lengthscale=3.0, output_scale=2.0, noise=0.05).fit(
        nodes, y
    )
    prior = grf.Matern(1.5, 3.0).dense(grid)
    prior *= 2.0 / np.diagonal(prior).mean()
    a = prior[np.ix_(nodes, nodes)] + 0.05 * np.eye(nodes.size)
    inverse = np.linalg.inv(a)
    c = inverse.sum(axis=0) @ y / inverse.sum()
    density = multivariate_normal(np.zeros(nodes.size), a).logpdf((y - c).T).sum()
    assert np.isclose(gp.log_marginal_likelihood_, density, rtol=1e-11)
    mean, covariance = gp.predict(return_cov=True)
    np.testing.assert_allclose(mean, c + prior[:, nodes] @ inverse @ (y - c), atol=1e-9)
    np.testing.assert_allclose(
        covariance, prior - prior[:, nodes] @ inverse @ prior[nodes], atol=1e-10
    )
    std = gp.predict([7, 3], return_std=True)[1][:, 1]
    np.testing.assert_allclose(std, np.sqrt(np.diagonal(covariance)[[7, 3]]), rtol=1e-7)
    y = y + 0.5 * np.cos(17 * nodes)[:, None]
    trained = exact(grid).fit(nodes, y)
    settings = {
        "kernel": "diffusion",
        "prior": None,
        "hyperparameters": "mode",
        "method": "series",
        "seed": 0,
    }
    regressor = grf.GraphGPRegressor(grid, **settings).fit(nodes, y)
    assert np.isclose(
        regressor.log_marginal_likelihood_, trained.log_marginal_likelihood_, atol=1e-4
    )


def test_the_exact_posterior_of_a_task_is_that_of_the_exact_process(example, task):
    variance = np.diagonal(task.kernel.dense(task.graph)).mean()
    known = {"lengthscale": task.kernel.lengthscale, "output_scale": 1.5 * variance, "noise": 0.05}
    gp = example("_exact_gp").ExactGP(task.graph, task.kernel, mean="zero", **known)
    mean, covariance = gp.fit(task.train, task.y_train - 0.25).predict(task.test, return_cov=True)
    np.testing.assert_allclose(task.mean, 0.25 + mean, atol=1e-10)
    np.testing.assert_allclose(task.covariance, covariance, atol=1e-10)


def test_scores_are_those_of_dense_matrices(example, task):
    protocol = example("_gp_protocol")
    exact = protocol.score(task, grf.sampling.ExactPowers(30), seed=0)
    assert exact.gram < 1e-6
    assert exact.kl < 1e-10
    walks = grf.RandomWalks(8, grf.sampling.IID(0.2), directions="independent")
    score = protocol.score(task, walks, seed=3)
    phi = grf.sample_features(task.graph, walks, seed=3, dtype="float64").matrix(task.kernel)
    gram, dense = (phi @ phi.T).toarray(), task.kernel.dense(task.graph)
    assert np.isclose(score.gram, np.linalg.norm(gram - dense) / np.linalg.norm(dense), rtol=1e-8)
    assert np.isclose(score.nonzeros, phi.nnz / 144)
    assert score.kl > 0.1


def test_means_of_neighbours_are_weighted_and_leave_the_node_out(example):
    graph = grf.from_edges([0, 0, 1, 3], [1, 2, 2, 4], [1.0, 3.0, 1.0, 1.0], n_nodes=6)
    y = np.array([[1.0], [2.0], [6.0]])
    found = example("traffic").neighbour_mean(graph, np.array([1, 2, 3]), y, np.array([0, 1, 4, 5]))
    np.testing.assert_allclose(found[:, 0], [(1.0 + 3 * 2.0) / 4, 2.0, 6.0, 3.0])


@needs_data
def test_quick_runs_print_what_the_documentation_shows(printed, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    picture = tmp_path / "meshes.svg"
    lines = printed("mesh_normals", "--quick", "--out", str(picture)).splitlines()
    assert "<svg" in picture.read_text(encoding="utf-8")
    target = next(line for line in lines if line.startswith("compressed, auto:"))
    # Per cent of the KL of sigma-coupled walks.
    assert float(target.split("; KL ")[1].split()[0]) < 1.0
    lines = printed("traffic", "--quick").splitlines()
    errors = {
        line[:28].strip(): float(line[28:].split()[0]) for line in lines if " +- " in line[28:42]
    }
    # which averages over kernels that predict as well
    assert errors["GraphGPRegressor"] == pytest.approx(errors["exact GP, diffusion"], rel=0.02)
    assert errors["exact GP, diffusion"] < errors["and the neighbours' mean"] < errors["past mean"]
