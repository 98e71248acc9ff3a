r"""Couplings of more than two walkers, which the paper leaves open: block-coordinate assignment on the full cost.

Walker j draws its length from tile sigma_j(q), q uniform and shared by all m walkers. The cost of Eq. 56 of the
paper, averaged over all node pairs, is then

.. math:: C(\sigma_1, \ldots, \sigma_m) = \sum_q \sum_p w_p \Big( \sum_j h_{\sigma_j(q)}(\lambda_p) \Big)^4,

which is linear in one permutation while the others are held: a Hungarian assignment finds it exactly. By convexity
no coupling falls below `order` times sum_p w_p (m mean_q h_q(lambda_p))^4, the cost of a sum that does not vary.
At order m the cyclic shifts of `Stratified` lengths reach this bound: whatever q is, each tile is drawn once. What
they leave is the variance within the tiles, and finer tiles see it.

What it is worth (`benchmarks/multiway.py`; m = 4, 8 and 16, p_halt 0.1 and 0.3, couplings learned for each graph):
plain `Stratified` lengths leave 2 to 32 % of the excess cost of independent ones, and these couplings 35 to 75 %
less than that. But what then remains of a Gram matrix's error is due to directions, stratified or not, so that it
hardly falls: to 0.98 to 1.02 of plain stratification's on four graphs, 0.995 on average. Stratified lengths need
no learning; prefer them.

Sinkhorn plans of the same cost were compared there and are not offered. The plan of all m walkers, a tensor of
order^m entries, reaches the optimum at order 10, at most about 1 part in ten thousand of the cost below the
assignments, in a thousand times their time, and is out of reach at order 30. Annealed walker by walker, plans cost
no less than assignments in seven of eight settings and take a hundred times as long or more.
"""

from __future__ import annotations

import numpy as np

from graphrf._base import checks
from graphrf.couplings.linear import fourth_powers, solve_linear

# A smaller relative gain is rounding: sweeping for it might never end.
_LEAST_GAIN = 1e-12


def multiway_cost(spectra: np.ndarray, weights: np.ndarray, permutations: np.ndarray) -> float:
    r"""The full cost of m walkers, sum_q sum_p w_p (sum_j h_{sigma_j(q)}(lambda_p))^4.

    Parameters
    ----------
    spectra : ndarray of float64, shape (order, P)
        h_q(lambda_p), the direction-averaged features of every tile (`tile_spectra`).
    weights : ndarray of float64, shape (P,)
        Not negative: the density of states (`density_of_states`).
    permutations : ndarray of int, shape (n_walkers - 1, order)
        Of walkers 2 .. m; the first walker's is the identity.

    Returns
    -------
    float
        For two walkers it equals sum_q C[q, sigma(q)] of `spectral_cost`.

    Notes
    -----
    Cost: m order P operations, order P floats.

    Source: the paper (Reid et al. 2024), Eq. 56, for any number of walkers.

    Examples
    --------
    >>> import numpy as np
    >>> multiway_cost(np.array([[0.0], [1.0]]), np.ones(1), np.array([[1, 0]]))    # (0 + 1)^4 + (1 + 0)^4
    2.0
    """
    return _cost(spectra + spectra[permutations].sum(axis=0), weights)


def solve_multiway(
    spectra: np.ndarray, weights: np.ndarray, n_walkers: int, *, rng: np.random.Generator, restarts: int = 4
) -> np.ndarray:
    r"""Permutations of tiles for walkers 2 .. m that make the full cost small.

    Each walker is matched to the sum of those before it, then to that of all others in repeated sweeps until the
    cost stops decreasing. The same is done from random permutations, and the least cost is kept.

    Parameters
    ----------
    spectra : ndarray of float64, shape (order, P)
        h_q(lambda_p), the direction-averaged features of every tile (`tile_spectra`).
    weights : ndarray of float64, shape (P,)
        Not negative: the density of states (`density_of_states`).
    n_walkers : int
        m, at least 2.
    rng : numpy Generator
        For the random starts; equal states give equal permutations.
    restarts : int
        Number of random starts in addition to the greedy one, at least 0. They lower the cost little: by at most
        16 parts in ten thousand at order 10 and 0.6 at order 30 (`benchmarks/multiway.py`). For two walkers none
        is made: one assignment is the optimum.

    Returns
    -------
    ndarray of int64, shape (n_walkers - 1, order)
        Each row a permutation of 0 .. order - 1; the first walker's, the identity, is left out.

    Raises
    ------
    TypeError, ValueError
        If `n_walkers` or `restarts` is no integer in its range.

    Notes
    -----
    The result is a local optimum: no single walker can be matched better. Cost: about 5 sweeps per start, each
    m (3 order^2 P + order^3) operations; order (order + P) floats.

    Source: the paper (Reid et al. 2024), Eq. 56 and App. C.3, for any number of walkers.

    Examples
    --------
    >>> import numpy as np
    >>> spectra, weights = np.array([[0.0], [1.0], [2.0]]), np.ones(1)
    >>> permutations = solve_multiway(spectra, weights, 3, rng=np.random.default_rng(0))
    >>> multiway_cost(spectra, weights, permutations)    # every sum is 0 + 1 + 2
    243.0
    """
    n_walkers = checks.integer("n_walkers", n_walkers, low=2)
    restarts = checks.integer("restarts", restarts, low=0) if n_walkers > 2 else 0
    order = spectra.shape[0]
    tiles = _greedy(spectra, weights, n_walkers)
    least = _descend(tiles, spectra, weights)
    for _ in range(restarts):
        other = np.stack([rng.permutation(order) for _ in range(n_walkers)])
        cost = _descend(other, spectra, weights)
        if cost < least:
            tiles, least = other, cost
    # q is uniform, so it may be renamed: the first walker's tile becomes q.
    return tiles[1:, np.argsort(tiles[0])]


def _cost(sums: np.ndarray, weights: np.ndarray) -> float:
    """sum_q sum_p w_p sums[q, p]^4."""
    return float((sums**4 @ weights).sum())


def _greedy(spectra: np.ndarray, weights: np.ndarray, n_walkers: int) -> np.ndarray:
    """Tiles (n_walkers, order) of every q, each walker matched to the sum of those before it."""
    tiles = np.tile(np.arange(spectra.shape[0]), (n_walkers, 1))
    sums = spectra.copy()
    for walker in range(1, n_walkers):
        tiles[walker] = solve_linear(fourth_powers(sums, spectra, weights))
        sums += spectra[tiles[walker]]
    return tiles


def _descend(tiles: np.ndarray, spectra: np.ndarray, weights: np.ndarray) -> float:
    """Match every walker in turn to the sum of the others, in place, until a sweep gains nothing; the cost."""
    sums = spectra[tiles].sum(axis=0)
    cost = _cost(sums, weights)
    improved = True
    while improved:
        improved = False
        for walker in range(tiles.shape[0]):
            others = sums - spectra[tiles[walker]]
            matched = solve_linear(fourth_powers(others, spectra, weights))
            new_sums = others + spectra[matched]
            new_cost = _cost(new_sums, weights)
            if new_cost < cost * (1 - _LEAST_GAIN):
                tiles[walker], sums, cost = matched, new_sums, new_cost
                improved = True
    return cost
