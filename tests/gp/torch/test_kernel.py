"""GRFKernel inside GPyTorch, against dense kernels: values, gradients, training, inputs."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest

import graphrf as grf

torch = pytest.importorskip("torch", reason="GRFKernel needs the extra `gp`")
gpytorch = pytest.importorskip("gpytorch", reason="GRFKernel needs the extra `gp`")

from graphrf.features import factor  # noqa: E402
from graphrf.features.bounds import HeavyTailWarning, TruncationWarning  # noqa: E402
from graphrf.gp import GRFKernel  # noqa: E402
from graphrf.gp.torch.kernel import node_ids  # noqa: E402
from tests.support.gpytorch_regression import Regression  # noqa: E402

pytestmark = pytest.mark.usefixtures("torch_float64")

LENGTH = 12


def walks(graph, nodes=None, laplacian="normalized", length=LENGTH):
    sampler = grf.RandomWalks(16, grf.sampling.Truncated(length), laplacian=laplacian)
    return grf.sample_features(graph, sampler, nodes=nodes, seed=5, dtype="float64")


def normalized(matrix):
    return matrix / np.trace(matrix) * matrix.shape[0]


KERNELS = [
    grf.Diffusion(1.5),
    grf.Diffusion(0.4, laplacian="combinatorial"),
    grf.RegularizedLaplacian(0.8, 2),
    grf.Matern(2.5, 1.2),
    grf.kernels.PStepRandomWalk(2.5, 2),
    grf.kernels.LearnedModulation(4, (1.0, 0.6, -0.2, 0.1, 0.05)),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_a_graph_gives_the_exact_kernel_with_mean_variance_one(kernel, weighted_graph):
    dense = kernel.dense(weighted_graph)
    every = torch.arange(8)
    matrix = GRFKernel(weighted_graph, kernel)(every).to_dense()
    np.testing.assert_allclose(matrix.detach().numpy(), normalized(dense), atol=1e-9)
    plain = GRFKernel(weighted_graph, kernel, normalize=False)(every).to_dense()
    np.testing.assert_allclose(plain.detach().numpy(), dense, atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_features_give_phi_phi_t_with_mean_variance_one_over_their_nodes(kernel, weighted_graph):
    held = [6, 1, 3, 2, 0]
    features = walks(weighted_graph, held, kernel.laplacian)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        module = GRFKernel(features, kernel)
        gram = features.gram(kernel)
    matrix = module(torch.tensor(held)).to_dense()
    np.testing.assert_allclose(matrix.detach().numpy(), normalized(gram), atol=1e-12)
    block = module(torch.tensor([[3], [3], [6]]), torch.tensor([[0], [1]])).to_dense()
    np.testing.assert_allclose(
        block.detach().numpy(), normalized(gram)[np.ix_([2, 2, 0], [4, 1])], atol=1e-12
    )


@pytest.mark.parametrize("source", ["graph", "features"])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_gradients_reach_every_parameter_through_the_normalisation(kernel, source, weighted_graph):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        if source == "graph":
            origin = weighted_graph
        else:
            origin = walks(weighted_graph, laplacian=kernel.laplacian)
        module = GRFKernel(origin, kernel)
    weights = torch.randn(5, 5, generator=torch.Generator().manual_seed(0))
    nodes = torch.tensor([4, 0, 2, 3, 7])
    (_, parameter), *rest = module.named_parameters()
    assert not rest

    def value():
        return (module(nodes).to_dense() * weights).sum().item()

    (module(nodes).to_dense() * weights).sum().backward()
    step = 1e-5
    for k in range(parameter.numel()):
        flat = parameter.data.view(-1)
        flat[k] += step
        above = value()
        flat[k] -= 2 * step
        below = value()
        flat[k] += step
        assert float(parameter.grad.view(-1)[k]) == pytest.approx(
            (above - below) / (2 * step), rel=1e-5, abs=1e-7
        )


def test_optimize_chooses_what_is_trained(weighted_graph):
    matern = grf.Matern(2.5, 1.2)

    def names(**options):
        kernel = GRFKernel(weighted_graph, matern, **options)
        return [name for name, _ in kernel.named_parameters()]

    assert names() == ["raw_lengthscale"]
    assert names(optimize=False) == []
    assert names(optimize=["nu"]) == ["raw_nu"]
    both = GRFKernel(weighted_graph, matern, optimize=["nu", "lengthscale"])
    assert both.lengthscale.item() == pytest.approx(1.2)
    assert both.hyperparameter("nu").item() == pytest.approx(2.5)
    both.lengthscale = 2.0
    assert both.kernel.hyperparameters == pytest.approx({"nu": 2.5, "lengthscale": 2.0})
    assert GRFKernel(weighted_graph, matern, optimize=False).kernel == matern
    assert GRFKernel(weighted_graph, grf.kernels.InverseCosine()).double().dtype == torch.float64
    at_its_bound = GRFKernel(
        weighted_graph, grf.kernels.PStepRandomWalk(2.0, 2), optimize=["alpha"]
    )
    assert 2.0 < at_its_bound.kernel.alpha < 2.01
    with pytest.raises(ValueError, match="must be among the trained"):
        both.hyperparameter("power")
    with pytest.raises(ValueError, match="one parameter"):
        GRFKernel(weighted_graph, grf.kernels.LearnedModulation(2), optimize=["f0"])
    with pytest.raises(ValueError, match="need a trained lengthscale"):
        GRFKernel(
            weighted_graph,
            grf.kernels.LearnedModulation(2),
            lengthscale_prior=gpytorch.priors.GammaPrior(2.0, 1.0),
        )


def test_shares_stay_between_their_ends_and_areal_kernels_without_a_series_are_refused(
    weighted_graph,
):
    kernel = GRFKernel(weighted_graph, grf.Leroux(0.3))
    assert kernel.hyperparameter("mixing").item() == pytest.approx(0.3)
    with torch.no_grad():
        kernel.raw_mixing += 10.0
    assert 0.9 < kernel.kernel.mixing < 1
    with pytest.raises(ValueError, match="function of the Laplacian"):
        GRFKernel(weighted_graph, grf.BYM2(0.3))(torch.arange(3)).to_dense()


def test_diagonals_batches_sums_products_and_scales(karate):
    module = GRFKernel(karate, grf.Diffusion(1.5))
    other = GRFKernel(walks(karate), grf.RegularizedLaplacian(0.8, 2))
    dense = torch.tensor(normalized(grf.Diffusion(1.5).dense(karate)))
    more = torch.tensor(normalized(walks(karate).gram(grf.RegularizedLaplacian(0.8, 2))))
    x = torch.tensor([[3], [0], [33], [7]])
    z = torch.tensor([[1], [2]])
    at, to = x[:, 0], z[:, 0]
    close = {"atol": 1e-8, "rtol": 1e-8}
    torch.testing.assert_close(module(x, diag=True), dense.diagonal()[at], **close)
    torch.testing.assert_close(other(x, diag=True), more.diagonal()[at], **close)
    scaled = gpytorch.kernels.ScaleKernel(module)
    scaled.outputscale = 2.5
    for composed, expected in (
        (scaled, 2.5 * dense),
        (module + other, dense + more),
        (module * other, dense * more),
        (
            gpytorch.kernels.ScaleKernel(module * other) + scaled,
            np.log(2) * dense * more + 2.5 * dense,
        ),
    ):
        torch.testing.assert_close(composed(x).to_dense(), expected[at][:, at], **close)
        torch.testing.assert_close(composed(x, z).to_dense(), expected[at][:, to], **close)
        torch.testing.assert_close(composed(x, diag=True), expected.diagonal()[at], **close)
    batch = torch.tensor([[[3], [0]], [[33], [1]], [[5], [5]]])
    blocks = torch.stack([dense[part[:, 0]][:, part[:, 0]] for part in batch])
    torch.testing.assert_close(module(batch).to_dense(), blocks, **close)
    torch.testing.assert_close(module(batch, diag=True), blocks.diagonal(dim1=1, dim2=2), **close)
    wide = torch.stack([dense[part[:, 0]][:, to] for part in batch])
    torch.testing.assert_close(module(batch, z).to_dense(), wide, **close)
    torch.testing.assert_close(
        module(batch, batch.flip(1), diag=True), blocks.flip(2).diagonal(dim1=1, dim2=2)
    )


# -- training and prediction -----------------------------------------------------------------------


class DenseKernel(gpytorch.kernels.Kernel):
    """The oracle: U F(lambda)^2 U^T / v in torch, for Diffusion and LearnedModulation."""

    def __init__(self, graph, kernel, features=None):
        super().__init__()
        self.learned = isinstance(kernel, grf.kernels.LearnedModulation)
        if features is None:
            walk = torch.tensor(graph.walk_matrix().toarray())
            powers = [torch.eye(graph.n_nodes)]
            for _ in range(60):
                powers.append(walk @ powers[-1])
        else:
            units = np.eye(LENGTH + 1)
            powers = [torch.tensor(features.matrix_from_modulation(e).toarray()) for e in units]
        self.powers = torch.stack(powers)
        if self.learned:
            self.modulation = torch.nn.Parameter(torch.tensor(kernel.values))
        else:
            self.register_parameter("raw_lengthscale", torch.nn.Parameter(torch.zeros(1, 1)))
            self.register_constraint("raw_lengthscale", gpytorch.constraints.Positive())
            value = self.raw_lengthscale_constraint.inverse_transform(
                torch.tensor([[kernel.lengthscale]])
            )
            self.initialize(raw_lengthscale=value)

    def forward(self, x1, x2, diag=False, **params):
        if self.learned:
            f = self.modulation
        else:
            rate = (
                self.raw_lengthscale_constraint.transform(self.raw_lengthscale).squeeze() ** 2 / 4
            )
            k = torch.arange(len(self.powers), dtype=torch.float64)
            f = torch.exp(-rate + k * torch.log(rate) - torch.lgamma(k + 1))
        root = torch.einsum("k,kij->ij", f, self.powers[: len(f)])
        matrix = root @ root.T
        matrix = matrix / matrix.diagonal().mean()
        block = matrix[x1[:, 0]][:, x2[:, 0]]
        return block.diagonal() if diag else block


def problem(graph):
    rng = np.random.default_rng(0)
    nodes = rng.choice(graph.n_nodes, 60, replace=False)
    signal = grf.apply_root(graph, grf.Diffusion(2.5), rng.standard_normal(graph.n_nodes))
    y = signal / signal.std() + 0.2 * rng.standard_normal(graph.n_nodes)
    return torch.tensor(nodes)[:, None], torch.tensor(y[nodes])


def pair(graph, kernel, source):
    x, y = problem(graph)
    features = walks(graph) if source == "features" else None
    ours = Regression(x, y, GRFKernel(graph if features is None else features, kernel))
    dense = Regression(x, y, DenseKernel(graph, kernel, features))
    return ours, dense, x, y


def step(model, x, y):
    """The marginal likelihood per observation, and its negative's gradients by name."""
    model.train()
    model.zero_grad()
    value = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)(model(x), y)
    (-value).backward()
    return value.item(), [p.grad.clone() for _, p in sorted(model.named_parameters())]


MODELS = [
    (grf.Diffusion(1.5), "graph"),
    (grf.Diffusion(1.5), "features"),
    (grf.kernels.LearnedModulation(6), "graph"),
]


@pytest.mark.parametrize(("kernel", "source"), MODELS)
def test_likelihood_gradients_and_predictions_are_the_dense_ones(kernel, source, grid):
    ours, dense, x, y = pair(grid, kernel, source)
    value, gradients = step(ours, x, y)
    expected, wanted = step(dense, x, y)
    assert value == pytest.approx(expected, rel=1e-9)
    assert len(gradients) == len(wanted) == 4
    for one, other in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(one.reshape(-1), other.reshape(-1), rtol=1e-6, atol=1e-9)
    everywhere = torch.arange(144)[:, None]
    ours.eval()
    dense.eval()
    with torch.no_grad():
        found, expected = ours(everywhere), dense(everywhere)
        np.testing.assert_allclose(found.covariance_matrix, expected.covariance_matrix, atol=1e-6)
        np.testing.assert_allclose(found.variance, expected.variance, atol=1e-6)
        np.testing.assert_allclose(found.mean, expected.mean, atol=1e-6)
        ours.train().eval()  # without what the prediction kept
        with (
            gpytorch.settings.eval_cg_tolerance(1e-4),
            gpytorch.settings.max_cholesky_size(0),
            gpytorch.settings.skip_posterior_variances(),
        ):
            np.testing.assert_allclose(ours(everywhere).mean, expected.mean, atol=1e-3)


def test_conjugate_gradients_give_the_same_gradients_within_the_error_of_their_probes(grid):
    ours, dense, x, y = pair(grid, grf.Diffusion(1.5), "features")
    expected, wanted = step(dense, x, y)
    found = []
    with (
        gpytorch.settings.max_cholesky_size(0),
        gpytorch.settings.cg_tolerance(1e-4),
        gpytorch.settings.min_preconditioning_size(10),
        gpytorch.settings.num_trace_samples(32),
    ):
        for repeat in range(8):
            torch.manual_seed(repeat)
            value, gradients = step(ours, x, y)
            found.append(torch.cat([torch.tensor([value]), *(g.reshape(-1) for g in gradients)]))
    wanted = torch.cat([torch.tensor([expected]), *(g.reshape(-1) for g in wanted)])
    samples = torch.stack(found)
    error = samples.std(0) / len(found) ** 0.5
    assert ((samples.mean(0) - wanted).abs() <= 6 * error + 1e-3 * wanted.abs().max()).all()


def test_adam_takes_the_same_path_as_on_the_dense_gp(grid):
    kernel = grf.Diffusion(1.5)
    ours, dense, x, y = pair(grid, kernel, "graph")
    for model in (ours, dense):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        for _ in range(15):
            step(model, x, y)
            optimizer.step()
    assert step(ours, x, y)[0] == pytest.approx(step(dense, x, y)[0], rel=1e-6)
    # The kernel did learn.
    assert step(ours, x, y)[0] > step(pair(grid, kernel, "graph")[0], x, y)[0] + 0.02
    trained = ours.covar_module.base_kernel.kernel
    assert type(trained) is type(kernel)
    assert trained != kernel
    # the regressor continues where gpytorch ended
    gp = grf.GraphGPRegressor(
        grid,
        kernel=trained,
        optimize=False,
        mean="zero",
        method="series",
        seed=0,
        output_scale=ours.covar_module.outputscale.item(),
        noise=ours.likelihood.noise.item(),
    )
    constant = ours.mean_module.constant.item()
    gp.fit(x.numpy(), y.numpy() - constant)
    ours.eval()
    mean = ours(torch.arange(144)[:, None]).mean.detach().numpy()
    np.testing.assert_allclose(gp.predict() + constant, mean, atol=1e-6)


@pytest.mark.cuda
@pytest.mark.parametrize(("kernel", "source"), MODELS)
def test_models_on_a_gpu_agree_with_those_on_the_cpu(kernel, source, grid, gpu):
    ours, _, x, y = pair(grid, kernel, source)
    expected, wanted = step(ours, x, y)
    value, gradients = step(pair(grid, kernel, source)[0].to(gpu), x.to(gpu), y.to(gpu))
    assert value == pytest.approx(expected, rel=1e-8)
    for one, other in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-6, atol=1e-9)


# -- inputs, copies, warnings ----------------------------------------------------------------------


def test_nodes_are_integers_or_integral_floats_that_are_exact(karate):
    module = GRFKernel(karate, grf.Diffusion(1.0))
    expected = module(torch.tensor([3, 7])).to_dense()
    for dtype in (torch.int32, torch.int16, torch.uint8, torch.float32, torch.float64):
        torch.testing.assert_close(
            module(torch.tensor([[3], [7]], dtype=dtype)).to_dense(), expected
        )
    for bad, message in (
        (torch.tensor([0.5]), "must be integer node positions, got 0.5"),
        (torch.tensor([float("nan")]), "integer node positions, got nan"),
        (torch.tensor([2.0**24], dtype=torch.float32), "below 16777216"),
        (torch.tensor([2.0**53]), "below 9007199254740992"),
        (torch.tensor([[1, 2]]), r"shape \(n, 1\)"),
        (torch.tensor([34]), "34"),
        (torch.tensor([-1]), "-1"),
    ):
        with pytest.raises(ValueError, match=message):
            module(bad).to_dense()
    with pytest.raises(TypeError, match=r"torch\.bool"):
        module(torch.tensor([True])).to_dense()
    features = walks(karate, [4, 8])
    with pytest.raises(ValueError, match="among the sampled nodes, got 5"):
        GRFKernel(features, grf.Diffusion(1.0))(torch.tensor([4, 5])).to_dense()
    with pytest.raises(TypeError, match="`source` must be Features"):
        GRFKernel(np.eye(3), grf.Diffusion(1.0))
    with pytest.raises(TypeError, match="must be a graphrf kernel"):
        GRFKernel(karate, "diffusion")
    with pytest.raises(ValueError, match="of the normalized Laplacian"):
        GRFKernel(features, grf.Diffusion(1.0, laplacian="combinatorial"))


def test_large_positions_stay_exact():
    large = [2**24, 2**24 + 1, 2**31 + 1]
    for dtype in (torch.int64, torch.float64):
        assert node_ids("x", torch.tensor(large, dtype=dtype)[:, None]).tolist() == large
    assert node_ids("x", torch.tensor([2**53 + 1])).tolist() == [2**53 + 1]


def test_copies_share_graph_and_features_and_states_are_restored(karate):
    module = GRFKernel(walks(karate), grf.Diffusion(1.5))
    twin = copy.deepcopy(module)
    assert twin._source is module._source
    twin.lengthscale = 3.0
    assert module.lengthscale.item() == pytest.approx(1.5)
    fresh = GRFKernel(walks(karate), grf.Diffusion(1.0))
    fresh.load_state_dict(module.state_dict())
    nodes = torch.arange(5)
    torch.testing.assert_close(fresh(nodes).to_dense(), module(nodes).to_dense())


def test_a_lengthscale_that_outgrows_the_walks_is_warned_about_once(grid):
    module = GRFKernel(walks(grid), grf.Diffusion(1.0))
    nodes = torch.arange(4)
    module(nodes).to_dense()
    module.lengthscale = 12.0
    with pytest.warns(TruncationWarning, match="walks of 12 steps cut the series"):
        module(nodes).to_dense()
    module.lengthscale = 13.0
    module(nodes).to_dense()  # warnings are errors: not again
    with pytest.warns(TruncationWarning):
        GRFKernel(walks(grid), grf.Diffusion(12.0))
    halting = grf.sample_features(grid, grf.RandomWalks(8, grf.sampling.IID(0.4)), seed=0)
    with pytest.warns(HeavyTailWarning):
        GRFKernel(halting, grf.Diffusion(8.0))


def test_a_kernel_that_vanishes_cannot_be_normalised(karate):
    module = GRFKernel(karate, grf.kernels.LearnedModulation(2, (0.0, 0.0, 0.0)))
    with pytest.raises(ValueError, match="its mean variance is 0"):
        module(torch.arange(3)).to_dense()


def test_rows_are_made_once_and_values_only_when_the_modulation_changes(grid, monkeypatch):
    made = []
    plain = factor.feature_matrix
    monkeypatch.setattr(
        factor, "feature_matrix", lambda *a, **o: (made.append(1), plain(*a, **o))[1]
    )
    x, _ = problem(grid)
    module = GRFKernel(walks(grid), grf.Diffusion(1.5))
    made.clear()  # those that the diagonal was judged by
    matrix = module(x).evaluate_kernel()
    vector = torch.ones(60)
    for _ in range(5):
        matrix @ vector
    module(x).evaluate_kernel() @ vector  # the same modulation: the same values
    assert len(made) == 1
    module.lengthscale = 2.0
    module(x).evaluate_kernel() @ vector
    assert len(made) == 2
