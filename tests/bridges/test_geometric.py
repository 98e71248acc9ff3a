"""The kernel for GeometricKernels against theirs with all eigenpairs; skipped without it."""

from __future__ import annotations

import importlib
import sys
import warnings

import numpy as np
import pytest

import graphrf as grf

# Their torch back end looks types up under numpy's old name.
pytestmark = pytest.mark.filterwarnings("ignore:numpy.core is deprecated:DeprecationWarning")

PARAMETERS = [(np.inf, 1.0), (np.inf, 4.0), (0.5, 2.0), (1.5, 1.0), (2.5, 6.0)]
LAPLACIANS = ["combinatorial", "normalized"]


@pytest.fixture(scope="module")
def theirs():
    """The library's own kernel, with all eigenpairs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reason = (
            "GeometricKernels is not installed (it needs numpy < 2.4): pip install "
            "geometric-kernels"
        )
        pytest.importorskip("geometric_kernels", reason=reason, exc_type=ImportError)
        from geometric_kernels.kernels import MaternGeometricKernel
        from geometric_kernels.spaces import Graph

    def kernel(graph, laplacian, normalize=True, num=None, convert=np.asarray):
        space = Graph(
            convert(graph.adjacency.toarray()), normalize_laplacian=laplacian == "normalized"
        )
        return MaternGeometricKernel(
            space, num=num or graph.n_nodes, normalize=normalize, return_feature_map=False
        )

    return kernel


def _ours(graph, laplacian="combinatorial", normalize=True):
    from graphrf.bridges.geometric import MaternSeriesKernel

    return MaternSeriesKernel(graph, laplacian=laplacian, normalize=normalize, seed=0)


def _params(nu, lengthscale):
    return {"nu": np.array([nu]), "lengthscale": np.array([lengthscale])}


@pytest.mark.parametrize("laplacian", LAPLACIANS)
@pytest.mark.parametrize("name", ["weighted_graph", "karate", "grid"])
def test_the_kernel_is_theirs_with_all_eigenpairs(request, theirs, name, laplacian):
    graph = request.getfixturevalue(name)
    nodes = np.arange(graph.n_nodes)[:, None]
    for normalize in (True, False):
        ours, other = _ours(graph, laplacian, normalize), theirs(graph, laplacian, normalize)
        for nu, lengthscale in PARAMETERS:
            params = _params(nu, lengthscale)
            want = other.K(params, nodes)
            largest = np.abs(want).max()
            np.testing.assert_allclose(ours.K(params, nodes), want, rtol=0, atol=1e-9 * largest)
            few, rest = nodes[[3, 1, 1]], nodes[2:]
            np.testing.assert_allclose(
                ours.K(params, few, rest), other.K(params, few, rest), rtol=0, atol=1e-9 * largest
            )
            np.testing.assert_allclose(
                ours.K_diag(params, nodes), other.K_diag(params, nodes), rtol=0, atol=1e-9 * largest
            )


def test_a_cut_of_the_eigenpairs_would_be_seen(theirs, grid):
    nodes = np.arange(144)[:, None]
    params = _params(1.5, 1.0)
    cut = theirs(grid, "combinatorial", num=100).K(params, nodes)
    assert np.abs(_ours(grid).K(params, nodes) - cut).max() > 1e-2


def test_the_parameters_begin_where_theirs_do(theirs, karate):
    ours, other = _ours(karate).init_params(), theirs(karate, "combinatorial").init_params()
    assert ours.keys() == other.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], other[name])


@pytest.mark.parametrize("laplacian", LAPLACIANS)
@pytest.mark.parametrize("normalize", [True, False])
def test_torch_gradients_are_theirs(theirs, karate, laplacian, normalize):
    torch = pytest.importorskip("torch")
    importlib.import_module("geometric_kernels.torch")
    ours = _ours(karate, laplacian, normalize)
    other = theirs(karate, laplacian, normalize, convert=torch.tensor)
    nodes = torch.arange(34)[:, None]
    weights = torch.tensor(np.random.default_rng(0).standard_normal((34, 34)))
    for nu, lengthscale in PARAMETERS:
        found = []
        for kernel in (ours, other):
            params = {
                "nu": torch.tensor([nu], dtype=torch.float64, requires_grad=bool(np.isfinite(nu))),
                "lengthscale": torch.tensor([lengthscale], dtype=torch.float64, requires_grad=True),
            }
            matrix = kernel.K(params, nodes)
            (weights * matrix).sum().backward()
            found.append(
                [float(params[name].grad) for name in params if params[name].requires_grad]
            )
            assert matrix.dtype == torch.float64
        np.testing.assert_allclose(found[0], found[1], rtol=1e-7)


@pytest.mark.parametrize("laplacian", LAPLACIANS)
def test_the_feature_map_is_an_exact_root_with_the_right_slopes(theirs, weighted_graph, laplacian):
    torch = pytest.importorskip("torch")
    kernel = _ours(weighted_graph, laplacian)
    features = kernel.feature_map()
    nodes = np.array([[4], [0], [7]])
    for nu, lengthscale in PARAMETERS:
        params = _params(nu, lengthscale)
        for normalize in (True, False):
            context, rows = features(nodes, params, normalize=normalize, key=None)
            assert context is None
            assert rows.shape == (3, 8)
            want = _ours(weighted_graph, laplacian, normalize).K(params, nodes)
            np.testing.assert_allclose(rows @ rows.T, want, rtol=0, atol=1e-10 * np.abs(want).max())
        shift = {
            name: torch.tensor(value, requires_grad=bool(np.isfinite(value)))
            for name, value in params.items()
        }
        features(nodes, shift)[1].sum().backward()
        for name in [name for name in params if np.isfinite(params[name])]:
            ends = [
                features(nodes, params | {name: params[name] + step})[1].sum()
                for step in (1e-5, -1e-5)
            ]
            np.testing.assert_allclose(
                float(shift[name].grad), (ends[0] - ends[1]) / 2e-5, rtol=1e-5, atol=1e-7
            )


def test_it_trains_in_their_gpytorch_front_end_as_theirs_does(theirs, karate):
    torch, gpytorch = pytest.importorskip("torch"), pytest.importorskip("gpytorch")
    importlib.import_module("geometric_kernels.torch")
    from geometric_kernels.frontends.gpytorch import GPyTorchGeometricKernel

    nodes = torch.arange(0, 34, 2, dtype=torch.float64)[:, None]
    y = torch.sin(nodes[:, 0])

    class Model(gpytorch.models.ExactGP):
        def __init__(self, kernel, likelihood):
            super().__init__(nodes, y, likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(
                GPyTorchGeometricKernel(kernel, nu=1.5)
            )

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    found = []
    for kernel in (_ours(karate), theirs(karate, "combinatorial", convert=torch.tensor)):
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        model = Model(kernel, likelihood).double()
        objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = -objective(model(nodes), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        model.eval()
        mean = model(torch.arange(34, dtype=torch.float64)[:, None]).mean.detach().numpy()
        found.append((losses, mean))
    assert found[0][0][-1] < found[0][0][0]
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-6)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-6)


def test_above_a_thousand_nodes_the_mean_variance_is_estimated(theirs):
    graph = _large_grid()
    kernel = _ours(graph)
    diagonal = kernel.K_diag(_params(1.5, 2.0), np.arange(graph.n_nodes))
    assert abs(diagonal.mean() - 1) < 5 / np.sqrt(64 * graph.n_nodes)
    again = _ours(graph).K_diag(_params(1.5, 2.0), np.arange(5))
    np.testing.assert_array_equal(again, kernel.K_diag(_params(1.5, 2.0), np.arange(5)))


def _large_grid():
    import networkx as nx

    return grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(35, 35)))


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"nu": np.array([1.5])}, ValueError, "`params` must hold 'nu' and 'lengthscale'"),
        (
            {"nu": 1.5, "lengthscale": 1.0},
            TypeError,
            "must be a NumPy array or a torch tensor, got float 1.5",
        ),
        (
            {"nu": np.ones(2), "lengthscale": np.ones(1)},
            ValueError,
            r"must have shape \(1,\), got \(2,\)",
        ),
        (
            {"nu": np.ones(1), "lengthscale": -np.ones(1)},
            ValueError,
            "`lengthscale` must be greater than 0",
        ),
        ({"nu": np.array([np.nan]), "lengthscale": np.ones(1)}, ValueError, "`nu` must be finite"),
    ],
)
def test_bad_parameters_are_refused(theirs, karate, params, error, message):
    with pytest.raises(error, match=message):
        _ours(karate).K(params, [[0]])


def test_bad_nodes_and_graphs_are_refused(theirs, karate):
    with pytest.raises(ValueError, match=r"`X2` must be positions in \[0, 33\]"):
        _ours(karate).K(_params(1.5, 1.0), [[0]], [[34]])
    with pytest.raises(TypeError, match="`X` must be integer positions"):
        _ours(karate).K(_params(1.5, 1.0), [[0.5]])
    with pytest.raises(TypeError, match="`graph` must be a graphrf"):
        _ours(np.eye(3))
    with pytest.raises(ValueError, match="`laplacian` must be one of"):
        _ours(karate, laplacian="signless")


def test_without_the_library_the_message_says_what_to_install(monkeypatch, karate):
    monkeypatch.delitem(sys.modules, "graphrf.bridges.geometric", raising=False)
    monkeypatch.setitem(sys.modules, "geometric_kernels.feature_maps.base", None)
    module = importlib.import_module("graphrf.bridges.geometric")
    with pytest.raises(ImportError, match=r"pip install 'graphrf\[geometric\]'"):
        module.MaternSeriesKernel(karate)
    monkeypatch.delitem(sys.modules, "graphrf.bridges.geometric")
