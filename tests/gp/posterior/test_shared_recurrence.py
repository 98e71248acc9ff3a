"""What the parts of an average share: one recurrence for matrices, one for variances."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.covariance import covariance as covariance_module
from graphrf.gp.covariance.covariance import (
    Covariance,
    SampledSource,
    shared_matrices,
    shared_variances,
)
from graphrf.gp.covariance.rows import RootRows
from graphrf.gp.posterior.cholesky import CholeskyPosterior
from tests.support.dense_gp import dense_posterior

GRID = np.kron(np.eye(12), np.eye(12, k=1)) + np.kron(np.eye(12, k=1), np.eye(12))
GRAPH = grf.Graph(GRID + GRID.T)
NODES = np.arange(5, 144, 17)
EVERY = np.arange(144)


def fixed(kernel: grf.kernels.Kernel, noise: float, **options: object) -> grf.GraphGPRegressor:
    return grf.GraphGPRegressor(
        GRAPH,
        kernel=kernel,
        optimize=False,
        output_scale=2.0,
        noise=noise,
        numerics=grf.gp.Numerics(normalize=False, **options),
        seed=0,
    )


@pytest.fixture
def no_columns_at_queried_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    own = RootRows.columns

    def columns(self: RootRows, other: RootRows) -> tuple[np.ndarray, np.ndarray]:
        assert other.shape[0] <= NODES.size
        return own(self, other)

    monkeypatch.setattr(RootRows, "columns", columns)


@pytest.mark.usefixtures("no_columns_at_queried_nodes")
@pytest.mark.parametrize(
    ("kernel", "noise", "solver"),
    [
        (grf.Diffusion(2.0), 1e-6, "cg"),
        (grf.Diffusion(40.0), 0.1, "cholesky"),
        (grf.Matern(1.5, 9.0), 1e-6, "cholesky"),
        (grf.Diffusion(1.0, laplacian="combinatorial"), 0.1, "cg"),
    ],
    ids=repr,
)
def test_deviations_are_those_of_dense_algebra(
    kernel: grf.kernels.Kernel, noise: float, solver: str
) -> None:
    y = np.cos(NODES)
    gp = fixed(kernel, noise, solver=solver, tol=1e-10, std_method="exact").fit(NODES, y)
    _, covariance = dense_posterior(np.sqrt(2.0) * kernel.dense_root(GRAPH), NODES, y, noise)
    _, deviations = gp.predict(return_std=True)
    # rounding of the prior, as of columns at the queried nodes
    assert (
        np.abs(deviations**2 - np.diagonal(covariance)).max()
        < 1e-11 * 2.0 * kernel.dense(GRAPH).max()
    )


@pytest.mark.usefixtures("no_columns_at_queried_nodes")
def test_a_mixture_is_that_of_its_parts_alone_and_shares_one_recurrence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    y = np.sin(NODES / 20) + 0.1 * np.cos(NODES)

    def fit() -> grf.GraphGPRegressor:
        return grf.GraphGPRegressor(GRAPH, hyperparameters="average", seed=0).fit(NODES, y)

    together = fit()
    _, deviations = together.predict(return_std=True)
    each = [together.predict([node], return_std=True)[1][0] for node in (0, 5, 70, 143)]
    assert np.allclose(deviations[[0, 5, 70, 143]], each, rtol=1e-9, atol=0)
    monkeypatch.setattr(covariance_module, "_SHARED_NUMBERS", 0)
    alone = fit()
    assert together.n_points_ == alone.n_points_ > 1
    for one, other in zip(
        together.predict(return_std=True), alone.predict(return_std=True), strict=True
    ):
        assert np.allclose(one, other, rtol=1e-9, atol=1e-12)
    assert together.kernel_ == alone.kernel_
    assert len({point.kernel.laplacian for point in together._fitted.points}) == 2


@pytest.fixture
def covariances() -> list[Covariance]:
    """Diffusions, a cut root, a kernel of the other Laplacian, sampled rows, correlations."""
    options = {"n_threads": 1}
    series = Covariance.by_series(GRAPH, grf.Diffusion(2.0), 1.0, **options)
    other = Covariance.by_series(
        GRAPH, grf.Matern(1.5, 3.0, laplacian="combinatorial"), 3.0, **options
    )
    correlations = Covariance.by_series(GRAPH, grf.Diffusion(2.0), 1.0, normalize=True, **options)
    cut = Covariance.by_series(GRAPH, grf.kernels.InverseCosine(), 1.0, warns=False, **options)
    source = SampledSource(GRAPH, grf.RandomWalks(8), 0)
    sampled = Covariance.by_samples(source, grf.Diffusion(2.0), series)
    wider = Covariance.by_series(GRAPH, grf.Diffusion(30.0), 2.0, **options)
    assert cut.lacks is not None
    return [series, cut, other, sampled, correlations, wider]


def test_only_whole_exact_series_of_one_laplacian_share_matrices(
    covariances: list[Covariance], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = shared_matrices(covariances, NODES)
    assert [part is not None for part in found] == [True, False, False, False, False, True]
    for part, lengthscale, amplitude in ((found[0], 2.0, 1.0), (found[5], 30.0, 2.0)):
        dense = grf.Diffusion(lengthscale).dense(GRAPH)[np.ix_(NODES, NODES)]
        assert part == pytest.approx(amplitude * dense, rel=1e-9, abs=1e-13)
    monkeypatch.setattr(covariance_module, "_SHARED_NUMBERS", 6 * NODES.size**2 - 1)
    assert shared_matrices(covariances, NODES) == [None] * 6


def test_only_whole_exact_series_share_variances(covariances: list[Covariance]) -> None:
    covariances = covariances[:5]
    series = covariances[0]
    found = shared_variances(covariances, EVERY, NODES.size)
    assert [part is not None for part in found] == [True, False, True, False, False]
    assert found[0] == pytest.approx(np.diagonal(grf.Diffusion(2.0).dense(GRAPH)), rel=1e-12)
    dense = grf.Matern(1.5, 3.0, laplacian="combinatorial").dense(GRAPH)
    assert found[2] == pytest.approx(3.0 * np.diagonal(dense), rel=1e-10)
    # columns at few queried nodes are fewer than at the observed ones
    assert shared_variances([series], NODES[:4], NODES.size) == [None]


def test_no_variance_is_negative_where_all_is_explained() -> None:
    gp = fixed(grf.Diffusion(300.0), 1e-6).fit(NODES, np.cos(NODES))
    assert isinstance(gp._posterior, CholeskyPosterior)
    variances = gp._posterior.variances(EVERY)
    assert (variances >= 0).all()
