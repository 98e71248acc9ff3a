"""PageRank by walks: one vector or several, with a number of walks or a target error."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrf._base import checks
from graphrf._base.devices import engine_device
from graphrf._base.progress import progress_bar
from graphrf._base.threads import ordered_map, thread_count
from graphrf._base.types import SignalLike
from graphrf._base.warn import warn
from graphrf.graph.graph import Graph, require_graph
from graphrf.pagerank.problem import make_problem, vectors_of, walks_halt, without_alpha
from graphrf.pagerank.result import PageRankEstimate
from graphrf.pagerank.walks.batches import BatchMean
from graphrf.pagerank.walks.refinement import FEWEST_STRATIFIED, Estimate, refinements
from graphrf.pagerank.walks.runs import Walks
from graphrf.pagerank.walks.stored_walks import KeptWalks
from graphrf.sampling.walks.coupling import Coupling, shipped_coupling
from graphrf.sampling.walks.lengths import IID, Antithetic, LengthLaw, SigmaCoupled, Stratified
from graphrf.sampling.walks.transitions import graph_transitions

if TYPE_CHECKING:
    import torch

    from graphrf.sampling.walks.transitions_torch import DeviceTransitions

ESTIMATORS = ("endpoints", "visits")
COUPLINGS = ("iid", "antithetic", "sigma", "stratified", "pooled")

# With 15 degrees of freedom, more batches hardly improve the standard errors.
_MOST_BATCHES = 16
# Walks per source after which a target error is given up; the first four batches must stay below.
_MAX_WALKS = 1_000_000
# With more exact steps, power iteration is the better choice.
_MOST_EXACT = 10_000


@without_alpha
def estimate(
    graph: Graph,
    *,
    p_halt: float = 0.15,
    n_walks: int = 16,
    estimator: str = "visits",
    coupling: str | Coupling = "pooled",
    personalization: SignalLike | None = None,
    tol: float | None = None,
    exact_steps: int | None = None,
    n_batches: int | None = None,
    engine: str | None = None,
    device: str | torch.device = "cpu",
    seed: int | None = None,
    n_threads: int | None = None,
    progress: bool = False,
    keep_walks: bool = False,
) -> PageRankEstimate:
    r"""PageRank estimated by random walks; p_halt = 1 - alpha of networkx.

    .. math:: \rho = p v + (1 - p) (P^T \rho + \delta v), \qquad
              \delta = \sum_{i\ \text{dangling}} \rho_i, \qquad P = D^{-1} A.

    Walks start from the personalisation vector v and end before every step with probability p; rho
    is the distribution of their end points ([theory](../theory/pagerank.md)). For one global vector
    of a graph that fits into memory, prefer `pagerank`: it is exact, and faster than any useful
    number of walks.

    Source: the paper (Reid et al. 2024), App. E; Avrachenkov et al., SIAM J. Numer. Anal. 45(2),
    2007 (visits).

    Parameters
    ----------
    graph : Graph
        Directed or not, weighted or not; self-loops count. From a node without edges the chain
        jumps to v, as in networkx.
    p_halt : float in (0, 1)
        Probability of ending before each step; at least 0.0006, pooled 1e-6.
    n_walks : int
        Walks for every node with weight in v: M = n_walks |{j: v_j > 0}| in all, in proportion to
        v. The error decreases like 1/sqrt(M), pooled faster. At most 250,000 with `tol`.
    estimator : {"visits", "endpoints"}
        "visits" counts p_halt / M for every visit of a walk; "endpoints", as in the paper, 1 / M
        for every end, with mostly 4 to 7 times the variance at p_halt 0.15, 3 to 4 times at 0.3.
    coupling : {"pooled", "iid", "antithetic", "sigma", "stratified"} or Coupling
        "pooled": the walkers at a node are one population, which stops and splits evenly in whole
        numbers; mostly 0.25 to 0.65 of the error of independent walks at 16 walks per node, 0.2 to
        0.4 at 64, and no less on dense graphs, whose degrees exceed the walkers on a node; for
        visits only. The others couple the lengths of the walks from one node (`IID`, `Antithetic`,
        `SigmaCoupled`, `Stratified`); "sigma" uses the permutation shipped for the nearest p_halt,
        learned for end points or, for visits, for Gram matrices.
    personalization : as in `pagerank`, optional
        The vector v, or several. For single nodes of a large graph see `local_pagerank`.
    tol : float > 0, optional
        Target L1 error: batches are run, the first of `n_walks` walks each, until `l1_error` is at
        most `tol` for each vector, or with a warning after a million walks for every node with
        weight in v.
    exact_steps : int, optional
        Initial steps that are computed exactly; walks then start from the mass at that point,
        `n_walks` for every node there. Each reduces the error of the walks by a factor of
        1 - p_halt, for one product with a sparse matrix. Default: none; with `tol`, as many as
        leave a mass of sqrt(tol).
    n_batches : int, optional
        Independent batches of walks; two or more give `stderr`. Default: one for each group of
        coupled walks, at most 16 (stratified: for each 4 walks); **one if pooled, hence no
        `stderr`**, because 4 pools have 1.4 to 1.8 times the error of a single one at 16 walks per
        node.
    engine : {"numba", "torch"}, optional
        Compiled loops on the CPU or, for pools only, torch on `device` (extra `gp`), bit for bit
        the same. Default: "numba" on the CPU, "torch" on any other device.
    device : str or torch.device
        Where torch runs the pools, one after the other, such as "cuda"; it must support float64.
        The graph is copied there once, and only counts of visits, 8 N bytes, come back. Exact steps
        run on the CPU.
    seed : int in [0, 2^63), optional
        None draws one, which the result records. Same seed, same bits, on any number of threads and
        any device.
    n_threads : int, optional
        Default: the cores that the process may use. Pools that torch runs use torch's own threads.
    progress : bool
        Show a progress bar on standard error.
    keep_walks : bool
        Keep data for `PageRankEstimate.updated`: the counts of each batch, 8 N bytes, and the
        sources whose walks met each node, 4 bytes per step. Not for pooled walkers, several
        vectors, `tol` and `exact_steps`, where an edit changes all walks.

    Returns
    -------
    PageRankEstimate
        scores (N,) summing to 1, stderr (N,) or None, l1_error, walks, steps, seed; `.top(k)`. For
        several vectors scores and stderr have shape (n, N), l1_error has (n,).

    Warns
    -----
    UserWarning
        If `tol` was not reached.

    Raises
    ------
    TypeError, ValueError
        If arguments are out of range or incompatible, or every walk was lost before its end
        ("endpoints" with few walks and many nodes without edges).
    ImportError
        If torch is needed and not installed.

    Notes
    -----
    Without dangling nodes there is no bias. With them, walks are lost instead of jumping to v, and
    the estimate is divided by its sum, at a relative bias of order 1/M, well below the standard
    error's 1/sqrt(M).

    `stderr` is rough for rarely visited nodes: a node that no walk reached scores about 0 with
    `stderr` about 0 and may have a score up to some 3 / M. Visits by personalised walks may score
    slightly below 0 if M is less than some hundreds.

    Cost: O(N + nnz) to set up and M (1 - p) / p steps on average; memory O(N) a thread. Pooled: at
    most as many steps, and at most O(N + nnz) for each of about log(M) / p rounds. Several vectors:
    32 N bytes each at most. On a device: the graph, 44 N bytes, and up to half a gigabyte for
    blocks of a million nodes and edges.

    Examples
    --------
    >>> import graphrf as grf
    >>> from graphrf.pagerank import estimate
    >>> star = grf.Graph([[0, 1, 1], [1, 0, 0], [1, 0, 0]], nodes=["hub", "a", "b"])
    >>> result = estimate(star, n_walks=100, seed=0)
    >>> result.top(1)[0][0]
    'hub'
    >>> estimate(star, n_walks=100, coupling="iid", seed=0).stderr.shape
    (3,)
    """
    p_halt = walks_halt(p_halt)
    require_graph(graph)
    n_walks = checks.integer(
        "n_walks", n_walks, low=1, high=2**31 - 1 if tol is None else _MAX_WALKS // 4
    )
    law = _law(coupling, p_halt, estimator, n_walks)
    groups = n_walks // (law.group if law is not None else 1)
    tol = None if tol is None else checks.number("tol", tol, low=0, include_low=False)
    n_batches = _checked_batches(n_batches, tol, law, groups)
    exact_steps = _checked_exact_steps(exact_steps, tol, p_halt)
    seed = checks.seed(seed)
    threads = thread_count(n_threads)
    checks.flag("progress", progress)
    several = vectors_of(graph, personalization)
    if checks.flag("keep_walks", keep_walks):
        _check_kept(coupling, tol, exact_steps, several)
    on = _on_device(graph, coupling, engine, device)

    if keep_walks:
        walks = Walks(make_problem(graph, p_halt, personalization), law, estimator, seed, threads)
        return _of_kept(KeptWalks.run(walks, groups, n_batches, progress), coupling)
    vectors = [personalization] if several is None else several
    # Threads have one of several vectors each; they share the walks of a single vector, or the
    # exact steps if its pools are on a device.
    outer = threads if several is not None and on is None else 1
    inner = threads if outer == 1 else 1

    def run(vector: int, progress: bool) -> Estimate:
        problem = make_problem(graph, p_halt, vectors[vector])
        walks = Walks(problem, law, estimator, seed, inner, vector, exact_steps, on)
        if tol is not None:
            return _until(walks, n_walks, tol, progress)
        return _fixed(walks, groups, walks.measures(groups, n_batches, progress=progress))

    if several is None:
        estimates = [run(0, progress)]
    else:
        estimates = []
        with progress_bar("PageRank", progress, total=len(vectors), unit="vectors") as bar:
            for made in ordered_map(lambda vector: run(vector, False), range(len(vectors)), outer):
                estimates.append(made)
                bar.update()
    _warn_above(tol, estimates)
    return _result(
        graph, p_halt, estimates, several is not None, seed, estimator, coupling, exact_steps
    )


def _warn_above(tol: float | None, estimates: list[Estimate]) -> None:
    """Warn if an estimate did not reach the target error."""
    if tol is not None and (reached := float(np.max([made.l1_error for made in estimates]))) > tol:
        warn(
            f"{_MAX_WALKS} walks per source reached an L1 error of {reached:.2g}, not tol={tol:g}; "
            "use graphrf.pagerank(graph), which reaches any tolerance"
        )


@without_alpha
def refine(
    graph: Graph,
    *,
    p_halt: float = 0.15,
    n_walks: int = 16,
    estimator: str = "visits",
    coupling: str | Coupling = "pooled",
    personalization: SignalLike | None = None,
    engine: str | None = None,
    device: str | torch.device = "cpu",
    seed: int | None = None,
    n_threads: int | None = None,
) -> Iterator[PageRankEstimate]:
    """PageRank by walks as a series of results, each with a smaller stated error than the last.

    Every result is that of `estimate` for one stage of batches: at first 4 batches of `n_walks`
    walks for each node with weight, then 4 of 4 times as many, and so on, up to a million walks for
    each of these nodes. Earlier walks, a quarter of all, are not used again. Stopping at a small
    error slightly favours stages that underestimate it.

    Parameters
    ----------
    graph, p_halt, n_walks, estimator, coupling, personalization, engine, device, seed, n_threads
        See `estimate`; a single personalisation vector, and at most 250,000 walks in the first
        batches.

    Yields
    ------
    PageRankEstimate
        With `stderr` and `l1_error`; `walks` and `steps` are totals of all stages.

    Raises
    ------
    TypeError, ValueError, ImportError
        See `estimate`; raised when the first result is requested.

    Examples
    --------
    >>> import graphrf as grf
    >>> from graphrf.pagerank import refine
    >>> star = grf.Graph([[0, 1, 1], [1, 0, 0], [1, 0, 0]], nodes=["hub", "a", "b"])
    >>> for result in refine(star, seed=0):
    ...     if result.l1_error < 0.01:
    ...         break
    >>> round(float(result.scores[0]), 2)
    0.49
    """
    require_graph(graph)
    n_walks = checks.integer("n_walks", n_walks, low=1, high=_MAX_WALKS // 4)
    p_halt = walks_halt(p_halt)
    law = _law(coupling, p_halt, estimator, n_walks)
    if vectors_of(graph, personalization) is not None:
        raise checks.value_error(
            "personalization",
            "must be a single vector here, got several; use estimate(tol=...) for them",
        )
    seed = checks.seed(seed)
    threads = thread_count(n_threads)
    on = _on_device(graph, coupling, engine, device)
    walks = Walks(
        make_problem(graph, p_halt, personalization), law, estimator, seed, threads, on=on
    )
    for made in refinements(walks, n_walks, 0.0, _MAX_WALKS):
        yield _result(graph, p_halt, [made], False, seed, estimator, coupling, 0)


def length_law(coupling: str | Coupling, p_halt: float, estimator: str) -> LengthLaw | None:
    """The distribution of the walks' lengths; None for pooled walkers."""
    if isinstance(coupling, Coupling):
        return SigmaCoupled(p_halt, coupling)
    if not isinstance(coupling, str):
        raise checks.type_error(
            "coupling",
            f"must be a Coupling or one of {', '.join(map(repr, COUPLINGS))}, got "
            f"{checks.describe(coupling)}",
        )
    checks.choice("coupling", coupling, COUPLINGS)
    if coupling == "pooled":
        if estimator == "endpoints":
            raise checks.value_error(
                "coupling",
                "must be 'iid', 'antithetic', 'sigma', 'stratified' or a Coupling for "
                "estimator='endpoints', got 'pooled': pools are scored by their populations; "
                "use estimator='visits' for them",
            )
        return None
    if coupling == "sigma":
        # The PageRank objective is for end points; for visits,
        # permutations for Gram matrices have less variance.
        return SigmaCoupled(
            p_halt, shipped_coupling(p_halt, "pagerank" if estimator == "endpoints" else "gram")
        )
    laws = {"iid": IID, "antithetic": Antithetic, "stratified": Stratified}
    return laws[coupling](p_halt)


def _law(coupling: str | Coupling, p_halt: float, estimator: str, n_walks: int) -> LengthLaw | None:
    checks.choice("estimator", estimator, ESTIMATORS)
    law = length_law(coupling, p_halt, estimator)
    if law is not None:
        law.check_walks(n_walks)
    return law


def _on_device(
    graph: Graph, coupling: str | Coupling, engine: str | None, device: str | torch.device
) -> DeviceTransitions | None:
    """The graph's transitions on the device where torch runs the pools; None for compiled loops."""
    place = engine_device(engine, device, "PageRank by engine='torch'")
    if place is None:
        return None
    if coupling != "pooled":
        came = repr(coupling) if isinstance(coupling, str) else checks.describe(coupling)
        raise checks.value_error(
            "coupling",
            f"must be 'pooled' for engine='torch', got {came}; "
            "other walks are made by engine='numba' with device='cpu'",
        )
    from graphrf.sampling.walks.transitions_torch import on_device  # torch is an extra

    return on_device(graph_transitions(graph), place)


def _checked_batches(
    n_batches: int | None, tol: float | None, law: LengthLaw | None, groups: int
) -> int:
    """The number of batches, with its default; 1 with `tol`, which determines it."""
    if n_batches is not None and tol is not None:
        raise checks.value_error(
            "n_batches", f"must be None where `tol` is given, got {n_batches}: `tol` decides it"
        )
    if n_batches is not None:
        n_batches = checks.integer("n_batches", n_batches, low=1)
        if n_batches > groups:
            raise checks.value_error(
                "n_batches",
                f"must be at most {groups}, the number of groups of coupled walks of a node, "
                f"got {n_batches}; raise `n_walks`",
            )
        return n_batches
    if tol is not None or law is None:
        return 1
    if isinstance(law, Stratified):
        groups = max(1, groups // FEWEST_STRATIFIED)
    return min(groups, _MOST_BATCHES)


def _checked_exact_steps(exact_steps: int | None, tol: float | None, p_halt: float) -> int:
    """The number of exact steps; by default so many that sqrt(tol) of the mass is left."""
    if exact_steps is not None:
        return checks.integer("exact_steps", exact_steps, low=0, high=_MOST_EXACT)
    if tol is not None and tol < 1:
        return min(math.ceil(0.5 * math.log(tol) / math.log1p(-p_halt)), _MOST_EXACT)
    return 0


def _fixed(
    walks: Walks, groups: int, measures: Iterable[tuple[np.ndarray, float, int]]
) -> Estimate:
    """The estimate from `groups` groups of walks per source, in batches with the given measures."""
    mean = BatchMean(walks.problem.graph.n_nodes)
    n_steps = n_batches = 0
    for measure, weight, steps in measures:
        mean.add(measure, weight)
        n_steps += steps
        n_batches += 1
    scores, stderr = mean.result()
    error = None if stderr is None else walks.l1_error(scores, stderr, n_batches, n_steps)
    return Estimate(
        scores, stderr, error, n_batches, groups * walks.group * walks.n_sources, n_steps
    )


def _check_kept(
    coupling: str | Coupling, tol: float | None, exact_steps: int, several: Any
) -> None:
    """Raise an error for walks that cannot be updated after an edit of the graph."""
    if isinstance(coupling, str) and coupling == "pooled":
        raise checks.value_error(
            "keep_walks",
            "must be False for coupling='pooled', whose walkers part according to all others on "
            "their node, so that an edit changes walks everywhere; pass coupling='stratified', "
            "'iid', 'antithetic' or 'sigma'",
        )
    if tol is not None or exact_steps:
        raise checks.value_error(
            "keep_walks",
            "must be False with `tol` and `exact_steps`, by which the walks depend on the whole "
            "graph",
        )
    if several is not None:
        raise checks.value_error(
            "keep_walks", "must be False for several personalisation vectors; ask for each"
        )


def _of_kept(kept: KeptWalks, coupling: str | Coupling) -> PageRankEstimate:
    """The result of stored walks."""
    walks = kept.walks
    made = _fixed(
        walks, kept.groups, walks.measures(kept.groups, len(kept.batches), counted=kept.batches)
    )
    graph, p_halt = walks.problem.graph, walks.problem.p_halt
    result = _result(graph, p_halt, [made], False, walks.seed, walks.estimator, coupling, 0)

    def followed(graph: Graph, n_threads: int | None) -> PageRankEstimate:
        return _of_kept(kept.updated(graph, thread_count(n_threads)), coupling)

    return replace(result, follow=followed)


def _until(walks: Walks, n_walks: int, tol: float, progress: bool) -> Estimate:
    """The first estimate with an estimated L1 error of at most `tol`, or the best one."""
    best = None
    with progress_bar("PageRank", progress, unit="walks") as bar:
        for best in refinements(walks, n_walks, tol, _MAX_WALKS):
            bar.update(best.walks - bar.n)
            bar.set_postfix_str(f"L1 error {best.l1_error:.2g}, wanted {tol:.2g}")
            if best.l1_error is not None and best.l1_error <= tol:
                break
    assert best is not None, "the first stage is within the limit"
    return best


def _result(
    graph: Graph,
    p_halt: float,
    estimates: list[Estimate],
    several: bool,
    seed: int,
    estimator: str,
    coupling: str | Coupling,
    exact_steps: int,
) -> PageRankEstimate:
    """The result of one vector, or of several vectors."""

    def together(parts: list[Any], shape: tuple[int, ...]) -> Any:
        if not several:
            return parts[0]
        if any(part is None for part in parts):
            return None
        return np.array(parts, dtype=np.float64).reshape(shape)

    shape = (len(estimates), graph.n_nodes)
    return PageRankEstimate(
        scores=together([made.scores for made in estimates], shape),
        p_halt=p_halt,
        nodes=graph.nodes,
        stderr=together([made.stderr for made in estimates], shape),
        l1_error=together([made.l1_error for made in estimates], shape[:1]),
        walks=sum(made.walks for made in estimates),
        steps=sum(made.steps for made in estimates),
        seed=seed,
        estimator=estimator,
        coupling=coupling,
        exact_steps=exact_steps,
        n_batches=min(made.n_batches for made in estimates),
    )
