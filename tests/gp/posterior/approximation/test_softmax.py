"""Laplace's approximation against dense algebra, scipy's optimiser and scikit-learn."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import DotProduct

from graphrf.gp.posterior.approximation import softmax as laplace
from graphrf.gp.posterior.approximation.softmax import (
    Curvature,
    evidence,
    evidence_slope,
    find_mode,
)

M, C = 12, 3


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((M, M)) * (3 / M) ** 0.5
    counts = rng.multinomial(1, [0.3, 0.3, 0.4], size=M).astype(float)
    counts[0] = [2, 1, 3]
    return root @ root.T, root, counts


def _hessian(probabilities, totals):
    """W of all nodes and classes, node by node."""
    size, classes = probabilities.shape
    result = np.zeros((size * classes, size * classes))
    for i, (p, n) in enumerate(zip(probabilities, totals, strict=True)):
        block = slice(i * classes, (i + 1) * classes)
        result[block, block] = n * (np.diag(p) - np.outer(p, p))
    return result


def test_the_mode_is_that_of_a_dense_optimiser(problem):
    matrix, root, counts = problem

    def negative(z):
        white = z.reshape(M, C)
        f = root @ white
        gradient = (
            root.T @ (counts - counts.sum(axis=1, keepdims=True) * softmax(f, axis=1)) - white
        )
        value = (
            (counts * f).sum() - counts.sum(axis=1) @ logsumexp(f, axis=1) - 0.5 * (white**2).sum()
        )
        return -value, -gradient.ravel()

    found = minimize(negative, np.zeros(M * C), jac=True, method="BFGS", options={"gtol": 1e-9})
    mode = find_mode(lambda x: matrix @ x, counts, tol=1e-10)
    assert mode.converged
    np.testing.assert_allclose(mode.latent, root @ found.x.reshape(M, C), atol=1e-7)
    np.testing.assert_allclose(mode.value, -found.fun, rtol=1e-12)
    np.testing.assert_allclose(
        mode.weights, counts - counts.sum(1, keepdims=True) * mode.probabilities, atol=1e-7
    )
    np.testing.assert_allclose(mode.weights.sum(axis=1), 0, atol=1e-9)


def test_the_mode_does_not_depend_on_the_start(problem):
    matrix, _, counts = problem
    one = find_mode(lambda x: matrix @ x, counts, tol=1e-10)
    far = 50 * np.random.default_rng(1).standard_normal((M, C))
    for start in (far, one.weights):
        other = find_mode(lambda x: matrix @ x, counts, start=start, tol=1e-10)
        np.testing.assert_allclose(other.latent, one.latent, atol=1e-7)
    assert other.iterations == 0


def test_newton_converges_fast_on_ill_conditioned_covariances():
    """Loosely solved Newton systems stall: |K| is 5,000, small eigenvalues are rounding."""
    x = np.linspace(0, 1, 300)
    matrix = 20 * np.exp(-8 * (x[:, None] - x) ** 2)
    counts = np.eye(3)[np.random.default_rng(0).integers(0, 3, 300)]
    mode = find_mode(lambda v: matrix @ v, counts)
    assert mode.converged
    assert mode.iterations <= 12


def test_curvature_is_the_dense_inverse(problem):
    matrix, _, counts = problem
    totals = counts.sum(axis=1)
    mode = find_mode(lambda x: matrix @ x, counts, tol=1e-10)
    w = _hessian(mode.probabilities, totals)
    whole = np.kron(matrix, np.eye(C))
    dense = np.linalg.solve(np.eye(M * C) + whole @ w, whole)
    curvature = Curvature(matrix, mode.probabilities, totals)
    np.testing.assert_allclose(
        curvature.log_determinant, np.linalg.slogdet(np.eye(M * C) + whole @ w)[1], rtol=1e-10
    )
    blocks = curvature.covariances(matrix, np.diagonal(matrix))
    for i in range(M):
        own = slice(i * C, (i + 1) * C)
        np.testing.assert_allclose(blocks[i], dense[own, own], atol=1e-9)
    middle = (w - w @ dense @ w).reshape(M, C, M, C)
    x = np.random.default_rng(2).standard_normal((M, C))
    np.testing.assert_allclose(curvature.apply(x), np.einsum("iajb,jb->ia", middle, x), atol=1e-9)
    np.testing.assert_allclose(curvature.trace(), np.einsum("iaja->ij", middle), atol=1e-9)


def test_covariances_at_new_nodes_are_the_dense_ones(problem):
    matrix, _, counts = problem
    known = np.arange(M - 2)
    mode = find_mode(lambda x: matrix[np.ix_(known, known)] @ x, counts[known], tol=1e-10)
    curvature = Curvature(
        matrix[np.ix_(known, known)], mode.probabilities, counts[known].sum(axis=1)
    )
    w = np.zeros((M * C, M * C))
    w[: known.size * C, : known.size * C] = _hessian(mode.probabilities, counts[known].sum(axis=1))
    whole = np.kron(matrix, np.eye(C))
    dense = np.linalg.solve(np.eye(M * C) + whole @ w, whole)
    blocks = curvature.covariances(matrix[np.ix_(known, [M - 1])], matrix[[M - 1], [M - 1]])
    np.testing.assert_allclose(blocks[0], dense[-C:, -C:], atol=1e-9)


def test_the_gradient_is_that_of_finite_differences(problem):
    matrix, _, counts = problem
    step = np.random.default_rng(3).standard_normal((M, M))
    step = step @ step.T
    result = evidence(matrix, counts)
    h = 1e-5
    ends = [evidence(matrix + sign * h * step, counts).value for sign in (1, -1)]
    slope = (ends[0] - ends[1]) / (2 * h)
    np.testing.assert_allclose(
        np.vdot(evidence_slope(matrix, counts, result), step), slope, rtol=1e-5
    )
    # negative control: without the movement of the mode
    # the gradient is wrong, and the difference seen
    curvature = Curvature(matrix, result.mode.probabilities, counts.sum(axis=1))
    explicit = 0.5 * (result.mode.weights @ result.mode.weights.T - curvature.trace())
    assert abs(np.vdot(explicit, step) / slope - 1) > 1e-3


def test_two_classes_are_the_logistic_approximation():
    """f_1 - f_0 has covariance 2 K, and their sum is independent of the labels."""
    rng = np.random.default_rng(4)
    root = rng.standard_normal((15, 6))
    labels = (rng.random(15) < 0.6).astype(int)
    binary = GaussianProcessClassifier(
        DotProduct(0.0, "fixed"), optimizer=None, max_iter_predict=1000
    )
    binary.fit(2**0.5 * root, labels)
    result = evidence(root @ root.T, np.eye(2)[labels])
    np.testing.assert_allclose(result.value, binary.log_marginal_likelihood_value_, rtol=1e-5)
    np.testing.assert_allclose(
        result.mode.latent[:, 1] - result.mode.latent[:, 0],
        2 * root @ (root.T @ (labels - binary.base_estimator_.pi_)),
        atol=1e-4,
    )


def test_a_step_that_leads_downhill_is_solved_more_closely(monkeypatch):
    """Rounding in conjugate gradients makes such steps for large K: the mode is reached."""
    rng = np.random.default_rng(5)
    root = rng.normal(size=(12, 6))
    matrix = root @ root.T
    counts = np.eye(3)[rng.integers(0, 3, 12)]
    wanted = laplace.find_mode(lambda x: matrix @ x, counts)
    solved, asked = laplace._newton, []

    def downhill_unless_close(product, s, roots, gradient, steep, tol):
        asked.append(tol)
        move = solved(product, s, roots, gradient, steep, tol)
        return move if tol < 1e-8 else -move

    monkeypatch.setattr(laplace, "_newton", downhill_unless_close)
    mode = laplace.find_mode(lambda x: matrix @ x, counts)
    assert mode.converged
    assert max(asked) > 1e-8 > min(asked)
    np.testing.assert_allclose(mode.latent, wanted.latent, atol=1e-6)
