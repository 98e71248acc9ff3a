"""Node kernels against dense algebra."""

from __future__ import annotations

import copy
import pickle
from decimal import Decimal, localcontext
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
import scipy.linalg

from graphrf.graph.graph import Graph
from graphrf.kernels.coefficients import root
from graphrf.kernels.explicit import LearnedModulation, PowerSeries
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.named import (
    Diffusion,
    InverseCosine,
    Matern,
    PStepRandomWalk,
    RegularizedLaplacian,
)

LAPLACIANS = ["normalized", "combinatorial"]


def _karate_and_isolated() -> Graph:
    return Graph(np.pad(nx.to_numpy_array(nx.karate_club_graph()), (0, 1)))


GRAPH = _karate_and_isolated()
C = GRAPH.laplacian_scale("combinatorial")


def _laplacian(laplacian: str) -> np.ndarray:
    return GRAPH.laplacian(laplacian == "normalized").toarray()


def _cases() -> list:
    cases = []
    for name in LAPLACIANS:
        lap, identity = _laplacian(name), np.eye(35)
        walk, s = GRAPH.walk_matrix(name).toarray(), GRAPH.laplacian_scale(name)
        inverse = np.linalg.inv(identity + 0.49 * lap)
        cases += [
            (Diffusion(1.3, laplacian=name), scipy.linalg.expm(-(1.3**2) / 2 * lap)),
            (RegularizedLaplacian(0.7, 2.0, laplacian=name), inverse @ inverse),
            (RegularizedLaplacian(0.7, 1.0, laplacian=name), inverse),
            (
                Matern(1.5, 2.0, laplacian=name),
                scipy.linalg.fractional_matrix_power(0.75 * identity + lap, -1.5).real,
            ),
            (
                PStepRandomWalk(2.1 * s, 4, laplacian=name),
                np.linalg.matrix_power(2.1 * s * identity - lap, 4),
            ),
            (
                PStepRandomWalk(2.3 * s, 3, laplacian=name),
                np.linalg.matrix_power(2.3 * s * identity - lap, 3),
            ),
            (
                PowerSeries(taylor=[1.0, 0.3, 0.2], laplacian=name),
                identity + 0.3 * walk + 0.2 * walk @ walk,
            ),
            (
                PowerSeries(modulation=[1.0, -0.5, 0.25], laplacian=name),
                np.linalg.matrix_power(identity - 0.5 * walk + 0.25 * walk @ walk, 2),
            ),
            (
                LearnedModulation(1, [0.5, -0.7], laplacian=name),
                np.linalg.matrix_power(0.5 * identity - 0.7 * walk, 2),
            ),
        ]
    cases.append((InverseCosine(), scipy.linalg.cosm(np.pi / 4 * _laplacian("normalized"))))
    return [pytest.param(kernel, expected, id=repr(kernel)) for kernel, expected in cases]


def _of_walk(kernel: Kernel, coefficients: np.ndarray) -> np.ndarray:
    eigenvalues, vectors = np.linalg.eigh(GRAPH.walk_matrix(kernel.laplacian).toarray())
    return (vectors * np.polynomial.polynomial.polyval(eigenvalues, coefficients)) @ vectors.T


@pytest.mark.parametrize(("kernel", "expected"), _cases())
def test_dense_series_and_root_give_the_kernel(kernel: Kernel, expected: np.ndarray) -> None:
    scale = kernel.check_graph(GRAPH)
    size = np.abs(expected).max()
    assert np.abs(kernel.dense(GRAPH) - expected).max() < 1e-12 * size
    root = kernel.dense_root(GRAPH)
    assert np.abs(root @ root - expected).max() < 1e-12 * size
    n = 4000
    assert np.abs(_of_walk(kernel, kernel.taylor(n, scale)) - expected).max() < 1e-11 * size
    series_root = _of_walk(kernel, kernel.modulation(n, scale))
    # the cosine's root converges slowly: what is cut at
    # 4,000 terms is 1e-6 at the ends of the spectrum
    tol = 1e-5 if isinstance(kernel, InverseCosine) else 1e-10
    assert np.abs(series_root @ series_root - expected).max() < tol * size
    assert np.abs(series_root - root).max() < tol * np.abs(root).max()
    # negative control: a modulation 1 % off in one coefficient is seen
    wrong = kernel.modulation(n, scale)
    wrong[np.abs(wrong).argmax()] *= 1.01
    assert np.abs(np.linalg.matrix_power(_of_walk(kernel, wrong), 2) - expected).max() > 1e-5 * size


@pytest.mark.parametrize(("kernel", "expected"), _cases())
def test_coefficients_agree_with_each_other(kernel: Kernel, expected: np.ndarray) -> None:
    scale = kernel.check_graph(GRAPH)
    f, alpha = kernel.modulation(200, scale), kernel.taylor(200, scale)
    assert np.abs(np.convolve(f, f)[:200] - alpha).max() < 1e-12 * np.abs(alpha).max()
    assert (kernel.modulation(7, scale) == f[:7]).all()
    assert f.dtype == np.float64
    # the tail is what the coefficients leave out
    total = kernel.modulation_tail(-1, scale)
    for length in (0, 1, 2, 5, 40):
        head = np.abs(f[: length + 1]).sum()
        assert head + kernel.modulation_tail(length, scale) == pytest.approx(total, rel=1e-10)
    # sum_k f_k W^k at W = 1 is F at the eigenvalue 0
    at_zero = kernel.root_spectrum(np.zeros(1), scale)
    if (f >= 0).all():
        assert at_zero[0] == pytest.approx(total, rel=1e-10)
    length = kernel.truncation_length(0.05, scale)
    assert kernel.modulation_tail(length, scale) <= 0.05 * total
    assert length == 0 or kernel.modulation_tail(length - 1, scale) > 0.05 * total


@pytest.mark.parametrize(("kernel", "expected"), _cases())
def test_jacobian_is_the_derivative_of_the_modulation(kernel: Kernel, expected: np.ndarray) -> None:
    scale = kernel.check_graph(GRAPH)
    jacobian = kernel.modulation_jacobian(30, scale)
    assert jacobian.shape == (30, len(kernel.hyperparameters))
    for column, (name, value) in enumerate(kernel.hyperparameters.items()):
        step = 1e-5 * abs(value)
        up, down = (
            kernel.replace(**{name: value + h}).modulation(30, scale) for h in (step, -step)
        )
        numeric = (up - down) / (2 * step)
        assert (
            np.abs(jacobian[:, column] - numeric).max() < 1e-7 * np.abs(jacobian[:, column]).max()
        )
    assert list(kernel.hyperparameter_bounds(scale)) == list(kernel.hyperparameters)


@pytest.mark.parametrize(
    ("kernel", "tol", "length"),
    [
        (PStepRandomWalk(2.0, 1), 1e-3, 79_578),
        (PStepRandomWalk(2.0, 3), 1e-3, 21),
        (PStepRandomWalk(2.0, 5), 1e-3, 7),
        (PStepRandomWalk(3.0, 4), 1e-3, 2),
        (InverseCosine(), 1e-2, 884),
        (InverseCosine(), 1e-3, 88_389),
        (Diffusion(2.0), 1e-3, 5),
    ],
)
def test_truncation_lengths(kernel: Kernel, tol: float, length: int) -> None:
    assert kernel.truncation_length(tol) == length


@pytest.mark.parametrize(
    "kernel", [InverseCosine(), PStepRandomWalk(2.0, 1), PStepRandomWalk(2.0 + 1e-7, 1)]
)
def test_slow_tails_agree_with_partial_sums(kernel: Kernel) -> None:
    size = np.abs(kernel.modulation(100_001))
    for length in (3, 171, 1_000, 50_000):
        expected = size[length + 1 :].sum() + kernel.modulation_tail(100_000)
        assert kernel.modulation_tail(length) == pytest.approx(expected, rel=1e-9)


def test_large_lengthscales_do_not_underflow() -> None:
    kernel = Diffusion(80.0)  # s l^2 / 4 = 1600: e^-1600 is 0 in double precision
    f = kernel.modulation(2_500)
    assert f.sum() == pytest.approx(1.0, abs=1e-12)
    assert f @ np.arange(f.size) == pytest.approx(1600, rel=1e-12)
    with localcontext() as context:
        context.prec = 60
        exact = (-Decimal(1600)).exp() * Decimal(1600) ** 1500
        for r in range(2, 1501):
            exact /= r
    assert f[1500] == pytest.approx(float(exact), rel=1e-13)
    assert np.isfinite(kernel.modulation_jacobian(2_500)).all()
    assert RegularizedLaplacian(1e4, 60.0).modulation(10).max() > 0


def test_regularized_laplacian_is_a_scaled_matern() -> None:
    ours = RegularizedLaplacian(0.7, 3.0).dense(GRAPH)
    matern = Matern(3.0, np.sqrt(6) * 0.7).dense(GRAPH)
    assert np.abs(ours - 0.7**-6 * matern).max() < 1e-13


def test_power_series_root_keeps_its_digits_where_double_precision_loses_them() -> None:
    # the series of Diffusion(lengthscale=6), to 120 terms and in 60 digits: f_0 = e^-9
    with localcontext() as context:
        context.prec = 60
        alpha = [(-Decimal(18)).exp()]
        for r in range(1, 160):
            alpha.append(alpha[-1] * 18 / r)
    exact = Diffusion(6.0).modulation(120)
    f = root(tuple(alpha), 120)
    assert np.abs(f - exact).max() < 1e-14
    # negative control: the same recursion in double precision
    a = np.array([float(x) for x in alpha])
    plain = np.zeros(120)
    plain[0] = np.sqrt(a[0])
    for r in range(1, 120):
        k = np.arange(1, r + 1)
        plain[r] = ((1.5 * k - r) * a[k] * plain[r - k]).sum() / (r * a[0])
    assert np.abs(plain - exact).max() > 1e-6


def test_power_series_root_of_a_boundary_zero_has_the_right_tail() -> None:
    kernel = PowerSeries(taylor=[1.0, 1.0])  # 1 + x, the p-step kernel with one step at alpha = 2
    closed = PStepRandomWalk(2.0, 1)
    assert np.abs(kernel.modulation(6_000) - closed.modulation(6_000)).max() < 1e-14
    for length in (-1, 10, 1_000, 50_000):
        assert kernel.modulation_tail(length) == pytest.approx(
            closed.modulation_tail(length), rel=1e-2
        )


def test_power_series_keeps_exact_numbers_and_round_trips() -> None:
    kernel = PowerSeries(taylor=[Fraction(1, 3), Decimal("0.1")])
    assert kernel.coefficients == (Fraction(1, 3), Decimal("0.1"))
    assert kernel.taylor(3) == pytest.approx([1 / 3, 0.1, 0.0])
    assert kernel.replace(laplacian="combinatorial").laplacian == "combinatorial"
    assert kernel.replace() == kernel


@pytest.mark.parametrize(("kernel", "expected"), _cases())
def test_kernels_are_values(kernel: Kernel, expected: np.ndarray) -> None:
    assert kernel == copy.deepcopy(kernel) == pickle.loads(pickle.dumps(kernel)) == kernel.replace()
    assert len({kernel, kernel.replace()}) == 1
    assert type(kernel).__name__ in repr(kernel)
    for name, value in kernel.hyperparameters.items():
        assert kernel.replace(**{name: value * 1.5}) != kernel
    with pytest.raises(AttributeError):
        kernel.laplacian = "combinatorial"  # type: ignore[misc]


def test_learned_modulation_is_trained_by_its_values() -> None:
    kernel = LearnedModulation(2)
    assert kernel.values == pytest.approx(np.exp(-1) / np.array([1, 1, 2]))
    assert kernel.replace(f0=-1.0, f2=3.0).values == (-1.0, kernel.values[1], 3.0)
    assert (kernel.modulation_jacobian(5) == np.eye(5, 3)).all()
    assert kernel.hyperparameter_bounds() == {"f0": -np.inf, "f1": -np.inf, "f2": -np.inf}


def test_alpha_is_bounded_by_the_graph() -> None:
    largest = np.linalg.eigvalsh(_laplacian("combinatorial"))[-1]
    fitting = PStepRandomWalk(largest * 1.001, 2, laplacian="combinatorial")
    expected = np.linalg.matrix_power(fitting.alpha * np.eye(35) - _laplacian("combinatorial"), 2)
    assert np.abs(fitting.dense(GRAPH) - expected).max() < 1e-9
    root = _of_walk(fitting, fitting.modulation(5, C))
    assert np.abs(root @ root - expected).max() < 1e-9
    with pytest.raises(ValueError, match=r"`alpha` must be at least .* largest eigenvalue"):
        fitting.replace(alpha=largest * 0.99).dense(GRAPH)
    with pytest.raises(ValueError, match="`alpha` must be at least 2 c"):
        PStepRandomWalk(1.9 * C, 3, laplacian="combinatorial").dense(GRAPH)
    assert PStepRandomWalk(3.0, 3).hyperparameter_bounds() == {"alpha": 2.0}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Diffusion(0.0), "`lengthscale` must be greater than 0, got 0"),
        (lambda: Diffusion(np.nan), "`lengthscale` must be finite"),
        (lambda: Diffusion(1.0, laplacian="signless"), "`laplacian` must be one of"),
        (lambda: RegularizedLaplacian(1.0, -1.0), "`power` must be greater than 0"),
        (lambda: PStepRandomWalk(1.9, 2), "`alpha` must be at least 2 for the normalized"),
        (lambda: PStepRandomWalk(2.0, 0), "`steps` must be at least 1"),
        (lambda: InverseCosine(laplacian="combinatorial"), "indefinite"),
        (lambda: PowerSeries(), "one of `taylor` and `modulation`, got neither"),
        (lambda: PowerSeries(taylor=[1.0], modulation=[1.0]), "got both"),
        (lambda: PowerSeries(taylor=[]), "at least one number"),
        (lambda: PowerSeries(taylor=[1.0, np.inf]), r"`taylor\[1\]` must be finite"),
        (lambda: PowerSeries(taylor=[0.0, 1.0]), "begin with a positive number"),
        (lambda: PowerSeries(taylor=[1.0, 2.0]), "K would be indefinite"),
        # positive on [0, 1], and yet its root has coefficients that grow like 5^k
        (lambda: PowerSeries(taylor=[0.2, 1.0], laplacian="combinatorial"), "do not decay"),
        (lambda: LearnedModulation(2, [1.0, 2.0]), "`values` must hold max_length"),
        (lambda: Diffusion().modulation(3, scale=2.0), "`scale` must be 1"),
        (
            lambda: Diffusion(laplacian="combinatorial").modulation(3),
            r'graph.laplacian_scale\("combinatorial"\)',
        ),
        (lambda: Diffusion().modulation(0), "`n` must be at least 1"),
        (lambda: Diffusion().truncation_length(0.0), "`tol` must be in"),
        (lambda: Diffusion().dense(Graph(np.array([[0, 1], [0, 0]]), directed=True)), "undirected"),
    ],
)
def test_bad_arguments_are_named(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def _rooted() -> list:
    cases = []
    for name in LAPLACIANS:
        s = GRAPH.laplacian_scale(name)
        cases += [
            (Diffusion(1.3, laplacian=name), Diffusion(1.3 / 3**0.5, laplacian=name), 3),
            (
                RegularizedLaplacian(0.7, 2.0, laplacian=name),
                RegularizedLaplacian(0.7, 0.4, laplacian=name),
                5,
            ),
            (Matern(1.5, 2.0, laplacian=name), Matern(0.75, 2**0.5, laplacian=name), 2),
            (
                PStepRandomWalk(2.1 * s, 6, laplacian=name),
                PStepRandomWalk(2.1 * s, 2, laplacian=name),
                3,
            ),
            (
                PStepRandomWalk(2.1 * s, 4, laplacian=name),
                PStepRandomWalk(2.1 * s, 1, laplacian=name),
                4,
            ),
        ]
    return [pytest.param(*case, id=f"{case[0]!r}, {case[2]}") for case in cases]


@pytest.mark.parametrize(("kernel", "root", "n"), _rooted())
def test_the_power_of_a_root_is_the_kernel(kernel: Kernel, root: Kernel, n: int) -> None:
    found = kernel.root(n)
    assert type(found) is type(root)
    assert found.laplacian == kernel.laplacian
    assert found.hyperparameters == pytest.approx(root.hyperparameters, rel=1e-14)
    exact = kernel.dense(GRAPH)
    for dense, expected in (
        (found.dense(GRAPH), exact),
        (found.dense_root(GRAPH), kernel.dense_root(GRAPH)),
    ):
        error = np.abs(np.linalg.matrix_power(dense, n) - expected).max()
        assert error < 1e-10 * np.abs(expected).max()
    # of an isolated node, whose eigenvalue is 0
    assert found.dense(GRAPH)[34, 34] ** n == pytest.approx(exact[34, 34], rel=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: InverseCosine().root(2),
            r"R\^2 = K in closed form, which InverseCosine\(\) has not",
        ),
        (
            lambda: PowerSeries(taylor=[1.0, 0.5]).root(3),
            "Diffusion, RegularizedLaplacian and Matern",
        ),
        (lambda: LearnedModulation(1, [1.0, 0.5]).root(2), "PStepRandomWalk where n divides"),
        (lambda: PStepRandomWalk(3.0, 4).root(3), "`n` must divide the 4 steps .* got 3"),
        (lambda: Diffusion().root(0), "`n` must be at least 1, got 0"),
        # Even steps need alpha >= the largest eigenvalue, odd ones alpha >= 2 c.
        (
            lambda: PStepRandomWalk(C, 2, laplacian="combinatorial").root(2).dense(GRAPH),
            "use even `steps`",
        ),
    ],
)
def test_kernels_without_a_root_say_which_have_one(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_dense_refuses_graphs_that_are_too_large() -> None:
    import scipy.sparse as sp

    with pytest.raises(ValueError, match="apply_kernel"):
        Diffusion().dense(Graph(sp.eye_array(20_001)))


def test_diffusion_whose_first_coefficients_all_underflow_costs_nothing() -> None:
    # the coefficients grow up to s l^2 / 4 = 5e11, so an array that long must not be made
    kernel = Diffusion(1.0, laplacian="combinatorial")
    assert (kernel.modulation(1000, scale=2e12) == 0).all()
    # where they are numbers, the same whatever n is
    first = int(np.flatnonzero(Diffusion(100.0).modulation(4000))[0])
    assert first > 100
    for n in (first - 1, first, first + 1, first + 2):
        np.testing.assert_array_equal(
            Diffusion(100.0).modulation(n), Diffusion(100.0).modulation(4000)[:n]
        )
