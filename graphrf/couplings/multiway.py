"""Couplings of more than two walkers, which the paper leaves open: block-coordinate assignment.

`docs/theory/couplings.md` has the cost, which is linear in one permutation while the others are
held, and its lower bound. What it is worth (`docs/benchmarks.md`; m = 4, 8 and 16, p_halt 0.1
and 0.3, couplings learned for each graph): plain `Stratified` lengths leave 2 to 32 % of the excess
cost of independent ones, and these couplings 35 to 75 % less than that. But what then remains of a
Gram matrix's error is due to directions, so that it hardly falls: to 0.98 to 1.02 of plain
stratification's on four graphs, 0.995 on average. Sinkhorn plans of the same cost were compared
there and are not offered: they cost at most 1 part in ten thousand less, or nothing, in a hundred
or a thousand times the time.
"""

from __future__ import annotations

import numpy as np

from graphrf.couplings.linear import solve_linear, spectral_cost

# A smaller relative gain is rounding: sweeping for it might never end.
_LEAST_GAIN = 1e-12


def multiway_cost(spectra: np.ndarray, weights: np.ndarray, permutations: np.ndarray) -> float:
    """The full cost of m walkers, sum_q sum_p w_p (sum_j h_{sigma_j(q)}(lambda_p))^4.

    `spectra`, shape (order, P), are those of `tile_spectra`; `permutations`, shape (m - 1, order),
    of walkers 2 .. m.
    """
    return _cost(spectra + spectra[permutations].sum(axis=0), weights)


def solve_multiway(
    spectra: np.ndarray,
    weights: np.ndarray,
    n_walkers: int,
    *,
    rng: np.random.Generator,
    restarts: int = 4,
) -> np.ndarray:
    """Permutations of tiles for walkers 2 .. m with a small cost, shape (n_walkers - 1, order).

    Each walker is matched to the sum of those before it, then to that of all others in repeated
    sweeps until the cost stops decreasing. The same is done from `restarts` random permutations,
    which lower the cost by at most 16 parts in ten thousand (`docs/benchmarks.md`); for two
    walkers one assignment is the optimum. Cost: about 5 sweeps per start, each m (3 order^2 P +
    order^3) operations; order (order + P) floats.

    Examples
    --------
    >>> import numpy as np
    >>> spectra, weights = np.array([[0.0], [1.0], [2.0]]), np.ones(1)
    >>> permutations = solve_multiway(spectra, weights, 3, rng=np.random.default_rng(0))
    >>> multiway_cost(spectra, weights, permutations)    # every sum is 0 + 1 + 2
    243.0
    """
    tiles = _greedy(spectra, weights, n_walkers)
    least = _descend(tiles, spectra, weights)
    for _ in range(restarts if n_walkers > 2 else 0):
        other = np.stack([rng.permutation(spectra.shape[0]) for _ in range(n_walkers)])
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
        tiles[walker] = solve_linear(spectral_cost(sums, spectra, weights))
        sums += spectra[tiles[walker]]
    return tiles


def _descend(tiles: np.ndarray, spectra: np.ndarray, weights: np.ndarray) -> float:
    """Match each walker in turn to the sum of the others, in place, until a sweep gains nothing."""
    sums = spectra[tiles].sum(axis=0)
    cost = _cost(sums, weights)
    improved = True
    while improved:
        improved = False
        for walker in range(tiles.shape[0]):
            others = sums - spectra[tiles[walker]]
            matched = solve_linear(spectral_cost(others, spectra, weights))
            new_sums = others + spectra[matched]
            new_cost = _cost(new_sums, weights)
            if new_cost < cost * (1 - _LEAST_GAIN):
                tiles[walker], sums, cost = matched, new_sums, new_cost
                improved = True
    return cost
