"""K among nodes as a linear operator, against the dense kernel: values, gradients, devices."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf

torch = pytest.importorskip("torch", reason="operators need the extra `gp`")
linear_operator = pytest.importorskip("linear_operator", reason="operators need the extra `gp`")

from graphrf.gp.torch.device_factors import TorchFeatureFactor, TorchSeriesFactor  # noqa: E402
from graphrf.gp.torch.factor import BlockCosts, HostFactor, paired, product  # noqa: E402
from graphrf.gp.torch.operator import FactorOperator  # noqa: E402
from graphrf.operators.series.series_factor import SeriesFactor  # noqa: E402

CPU = torch.device("cpu")
LENGTH = 9


def walks(graph, laplacian="normalized"):
    sampler = grf.RandomWalks(16, grf.sampling.Truncated(LENGTH), laplacian=laplacian)
    return grf.sample_features(graph, sampler, seed=3, dtype="float64")


def powers(graph):
    return grf.sample_features(
        graph, grf.sampling.CutPowers(budget=12, max_length=LENGTH), dtype="float64"
    )


def series(graph, laplacian="normalized"):
    return SeriesFactor(graph, laplacian, max_length=LENGTH)


# Every implementation, with the numpy factor that it must agree with.
FACTORS = {
    "host features": lambda graph, device, dtype: HostFactor(walks(graph).factor()),
    "host series": lambda graph, device, dtype: HostFactor(series(graph)),
    "device features": lambda graph, device, dtype: TorchFeatureFactor(walks(graph), device, dtype),
    "device combinatorial": lambda graph, device, dtype: TorchFeatureFactor(
        walks(graph, "combinatorial"), device, dtype
    ),
    "device powers": lambda graph, device, dtype: TorchFeatureFactor(powers(graph), device, dtype),
    "device series": lambda graph, device, dtype: TorchSeriesFactor(series(graph), device, dtype),
}
REFERENCE = {
    "host features": lambda graph: walks(graph).factor(),
    "host series": series,
    "device features": lambda graph: walks(graph).factor(),
    "device combinatorial": lambda graph: walks(graph, "combinatorial").factor(),
    "device powers": lambda graph: powers(graph).factor(),
}
ROWS, COLS = np.array([2, 5, 7, 0, 2]), np.array([1, 2, 6])


def modulation(dtype=torch.float64, device="cpu"):
    return torch.tensor(
        grf.Diffusion(1.5).modulation(LENGTH + 1), dtype=dtype, device=device, requires_grad=True
    )


def dense_powers(name, graph):
    """P_0 .. P_L as dense matrices."""
    if name == "device series":  # Chebyshev polynomials
        walk = torch.tensor(graph.walk_matrix().toarray())
        terms = [torch.eye(graph.n_nodes, dtype=torch.float64), walk]
        for _ in range(LENGTH - 1):
            terms.append(2 * walk @ terms[-1] - terms[-2])
        return torch.stack(terms)
    factor = REFERENCE[name](graph)
    units = np.eye(graph.n_nodes)
    return torch.stack(
        [torch.tensor(np.asarray(factor.apply(e, units))) for e in np.eye(LENGTH + 1)]
    )


def dense_kernel(name, graph, f, rows=None, cols=None):
    """F F^T in plain torch, differentiable."""
    root = torch.einsum("k,kij->ij", f, dense_powers(name, graph))
    every = np.arange(graph.n_nodes)
    return root[every if rows is None else rows] @ root[every if cols is None else cols].T


def operator(name, graph, f, rows=None, cols=None):
    factor = FACTORS[name](graph, f.device, f.dtype)
    left = factor if rows is None else factor.take(rows)
    right = left if cols is None else factor.take(cols)
    return FactorOperator(f, rows=left, cols=right)


@pytest.fixture(params=["cpu", pytest.param("gpu", marks=pytest.mark.cuda)])
def device(request):
    return CPU if request.param == "cpu" else request.getfixturevalue("gpu")


@pytest.mark.parametrize("name", FACTORS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_products_and_gradients_are_those_of_the_dense_matrix(name, dtype, device, weighted_graph):
    rng = np.random.default_rng(0)
    tolerance = (
        {"atol": 1e-11, "rtol": 1e-11} if dtype == torch.float64 else {"atol": 2e-5, "rtol": 2e-5}
    )
    x = torch.tensor(rng.standard_normal((3, 2)), requires_grad=True)
    weights = torch.tensor(rng.standard_normal((5, 2)))
    f = modulation()
    expected = dense_kernel(name, weighted_graph, f, ROWS, COLS) @ x
    wanted = torch.autograd.grad((expected * weights).sum(), (f, x))

    g = modulation(dtype, device)
    z = x.detach().to(device, dtype).requires_grad_(True)
    matrix = operator(name, weighted_graph, g, ROWS, COLS)
    # linear_operator's gradient, and that of products by themselves.
    for result in (matrix @ z, matrix._matmul(z)):
        assert result.dtype == dtype
        assert result.device == device
        found = torch.autograd.grad((result * weights.to(result)).sum(), (g, z))
        torch.testing.assert_close(result.cpu().double(), expected, **tolerance)
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one.cpu().double(), other, **tolerance)


# products of the others have the gradients of dense matrices
@pytest.mark.parametrize("name", ["host features", "device features", "device series"])
def test_gradients_agree_with_finite_differences(name, weighted_graph):
    factor = FACTORS[name](weighted_graph, CPU, torch.float64)
    rows, cols = factor.take(ROWS), factor.take(COLS)
    x = torch.randn(
        3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    ).requires_grad_(True)
    assert torch.autograd.gradcheck(lambda f, x: product(rows, cols, f, x), (modulation(), x))
    assert torch.autograd.gradcheck(lambda f: paired(rows, rows, f), (modulation(),))
    assert torch.autograd.gradcheck(
        lambda f: paired(cols, factor.take(ROWS[:3]), f), (modulation(),)
    )
    for left, right in ((rows, cols), (cols, rows), (rows, rows)):
        assert torch.autograd.gradcheck(
            lambda f, r=left, c=right: FactorOperator(f, rows=r, cols=c).to_dense(), (modulation(),)
        )
    assert torch.autograd.gradcheck(
        lambda f: (
            FactorOperator(f, rows=rows, cols=rows).add_diagonal(torch.tensor(0.3)).to_dense()
        ),
        (modulation(),),
    )


@pytest.mark.parametrize("name", FACTORS)
def test_dense_diagonal_entries_and_blocks_are_those_of_the_matrix(name, weighted_graph):
    f = modulation()
    matrix = operator(name, weighted_graph, f)
    dense = dense_kernel(name, weighted_graph, f).detach()
    close = {"atol": 1e-12, "rtol": 1e-11}
    torch.testing.assert_close(matrix.to_dense(), dense, **close)
    torch.testing.assert_close(matrix.diagonal(), dense.diagonal(), **close)
    torch.testing.assert_close(matrix.mT.to_dense(), dense.T, **close)
    index = torch.tensor([3, 0, 3, 5])
    parts = [
        (slice(1, 6, 2), slice(None)),
        (slice(2, 5), slice(2, 5)),
        (index, slice(0, 3)),
        (slice(-2, None), index),
        (4, slice(None)),
        (slice(None), 2),
        (3, 5),
        (index, index),
        (index, index.flip(0)),
        (index[:, None], index),
    ]
    for part in parts:
        found = matrix[part]
        torch.testing.assert_close(
            found.to_dense() if hasattr(found, "to_dense") else found, dense[part], **close
        )
    # dense tensors know no negative steps, and take uint8 for a mask
    bytes_, rest = index.to(torch.uint8), slice(None)
    for part, expected in (
        ((slice(None, None, -1), rest), dense.flip(0)),
        ((rest, slice(None, None, -1)), dense.flip(1)),
        ((slice(6, 1, -2), slice(5, 3)), dense[[6, 4, 2]][:, :0]),
        ((bytes_, rest), dense[index]),
        ((rest, bytes_), dense[:, index]),
        ((bytes_, bytes_), dense[index, index]),
    ):
        found = matrix[part]
        found = found.to_dense() if hasattr(found, "to_dense") else found
        torch.testing.assert_close(found, expected, **close)
    block = matrix[slice(2, 5), slice(2, 5)]
    assert block._rows is block._cols  # stays symmetric, its diagonal cheap


@pytest.mark.parametrize("name", FACTORS)
def test_batches_of_right_hand_sides_are_products_one_by_one(name, weighted_graph):
    matrix = operator(name, weighted_graph, modulation(), ROWS, COLS)
    x = torch.randn(4, 2, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    dense = matrix.to_dense()
    torch.testing.assert_close(matrix @ x, dense @ x)
    torch.testing.assert_close(matrix @ x[0, 0, :, 0], dense @ x[0, 0, :, 0])
    torch.testing.assert_close(matrix.expand(4, 5, 3).to_dense(), dense.expand(4, 5, 3))
    torch.testing.assert_close(matrix.unsqueeze(0).to_dense(), dense[None])
    torch.testing.assert_close(
        matrix.expand(4, 5, 3)[1:3, :2].to_dense(), dense[:2].expand(2, 2, 3)
    )
    f = modulation()
    repeated = (
        operator(name, weighted_graph, f).expand(3, 8, 8).add_diagonal(torch.tensor(0.5)).to_dense()
    )
    gradient = torch.autograd.grad(repeated.square().sum(), f)[0]
    single = operator(name, weighted_graph, f).add_diagonal(torch.tensor(0.5)).to_dense()
    torch.testing.assert_close(gradient, 3 * torch.autograd.grad(single.square().sum(), f)[0])


def test_narrow_blocks_of_columns_change_nothing(weighted_graph):
    x = torch.randn(3, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    f = modulation()
    matrix = operator("host features", weighted_graph, f, ROWS, COLS)
    whole = matrix @ x
    gradient = torch.autograd.grad(whole.square().sum(), f)[0]
    every = operator("host features", weighted_graph, f).to_dense()
    narrow = HostFactor(walks(weighted_graph).factor(), BlockCosts(numbers=1, narrowest=3))
    torch.testing.assert_close(FactorOperator(f, rows=narrow, cols=narrow).to_dense(), every)
    matrix = FactorOperator(f, rows=narrow.take(ROWS), cols=narrow.take(COLS))
    torch.testing.assert_close(matrix @ x, whole)
    torch.testing.assert_close(torch.autograd.grad((matrix @ x).square().sum(), f)[0], gradient)


@pytest.mark.parametrize("size", [4, LENGTH + 5])
# but for the device's series, which has as many terms as the modulation
@pytest.mark.parametrize("name", [name for name in FACTORS if name != "device series"])
def test_modulations_of_another_length_are_cut_or_filled_with_zeros(name, size, weighted_graph):
    f = torch.linspace(1, 0.2, size, dtype=torch.float64, requires_grad=True)
    full = torch.zeros(LENGTH + 1, dtype=torch.float64)
    used = min(size, LENGTH + 1)
    result = operator(name, weighted_graph, f).to_dense()
    full[:used] = f.detach()[:used]
    torch.testing.assert_close(result, dense_kernel(name, weighted_graph, full))
    gradient = torch.autograd.grad(result.sum(), f)[0]
    assert gradient.shape == f.shape
    assert (gradient[LENGTH + 1 :] == 0).all()


@pytest.mark.parametrize("name", ["host features", "device features", "host series"])
def test_with_noise_it_solves_and_has_a_determinant_without_becoming_dense(name, grid, monkeypatch):
    f = modulation()
    y = torch.randn(144, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    noise = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
    dense = dense_kernel(name, grid, f)
    dense = dense + noise * torch.eye(144)
    expected = (y @ torch.linalg.solve(dense, y), torch.logdet(dense))
    wanted = torch.autograd.grad(expected[0], (f, noise))

    g = modulation()
    matrix = operator(name, grid, g)
    diagonal = linear_operator.operators.ConstantDiagLinearOperator(noise.reshape(1), 144)
    noisy = matrix + diagonal
    assert type(noisy) is linear_operator.operators.AddedDiagLinearOperator
    assert type(matrix.add_diagonal(noise)) is linear_operator.operators.AddedDiagLinearOperator
    assert type(matrix.add_jitter(1e-4)) is linear_operator.operators.AddedDiagLinearOperator

    evaluate = FactorOperator.to_dense

    def rows_at_most(self):
        assert min(self.shape[-2:]) == 1, "became dense"  # the preconditioner reads single rows
        return evaluate(self)

    monkeypatch.setattr(FactorOperator, "to_dense", rows_at_most)
    widths: list[int] = []
    factor = type(matrix._rows)
    plain = factor.apply
    monkeypatch.setattr(
        factor, "apply", lambda self, f, x: (widths.append(x.shape[1]), plain(self, f, x))[1]
    )
    with (
        # botorch, where it has been imported before, turns these off for all
        linear_operator.settings.fast_computations(
            covar_root_decomposition=True, log_prob=True, solves=True
        ),
        linear_operator.settings.max_cholesky_size(0),
        linear_operator.settings.cg_tolerance(1e-5),
        linear_operator.settings.min_preconditioning_size(10),
        linear_operator.settings.num_trace_samples(64),
    ):
        torch.manual_seed(0)
        quadratic, logdet = noisy.inv_quad_logdet(y, logdet=True)
    monkeypatch.undo()
    assert max(widths) <= 65  # probes and y; dense would be 144
    assert quadratic.item() == pytest.approx(expected[0].item(), rel=1e-5)
    assert logdet.item() == pytest.approx(expected[1].item(), rel=0.05)
    found = torch.autograd.grad(quadratic, (g, noise))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_a_dropped_half_of_the_gradient_is_noticed(weighted_graph):
    """The negative control of the gradient tests."""
    factor = FACTORS["host features"](weighted_graph, CPU, torch.float64)
    rows, cols = factor.take(ROWS), factor.take(COLS)
    f, x = modulation(), torch.ones(3, 1, dtype=torch.float64)
    expected = torch.autograd.grad(product(rows, cols, f, x).sum(), f)[0]
    half = rows.grad_f(cols.apply_t(f, x), torch.ones(5, 1, dtype=torch.float64), f.numel())
    assert not torch.allclose(half, expected, rtol=0.1)
