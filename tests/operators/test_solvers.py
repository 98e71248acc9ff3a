"""Solvers against dense solves: true residuals, honest status, bounds for inexact ones."""

from __future__ import annotations

import numpy as np
import pytest

from graphrf.operators.solvers import CholeskySolver, ConjugateGradients, nystrom_preconditioner


@pytest.fixture
def system():
    rng = np.random.default_rng(0)
    vectors = np.linalg.qr(rng.standard_normal((120, 120)))[0]
    kernel = (vectors * np.geomspace(50, 1e-6, 120)) @ vectors.T
    noise = rng.uniform(1e-3, 1e-2, 120)
    return kernel, noise, kernel + np.diag(noise), rng.standard_normal((120, 3))


def _plain(r):
    return r.copy()


def test_cholesky_solves_and_reports_its_residual(system):
    _, _, a, b = system
    solution = CholeskySolver(a.copy()).solve(b)
    np.testing.assert_allclose(a @ solution.value, b, atol=1e-9)
    assert solution.converged
    assert solution.residual < 1e-10


@pytest.mark.parametrize("unit", [1e-250, 1e250])
def test_cholesky_reports_its_residual_where_squares_leave_float64(system, unit):
    _, _, a, b = system
    solver = CholeskySolver(unit * a)
    one = solver.solve(unit * b)
    np.testing.assert_allclose(a @ one.value, b, atol=1e-9)
    assert 0 < one.residual < 1e-10
    solver._once = np.zeros_like
    assert solver.solve(unit * b).residual == pytest.approx(1.0)


def test_cholesky_refuses_an_indefinite_matrix():
    with pytest.raises(np.linalg.LinAlgError):
        CholeskySolver(np.diag([1.0, -1.0]))


def test_conjugate_gradients_reach_the_true_residual_that_they_report(system):
    _, _, a, b = system
    solution = ConjugateGradients(lambda x: a @ x, _plain, tol=1e-8).solve(b)
    true = np.max(np.linalg.norm(b - a @ solution.value, axis=0) / np.linalg.norm(b, axis=0))
    assert solution.converged
    assert np.isclose(solution.residual, true, rtol=1e-3)
    assert true <= 1e-8


def test_the_preconditioner_is_the_inverse_that_it_claims_and_saves_steps(system):
    kernel, noise, a, b = system
    chosen = np.arange(0, 120, 3)
    inverse = nystrom_preconditioner(kernel[:, chosen], chosen, noise)
    columns = kernel[:, chosen]
    p = columns @ np.linalg.solve(kernel[np.ix_(chosen, chosen)], columns.T) + np.diag(noise)
    np.testing.assert_allclose(p @ inverse(b), b, atol=1e-4)
    slow = ConjugateGradients(lambda x: a @ x, _plain, tol=1e-8).solve(b)
    fast = ConjugateGradients(lambda x: a @ x, inverse, tol=1e-8).solve(b)
    assert fast.converged
    assert fast.iterations < 0.7 * slow.iterations
    np.testing.assert_allclose(fast.value, np.linalg.solve(a, b), rtol=1e-5, atol=1e-6)


def test_running_out_of_steps_is_reported(system):
    _, _, a, b = system
    solution = ConjugateGradients(lambda x: a @ x, _plain, tol=1e-10, max_iterations=5).solve(b)
    assert not solution.converged
    assert solution.iterations == 5
    assert solution.residual > 1e-10


def test_a_tolerance_beyond_rounding_ends_and_is_reported(system):
    _, _, a, b = system
    solution = ConjugateGradients(lambda x: a @ x, _plain, tol=1e-17, max_iterations=100_000).solve(
        b
    )
    assert not solution.converged
    assert solution.residual < 1e-10
    assert solution.iterations < 100_000


def test_zero_right_hand_sides_and_solved_columns_stay_finite(system):
    _, _, a, b = system
    b = np.column_stack([np.zeros(120), b[:, 0], a[:, 3]])
    solution = ConjugateGradients(lambda x: a @ x, _plain, tol=1e-8).solve(b)
    assert solution.converged
    np.testing.assert_array_equal(solution.value[:, 0], 0)
    np.testing.assert_allclose(solution.value[3, 2], 1.0, rtol=1e-4)


def test_one_dimensional_right_hand_sides_come_back_so(system):
    _, _, a, b = system
    for solver in (CholeskySolver(a.copy()), ConjugateGradients(lambda x: a @ x, _plain)):
        np.testing.assert_allclose(a @ solver.solve(b[:, 0]).value, b[:, 0], atol=1e-6)
