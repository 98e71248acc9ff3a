"""Gaussian processes over features on a device: the same numbers, and nothing large leaves."""

from __future__ import annotations

import pickle
import warnings

import networkx as nx
import numpy as np
import pytest

import graphrf as grf

torch = pytest.importorskip("torch", reason="GRFKernel needs the extra `gp`")
gpytorch = pytest.importorskip("gpytorch", reason="GRFKernel needs the extra `gp`")
linear_operator = pytest.importorskip("linear_operator", reason="GRFKernel needs the extra `gp`")

from graphrf.features.bounds import TruncationWarning  # noqa: E402
from graphrf.gp import GRFKernel  # noqa: E402
from graphrf.gp.torch.device_factors import TorchFeatureFactor  # noqa: E402
from graphrf.gp.torch.draws import pathwise_draws  # noqa: E402
from graphrf.gp.torch.factor import HostFactor  # noqa: E402
from graphrf.gp.torch.operator import FactorOperator  # noqa: E402
from tests.support.gpytorch_regression import Regression  # noqa: E402
from tests.support.interleaving import interleaved_results  # noqa: E402
from tests.support.same_features import changed, with_tensors  # noqa: E402
from tests.support.simulated_device import DEVICE, SimulatedDevice  # noqa: E402

pytestmark = pytest.mark.usefixtures("torch_float64")

CPU = torch.device("cpu")
LENGTH = 9
# Numbers that may move at once: sizes, answers, modulations, and what linear_operator moves itself:
# tridiagonal matrices of its Lanczos runs (20 x 20 for each of 10 probes).
MANY = 4_000
SAMPLERS = {
    "walks": grf.RandomWalks(16, grf.sampling.Truncated(LENGTH)),
    "walks of random length": grf.RandomWalks(12, grf.sampling.Stratified(0.2)),
    "combinatorial walks": grf.RandomWalks(
        16, grf.sampling.Truncated(LENGTH), laplacian="combinatorial"
    ),
    "cut powers": grf.sampling.CutPowers(budget=12, max_length=LENGTH),
}


def sampled(graph, name="walks", nodes=None):
    return grf.sample_features(graph, SAMPLERS[name], nodes=nodes, seed=3)


def modules(features):
    """The kernel over the host's record and over the same as tensors."""
    kernel = grf.Diffusion(0.8, laplacian=features.laplacian)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        return GRFKernel(features, kernel), GRFKernel(with_tensors(features), kernel)


# -- factors and kernels over tensors --------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_factor_of_a_devices_record_is_that_of_the_hosts(name, dtype, weighted_graph):
    features = sampled(weighted_graph, name)
    host = TorchFeatureFactor(features, CPU, dtype)
    device = TorchFeatureFactor(with_tensors(features), CPU, dtype)
    f = torch.tensor(grf.Diffusion(0.8).modulation(features.max_length + 1)).to(dtype)
    x, y = torch.ones(8, 2, dtype=dtype), torch.ones(3, 2, dtype=dtype)
    for rows in (torch.tensor([5, 0, 5]), np.array([5, 0, 5]), torch.tensor([-3, 0, -3])):
        one, other = host.take(np.array([5, 0, 5])), device.take(rows)
        assert torch.equal(one.apply(f, x), other.apply(f, x))
        assert torch.equal(one.apply_t(f, y), other.apply_t(f, y))
        assert torch.equal(one.grad_f(x, y, 12), other.grad_f(x, y, 12))
        assert torch.equal(one.diagonal(f), other.diagonal(f))
    values = device._matrix(f).values()
    expected = changed(features, dtype=np.dtype(str(dtype).removeprefix("torch.")))
    np.testing.assert_array_equal(
        values.numpy(), expected.matrix_from_modulation(f.double().numpy()).data
    )


@pytest.mark.parametrize("method", ["_made", "_transpose"])
def test_threads_that_share_a_factor_get_their_own_modulation(method, karate):
    factor = TorchFeatureFactor(sampled(karate), CPU, torch.float64)
    mine, other = (torch.tensor(grf.Diffusion(t).modulation(LENGTH + 1)) for t in (0.5, 2.0))
    y = torch.ones(34, 1)
    expected = TorchFeatureFactor(sampled(karate), CPU, torch.float64).apply_t(mine, y)
    code = getattr(TorchFeatureFactor, method).__code__
    for intrude in (factor.apply, factor.apply_t):
        for first in (mine, other):  # what the factor remembers at the start

            def call(first=first):
                factor.apply_t(first, y)
                return factor.apply_t(mine, y), factor.apply_t(mine, y)

            results = interleaved_results(call, lambda intrude=intrude: intrude(other, y), code)
            assert len(results) > 4
            for pair in results:  # the second one is what the factor remembers afterwards
                for result in pair:
                    torch.testing.assert_close(result, expected)


def test_a_factor_takes_the_memory_that_it_states(grid):
    features = sampled(grid)
    factor = TorchFeatureFactor(with_tensors(features), CPU, torch.float32)
    f = torch.tensor(grf.Diffusion(0.8).modulation(LENGTH + 1), dtype=torch.float32)
    factor.apply_t(f, torch.ones(144, 1, dtype=torch.float32))
    pointer, *patterns = factor._pattern_t
    held = [
        *patterns,
        factor._last.matrix.values(),
        factor._last.transpose.values(),
        *factor._roots,
    ]
    assert sum(tensor.nbytes for tensor in held) == 16 * features.nnz + 8 * 144 + 8 * 144
    # the matrices share their patterns with the record and with each other
    assert factor._last.matrix.col_indices().data_ptr() == factor._record.indices.data_ptr()
    assert factor._last.transpose.crow_indices().data_ptr() == pointer.data_ptr()


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_kernel_over_a_devices_record_has_the_values_and_gradients_of_the_hosts(
    name, weighted_graph
):
    features = sampled(weighted_graph, name, nodes=[6, 1, 3, 2, 0, 5])
    x, z = torch.tensor([[3], [3], [6]]), torch.tensor([[0], [1]])
    results = []
    for module in modules(features):
        blocks = module(x), module(x, z), module(x, diag=True), module(x[None])
        matrices = [linear_operator.to_dense(block) for block in blocks]
        value = sum(
            matrix.reshape(-1) @ torch.linspace(1, 2, matrix.numel()) for matrix in matrices
        )
        value.backward()
        results.append([*(matrix.detach() for matrix in matrices), module.raw_lengthscale.grad])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)
    with pytest.raises(ValueError, match="among the sampled nodes, got 4"):
        modules(features)[1](torch.tensor([4])).to_dense()


def test_nodes_that_are_changed_in_place_are_noticed(karate):
    host, device = modules(sampled(karate))
    x = torch.arange(5)
    before = device(x).to_dense()
    x += 3
    torch.testing.assert_close(device(x).to_dense(), host(torch.arange(3, 8)).to_dense())
    assert not torch.allclose(device(x).to_dense(), before)


def test_equal_nodes_share_their_rows_whatever_tensor_holds_them(karate, monkeypatch):
    device = modules(sampled(karate))[1]
    made = []
    plain = TorchFeatureFactor.take
    monkeypatch.setattr(
        TorchFeatureFactor, "take", lambda self, rows: (made.append(1), plain(self, rows))[1]
    )
    first = device.root_rows(torch.arange(5))
    for x in (torch.arange(5), torch.arange(5.0)[:, None], torch.arange(5, dtype=torch.int32)):
        assert device.root_rows(x) is first
    assert len(made) == 1
    assert device.root_rows(torch.arange(1, 6)) is not first


def test_threads_that_share_a_kernel_get_their_own_rows(karate):
    source = modules(sampled(karate))[1]._source
    nodes = [torch.arange(first, first + 5) for first in range(6)]
    f = torch.tensor(grf.Diffusion(0.8).modulation(LENGTH + 1))
    every = torch.eye(34)
    expected = source._make(nodes[0], CPU, torch.float64).apply(f, every)

    def intrude():  # everything that is kept gives way
        for x in nodes[1:]:
            source._rows(x, CPU, torch.float64)

    for known in (nodes[:1], nodes[:4], nodes[5:]):

        def call(known=known):
            for x in known:
                source._rows(x, CPU, torch.float64)
            return source._rows(nodes[0], CPU, torch.float64).apply(f, every)

        results = interleaved_results(call, intrude, type(source._rows).__call__.__code__)
        assert len(results) > 4
        for result in results:
            assert torch.equal(result, expected)
        assert len(source._rows._known) <= 4


@pytest.mark.parametrize("name", ["features", "graph"])
def test_a_pickle_holds_no_rows_of_a_device(name, karate):
    x = torch.arange(5)
    module = (
        GRFKernel(karate, grf.Diffusion(0.8)) if name == "graph" else modules(sampled(karate))[1]
    )
    expected, kept = module(x).to_dense().detach(), module.root_rows(x)
    again = pickle.loads(pickle.dumps(module))
    assert again._source._rows._known == ()
    assert not getattr(again._source, "_every", None)
    torch.testing.assert_close(again(x).to_dense(), expected)
    assert module.root_rows(x) is kept


# -- nothing leaves the device ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def field():
    """A 67 x 67 grid, features, and 4,100 of its nodes observed."""
    graph = grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(67, 67)))
    features = grf.sample_features(graph, SAMPLERS["walks"], seed=3, dtype="float64")
    rng = np.random.default_rng(0)
    nodes = rng.choice(graph.n_nodes, 4_100, replace=False)
    signal = grf.apply_root(graph, grf.Diffusion(2.5), rng.standard_normal(graph.n_nodes))
    y = signal / signal.std() + 0.2 * rng.standard_normal(graph.n_nodes)
    return features, torch.tensor(nodes)[:, None], torch.tensor(y[nodes])


def trained_and_predicted(field, device, simulated=None):
    """Losses of two steps of Adam, means everywhere, and deviations and draws of few."""
    features, x, y = field
    if simulated is not None:
        features = features.to(device)
    x, y = x.to(device), y.to(device)
    if simulated is not None:
        simulated.transfers.clear()
    model = Regression(x, y, GRFKernel(features, grf.Diffusion(1.5)), noise=0.3).to(device)
    if simulated is not None:
        # degrees go there once, and the variances that are checked come back
        assert simulated.largest("to") == simulated.largest("from") == features.n_nodes
        simulated.transfers.clear()
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    every = torch.arange(features.n_nodes, device=device)[:, None]
    losses = []
    with (
        linear_operator.settings.fast_computations(
            covar_root_decomposition=True, log_prob=True, solves=True
        ),
        gpytorch.settings.max_cholesky_size(0),
        gpytorch.settings.min_preconditioning_size(10),
        gpytorch.settings.max_preconditioner_size(5),
        gpytorch.settings.cg_tolerance(1e-2),
        gpytorch.settings.eval_cg_tolerance(1e-4),
    ):
        for step in range(2):
            torch.manual_seed(step)
            optimizer.zero_grad()
            loss = -marginal(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            with gpytorch.settings.skip_posterior_variances():
                mean = model(every).mean
            some = model(every[:20])
            deviation = some.variance
            torch.manual_seed(0)
            few = some.rsample(torch.Size([3]))
        drawn = pathwise_draws(
            model.covar_module,
            x,
            y - model.mean_module.constant.detach(),
            model.likelihood.noise,
            n_samples=4,
            tol=1e-6,
            seed=1,
        ).at(every)
    return losses, mean, deviation, few, drawn


def test_training_prediction_and_draws_send_nothing_large_to_the_host(field):
    expected = trained_and_predicted(field, CPU)
    with SimulatedDevice() as simulated:
        found = trained_and_predicted(field, DEVICE, simulated)
        assert simulated.largest("from") <= MANY
        assert simulated.largest("to") <= MANY
    assert simulated.transfers  # they were counted
    assert found[0] == pytest.approx(expected[0], rel=1e-6)
    for one, other in zip(found[1:], expected[1:], strict=True):
        torch.testing.assert_close(one.inner, other, rtol=1e-4, atol=1e-4)


@pytest.mark.cuda
@pytest.mark.filterwarnings("ignore::graphrf.features.bounds.TruncationWarning")
@pytest.mark.parametrize("name", SAMPLERS)
def test_kernels_and_draws_on_a_gpu_are_those_of_the_cpu(name, karate, gpu):
    features = sampled(karate, name)
    results = []
    for device in (CPU, gpu):
        kernel = grf.Diffusion(0.8, laplacian=features.laplacian)
        module = GRFKernel(features.to(device), kernel).to(device)
        x = torch.arange(20, device=device)
        matrix = module(x).to_dense()
        matrix.square().sum().backward()
        draws = pathwise_draws(
            module, x, torch.ones(20, device=device), 1e-6, n_samples=3, seed=0
        ).at(x)
        results.append([matrix.detach().cpu(), module.raw_lengthscale.grad.cpu()])
        assert draws.device == device
        # Draws are at the observed value within 20 deviations of its noise.
        assert (draws - 1).abs().max() < 0.02
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.cuda
def test_conjugate_gradients_on_a_gpu_reach_what_those_of_the_cpu_do(field, gpu):
    features, x, y = field
    means = []
    for device in (CPU, gpu):
        kernel = GRFKernel(features.to(device), grf.Diffusion(1.5))
        model = Regression(x.to(device), y.to(device), kernel, noise=0.3).to(device)
        marginal = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
        with (
            gpytorch.settings.max_cholesky_size(0),
            gpytorch.settings.min_preconditioning_size(10),
            gpytorch.settings.eval_cg_tolerance(1e-4),
        ):
            loss = -marginal(model(x.to(device)), y.to(device))
            loss.backward()
            assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())
            model.eval()
            with torch.no_grad(), gpytorch.settings.skip_posterior_variances():
                means.append(
                    model(torch.arange(features.n_nodes, device=device)[:, None]).mean.cpu()
                )
            draws = pathwise_draws(
                model.covar_module,
                x.to(device),
                y.to(device),
                model.likelihood.noise,
                n_samples=4,
                tol=1e-6,
                seed=1,
            )
            assert draws.coefficients.device == device
            assert draws.residual <= 1e-6
    torch.testing.assert_close(*means, rtol=1e-3, atol=1e-3)


def test_transfers_are_noticed(field):
    """Negative controls: products by the host's factor, and the record asked for by name."""
    features, *_ = field
    with SimulatedDevice() as simulated:
        factor = HostFactor(features.factor())
        f = torch.tensor(grf.Diffusion(1.5).modulation(LENGTH + 1)).to(DEVICE)
        _ = FactorOperator(f, rows=factor, cols=factor) @ torch.ones(features.n_nodes, 1).to(DEVICE)
        assert simulated.largest("from") == features.n_nodes
        moved = features.to(DEVICE)
        simulated.transfers.clear()
        assert moved.record.counts.size == simulated.largest("from")
        with pytest.raises(RuntimeError, match="on one device"):
            _ = f + torch.ones(LENGTH + 1)
        with pytest.raises(TypeError, match="copy it to the host"):
            f.numpy()


def test_a_module_and_features_of_two_devices_are_refused(field):
    features, x, _ = field
    with SimulatedDevice():
        module = GRFKernel(features.to(DEVICE), grf.Diffusion(1.5))
        with pytest.raises(
            ValueError, match="got a kernel on cpu and features on meta; move the model"
        ):
            module(x).to_dense()
        host = GRFKernel(features, grf.Diffusion(1.5)).to(DEVICE)  # copied there
        there = module.to(DEVICE)
        few = x[:5].to(DEVICE)
        torch.testing.assert_close(host(few).to_dense().inner, there(few).to_dense().inner)


def test_the_series_stays_on_the_device_too(field):
    graph = grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(67, 67)))
    _, x, y = field
    plain = GRFKernel(graph, grf.Diffusion(1.5))
    expected = plain(x).evaluate_kernel() @ y
    with SimulatedDevice() as simulated:
        module = GRFKernel(graph, grf.Diffusion(1.5)).to(DEVICE)
        x, y = x.to(DEVICE), y.to(DEVICE)
        module(x).evaluate_kernel() @ y
        simulated.transfers.clear()
        found = module(x).evaluate_kernel() @ y
        found.sum().backward()
        assert simulated.largest("from") <= MANY
        assert simulated.largest("to") <= MANY
        with pytest.raises(ValueError, match="4489"):
            module(torch.tensor([3, 4489]).to(DEVICE)).to_dense()
    torch.testing.assert_close(found.inner, expected)
