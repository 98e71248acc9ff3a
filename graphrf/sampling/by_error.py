r"""Samplers for a target error: of fewest non-zeros predicted to reach it, from pilot rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from graphrf._base import checks
from graphrf.features.features import Features
from graphrf.features.matrix import feature_matrix
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.truncation import LONGEST_SERIES, series_length
from graphrf.operators.series.apply import apply_root
from graphrf.sampling.powers.powers import CompressedPowers, CutPowers, ExactPowers
from graphrf.sampling.protocol import Sampler
from graphrf.sampling.record_builder import sample_rows
from graphrf.sampling.task import sample_info
from graphrf.sampling.walks.auto_lengths import AutoLengths
from graphrf.sampling.walks.lengths import Stratified
from graphrf.sampling.walks.random_walks import MOST_WALKS, RandomWalks

# Above the seeds of users, so that the choice is independent of the sample.
_SEED = 2**63 + 2
# Predictions err by some per cent: the range in which they should be, as shares of the target
# error.
_AIM, _CLOSE = 0.95, 0.88
_FIRST_BUDGET, _TRIALS, _DRAWS = 32, 10, 4
# Share of the target error for the end of the series if rows are cut as well.
_SERIES_OF_CUT = 0.2


@dataclass(frozen=True)
class ChoiceCosts:
    """Sizes of the pilot, and of the rows and the work that a choice may ask for."""

    # Pilot rows: their largest and smallest number, and that of their entries; one in `hubs` has
    # the largest degrees.
    rows: int = 256
    fewest: int = 16
    numbers: int = 20_000_000
    hubs: int = 8
    # Random sums of rows in products with F.
    sums: int = 24
    # Maximum non-zeros of a row, and multiply-adds of exact powers for all rows.
    most_nonzeros: int = 4096
    most_work: float = 2e10


@dataclass(frozen=True)
class ErrorChoice:
    """The sampler chosen by `sample_features(graph, kernel=..., error=...)`, and its errors.

    `sample_features(graph, sampler, seed=...)` draws the same features again. `error` is the
    target, `predicted` what pilot rows led to expect, `measured` the
    `Features.relative_error(kernel)` of the features that were drawn, and `nonzeros` the mean
    number of non-zero entries of their rows.
    """

    sampler: Sampler
    kernel: Kernel
    error: float
    predicted: float
    measured: float
    nonzeros: float


class _Found(NamedTuple):
    """A sampler, its predicted error, and the predicted non-zero entries of a row."""

    sampler: Sampler
    error: float
    nonzeros: float


def checked_error(error: Any, kernel: Any, sampler: Any, path: Any) -> float:
    """The target error, if the other arguments are compatible with it."""
    error = checks.number("error", error, low=0, high=1, include_low=False)
    if kernel is None:
        raise checks.value_error(
            "kernel",
            "must be given with `error`, which is that of one kernel; for example "
            "kernel=Diffusion(2.0)",
        )
    if sampler is not None:
        raise checks.value_error(
            "error",
            "and `sampler` must not both be given: with `error` the sampler is chosen; leave one "
            "out",
        )
    if path is not None:
        raise checks.value_error(
            "path",
            "must be None with `error`; call once without it, and then with "
            "sampler=features.sampler",
        )
    return error


def features_with_error(
    draw: Callable[[Sampler], Features],
    graph: Graph,
    kernel: Kernel,
    nodes: np.ndarray,
    error: float,
    costs: ChoiceCosts = ChoiceCosts(),
) -> Features:
    """Features of measured error at most `error`; ValueError if no reasonable rows reach it."""
    scale = kernel.check_graph(graph)
    pilot = _Pilot(graph, kernel, nodes, 0.01 * error, costs)
    best: _Found | None = None
    nearest: _Found | None = None
    for found in _best_of_each(pilot, kernel, scale, error):
        if found.error > error:
            nearest = found if nearest is None or found.error < nearest.error else nearest
        elif best is None or found.nonzeros < best.nonzeros:
            best = found
    sampler, measured = None if best is None else best.sampler, math.inf
    for _ in range(_DRAWS):
        if best is None or sampler is None:
            break
        features = draw(sampler)
        measured = features.relative_error(kernel)
        if measured <= error:
            nonzeros = features.nnz / features.nodes.size
            assert features.origin is not None
            choice = ErrorChoice(sampler, kernel, error, best.error, measured, nonzeros)
            features.origin = replace(features.origin, sampler=sampler, choice=choice)
            return features
        sampler = _larger(sampler, 1.1 * (measured / error) ** 2)
    raise _refusal(
        kernel,
        error,
        best or nearest,
        min(measured, math.inf if nearest is None else nearest.error),
        costs.most_nonzeros,
    )


def _refusal(
    kernel: Kernel, error: float, nearest: _Found | None, reached: float, most_nonzeros: int
) -> ValueError:
    closest = "" if nearest is None else f" ({nearest.sampler!r} gets to about {reached:.2g})"
    return checks.value_error(
        "error",
        f"must be larger for {kernel!r} on this graph, got {error:g}: no rows of at most "
        f"{most_nonzeros:,} non-zero entries on average reach it{closest}; use exact products "
        "with vectors (graphrf.apply_kernel), which store nothing, or a product of factors "
        "(graphrf.sampling.sample_product)",
    )


def _larger(sampler: Any, factor: float) -> Any:
    """The sampler with `factor` times its size."""
    if isinstance(sampler, RandomWalks):
        return replace(sampler, n_walks=min(math.ceil(factor * sampler.n_walks), MOST_WALKS))
    if isinstance(sampler, ExactPowers):
        return replace(sampler, max_length=sampler.max_length + 1)
    if isinstance(sampler, CutPowers):
        factor = min(factor, 1.3)  # their error falls faster
    return replace(sampler, budget=math.ceil(factor * sampler.budget))


# -- the choice ------------------------------------------------------------------------------------


def _best_of_each(pilot: _Pilot, kernel: Kernel, scale: float, error: float) -> Iterator[_Found]:
    """The sampler of each family with fewest non-zeros that reaches the error, or nearest."""
    laplacian = kernel.laplacian
    least = float(pilot.costs.most_nonzeros)
    for found in _deterministic(pilot, kernel, scale, error):
        if found.error <= error:
            least = min(least, found.nonzeros)
        yield found
    auto = AutoLengths(kernel)
    families: tuple[tuple[int, Callable[[int], CompressedPowers | RandomWalks]], ...] = (
        (2**20, lambda size: CompressedPowers(size, lengths=auto, laplacian=laplacian)),
        (MOST_WALKS, lambda size: RandomWalks(size, auto, laplacian=laplacian)),
    )
    for most, make in families:
        try:
            found = _sized(pilot, make, error, least, most, auto)
        except ValueError:  # too much of the kernel is above the longest table of AutoLengths
            return
        if found.error <= error:
            least = min(least, found.nonzeros)
        yield found


def _deterministic(pilot: _Pilot, kernel: Kernel, scale: float, error: float) -> Iterator[_Found]:
    """Exact powers that end when the error allows, and cut ones, if rows can be computed."""
    laplacian = kernel.laplacian

    def exact(length: int) -> _Found:
        return pilot.judged(ExactPowers(length, laplacian=laplacian))

    # tail (2 A - tail) = error A^2: for f >= 0 the error is no larger.
    enough = series_length(kernel, scale, 1 - math.sqrt(1 - min(_AIM * error, 1 - 1e-12)))
    if (
        enough == LONGEST_SERIES
        or pilot.work(ExactPowers(enough, laplacian=laplacian)) > pilot.costs.most_work
    ):
        return
    low, high, best = -1, enough, exact(enough)
    while best.error <= error and high - low > 1:
        middle = (low + high) // 2
        found = exact(middle)
        if found.error <= _AIM * error:
            high, best = middle, found
        else:
            low = middle
    if best.error > error or best.nonzeros <= pilot.costs.most_nonzeros:
        yield best
    length = series_length(kernel, scale, _SERIES_OF_CUT * error / 2)
    if pilot.work(ExactPowers(length, laplacian=laplacian)) <= pilot.costs.most_work:
        least = min(
            float(pilot.costs.most_nonzeros), best.nonzeros if best.error <= error else math.inf
        )
        yield _sized(
            pilot,
            lambda size: CutPowers(size, length, laplacian=laplacian),
            error,
            least,
            math.ceil(least),
        )


def _sized(
    pilot: _Pilot,
    make: Callable[[int], Sampler],
    error: float,
    least: float,
    most: int,
    auto: AutoLengths | None = None,
) -> _Found:
    """A family's smallest sampler that reaches the error, or one larger than `least`.

    Errors decrease like size^(-1/2) or faster, which leads to a bracket, which is bisected on a
    logarithmic scale.
    """
    low, high, size = 0, most + 1, min(_FIRST_BUDGET, most)
    best: _Found | None = None
    for _ in range(_TRIALS):
        found = pilot.judged(make(size), None if auto is None else pilot.law(auto, size))
        if found.error <= _AIM * error:
            best, high = found, size
            if found.error >= _CLOSE * error:
                break
        else:
            low = size
            best = best if best is not None and best.error <= error else found
            if found.nonzeros > least:
                break
        guess = size * (found.error / (0.5 * (_AIM + _CLOSE) * error)) ** 2
        if low > 0 and high <= most:
            guess = math.sqrt(low * high)
        size = round(float(np.clip(guess, max(low + 1, size / 8), min(high - 1, 16 * size))))
        if not low < size < high:
            break
    assert best is not None
    return best


# -- predictions -----------------------------------------------------------------------------------


class _Pilot:
    r"""Predicts |Phi Phi^T - K|_F / |K|_F over nodes from a few rows of Phi and of F.

    With delta_i = phi_i - F_i, E_ij = F_i . delta_j + delta_i . F_j + delta_i . delta_j. If rows
    are independent and unbiased, these terms are uncorrelated off the diagonal, so that

    .. math:: E |E|_F^2 = \sum_i E_{ii}^2 + 2 \sum_{i \ne j} (F_j \cdot \delta_i)^2
              + \sum_{i \ne j} (\delta_i \cdot \delta_j)^2.

    The second sum over all j is |F delta_i|^2 less its diagonal, so a weighted sample of rows i
    suffices: all of the largest degrees, and a random part of the others. |F delta_i|^2 summed over
    i is the mean of |F sum_i s_i delta_i|^2 over random signs s. The third sum, and the mixed terms
    of deterministic rows, are estimated from pairs of pilot rows.
    """

    def __init__(
        self,
        graph: Graph,
        kernel: Kernel,
        nodes: np.ndarray,
        tol: float,
        costs: ChoiceCosts = ChoiceCosts(),
    ) -> None:
        self.costs = costs
        self._graph, self._kernel, self._tol = graph, kernel, max(tol, 1e-8)
        self._laws: dict[int, Stratified] = {}
        self._nodes = np.unique(nodes)
        n, rng = self._nodes.size, np.random.default_rng(0)
        n_rows = min(n, max(costs.fewest, min(costs.rows, costs.numbers // graph.n_nodes)))
        order = np.argsort(-graph.walk_degrees[self._nodes], kind="stable")
        hubs = n_rows // costs.hubs if n_rows < n else n
        others = rng.choice(order[hubs:], n_rows - hubs, replace=False) if n_rows < n else order[:0]
        self._rows = self._nodes[np.concatenate([order[:hubs], others])]
        self._weights = np.concatenate(
            [np.ones(hubs), np.full(others.size, (n - hubs) / max(others.size, 1))]
        )
        self._signs = rng.integers(0, 2, (n_rows, costs.sums)) * 2.0 - 1.0
        units = np.zeros((graph.n_nodes, n_rows))
        units[self._rows, np.arange(n_rows)] = 1.0
        self._root = self._times_root(units)  # by columns; F is symmetric
        exact = self._times_root(self._root)[self._nodes]
        self._norm = math.sqrt(float(np.square(exact).sum(axis=0) @ self._weights))
        self._diagonal = np.einsum("ij,ij->j", self._root, self._root)

    def work(self, sampler: Sampler) -> float:
        """Multiply-adds of powers of all rows."""
        few = self._rows[:: max(1, self._rows.size // 8)]
        record = sample_rows(
            sampler.prepare(self._graph, _SEED), few, self._graph.n_nodes, few.size
        )
        assert record.work is not None
        return float(record.work.mean()) * self._nodes.size

    def law(self, auto: AutoLengths, size: int) -> Stratified:
        """The lengths for the graph at the power of four nearest to a size."""
        near = min(4 ** round(math.log(size, 4)), MOST_WALKS)
        if near not in self._laws:
            self._laws[near] = auto.law(
                self._graph, RandomWalks(near, auto, laplacian=auto.laplacian)
            )
        return self._laws[near]

    def judged(self, sampler: Any, law: Stratified | None = None) -> _Found:
        """The sampler with its predicted error and non-zeros, from rows of given lengths."""
        drawing = sampler
        if law is not None:
            drawing = replace(
                sampler, lengths=law.survival if isinstance(sampler, CompressedPowers) else law
            )
        prepared, n_nodes = drawing.prepare(self._graph, _SEED), self._graph.n_nodes
        info = sample_info(prepared, n_nodes, 0, np.dtype(np.float64))
        record = sample_rows(prepared, self._rows, n_nodes, self._rows.size)
        phi = feature_matrix(info, self._rows, record, info.modulation(self._kernel))
        delta = phi.toarray() - self._root.T
        w = self._weights
        pairs, mixed = delta @ delta.T, delta @ self._root  # delta_i . delta_j, delta_i . F_j
        wrong = np.asarray(phi.power(2).sum(axis=1)).ravel() - self._diagonal
        both = np.outer(w, w) - np.diag(w**2)
        if w.size == self._nodes.size:
            off = float((both * np.square(mixed)).sum())
        else:
            sums = delta.T @ (self._signs * np.sqrt(w)[:, None])
            across = float(np.square(self._times_root(sums)[self._nodes]).sum()) / self.costs.sums
            off = max(across - float(w @ np.square(np.diag(mixed))), 0.0)
        others = np.square(pairs)
        if isinstance(sampler, ExactPowers | CutPowers):
            others = np.square(mixed + mixed.T + pairs) - np.square(mixed) - np.square(mixed.T)
        rest = max(float((both * others).sum()), -off)
        square = float(w @ np.square(wrong)) + 2 * off + rest
        nonzeros = float(np.diff(phi.indptr) @ w / w.sum())
        return _Found(sampler, math.sqrt(square) / self._norm, nonzeros)

    def _times_root(self, x: np.ndarray) -> np.ndarray:
        return apply_root(self._graph, self._kernel, x, tol=self._tol)
