"""Learning a coupling of walk lengths for a graph, a kernel and a law."""

from __future__ import annotations

import numpy as np

from graphrf import _checks
from graphrf._kernel import require_kernel
from graphrf.graph import Graph
from graphrf.kernels import Kernel, RegularizedLaplacian
from graphrf.lengths import Coupling, Survival
from graphrf.matching.linear import pair_cost, solve_linear, spectral_cost
from graphrf.matching.quantiles import tile_modulations, tile_products, tile_spectra
from graphrf.matching.spectrum import density_of_states

SOLVERS = ("linear",)
OBJECTIVES = ("gram",)


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
    seed: int | None = None,
) -> Coupling:
    r"""The permutation that couples the lengths of two walks so that kernel estimates vary least.

    The unit interval of each walk's uniform is cut into `order` tiles, the direction-averaged features psi^(q)
    of every tile are computed exactly, and tiles of the two walks are matched to minimise

    .. math:: \sum_q \Big[ (\psi^{(q)} + \psi^{(\sigma(q))})_i \cdot (\psi^{(q)} + \psi^{(\sigma(q))})_j \Big]^2

    averaged over node pairs (i, j) (Eq. 56 of the paper). The mean over all pairs depends on the graph only
    through the spectrum of its walk matrix, so it costs no more on a large graph than its density of states.

    Parameters
    ----------
    graph : Graph, optional
        Default: an Erdos-Renyi graph of 100 nodes with edge probability 0.1, as in the paper (which does not
        give the probability).
    kernel : Kernel, optional
        Default: the 2-regularised Laplacian kernel with lengthscale 1, as in the paper.
    p_halt : float in (0, 1), or Survival
        The law of lengths.
    order : int
        Number of tiles, at least 2; 30 in the paper for Gram matrices, 50 for Gaussian processes.
    solver : {"linear"}
        Hungarian algorithm on Eq. 56.
    objective : {"gram"}
        What shall vary least: the Gram matrix.
    n_walkers : int
        2.
    pairs : int, optional
        Average over so many random node pairs instead of all.
    seed : int, optional
        For `pairs`, and for the probes of the density of states on graphs of more than 1,000 nodes. The default
        is 0, since the result is an optimum and not a sample.

    Returns
    -------
    Coupling
        With the objective before (for independent tiles) and after.

    Notes
    -----
    Cost: O(N^3) up to 1,000 nodes, beyond that 480 sparse products; O(order^3) for the matching.

    Source: the paper (Reid et al. 2024), Sec. 4.1 and App. C.3.

    Examples
    --------
    >>> import graphrf as grf
    >>> coupling = grf.learn_coupling(p_halt=0.3, order=10)
    >>> coupling.cost_after < coupling.cost_before
    True
    >>> law = grf.SigmaCoupled(coupling)
    """
    _checks.integer("order", order, low=2, high=1_000)
    _checks.choice("solver", solver, SOLVERS)
    _checks.choice("objective", objective, OBJECTIVES)
    _checks.integer("n_walkers", n_walkers, low=2, high=2)
    survival = p_halt if isinstance(p_halt, Survival) else Survival.geometric(p_halt)
    rng = np.random.default_rng(0 if seed is None else _checks.integer("seed", seed, low=0))
    if graph is None:
        graph, graph_name = erdos_renyi(100, 0.1), "Erdos-Renyi, 100 nodes, edge probability 0.1"
    else:
        graph_name = repr(graph)
    kernel = RegularizedLaplacian(1.0, 2) if kernel is None else kernel
    scale = require_kernel(kernel).check_graph(graph)
    modulation = kernel.modulation(survival.table.size, scale=None if kernel.laplacian == "normalized" else scale)
    coefficients = tile_modulations(modulation, survival, order)
    if pairs is None:
        points, weights = density_of_states(graph, kernel.laplacian, rng)
        cost = spectral_cost(tile_spectra(coefficients, points), weights)
    else:
        pairs = _checks.integer("pairs", pairs, low=1)
        ends = rng.integers(0, graph.n_nodes, (2, pairs))
        cost = pair_cost(tile_products(coefficients, graph.walk_matrix(kernel.laplacian), ends[0], ends[1]))
    permutation = solve_linear(cost)
    return Coupling(
        permutations=permutation[None, :],
        p_halt=None if isinstance(p_halt, Survival) else float(p_halt),
        objective=objective,
        solver=solver,
        kernel=repr(kernel),
        graph=graph_name,
        cost_before=float(cost.sum() / order),
        cost_after=float(cost[np.arange(order), permutation].sum()),
    )


def erdos_renyi(n_nodes: int, probability: float, seed: int = 0) -> Graph:
    """An Erdos-Renyi graph G(n, p)."""
    upper = np.triu(np.random.default_rng(seed).random((n_nodes, n_nodes)) < probability, 1)
    return Graph(upper | upper.T)
