r"""The distribution of lengths of least variance times cost for a kernel, from a pilot."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy import optimize
from scipy.linalg import toeplitz

from graphrf._base import checks
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel, require_kernel
from graphrf.sampling.walks.lengths import LONGEST_WALK, LengthLaw, Stratified, Survival, Truncated
from graphrf.sampling.walks.random_walks import AdaptiveLengths, RandomWalks

# Maximum and minimum sources of a pilot, and their approximate visits. The error of S is a few per
# cent, which affects the objective, at its minimum, in second order only.
_SOURCES, _FEWEST_SOURCES, _VISITS = 512, 16, 1_000_000
# Streams above the seeds of users, so that lengths do not depend on the walks that use them.
_PILOT_SEEDS = (2**63, 2**63 + 1)
_COUPLINGS = ("stratified", "independent")


@dataclass(frozen=True, repr=False)
class AutoLengths(AdaptiveLengths):
    r"""Lengths for one kernel: stratified, with the S that minimises variance times cost.

    `RandomWalks` compute the table when they are prepared, from a pilot with the same number of
    walks and directions. It is a deterministic function of the graph, the kernel and the sampler,
    independent of every seed, so that features stay unbiased.

    .. math:: \min_S \Big(V_1 + \sum_{k \ge 1} n_k \big(\tfrac{1}{S(k)} - 1\big)\Big) \sum_{k \ge
        0} S(k),
              \qquad 1 = S(0) \ge S(1) \ge \dots > 0.

    The first factor is the variance of the features, V_1 without termination; the second the mean
    number of visits of a walk. At the optimum S(k) is min(1, sqrt(n_k C / V)) with the cost C and
    the variance V at S itself (`docs/theory/samplers.md`).

    Walks become shorter, so compare at equal `Features.n_steps`, not at equal n_walks: on four
    graphs with four kernels (`docs/benchmarks.md`) 0.17 to 0.70 of the Gram error of
    Stratified(0.1), and 0.6 to 0.8 of that of Truncated(kernel.truncation_length(1e-3)), except on
    a mesh with nearly all degrees 3 and the shortest kernel, where numbers of walks that 3 divides
    are often much better than others.

    Source: Rhee and Glynn, "Unbiased estimation with square root convergence for SDE models",
    Operations Research 63 (2015), for S without the bound 1 and V without the constant.

    Parameters
    ----------
    kernel : Kernel
        Others of its Laplacian are served without bias too, with more variance
        (`HeavyTailWarning`).
    tol : float in (0, 1)
        The table ends after `kernel.truncation_length(tol)` steps: F is off by at most tol sum
        |f_k| in operator norm, and K by at most 2 tol (sum |f_k|)^2 (`Features.truncation_error`).
    max_length : int
        Maximum length of walks for any `tol`: for kernels whose modulation decays slowly.
        ValueError, when walks are prepared, if so much of the kernel is above it that its Gram
        matrix might be off by a tenth of its bound.

    Notes
    -----
    For independent lengths n_k is nu_k / m (`docs/theory/features.md`). For stratified ones the
    number of walks that reach step k is m S(k) up to rounding, so only their nodes vary. With X_k
    the mean over the m walks of i, without termination, of the unit vectors of their nodes after k
    steps times sqrt(d_i / d_v),

    .. math:: n_k = f_k^2 C_{kk} + 2 f_k \sum_{l > k} f_l C_{kl}, \qquad
              C_{kl} = \operatorname{mean}_i \operatorname{tr} \operatorname{Cov}(X_k, X_l), \qquad
              V_1 = \sum_k n_k,

    estimated from pairs of independent samples. For stratified directions a second pilot with this
    table corrects n_k. Cost: two pilots of two samples of 512 sources or about a million visits,
    whichever is less (but at least 16 sources), O(edges) to prepare each, and a few matrices of
    (L + 1)^2 floats, L the last step.

    Examples
    --------
    >>> import networkx as nx, graphrf as grf
    >>> graph = grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(20, 20)))
    >>> kernel = grf.Diffusion(lengthscale=2.0)
    >>> sampler = grf.RandomWalks(n_walks=64, lengths=grf.sampling.AutoLengths(kernel))
    >>> sampler.resolved(graph).lengths.survival.max_length == kernel.truncation_length(1e-4)
    True
    """

    kernel: Kernel
    tol: float = field(default=1e-4, kw_only=True)
    max_length: int = field(default=256, kw_only=True)

    def __post_init__(self) -> None:
        require_kernel(self.kernel)
        tol = checks.number("tol", self.tol, low=0, high=1, include_low=False, include_high=False)
        object.__setattr__(self, "tol", tol)
        checks.integer("max_length", self.max_length, low=1, high=LONGEST_WALK)

    @property
    def laplacian(self) -> str:
        """Laplacian of the kernel."""
        return self.kernel.laplacian

    def __repr__(self) -> str:
        return f"AutoLengths({self.kernel!r}, tol={self.tol:g}, max_length={self.max_length})"

    def law(self, graph: Graph, sampler: RandomWalks) -> Stratified:
        """The distribution of lengths for a sampler on a graph."""
        return Stratified(
            self.survival(graph, n_walks=sampler.n_walks, directions=sampler.directions)
        )

    def survival(
        self,
        graph: Graph,
        *,
        n_walks: int = 32,
        directions: str = "stratified",
        coupling: str = "stratified",
    ) -> Survival:
        """The survival table for a graph; all distributions of lengths accept one as `p_halt`.

        Parameters
        ----------
        graph : Graph
            Undirected.
        n_walks, directions
            Settings of the `RandomWalks` that will use the table.
        coupling : {"stratified", "independent"}
            Coupling of the lengths: "stratified" for `Stratified`; "independent" for `IID`, and
            also for `Antithetic` and `SigmaCoupled`, in which the number of walks that continue
            fluctuates too.

        Examples
        --------
        >>> import networkx as nx, graphrf as grf
        >>> graph = grf.Graph(nx.to_scipy_sparse_array(nx.karate_club_graph()))
        >>> choice = grf.sampling.AutoLengths(grf.Diffusion(lengthscale=1.0))
        >>> lengths = grf.sampling.IID(choice.survival(graph, n_walks=8, coupling="independent"))
        """
        checks.choice("coupling", coupling, _COUPLINGS)
        scale = self.kernel.check_graph(graph)
        length = self._length(scale)
        f = self.kernel.modulation(length + 1, scale)

        def pilot(law: LengthLaw) -> _Moments:
            return _pilot(
                graph, RandomWalks(n_walks, law, directions=directions, laplacian=self.laplacian)
            )

        def table(gain: np.ndarray, variance: float) -> Survival:
            return Survival(np.maximum(optimal_survival(gain, variance), floor))

        rest = np.cumsum(np.abs(f[::-1]))[::-1]
        floor = rest / rest[0]
        endless = pilot(Truncated(length))
        gain = _per_step(f, endless.covariance)
        variance = float(gain.sum())
        if coupling == "independent":
            return table(_per_step(f, toeplitz(endless.returns)) / n_walks, variance)
        first = table(gain, variance)
        gain[: first.table.size] = first.table * _per_step(
            f[: first.table.size], pilot(Stratified(first)).covariance
        )
        return table(gain, float(gain.sum()))

    def _length(self, scale: float) -> int:
        """The last step of the table; ValueError if too much of the kernel is above it."""
        total = self.kernel.modulation_tail(-1, scale)
        tail = self.kernel.modulation_tail(self.max_length, scale)
        if tail <= self.tol * total:
            return self.kernel.truncation_length(self.tol, scale)
        if tail * (2 * total - tail) > 0.1 * total**2:
            raise checks.value_error(
                "max_length",
                f"must be larger for {self.kernel!r}, got {self.max_length}: {tail / total:.0%} of "
                "sum |f_k| lies above; raise it, or use the exact series (graphrf.apply_kernel, or "
                "method='series' of GraphGPRegressor)",
            )
        return self.max_length


def optimal_survival(gain: np.ndarray, variance: float) -> np.ndarray:
    r"""The S, 1 = S_0 >= S_1 >= ..., of least (variance + sum_k gain_k (1/S_k - 1)) sum_k S_k.

    `variance` is that at S = 1; gain_0 is not used. For any price of the cost, the best S is min(1,
    x sqrt(q)), where q is `gain` averaged over blocks where it increases (isotonic regression) and
    x the price to the power -1/2. While `capped` steps have S = 1, the objective is (a + r / x)
    (capped + 1 + r x), whose minimum in x is known; the best of these candidates is taken. If
    q <= 0, termination costs nothing, and S = 0.
    """
    table = np.ones(gain.size)
    if variance <= 0 or gain.size == 1:
        return table
    root = np.sqrt(np.maximum(optimize.isotonic_regression(gain[1:], increasing=False).x, 0.0))
    steps = int(np.count_nonzero(root))
    best = np.inf
    for capped in range(steps + 1):
        rest = root[capped:steps]
        r, a = float(rest.sum()), variance - float(rest @ rest)
        # The range of x in which step `capped` is the last with S = 1.
        low = 1.0 / root[capped - 1] if capped else 0.0
        high = 1.0 / root[capped] if capped < steps else low
        x = min(max(np.sqrt((capped + 1) / a) if a > 0 else high, low), high)
        objective = (a + r / x) * (capped + 1 + r * x) if x > 0 else variance
        if objective < best:
            best = objective
            table[1:] = np.minimum(1.0, x * root)
    return table


class _Moments(NamedTuple):
    """Moments estimated by a pilot, averaged over its sources; X_k is divided by S(k)."""

    covariance: np.ndarray  # tr Cov(X_k, X_l), shape (L + 1, L + 1)
    returns: np.ndarray  # probability of standing on the source after k steps, shape (L + 1,)


def _pilot(graph: Graph, walks: RandomWalks, seeds: tuple[int, int] = _PILOT_SEEDS) -> _Moments:
    """Moments from two independent samples of the same few hundred sources."""
    survival = walks.survival
    n_sources = int(_VISITS / (walks.n_walks * (1 + survival.mean_length)))
    n_sources = min(max(n_sources, _FEWEST_SOURCES), _SOURCES, graph.n_nodes)
    sources = np.sort(np.random.default_rng(0).choice(graph.n_nodes, n_sources, replace=False))
    places, steps, values = [], [], []
    returns = np.zeros(survival.table.size)
    for sign, seed in zip((1.0, -1.0), seeds, strict=True):
        prepared = walks.prepare(graph, seed)
        block = prepared.sample(sources)
        row = np.repeat(
            np.repeat(np.arange(n_sources), block.entries_per_row), block.visits_per_entry
        )
        node = np.repeat(block.indices.astype(np.int64), block.visits_per_entry)
        weight = block.counts / (walks.n_walks * survival.table[block.steps])
        home = node == sources[row]
        returns += np.bincount(block.steps[home], weight[home], minlength=returns.size)
        if prepared.degrees is not None:
            weight *= np.sqrt(prepared.degrees[sources[row]] / prepared.degrees[node])
        places.append(row * graph.n_nodes + node)
        steps.append(block.steps)
        values.append(sign * weight)
    distinct, place = np.unique(np.concatenate(places), return_inverse=True)
    difference = sp.csr_array(
        (np.concatenate(values), (place, np.concatenate(steps))),
        shape=(distinct.size, returns.size),
    )
    covariance = (difference.T @ difference).toarray() / (2 * n_sources)
    return _Moments(covariance, returns / (2 * n_sources))


def _per_step(f: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """f_k^2 M_kk + 2 f_k sum_{l > k} f_l M_kl for every k."""
    products = f[:, None] * moments * f
    return np.asarray(np.diag(products) + 2 * np.triu(products, 1).sum(axis=1))
