"""Posteriors and likelihoods by sparse precisions against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.hyperparameters.marginal_likelihood import log_marginal_likelihood
from graphrf.gp.hyperparameters.precision_search import precision_likelihood
from graphrf.gp.model.observations import Observations
from graphrf.gp.posterior.by_precision import PrecisionPosterior
from graphrf.gp.posterior.mixture import joint_draws
from graphrf.operators.precision.markov import SparsePrecision
from tests.support.dense_gp import dense_posterior, no_mean

N = 60
RNG = np.random.default_rng(0)
# two components, isolated nodes, loops and unequal weights
ENDS = np.hstack([RNG.integers(0, 40, (2, 90)), RNG.integers(40, 56, (2, 20))])
GRAPH = grf.from_edges(*ENDS, RNG.uniform(0.2, 3, 110), n_nodes=N)
NODES = np.r_[RNG.choice(38, 25, replace=False), 0, 0, 5]  # none in the second component; repeats
Y = RNG.standard_normal((NODES.size, 2))
BASES = {
    "constant": np.ones((N, 1)),
    "trend": np.column_stack([np.ones(N), np.arange(N)]),
    "zero": no_mean(N),
}
KERNELS = [
    grf.Matern(1.0, 2.0),
    grf.Matern(2.0, 4.0, laplacian="combinatorial"),
    grf.Matern(3.0, 5.0),
    grf.RegularizedLaplacian(1.5, 1.0),
]
CASES = list(zip(KERNELS, [*BASES, "constant"], strict=True))
AMPLITUDE = 2.5


class Units:
    """Stands for a generator: its normals are those of one unit vector after another."""

    def __init__(self, size: int) -> None:
        self.size, self.place = size, 0

    def standard_normal(self, shape: tuple[int, int]) -> np.ndarray:
        draw, first = divmod(self.place, self.size)
        if not shape[0]:
            return np.zeros(shape)
        self.place += shape[0]
        unit = np.zeros(self.size)
        unit[draw] = 1.0
        return np.repeat(unit[first : first + shape[0], None], shape[1], axis=1)


def made(kernel, noise, basis, precisions=None, **options):
    observations = Observations.of(NODES, Y, basis, precisions)
    precision, offset = SparsePrecision(GRAPH, kernel), np.array([1.0, -2.0])
    return PrecisionPosterior(
        precision, AMPLITUDE, observations, noise=noise, basis=basis, offset=offset, **options
    )


@pytest.mark.parametrize("noise", [0.3, 1e-6])
@pytest.mark.parametrize(("kernel", "mean"), CASES, ids=repr)
def test_means_variances_covariances_and_draws_are_those_of_dense_algebra(kernel, mean, noise):
    basis, every = BASES[mean], np.arange(N)
    root = np.sqrt(AMPLITUDE) * np.linalg.cholesky(kernel.dense(GRAPH))
    mean, covariance = dense_posterior(root, NODES, Y, noise, basis=basis)
    posterior = made(kernel, noise, basis)
    size = np.abs(covariance).max()
    np.testing.assert_allclose(posterior.means(every), mean + [1.0, -2.0], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(posterior.variances(every), np.diagonal(covariance), rtol=1e-8)
    np.testing.assert_allclose(
        posterior.variances(every[3:9]), np.diagonal(covariance)[3:9], rtol=1e-8
    )
    np.testing.assert_allclose(
        posterior.covariances(every), covariance, rtol=1e-8, atol=1e-9 * size
    )
    # draws are linear in normals: those of all unit vectors make their covariance
    numbers = SparsePrecision(GRAPH, kernel).n_nodes + basis.shape[1]
    draws, _ = joint_draws(posterior, every, every, numbers, Units(numbers))
    draws = draws[:, :, 0] - posterior.means(every)[:, 0]
    np.testing.assert_allclose(draws.T @ draws, covariance, rtol=1e-8, atol=1e-9 * size)
    assert posterior.solution.converged


def test_observations_may_have_noise_of_their_own():
    kernel, basis, precisions = KERNELS[0], BASES["constant"], RNG.uniform(0.1, 10, NODES.size)
    root = np.sqrt(AMPLITUDE) * np.linalg.cholesky(kernel.dense(GRAPH))
    mean, covariance = dense_posterior(root, NODES, Y, 0.3 / precisions, basis=basis)
    posterior = made(kernel, 0.3, basis, precisions)
    np.testing.assert_allclose(
        posterior.means(np.arange(N)), mean + [1.0, -2.0], rtol=1e-9, atol=1e-10
    )
    np.testing.assert_allclose(
        posterior.variances(np.arange(N)), np.diagonal(covariance), rtol=1e-9
    )


def test_a_draw_is_one_function_whatever_nodes_and_however_many_draws_are_asked_for():
    posterior = made(KERNELS[1], 0.3, BASES["constant"])
    many = joint_draws(posterior, np.arange(N), np.arange(N), 3, np.random.default_rng(1))[0]
    few = joint_draws(posterior, np.array([7, 2]), np.arange(2), 1, np.random.default_rng(1))[0]
    np.testing.assert_array_equal(few[0], many[0, [7, 2]])


@pytest.mark.parametrize(("kernel", "mean"), CASES, ids=repr)
def test_what_is_made_again_has_the_bits_of_what_was_held(kernel, mean):
    every, answers = np.arange(N), []
    for keeps in ("factor", "variances", "means"):
        posterior = made(kernel, 0.3, BASES[mean], keeps=keeps)
        variances = posterior.variances_of([posterior, posterior], every, None, 2)
        moments = [*posterior.leave_one_out_moments()[0], posterior.log_likelihood]
        draws = joint_draws(posterior, every, every, 3, np.random.default_rng(1))[0]
        answers.append([posterior.means(every), *variances, posterior.covariances(every), draws])
        answers[-1] += [np.nan_to_num(moment) for moment in moments]
    for other in answers[1:]:
        assert all(map(np.array_equal, answers[0], other))


@pytest.mark.parametrize(("kernel", "mean"), CASES, ids=repr)
def test_the_likelihood_and_its_gradient_are_those_of_dense_algebra(kernel, mean):
    observations = Observations.of(NODES, Y, BASES[mean], RNG.uniform(0.5, 2, NODES.size))
    seen = np.ix_(observations.nodes, observations.nodes)
    step = 1e-5 * kernel.lengthscale
    ends = [
        kernel.replace(lengthscale=kernel.lengthscale + sign * step).dense(GRAPH)[seen]
        for sign in (1, -1)
    ]
    dense = log_marginal_likelihood(
        [kernel.dense(GRAPH)[seen]],
        [observations],
        scale=AMPLITUDE,
        noise=0.2,
        derivatives=[[(ends[0] - ends[1]) / (2 * step)]],
    )
    precision = SparsePrecision(GRAPH, kernel)
    sparse = precision_likelihood(
        precision, observations, amplitude=AMPLITUDE, noise=0.2, names=["lengthscale"]
    )
    assert sparse.value == pytest.approx(dense.value, rel=1e-11)
    assert (sparse.log_scale, sparse.log_noise) == pytest.approx(
        (dense.log_scale, dense.log_noise), rel=1e-9
    )
    assert sparse.parameters == pytest.approx(dense.parameters, rel=1e-6)
    np.testing.assert_allclose(sparse.mean, dense.mean, rtol=1e-8)
    alone = precision_likelihood(precision, observations, amplitude=AMPLITUDE, noise=0.2)
    assert alone.value == sparse.value
