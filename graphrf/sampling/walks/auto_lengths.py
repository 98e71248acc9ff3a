r"""The distribution of lengths that suits a kernel on a graph: the least variance times cost, from a pilot."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy import optimize

from graphrf._base import checks
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel, require_kernel
from graphrf.sampling.walks.lengths import LONGEST_WALK, LengthLaw, Stratified, Survival, Truncated
from graphrf.sampling.walks.random_walks import AdaptiveLengths, RandomWalks

# A pilot has so many sources, or as many as leave about so many visits, but never fewer than a handful. It errs
# by a few per cent in S, which the objective, being at its minimum, feels in second order only.
_SOURCES, _FEWEST_SOURCES, _VISITS = 512, 16, 1_000_000
# Two streams beyond the seeds that users can give, so that lengths never depend on the walks that they serve.
_PILOT_SEEDS = (2**63, 2**63 + 1)
_COUPLINGS = ("stratified", "independent")


@dataclass(frozen=True, repr=False)
class AutoLengths(AdaptiveLengths):
    r"""Lengths for one kernel: stratified, with the survival table S that minimises variance times cost.

    Can be used wherever a distribution of lengths is accepted by `RandomWalks`. The table is found for the graph
    when the walks are prepared, from a pilot with the same number of walks and directions; it is a deterministic
    function of the graph, the kernel and the sampler, and independent of every seed, so that features stay
    unbiased.

    .. math:: \min_S \Big(V_1 + \sum_{k \ge 1} n_k \big(\tfrac{1}{S(k)} - 1\big)\Big) \sum_{k \ge 0} S(k),
              \qquad 1 = S(0) \ge S(1) \ge \dots > 0.

    The first factor is the variance of the features, tr Cov phi(i) averaged over the nodes i: V_1 is that of walks
    which never end early, and n_k what ending them before step k adds (Notes). The second, the cost, is the mean
    number of visits of a walk: its steps, and one for its start. At the optimum

    .. math:: S(k) = \min\big(1, \sqrt{n_k C / V}\big),

    where C and V are the cost and the variance at S itself, and n_k is first averaged over blocks of steps where
    it increases (it may be negative, where a modulation changes its sign).

    Walks become shorter where the kernel gains little from long ones. So compare at equal `Features.n_steps`, not
    at equal n_walks, and spend what is saved on more walks. Measured at equal steps on four graphs with four
    kernels (`benchmarks/auto_lengths.py`): 0.17 to 0.70 of the Gram error of Stratified(0.1), and 0.6 to 0.8 of
    that of Truncated(kernel.truncation_length(1e-3)), but for one case, the faces of a mesh with the shortest
    kernel (3.5). Nearly all degrees are 3 there, and numbers of walks that 3 divides often do far better than
    others.

    Parameters
    ----------
    kernel : Kernel
        The kernel that the features will serve. Others of its Laplacian are served without bias too, with more
        variance; `Features.matrix` warns where it is much more.
    tol : float in (0, 1)
        The table ends after `kernel.truncation_length(tol)` steps: F is off by at most tol sum |f_k| in operator
        norm, and K by at most 2 tol (sum |f_k|)^2 (`Features.truncation_error`). The last steps cost next to
        nothing, because hardly any walk reaches them.
    max_length : int
        No walk is longer, whatever `tol` says: for kernels whose modulation decays slowly.

    Raises
    ------
    TypeError, ValueError
        For arguments of another kind or out of range. When the walks are prepared: if the kernel does not exist on
        the graph, the graph is directed, or so much of the kernel lies beyond `max_length` steps that its Gram
        matrix might be off by a tenth of its bound.

    Notes
    -----
    Let x_k be the unit vector, times the load sqrt(d_i / d_v), of the node v where a walk from i stands after k
    steps, and X_k the mean of x_k over the m walks of i, none of which has ended. V_1 is the variance of
    sum_k f_k X_k. What ending walks adds depends on how their lengths are coupled.

    *Independent lengths.* One walk has E|psi|^2 = sum_k nu_k / S(k), with

    .. math:: \nu_k = f_k^2 Q_{kk} + 2 f_k \sum_{l > k} f_l Q_{kl}, \qquad
              Q_{kl} = \operatorname{mean}_i E[x_k \cdot x_l] = \operatorname{tr}(W^{|k - l|}) / N,

    because a walk reaches both k and l with probability S(max(k, l)). Products of different walks do not depend on
    S, so n_k = nu_k / m. The last equation holds because the walk is stationary, sum_i d_i (P^k)_iv = d_v, so
    that the loads cancel in the mean over the nodes: nothing but the probabilities of return is needed. All this
    is exact for independent directions; with stratified ones, the walks that go on after others ended spread
    differently, which is left out.

    *Stratified lengths.* The number of walks that reach step k is m S(k), up to rounding, and does not fluctuate;
    only where they stand does:

    .. math:: n_k = f_k^2 C_{kk} + 2 f_k \sum_{l > k} f_l C_{kl}, \qquad
              C_{kl} = \operatorname{mean}_i \operatorname{tr} \operatorname{Cov}(X_k, X_l), \qquad
              V_1 = \sum_k n_k,

    and the variance is sum_k n_k / S(k). This is exact for independent directions and integer m S(k). For
    stratified directions it supposes that m S(k) walks spread as evenly as m do, which flatters short walks where
    m are nearly exact. So the table that it gives is walked in a second pilot, where n_k is S(k) times what step k
    adds to the variance, and the table is made anew.

    In both cases S(k) is kept at sum_{l >= k} |f_l| / sum_l |f_l| or more, so that |f_k| / S(k) never exceeds
    sum_l |f_l|, whatever the noise in the pilot.

    Covariances come from two independent samples D, D' of the same sources: the mean of (D - D')^T (D - D') / 2 is
    unbiased whatever the directions, and never negative.

    Cost: two pilots, each of two samples of 512 sources or about a million visits, whichever is less (but at least
    16 sources), O(edges) to prepare each sample, and memory for a few matrices of (L + 1)^2 floats, L being the
    last step of the table.

    Source: Rhee and Glynn, "Unbiased estimation with square root convergence for SDE models", Operations Research
    63 (2015), for S without the bound 1 and V without the constant.

    Examples
    --------
    >>> import networkx as nx, graphrf as grf
    >>> graph = grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(20, 20)))
    >>> kernel = grf.Diffusion(lengthscale=2.0)
    >>> sampler = grf.RandomWalks(n_walks=64, lengths=grf.sampling.AutoLengths(kernel))
    >>> sampler.resolved(graph).lengths.survival.max_length == kernel.truncation_length(1e-4)
    True
    >>> features = grf.sample_features(graph, sampler, seed=0)
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
        """The kernel's."""
        return self.kernel.laplacian

    def __repr__(self) -> str:
        return f"AutoLengths({self.kernel!r}, tol={self.tol:g}, max_length={self.max_length})"

    def law(self, graph: Graph, sampler: RandomWalks) -> Stratified:
        """The distribution of lengths for a sampler on a graph."""
        return Stratified(self.survival(graph, n_walks=sampler.n_walks, directions=sampler.directions))

    def survival(
        self, graph: Graph, *, n_walks: int = 32, directions: str = "stratified", coupling: str = "stratified"
    ) -> Survival:
        """The survival table for a graph; all distributions of lengths accept one in place of `p_halt`.

        Parameters
        ----------
        graph : Graph
            Undirected.
        n_walks, directions
            Those of the `RandomWalks` that will use the table.
        coupling : {"stratified", "independent"}
            How the lengths will be coupled: "stratified" for `Stratified`; "independent" for `IID`, and also for
            `Antithetic` and `SigmaCoupled`, in which the number of walks that go on fluctuates too.

        Returns
        -------
        Survival

        Examples
        --------
        >>> import networkx as nx, graphrf as grf
        >>> graph = grf.Graph(nx.to_scipy_sparse_array(nx.karate_club_graph()))
        >>> choice = grf.sampling.AutoLengths(grf.Diffusion(lengthscale=1.0))
        >>> lengths = grf.sampling.IID(choice.survival(graph, n_walks=8, coupling="independent"))
        >>> sampler = grf.RandomWalks(8, lengths)
        """
        checks.choice("coupling", coupling, _COUPLINGS)
        scale = self.kernel.check_graph(graph)
        length = self._length(scale)
        f = self.kernel.modulation(length + 1, scale)

        def pilot(law: LengthLaw) -> _Moments:
            return _pilot(graph, RandomWalks(n_walks, law, directions=directions, laplacian=self.laplacian))

        def table(gain: np.ndarray, variance: float) -> Survival:
            return Survival(np.maximum(optimal_survival(gain, variance), floor))

        beyond = np.cumsum(np.abs(f[::-1]))[::-1]
        floor = beyond / beyond[0]
        endless = pilot(Truncated(length))
        gain = _per_step(f, endless.covariance)
        variance = float(gain.sum())
        if coupling == "independent":
            return table(_per_step(f, _toeplitz(endless.returns)) / n_walks, variance)
        first = table(gain, variance)
        gain[: first.table.size] = first.table * _per_step(
            f[: first.table.size], pilot(Stratified(first)).covariance
        )
        return table(gain, float(gain.sum()))

    def _length(self, scale: float) -> int:
        """The last step of the table; ValueError if that leaves out too much of the kernel."""
        total = self.kernel.modulation_tail(-1, scale)
        tail = self.kernel.modulation_tail(self.max_length, scale)
        if tail <= self.tol * total:
            return self.kernel.truncation_length(self.tol, scale)
        if tail * (2 * total - tail) > 0.1 * total**2:
            raise checks.value_error(
                "max_length",
                f"must be larger for {self.kernel!r}, got {self.max_length}: {tail / total:.0%} of "
                "sum |f_k| lies beyond; raise it, or use the exact series (graphrf.apply_kernel, or "
                "method='series' of GraphGPRegressor)",
            )
        return self.max_length


def optimal_survival(gain: np.ndarray, variance: float) -> np.ndarray:
    r"""The S that minimises (variance + sum_{k>=1} gain_k (1/S_k - 1)) sum_k S_k, 1 = S_0 >= S_1 >= ... >= 0.

    `variance` is that at S = 1; gain_0 is not used. For any price of the cost, the best S is min(1, x sqrt(q)), q
    being `gain` averaged over blocks where it increases (isotonic regression) and x the price to the power -1/2.
    While `capped` steps have S = 1, the objective is (a + r / x) (capped + 1 + r x), whose minimum in x is known:
    the best of these candidates is taken. Where q is 0 or less, ending walks costs nothing, and S = 0.
    """
    table = np.ones(gain.size)
    if variance <= 0 or gain.size == 1:  # nothing to lower, or nothing to choose
        return table
    root = np.sqrt(np.maximum(optimize.isotonic_regression(gain[1:], increasing=False).x, 0.0))
    steps = int(np.count_nonzero(root))
    best = np.inf
    for capped in range(steps + 1):
        rest = root[capped:steps]
        r, a = float(rest.sum()), variance - float(rest @ rest)
        # From where step `capped` reaches 1, to where the next one does.
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


def _pilot(graph: Graph, walks: RandomWalks) -> _Moments:
    """Moments from two independent samples of the same few hundred sources."""
    survival = walks.survival
    n_sources = int(_VISITS / (walks.n_walks * (1 + survival.mean_length)))
    n_sources = min(max(n_sources, _FEWEST_SOURCES), _SOURCES, graph.n_nodes)
    sources = np.sort(np.random.default_rng(0).choice(graph.n_nodes, n_sources, replace=False))
    places, steps, values = [], [], []
    returns = np.zeros(survival.table.size)
    for sign, seed in zip((1.0, -1.0), _PILOT_SEEDS, strict=True):
        prepared = walks.prepare(graph, seed)
        block = prepared.sample(sources)
        row = np.repeat(np.repeat(np.arange(n_sources), block.entries_per_row), block.visits_per_entry)
        node = np.repeat(block.indices.astype(np.int64), block.visits_per_entry)
        share = block.counts / (walks.n_walks * survival.table[block.steps])
        home = node == sources[row]
        returns += np.bincount(block.steps[home], share[home], minlength=returns.size)
        if prepared.degrees is not None:
            share *= np.sqrt(prepared.degrees[sources[row]] / prepared.degrees[node])
        places.append(row * graph.n_nodes + node)
        steps.append(block.steps)
        values.append(sign * share)
    distinct, place = np.unique(np.concatenate(places), return_inverse=True)
    difference = sp.csr_array(
        (np.concatenate(values), (place, np.concatenate(steps))), shape=(distinct.size, returns.size)
    )
    covariance = (difference.T @ difference).toarray() / (2 * n_sources)
    return _Moments(covariance, returns / (2 * n_sources))


def _per_step(f: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """f_k^2 M_kk + 2 f_k sum_{l > k} f_l M_kl for every k."""
    products = f[:, None] * moments * f
    return np.asarray(np.diag(products) + 2 * np.triu(products, 1).sum(axis=1))


def _toeplitz(returns: np.ndarray) -> np.ndarray:
    """The matrix of entries returns[|k - l|]."""
    steps = np.arange(returns.size)
    return np.asarray(returns[np.abs(steps[:, None] - steps)])
