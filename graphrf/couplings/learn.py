"""Learning a coupling of walk lengths for a graph, a kernel and a distribution of lengths."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from graphrf._base import checks
from graphrf.couplings.exhaustive import LARGEST_ORDER, solve_exhaustive
from graphrf.couplings.linear import (
    independent_cost,
    linear_cost,
    pair_cost,
    solve_linear,
    spectral_cost,
)
from graphrf.couplings.multiway import multiway_cost, solve_multiway
from graphrf.couplings.pagerank_cost import pagerank_cost
from graphrf.couplings.projection import projected_form, projection_candidates
from graphrf.couplings.quadratic import QuadraticCost, local_search, pair_form, spectral_form
from graphrf.couplings.quantiles import tile_modulations, tile_products, tile_spectra
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel, require_kernel
from graphrf.kernels.named import RegularizedLaplacian
from graphrf.operators.series.density_of_states import density_of_states
from graphrf.sampling.walks.coupling import Coupling
from graphrf.sampling.walks.lengths import Survival

SOLVERS = ("linear", "quadratic", "projection", "exhaustive")
OBJECTIVES = ("gram", "pagerank")

_LARGEST_QUADRATIC = 100  # its terms take order^2 floats some ten to fifty times
_CANDIDATES = 100
# Starts of the local search beside the linear solution.
_PROJECTED_STARTS = 4
_RANDOM_STARTS = 4


def learn_coupling(
    graph: Graph | None = None,
    kernel: Kernel | None = None,
    *,
    p_halt: float | Survival = 0.1,
    order: int = 30,
    solver: str = "linear",
    objective: str = "gram",
    n_walkers: int = 2,
    pairs: int | None = None,
    projections: int | None = None,
    seed: int | None = None,
) -> Coupling:
    r"""Permutations that couple the lengths of walks so that estimates have the least variance.

    Tile q of one walker's uniform is matched to tile sigma(q) of the other's. The
    direction-averaged features psi^(q) of every tile are computed exactly (Eq. 54 of the paper),
    and the objective is, averaged over node pairs (i, j),

    .. math::
        \text{Eq. 56:}\quad & \sum_q \big[ (\psi^{(q)} + \psi^{(\sigma(q))})_i
            \cdot (\psi^{(q)} + \psi^{(\sigma(q))})_j \big]^2, \\
        \text{Eq. 55:}\quad & \sum_q \sum_r \big[ (\psi^{(q)} + \psi^{(\sigma(q))})_i
            \cdot (\psi^{(r)} + \psi^{(\sigma(r))})_j \big]^2.

    The mean over all pairs (i = j included) depends on the graph only through the spectrum of its
    walk matrix, so learning costs no more than its density of states (`docs/theory/couplings.md`).

    Source: the paper (Reid et al. 2024), Sec. 4.1, App. C.3 and C.3.1, and App. E for PageRank.

    Parameters
    ----------
    graph : Graph, optional
        Undirected for the objective "gram". Default: an Erdos-Renyi graph of 100 nodes with edge
        probability 0.1, as in the paper (which does not give the probability).
    kernel : Kernel, optional
        Default: the 2-regularised Laplacian kernel with lengthscale 1, as in the paper. None for
        PageRank.
    p_halt : float in (0, 1), or Survival
        The distribution of walk lengths.
    order : int
        Number of tiles, from 2 to 1,000 (100 for "quadratic" and "projection", 9 for "exhaustive");
        in the paper 30 for Gram matrices, 50 for Gaussian processes, 10 for PageRank.
    solver : {"linear", "quadratic", "projection", "exhaustive"}
        "linear" minimises Eq. 56, for more than two walkers its full sum by assigning one walker at
        a time; use it: in the true error of Gram matrices all solvers agree to five digits, 0.1 to
        13 % below that of independent lengths, and only modulations with large negative terms make
        a difference, of up to 0.7 % in either direction (`docs/benchmarks.md`). The
        others minimise Eq. 55: "quadratic" by exchanging two images at a time, from the linear
        solution, four candidates of "projection" (not with `pairs`) and four random permutations;
        "projection" among 100 candidates of Hungarian algorithms on random projections (after Lemma
        C.2 of the paper); "exhaustive" over all permutations.
    objective : {"gram", "pagerank"}
        Whose variance is minimised: the Gram matrix, or PageRank scores from end points, whose
        exact summed variance is linear in sigma (Eq. 82 of the paper; solver "linear").
    n_walkers : int
        Number of walks that are coupled with each other, 2 to 64; more than 2 need the solver
        "linear" and the objective "gram", and `Stratified` lengths, which need no learning, do as
        well (`docs/benchmarks.md`).
    pairs : int, optional
        Average over this number of random node pairs instead of all, exactly for each; only for two
        walkers, the objective "gram", and the solvers "linear", "quadratic" and "exhaustive".
    projections : int, optional
        With the solver "quadratic": search on an estimate of Eq. 55 by this number of random
        projections (Eq. 62). The exact form is as small and faster, and an error of 1 % may take
        80,000 projections.
    seed : int, optional
        For random pairs, sources, starts and projections, and for the probes of the density of
        states on graphs of more than 1,000 nodes. The default is 0, since the result is an optimum
        and not a sample.

    Returns
    -------
    Coupling
        Permutations of shape (n_walkers - 1, order), the settings, and the exact cost that the
        solver minimised as a sum over tiles: `cost_after` for these permutations, `cost_before` for
        tiles drawn independently.

    Notes
    -----
    Cost: O(N^3) for the spectrum up to 1,000 nodes, above that 480 sparse products (60 on graphs of
    more than half a million nodes) and memory for four vectors of N floats; with `pairs`, 2 K
    sparse products with as many columns. Then O(order^3) for "linear"; for "quadratic" O(order^2 R)
    per step and some `order` steps per start, where R, about 10 for all pairs, is the rank of Eq.
    55 as a quadratic form; order! R for "exhaustive".

    Examples
    --------
    >>> import graphrf as grf
    >>> coupling = grf.couplings.learn_coupling(p_halt=0.3, order=10)
    >>> coupling.cost_after < coupling.cost_before
    True
    >>> lengths = grf.sampling.SigmaCoupled(coupling)
    >>> grf.couplings.learn_coupling(p_halt=0.3, order=8, n_walkers=4).permutations.shape
    (3, 8)
    """
    order = checks.integer("order", order, low=2, high=1_000)
    checks.choice("solver", solver, SOLVERS)
    checks.choice("objective", objective, OBJECTIVES)
    n_walkers = checks.integer("n_walkers", n_walkers, low=2, high=64)
    pairs = None if pairs is None else checks.integer("pairs", pairs, low=1)
    projections = None if projections is None else checks.integer("projections", projections, low=1)
    seed = 0 if seed is None else checks.integer("seed", seed, low=0)
    _check_together(order, solver, objective, n_walkers, kernel, pairs, projections)

    survival = p_halt if isinstance(p_halt, Survival) else Survival.geometric(p_halt)
    rng = np.random.default_rng(seed)
    if graph is None:
        graph, graph_name = erdos_renyi(100, 0.1), "Erdos-Renyi, 100 nodes, edge probability 0.1"
    else:
        graph_name = repr(graph)

    if objective == "pagerank":
        found = _match_linear(pagerank_cost(graph, survival, order, rng=rng))
    else:
        kernel = RegularizedLaplacian(1.0, 2) if kernel is None else kernel
        scale = require_kernel(kernel).check_graph(graph)
        scale_given = None if kernel.laplacian == "normalized" else scale
        coefficients = tile_modulations(
            kernel.modulation(survival.table.size, scale_given), survival, order
        )
        if pairs is None:
            points, weights = density_of_states(graph, kernel.laplacian, rng)
            found = _match_spectra(
                tile_spectra(coefficients, points), weights, solver, n_walkers, projections, rng
            )
        else:
            ends = rng.integers(0, graph.n_nodes, (2, pairs))
            products = tile_products(
                coefficients, graph.walk_matrix(kernel.laplacian), ends[0], ends[1]
            )
            found = _match_pairs(products, coefficients, solver, rng)

    return Coupling(
        permutations=found.permutations,
        p_halt=None if isinstance(p_halt, Survival) else float(p_halt),
        objective=objective,
        solver=solver,
        kernel="" if kernel is None else repr(kernel),
        graph=graph_name,
        cost_before=found.before,
        cost_after=found.after,
        law=repr(p_halt) if isinstance(p_halt, Survival) else "",
        pairs=pairs,
        projections=projections,
        seed=seed,
    )


class _Found(NamedTuple):
    """Permutations, shape (n_walkers - 1, order), with their cost and that of independent tiles."""

    permutations: np.ndarray
    before: float
    after: float


def _match_linear(cost: np.ndarray) -> _Found:
    permutation = solve_linear(cost)
    return _Found(
        permutation[None, :], float(cost.sum() / len(cost)), linear_cost(cost, permutation)
    )


def _match_pairs(
    products: np.ndarray, coefficients: np.ndarray, solver: str, rng: np.random.Generator
) -> _Found:
    """Tiles matched on the mean over sampled pairs."""
    linear = _match_linear(pair_cost(products))
    if solver == "linear":
        return linear
    cost = pair_form(products, coefficients)
    if solver == "exhaustive":
        return _judged(cost, solve_exhaustive(cost))
    return _judged(cost, local_search(cost, _with_random(linear.permutations, rng)))


def _match_spectra(
    spectra: np.ndarray,
    weights: np.ndarray,
    solver: str,
    n_walkers: int,
    projections: int | None,
    rng: np.random.Generator,
) -> _Found:
    """Tiles matched on the mean over all pairs, which the spectrum of W gives."""
    if n_walkers > 2:
        permutations = solve_multiway(spectra, weights, n_walkers, rng=rng)
        after = multiway_cost(spectra, weights, permutations)
        return _Found(permutations, independent_cost(spectra, weights, n_walkers), after)
    linear = _match_linear(spectral_cost(spectra, spectra, weights))
    if solver == "linear":
        return linear
    cost = spectral_form(spectra, weights)
    if solver == "exhaustive":
        return _judged(cost, solve_exhaustive(cost))
    if solver == "projection":
        candidates = projection_candidates(spectra, weights, _CANDIDATES, rng)
        return _judged(cost, candidates[cost(candidates).argmin()])
    projected = projection_candidates(spectra, weights, _PROJECTED_STARTS, rng)
    starts = _with_random(np.concatenate([linear.permutations, projected]), rng)
    searched = cost if projections is None else projected_form(spectra, weights, projections, rng)
    return _judged(cost, local_search(searched, starts))


def _judged(cost: QuadraticCost, permutation: np.ndarray) -> _Found:
    return _Found(permutation[None, :], cost.independent, float(cost(permutation)))


def _with_random(starts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """`starts` and a few random permutations."""
    return np.concatenate(
        [starts, [rng.permutation(starts.shape[1]) for _ in range(_RANDOM_STARTS)]]
    )


def _check_together(
    order: int,
    solver: str,
    objective: str,
    n_walkers: int,
    kernel: Kernel | None,
    pairs: int | None,
    projections: int | None,
) -> None:
    """Raise `ValueError` for settings that are legal by themselves and not together."""
    if objective == "pagerank":
        if solver != "linear":
            raise checks.value_error(
                "solver",
                f"must be 'linear' for the objective 'pagerank', got {solver!r}: it is exact",
            )
        if kernel is not None:
            raise checks.value_error(
                "kernel", f"must be None for the objective 'pagerank', got {kernel!r}"
            )

    if n_walkers > 2:
        if solver != "linear":
            raise checks.value_error(
                "solver", f"must be 'linear' for more than two walkers, got {solver!r}"
            )
        if objective != "gram":
            raise checks.value_error(
                "objective", f"must be 'gram' for more than two walkers, got {objective!r}"
            )

    if pairs is not None and (
        objective != "gram" or n_walkers > 2 or solver == "projection" or projections
    ):
        raise checks.value_error(
            "pairs",
            f"must be None, got {pairs}: the objective 'pagerank', more than two walkers, the "
            "solver 'projection' and `projections` take the mean over all pairs",
        )
    if projections is not None and solver != "quadratic":
        raise checks.value_error(
            "projections", f"must be None unless the solver is 'quadratic', got {projections}"
        )

    most = {"linear": 1_000, "exhaustive": LARGEST_ORDER}.get(solver, _LARGEST_QUADRATIC)
    if order > most:
        raise checks.value_error(
            "order", f"must be at most {most} for the solver {solver!r}, got {order}"
        )


def erdos_renyi(n_nodes: int, probability: float, seed: int = 0) -> Graph:
    """An Erdos-Renyi graph G(n, p)."""
    upper = np.triu(np.random.default_rng(seed).random((n_nodes, n_nodes)) < probability, 1)
    return Graph(upper | upper.T)
