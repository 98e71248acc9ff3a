"""What hyperparameters are sought on: the exact series, or sampled rows of one length and budget after another."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from graphrf._base.warn import warn
from graphrf.features.features import Features
from graphrf.gp.training import sampler_choice
from graphrf.gp.training.gram import PrecisionGram, SampledGram, SeriesGram
from graphrf.gp.training.parameters import (
    LENGTHSCALES,
    hyperparameter_range,
    lengthscale_unit,
    longest_lengthscale,
)
from graphrf.graph.graph import Graph
from graphrf.kernels.factor import Factor
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.precision.contract import KernelPrecision
from graphrf.kernels.spectrum import density_of_states
from graphrf.kernels.truncation import steps_needed
from graphrf.sampling.sample import sample_features

# Of the tables of the series: the numbers that they may hold, the multiply-adds that they may cost, and the fewest
# and the most degrees.
_TABLE_NUMBERS = 64_000_000
_TABLE_PRODUCTS = 2e10
_FEWEST_DEGREES = 64
_LARGEST_DEGREE = 1_000
# Multiply-adds a second, about, of making a table and of a sum over it (two cores), and the sums of a search.
_PRODUCT_SPEED, _SUM_SPEED = 2e9, 2e9
_EVALUATIONS = 40
# Lengthscales that so many degrees serve are enough where the exact likelihood, which needs none, is climbed next.
BEGUN_DEGREES = 128
# What they may lack unsaid, as a share of the kernel's norm.
MUCH_LOST = 1e-3
# Nats that rows of twice the length, or of twice the entries, must gain.
_WORTH_MORE = 1.0
# The longest lengthscale that rows serve has grown where it is so many times the one before.
_FURTHER = 1.02
# Nodes at which rows are drawn twice, to see how much of their norm is sampling error.
_DRAWN_TWICE = 128


class SearchResult(Protocol):
    """The end of a search: the kernel, its likelihood, and the point from which another search may go on."""

    @property
    def kernel(self) -> Kernel: ...

    @property
    def point(self) -> np.ndarray: ...

    @property
    def value(self) -> float: ...


Result = TypeVar("Result", bound=SearchResult)


def series_search_seconds(graph: Graph, n_trained: int) -> float:
    """About how long a search with the exact K of one block by the series takes: its table, and sums over it."""
    pairs = n_trained * (n_trained + 1) / 2
    products = n_trained * max(graph.adjacency.nnz, 1)
    degrees = _held_degrees(pairs, products)
    return degrees * (products / _PRODUCT_SPEED + _EVALUATIONS * pairs / _SUM_SPEED)


def _held_degrees(pairs: float, products: float) -> int:
    """The largest degree of tables of so many numbers, and multiply-adds, for each."""
    most = min(_TABLE_NUMBERS / pairs, _TABLE_PRODUCTS / products)
    return int(np.clip(most, _FEWEST_DEGREES, _LARGEST_DEGREE))


class SeriesTables:
    """The tables of the series at some blocks of nodes, by Laplacian: they serve all of its kernels.

    `densities` are quadratures of its spectrum.
    """

    def __init__(self, graph: Graph, share: float, n_threads: int | None) -> None:
        self._graph = graph
        self._share = share
        self._n_threads = n_threads
        self._made: dict[tuple[str, tuple[int, ...]], tuple[list[SeriesGram], int]] = {}
        self.densities: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def __call__(self, laplacian: str, blocks: Sequence[np.ndarray]) -> tuple[list[SeriesGram], int]:
        """Of each block, and the largest degree that they hold."""
        key = laplacian, tuple(map(id, blocks))
        if key not in self._made:
            pairs = sum(block.size * (block.size + 1) // 2 for block in blocks)
            columns = sum(block.size for block in blocks) * self._share
            products = columns * max(self._graph.adjacency.nnz, 1)
            most = _held_degrees(pairs, products)
            grams = [
                SeriesGram(self._graph, laplacian, block, max_degree=most, n_threads=self._n_threads)
                for block in blocks
            ]
            self._made[key] = grams, most
        return self._made[key]


class Drawn(NamedTuple):
    """Sampled rows of the first block, the Gram matrices of all, and what `Candidate` says of excess."""

    features: Features
    grams: list[SampledGram]
    excess: Callable[[Kernel], float]


class SampledRows:
    """The rows of samplers at some blocks of nodes, drawn once: they serve all kernels of a Laplacian."""

    def __init__(self, graph: Graph, seed: int, n_threads: int | None) -> None:
        self._graph = graph
        self._seed = seed
        self._n_threads = n_threads
        self._drawn: dict[tuple[Any, tuple[int, ...]], Drawn] = {}

    def __call__(self, sampler: Any, blocks: Sequence[np.ndarray]) -> Drawn:
        """Of a resolved sampler."""
        key = sampler, tuple(map(id, blocks))
        if key not in self._drawn:
            self._drawn[key] = self._made(sampler, blocks)
        return self._drawn[key]

    def _made(self, sampler: Any, blocks: Sequence[np.ndarray]) -> Drawn:
        n_threads, scale = self._n_threads, self._graph.laplacian_scale(sampler.laplacian)

        def draw(nodes: np.ndarray, seed: int) -> Features:
            positions = self._graph.positions(nodes)
            return sample_features(
                self._graph, sampler, nodes=positions, seed=seed, n_threads=n_threads, dtype="float64"
            )

        sampled = [draw(blocks[0] if len(blocks) == 1 else np.unique(np.concatenate(blocks)), self._seed)]
        if len(blocks) > 1:  # drawn at once: to bind a sampler to a large graph takes longer than to draw a block
            sampled = [sampled[0].take(block) for block in blocks]
        grams = [SampledGram(features.factor(n_threads=n_threads), scale) for features in sampled]

        @cache
        def drawn_twice() -> tuple[Factor, Factor]:
            some = np.linspace(0, blocks[0].size - 1, min(blocks[0].size, _DRAWN_TWICE)).astype(np.int64)
            others = draw(blocks[0][some], self._seed ^ 1).factor(n_threads=n_threads)
            return sampled[0].factor(n_threads=n_threads).take(some), others

        def excess(kernel: Kernel) -> float:
            return sampler_choice.excess(*drawn_twice(), kernel.modulation(sampler.survival.table.size, scale))

        return Drawn(sampled[0], grams, excess)


class TrainingSet(NamedTuple):
    """What hyperparameters are sought for, and by which nodes.

    Attributes
    ----------
    graph : Graph
    kernel : Kernel
        The first guess.
    names : sequence of str
        Its hyperparameters to train.
    blocks : sequence of ndarray of int
        The nodes that training sees.
    share : float
        Of the graph that products for training reach.
    seed : int
    n_threads : int or None
    tables : SeriesTables, optional
        Those that training sets of other kernels or blocks share.
    precision : KernelPrecision, optional
        Of any of the kernels, for the method "precision".
    tell : bool
        Whether it is told if the series was cut, or rows are too short; not where the exact likelihood follows.
    quiet : bool
        Whether `fit` does not warn of a series that was cut or of rows that are too short. The series is then as
        long as where no exact likelihood follows.
    rows : SampledRows, optional
        Those that training sets of other kernels share while these are compared.
    steps : int
        The length of the sampled rows with which a search begins.
    """

    graph: Graph
    kernel: Kernel
    names: Sequence[str]
    blocks: Sequence[np.ndarray]
    share: float
    seed: int
    n_threads: int | None
    tables: SeriesTables | None = None
    precision: KernelPrecision | None = None
    tell: bool = True
    quiet: bool = False
    rows: SampledRows | None = None
    steps: int = sampler_choice.FIRST_LENGTH

    def series_grams(self) -> tuple[list[SeriesGram], int]:
        """Of each block, and the largest degree that they hold."""
        tables = self.tables or SeriesTables(self.graph, self.share, self.n_threads)
        return tables(self.kernel.laplacian, self.blocks)

    def density_of_states(self) -> tuple[np.ndarray, np.ndarray]:
        """Points and weights of a quadrature of the walk matrix's spectrum."""
        known = {} if self.tables is None else self.tables.densities
        if (laplacian := self.kernel.laplacian) not in known:
            known[laplacian] = density_of_states(self.graph, laplacian, np.random.default_rng(self.seed))
        return known[laplacian]

    @property
    def scale(self) -> float:
        """Of the kernel's Laplacian."""
        return self.graph.laplacian_scale(self.kernel.laplacian)

    @property
    def unit(self) -> float:
        """Of lengthscales."""
        return lengthscale_unit(self.graph, self.kernel.laplacian)

    @property
    def largest_lengthscale(self) -> float:
        """The largest that is looked at, whatever series or rows can serve."""
        return LENGTHSCALES[1] * self.unit

    def ranges(self, names: Sequence[str], longest: float) -> dict[str, tuple[float, float]]:
        """Where each of the named hyperparameters is sought, lengthscales up to the longest."""
        scale, unit = self.scale, self.unit
        return {name: hyperparameter_range(self.kernel, name, scale, longest, unit) for name in names}


class Candidate(NamedTuple):
    """A search that is to be made.

    Attributes
    ----------
    grams : sequence of Gram
        Of each block.
    longest : float
        The longest lengthscale that they serve.
    start : ndarray or None
        The point where an earlier search ended.
    sampler : Sampler or None
        Of sampled rows.
    features : Features or None
        Of the first block's.
    too_short : bool
        Whether rows end there because they are too short, and not because their variance is too large.
    excess : callable
        By how much squared norms of rows exceed the diagonal of a kernel, as a share of it.
    """

    grams: Sequence[Any]
    longest: float
    start: np.ndarray | None = None
    sampler: Any = None
    features: Any = None
    too_short: bool = False
    excess: Callable[[Kernel], float] = lambda kernel: 0.0


class SeriesCandidates(Generic[Result]):
    """One search, with the exact K: `result` is what the caller found for it."""

    result: Result
    sampler = None
    unserved = ""

    def __init__(self, training: TrainingSet) -> None:
        self._training = training

    def __iter__(self) -> Iterator[Candidate]:
        candidate = self.scout()
        yield candidate
        if self._training.tell and not self._training.quiet:
            self._warn_of_cut(candidate.grams[0], candidate.longest)

    def scout(self, most: int | None = None) -> Candidate:
        """K on which kernels are compared before one is searched: the exact one, here too, by `most` degrees."""
        _, kernel, names, *_ = self._training
        grams, held = self._training.series_grams()
        most = min(held, held if most is None else most, held if self._training.tell else BEGUN_DEGREES)
        longest = self._training.largest_lengthscale
        if "lengthscale" in names:
            longest = grams[0].longest(kernel, most, self._training.unit)
        return Candidate(grams, longest)

    def _warn_of_cut(self, gram: SeriesGram, longest: float) -> None:
        """Warn where the tables of the series ended the search, or were too short for the kernel."""
        kernel, most = self.result.kernel, gram.max_degree
        lengthscale = kernel.hyperparameters.get("lengthscale", 0.0)
        limited = "lengthscale" in self._training.names and longest < self._training.largest_lengthscale
        if limited and lengthscale > 0.98 * longest:
            warn(
                f"the lengthscale stopped at {lengthscale:.3g}, the longest that training supports with {most} "
                "Chebyshev terms of the series, but the data favour a longer one; fix the lengthscale "
                "(optimize=False), bring the weights closer together, or use the normalized Laplacian",
            )
        elif (lost := gram.lost(kernel)) > MUCH_LOST:
            warn(
                f"training cut the series of {kernel!r} after {most} Chebyshev terms: its covariance is off by "
                f"up to {lost:.1g} of the kernel's norm, which may affect the hyperparameters and the log "
                "marginal likelihood; shorten the lengthscale, bring the weights closer together, or lower "
                "`max_train`",
            )


class PrecisionCandidates(Generic[Result]):
    """One search, with the exact K from sparse factors: `result` is what the caller found for it."""

    result: Result
    sampler = None
    unserved = ""

    def __init__(self, training: TrainingSet, precision: KernelPrecision) -> None:
        self._training = training
        self._precision = precision

    def __iter__(self) -> Iterator[Candidate]:
        yield self.scout()

    def scout(self, most: int | None = None) -> Candidate:
        """K on which kernels are compared before one is searched: the exact one, here too."""
        longest = self._training.largest_lengthscale
        if "lengthscale" in self._training.names:
            longest = longest_lengthscale(self._training.kernel, self._precision.serves, self._training.unit)
        return Candidate([PrecisionGram(self._precision, block) for block in self._training.blocks], longest)


class SampledCandidates(Generic[Result]):
    """Searches with sampled rows; `result` is what the caller found for the last, and in the end the best.

    In the end `sampler` is that of the best rows: the given one, or if it is None compressed powers, and
    `unserved` says so if the data favour a longer lengthscale than they serve; "" otherwise. What training
    learns rests on the sampling error of its rows, which those of the posterior must share. Lengthscales end
    where the rows are too short, or where a fifth of their squared norms is sampling variance. If the best one
    is at the end of short rows, these are doubled, up to 128 steps, and else their budget, up to 512 entries,
    each as long as the likelihood gains a nat by it: data that say nothing of the lengthscale do not pay for
    long rows.
    """

    result: Result

    def __init__(self, training: TrainingSet, sampler: Any) -> None:
        if hasattr(sampler, "resolved"):
            # once: the kernel that is trained does not change its lengths
            sampler = sampler.resolved(training.graph)
        self._training = training
        self.unserved = ""
        self._given = sampler is not None
        self.sampler = sampler

    def __iter__(self) -> Iterator[Candidate]:
        if self._given:
            best = self._candidate(self.sampler)
            yield best
            at_end = self._ended(best)
        else:
            best, at_end = yield from self._growing()
        self.sampler = best.sampler
        kernel = self.result.kernel
        if at_end:
            self.unserved = (
                f"the lengthscale stopped at {kernel.hyperparameters['lengthscale']:.3g}, the longest that "
                f"{best.sampler!r} supports, but the data favour a longer one; pass a longer `sampler` or "
                "one with a larger budget, or method='series' (or 'precision' on a road network or a mesh)"
            )
        if self._training.quiet:
            return
        best.features.matrix(kernel, n_threads=self._training.n_threads)  # warns where rows and kernel do not fit
        if self.unserved:
            if self._training.tell:
                warn(self.unserved)
        elif "lengthscale" not in self._training.names:
            self._warn_of_variance(best)

    def _growing(self) -> Generator[Candidate, None, tuple[Candidate, bool]]:
        """Searches with compressed powers, ever longer and wider: the best, and whether it should be longer."""
        laplacian, n_trained = self._training.kernel.laplacian, sum(block.size for block in self._training.blocks)
        best = self.scout()
        yield best
        found, at_end = self.result, self._ended(best)
        length, times, longer_helps = best.sampler.survival.max_length, 1, True
        while self._training.names:
            longer = longer_helps and at_end and best.too_short and length < sampler_choice.LONGEST
            if not longer and best.sampler.budget >= sampler_choice.LARGEST_BUDGET:
                break
            tried = (2 * length, times) if longer else (length, 2 * times)
            default = sampler_choice.default_sampler(laplacian, tried[0], n_trained)
            budget = min(tried[1] * default.budget, sampler_choice.LARGEST_BUDGET)
            larger = self._candidate(replace(default, budget=budget), found.point)
            yield larger
            if self.result.value >= found.value + _WORTH_MORE:
                (length, times), best, found, at_end = tried, larger, self.result, self._ended(larger)
                continue
            at_end = at_end and larger.longest < _FURTHER * best.longest  # else it could have gone on
            if not longer:
                break
            longer_helps = False
        self.result = found
        return best, at_end

    def scout(self, most: int | None = None) -> Candidate:
        """Rows on which kernels are compared before one is searched: the given ones, or the first default ones."""
        kernel, names = self._training.kernel, self._training.names
        n_trained = sum(block.size for block in self._training.blocks)
        length = self._training.steps if names else steps_needed(kernel, self._training.scale)
        default = sampler_choice.default_sampler(kernel.laplacian, min(length, sampler_choice.LONGEST), n_trained)
        return self._candidate(self.sampler or default)

    def _candidate(self, sampler: Any, start: np.ndarray | None = None) -> Candidate:
        training, scale, longest = self._training, self._training.scale, self._training.largest_lengthscale
        rows = training.rows or SampledRows(training.graph, training.seed, training.n_threads)
        features, grams, excess = rows(sampler, training.blocks)
        too_short = False
        if "lengthscale" in training.names:
            long_enough = sampler_choice.serves(sampler, scale)
            longest = longest_lengthscale(
                training.kernel,
                lambda k: long_enough(k) and excess(k) <= sampler_choice.MOST_EXCESS,
                training.unit,
            )
            too_short = not long_enough(training.kernel.replace(lengthscale=_FURTHER * longest))
        return Candidate(grams, longest, start, sampler, features, too_short, excess)

    def _warn_of_variance(self, candidate: Candidate) -> None:
        """Warn where rows are long enough for a kernel whose lengthscale is not trained, but vary too much."""
        kernel, sampler = self.result.kernel, candidate.sampler
        excess = candidate.excess(kernel)
        if excess > sampler_choice.MOST_EXCESS and sampler_choice.serves(sampler, self._training.scale)(kernel):
            warn(
                f"the sampled rows of {sampler!r} have squared norms that exceed the prior variances of "
                f"{kernel!r} by {100 * excess:.0f} % on average. This excess is sampling variance, which the "
                "Gaussian process takes for a signal that differs at every node, so that noise and intervals come "
                "out too small; pass a `sampler` with a larger budget or more walks, a kernel of shorter range, "
                "or method='series'",
            )

    def _ended(self, candidate: Candidate) -> bool:
        """Whether the lengthscale found is the longest that the rows serve, and not the longest of all."""
        if "lengthscale" not in self._training.names:
            return False
        reached = self.result.kernel.hyperparameters["lengthscale"] > 0.98 * candidate.longest
        return reached and candidate.longest < self._training.largest_lengthscale


def candidates(
    training: TrainingSet, method: str, sampler: Any
) -> SeriesCandidates[Any] | PrecisionCandidates[Any] | SampledCandidates[Any]:
    """The searches of a method, one after another: set `result` for each, before the next is asked for."""
    if method == "precision":
        assert training.precision is not None
        return PrecisionCandidates(training, training.precision)
    return SeriesCandidates(training) if method == "series" else SampledCandidates(training, sampler)
