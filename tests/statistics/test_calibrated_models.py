"""Simulation-based calibration of models beside `GraphGPRegressor` (tests/gp/test_calibration.py).

Truths are drawn from the model's own prior, data from the truths: the truth's rank among posterior
draws is uniform, and what was not observed is standard normal less its mean and over its deviation.
Where hyperparameters are known, that is exact for the sparse spectrum and for GPyTorch with a
`GRFKernel`; of the classifier, whose posterior is Laplace's approximation, only the mean confidence
is tested, up to what the approximation costs.
"""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf
from tests.support.sequential import assert_unbiased
from tests.support.small_graphs import grid_path_and_node

pytest.importorskip("torch", reason="the models need the extra `gp`")

N_DRAWS = 19
# Means under calibration of u, u^2, z and z^2, with u = 2 rank / draws - 1.
TRUTH = [0.0, (N_DRAWS + 2) / (3 * N_DRAWS), 0.0, 1.0]


@pytest.fixture(scope="module")
def graph():
    return grid_path_and_node()


# -- sparse spectrum -------------------------------------------------------------------------------


def sparse_spectrum(n_seen, believed_noise=0.3):
    """u, u^2, z and z^2 of truths in weights of 8 frequencies; over 16 points differ."""
    from graphrf import euclidean as euc

    scale, noise = 2.0, 0.3
    places = np.random.default_rng(1)
    seen, unseen = places.uniform(-2, 2, (n_seen, 2)), places.uniform(-3, 3, (7, 2))

    def model(y):
        return euc.SparseSpectrumGPRegressor(
            8, lengthscale=1.5, output_scale=scale, noise=believed_noise, mean="zero", seed=3
        ).fit(seen, y)

    angles = np.vstack([seen, unseen]) / 1.5 @ model(places.normal(size=n_seen)).frequencies_.T
    features = np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(8)

    def draw(round_, n):
        rng = np.random.default_rng([round_, 7])
        truth = features @ (np.sqrt(scale) * rng.standard_normal((16, n)))
        gp = model(truth[:n_seen] + np.sqrt(noise) * rng.standard_normal((n_seen, n)))
        mean, std = gp.predict(unseen, return_std=True)
        each, one = np.arange(n), rng.integers(0, 7, n)
        asked = truth[n_seen:][one, each]
        draws = gp.sample(unseen, n_samples=N_DRAWS, seed=round_)[:, one, each]
        u = 2 * (draws < asked).sum(axis=0) / N_DRAWS - 1
        z = (asked - mean[one, each]) / std[one, each]
        return np.column_stack([u, u**2, z, z**2])

    return draw


@pytest.mark.parametrize("n_seen", [10, pytest.param(40, marks=pytest.mark.full)])
def test_the_sparse_spectrum_is_calibrated(n_seen):
    assert_unbiased(sparse_spectrum(n_seen), TRUTH, n0=3000)
    with pytest.raises(AssertionError, match="biased"):  # a noise that is believed too small
        assert_unbiased(sparse_spectrum(n_seen, believed_noise=0.15), TRUTH, n0=3000)


# -- GPyTorch --------------------------------------------------------------------------------------


def exact_gp(graph, source, kernel, believed=1.0):
    """z and z^2 of truths at unseen nodes by GPyTorch; believed shares of the variance."""
    import gpytorch
    import torch

    from graphrf.gp import GRFKernel
    from tests.support.gpytorch_regression import Regression

    scale, noise = 2.0, 0.4
    rng = np.random.default_rng(1)
    order = rng.permutation(graph.n_nodes)
    seen, unseen = (torch.as_tensor(nodes.copy())[:, None] for nodes in (order[:14], order[14:]))
    module = GRFKernel(source, kernel, optimize=False).double()
    with torch.no_grad():
        nodes = torch.cat([seen, unseen])
        covariance = scale * module(nodes).to_dense().numpy()
    root = np.linalg.cholesky(covariance + 1e-10 * np.eye(graph.n_nodes))

    def draw(round_, n):
        rng = np.random.default_rng([round_, 9])
        truth = root @ rng.standard_normal((graph.n_nodes, n))
        y = truth[:14] + np.sqrt(noise) * rng.standard_normal((14, n))
        one = rng.integers(0, len(unseen), n)
        x = seen.expand(n, 14, 1)
        model = Regression(
            x, torch.from_numpy(y.T.copy()), module, noise=noise, mean=gpytorch.means.ZeroMean()
        )
        model.covar_module.outputscale = believed * scale
        model = model.double().eval()
        with torch.no_grad():
            belief = model(unseen[one][:, None])
        mean, std = belief.mean[:, 0].numpy(), belief.variance[:, 0].sqrt().numpy()
        z = (truth[14 + one, np.arange(n)] - mean) / std
        return np.column_stack([z, z**2])

    return draw


@pytest.mark.full
@pytest.mark.parametrize("source", ["series", "walks", "powers"])
def test_gpytorch_with_a_graph_kernel_is_calibrated(graph, source):
    pytest.importorskip("gpytorch", reason="GRFKernel needs the extra `gp`")
    kernel = grf.Diffusion(2.0)
    samplers = {
        "walks": grf.RandomWalks(8, grf.sampling.Truncated(12)),
        "powers": grf.CompressedPowers(6, max_length=8),
    }
    made = graph
    if source != "series":
        made = grf.sample_features(graph, samplers[source], seed=0, dtype="float64")
    assert_unbiased(exact_gp(graph, made, kernel), [0.0, 1.0], n0=1000)
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(exact_gp(graph, made, kernel, believed=0.4), [0.0, 1.0], n0=1000)


# -- the classifier --------------------------------------------------------------------------------


def confidences(graph, predictive, sharpened=1.0):
    """How much more often than it says the likeliest class is right, at unseen nodes."""
    kernel, scale = grf.Diffusion(2.0), 2.0
    dense = kernel.dense(graph)
    deviation = np.sqrt(np.diag(dense))
    root = np.linalg.cholesky(
        scale * dense / np.outer(deviation, deviation) + 1e-10 * np.eye(graph.n_nodes)
    )

    def draw(round_, n):
        rng = np.random.default_rng([round_, 13])
        gap = np.empty((n, 1))
        for i in range(n):
            latent = root @ rng.standard_normal((graph.n_nodes, 3))
            labels = (latent + rng.gumbel(size=latent.shape)).argmax(axis=1)
            order = rng.permutation(40)
            gp = grf.GraphGPClassifier(
                graph,
                kernel=kernel,
                method="series",
                output_scale=scale,
                optimize=False,
                predictive=predictive,
                seed=0,
                n_threads=1,
            ).fit(order[:30], labels[order[:30]])
            said = gp.predict_proba(order[30:]) ** sharpened
            said /= said.sum(axis=1, keepdims=True)
            right = gp.classes_[said.argmax(axis=1)] == labels[order[30:]]
            gap[i] = np.mean(right - said.max(axis=1))
        return gap

    return draw


@pytest.mark.full
@pytest.mark.parametrize(("predictive", "slack"), [("mode", 0.1), ("integrated", 0.03)])
def test_the_classifier_is_right_about_as_often_as_it_says(graph, predictive, slack):
    # Of noisy labels the mode says 0.06 too much: it
    # leaves the uncertainty of the latent functions out.
    assert_unbiased(confidences(graph, predictive), 0.0, n0=200, slack=slack)
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(confidences(graph, predictive, sharpened=3.0), 0.0, n0=200, slack=slack)
