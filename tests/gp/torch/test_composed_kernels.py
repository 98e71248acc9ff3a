"""GRFKernel in larger models: columns of nodes beside others, batches, fits that step back."""

from __future__ import annotations

import copy
import subprocess
import sys
import warnings

import numpy as np
import pytest

import graphrf as grf

torch = pytest.importorskip("torch", reason="GRFKernel needs the extra `gp`")
gpytorch = pytest.importorskip("gpytorch", reason="GRFKernel needs the extra `gp`")

from linear_operator.utils.errors import NanError  # noqa: E402

from graphrf.gp import GRFKernel  # noqa: E402

pytestmark = pytest.mark.usefixtures("torch_float64")

NODES = torch.tensor([[3, 0, 33, 7, 3], [1, 1, 20, 9, 2]])


def walks(graph):
    return grf.sample_features(
        graph, grf.RandomWalks(16, grf.sampling.Truncated(12)), seed=5, dtype="float64"
    )


# -- nodes in one of several columns ---------------------------------------------------------------


@pytest.mark.parametrize("dims", [1, [1], (1,), torch.tensor([1])], ids=repr)
def test_active_dims_names_the_column_of_nodes(dims, karate):
    x = torch.stack([torch.linspace(0, 1, 5), NODES[0].double()], 1)
    expected = GRFKernel(karate, grf.Diffusion(1.5))(NODES[0]).to_dense()
    module = GRFKernel(karate, grf.Diffusion(1.5), active_dims=dims)
    torch.testing.assert_close(module(x).to_dense(), expected)
    torch.testing.assert_close(module(x, diag=True), expected.diagonal())
    twin = copy.deepcopy(module)
    torch.testing.assert_close(twin(x[:2], x[2:]).to_dense(), expected[:2, 2:])


@pytest.mark.parametrize("source", ["graph", "features"])
def test_a_product_of_nodes_and_times_is_the_kronecker_product(source, karate):
    origin = karate if source == "graph" else walks(karate)
    space, time = GRFKernel(origin, active_dims=[0]), gpytorch.kernels.MaternKernel(active_dims=[1])
    nodes, times = torch.arange(6.0), torch.tensor([0.0, 0.3, 1.1])
    x = torch.cartesian_prod(nodes, times)
    product = (space * time)(x).to_dense()
    plain = GRFKernel(origin)(nodes).to_dense()
    through_time = gpytorch.kernels.MaternKernel()(times[:, None]).to_dense()
    torch.testing.assert_close(product, torch.kron(plain, through_time))
    product.square().sum().backward()
    assert float(space.raw_lengthscale.grad) != 0
    assert float(time.raw_lengthscale.grad) != 0
    total = (gpytorch.kernels.ScaleKernel(space) + time)(x).to_dense()
    scale = torch.nn.functional.softplus(torch.tensor(0.0))
    ones = torch.ones(6, 6), torch.ones(3, 3)
    torch.testing.assert_close(
        total, scale * torch.kron(plain, ones[1]) + torch.kron(ones[0], through_time)
    )


def test_columns_that_cannot_hold_nodes_are_refused(karate):
    for bad in ([0, 1], [], [-1], [0.0], True):
        with pytest.raises(ValueError, match="`active_dims` must be the number of the one column"):
            GRFKernel(karate, active_dims=bad)
    with pytest.raises(ValueError, match="`active_dims` of a GRFKernel selects the column"):
        GRFKernel(karate)(torch.zeros(3, 2)).to_dense()


def test_the_default_kernel_is_that_of_the_features_laplacian(karate):
    sampler = grf.RandomWalks(8, grf.sampling.Truncated(60), laplacian="combinatorial")
    features = grf.sample_features(karate, sampler, seed=0)
    assert GRFKernel(karate).kernel == grf.Diffusion(1.0)
    assert GRFKernel(features, optimize=False).kernel == grf.Diffusion(
        1.0, laplacian="combinatorial"
    )


# -- batches of kernels ----------------------------------------------------------------------------


def three(source, **options):
    """Three kernels with lengthscales and smoothness of their own, and the same one by one."""
    batch = GRFKernel(
        source,
        grf.Matern(2.5, 1.0),
        optimize=["lengthscale", "nu"],
        batch_shape=torch.Size([3]),
        **options,
    )
    lengthscales, smoothness = torch.tensor([0.7, 1.2, 2.0]), torch.tensor([1.5, 2.5, 3.5])
    batch.lengthscale = lengthscales[:, None, None]
    constraint = batch.raw_nu_constraint
    batch.initialize(raw_nu=constraint.inverse_transform(smoothness))
    single = [
        GRFKernel(source, grf.Matern(nu, length), optimize=["lengthscale", "nu"], **options)
        for nu, length in zip(smoothness.tolist(), lengthscales.tolist(), strict=True)
    ]
    return batch, single


@pytest.mark.parametrize("source", ["graph", "features"])
def test_members_of_a_batch_are_kernels_of_their_own(source, karate):
    batch, single = three(karate if source == "graph" else walks(karate))
    # Broadcast to (3, ...) and (2, 3, ...).
    for x in (NODES[0], NODES[0][:, None], NODES[:, None, :, None]):
        expected = torch.stack(
            [kernel(x).to_dense().reshape(*x.shape[:-3], 5, 5) for kernel in single], -3
        )
        torch.testing.assert_close(batch(x).to_dense(), expected)
        torch.testing.assert_close(batch(x, diag=True), expected.diagonal(dim1=-1, dim2=-2))
    for number in range(3):
        member = batch[number]
        assert repr(member.kernel) == repr(single[number].kernel)
        torch.testing.assert_close(member(NODES[0]).to_dense(), single[number](NODES[0]).to_dense())
        block = batch(NODES[:1].expand(3, 5)[..., None], NODES[1][:2, None]).to_dense()[number]
        torch.testing.assert_close(block, single[number](NODES[0], NODES[1][:2]).to_dense())


def test_gradients_of_a_batch_reach_each_member(karate):
    batch, single = three(karate)
    weights = torch.tensor([1.0, -2.0, 0.5])
    (batch(NODES[0]).to_dense().square().sum((1, 2)) * weights).sum().backward()
    for number, kernel in enumerate(single):
        (kernel(NODES[0]).to_dense().square().sum() * weights[number]).backward()
        torch.testing.assert_close(batch.raw_lengthscale.grad[number], kernel.raw_lengthscale.grad)
        torch.testing.assert_close(batch.raw_nu.grad[number], kernel.raw_nu.grad)


def test_batches_are_indexed_and_expanded_with_a_column_of_nodes(karate):
    batch, single = three(karate, active_dims=[1])
    x = torch.stack([torch.zeros(5), NODES[0].double()], 1)
    torch.testing.assert_close(batch[1](x).to_dense(), single[1](x).to_dense())
    torch.testing.assert_close(batch[1:](x).to_dense()[1], single[2](x).to_dense())
    wide = batch.expand_batch(2, 3)
    assert wide.batch_shape == (2, 3)
    torch.testing.assert_close(wide(x).to_dense()[1, 2], single[2](x).to_dense())
    torch.testing.assert_close(wide[0, 2](x).to_dense(), single[2](x).to_dense())
    assert single[0][0] is single[0]


def test_batches_without_trained_hyperparameters_and_of_coefficients(karate):
    fixed = GRFKernel(karate, grf.Diffusion(1.5), optimize=False, batch_shape=torch.Size([2]))
    learned = GRFKernel(
        karate, grf.kernels.LearnedModulation(2, (1.0, 0.5, 0.2)), batch_shape=torch.Size([2])
    )
    learned.modulation.data[1] = torch.tensor([1.0, 0.0, 0.0])
    assert fixed(NODES[0]).to_dense().shape == learned(NODES[0]).to_dense().shape == (2, 5, 5)
    torch.testing.assert_close(
        fixed[0](NODES[0]).to_dense(), GRFKernel(karate, grf.Diffusion(1.5))(NODES[0]).to_dense()
    )
    torch.testing.assert_close(
        learned[1](NODES[0]).to_dense(), (NODES[0][:, None] == NODES[0]).double()
    )
    assert "batch_shape=(2,)" in repr(fixed)
    with pytest.raises(ValueError, match="a batch of kernels"):
        assert fixed.kernel
    with pytest.raises(ValueError, match="a batch of kernels"):
        fixed.root_modulation()


# -- lengthscales that were only tried -------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:walks of 12 steps cut")
@pytest.mark.parametrize("raw", [float("nan"), float("inf"), 1e3, -1e4])
def test_hyperparameters_without_a_kernel_are_nan_errors_and_value_errors(raw, karate):
    module = GRFKernel(walks(karate), grf.Diffusion(1.5))
    module.raw_lengthscale.data.fill_(raw)
    for error in (NanError, ValueError):
        with pytest.raises(error, match=r"vanishes|make no kernel"):
            module(NODES[0]).to_dense()


def test_a_fit_by_botorch_survives_a_lengthscale_that_was_only_tried(monkeypatch):
    pytest.importorskip("botorch", reason="fit_gpytorch_mll needs the extra `bo`")
    import networkx as nx
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP

    from graphrf.gp.torch import kernel as module

    failed = []
    plain = module.NoKernelError.__init__
    monkeypatch.setattr(
        module.NoKernelError, "__init__", lambda self, *a: (failed.append(a), plain(self, *a))[1]
    )
    graph = grf.load_graph(nx.grid_2d_graph(10, 10))
    kernel = GRFKernel(grf.sample_features(graph, seed=0, dtype="float64"), grf.Diffusion(2.0))
    values = np.sin(np.arange(100) // 10 / 2) + np.cos(np.arange(100) % 10 / 2)
    x = torch.arange(0, 100, 2).double()[:, None]
    scaled = gpytorch.kernels.ScaleKernel(kernel)
    model = SingleTaskGP(
        x, torch.tensor(values[::2])[:, None], covar_module=scaled, outcome_transform=None
    )
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    before = mll(model(x), model.train_targets).item()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the same lengthscales, by graphrf and BoTorch
        fit_gpytorch_mll(mll)
    assert failed  # the line search did leave the kernels
    mll.train()
    assert mll(model(x), model.train_targets).item() > before + 0.5
    assert 1 < kernel.lengthscale.item() < 8


# -- warnings of the newest torch ------------------------------------------------------------------

_AS_IN_TORCH_2_14 = """
import sys, warnings, torch
script = torch.jit.script
def deprecated(*args, **kwargs):
    text = "`torch.jit.script` is deprecated. Please switch to `torch.compile`."
    warnings.warn(text, FutureWarning)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return script(*args, **kwargs)
torch.jit.script = deprecated
warnings.simplefilter("error", FutureWarning)
import graphrf
graphrf.gp.GRFKernel
assert "linear_operator" in sys.modules
"""


@pytest.mark.more
def test_nothing_of_torch_is_warned_about_at_the_import():
    subprocess.run([sys.executable, "-c", _AS_IN_TORCH_2_14], check=True)
