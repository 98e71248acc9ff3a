"""The grid of unbiasedness: what is sampled, for which kernels and graphs; one draw.

A graph of R copies of a small one gives R independent draws of all its rows at once, because a row
is a function of the seed and its own node, and one record serves every kernel of its Laplacian. The
grid is generated from lists that a test compares with the classes that the package has.

What it does not see: graphs of other than 8 or 34 nodes, other numbers of walks than 6, weights
over many decades, and relative errors below about 1e-3. It samples with the loops for CPUs only;
that torch makes the same record, bit for bit, is tested in tests/sampling. A change of the walks'
laws of lengths that leaves their mean over the walks of a node does not bias features: the law of
each walk is tested in tests/sampling/test_length_marginals.py, and the shares of weights by which a
step is chosen in tests/sampling/test_walks.py.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import networkx as nx
import numpy as np
import scipy.sparse as sp

import graphrf as grf
from graphrf.features.bounds import HEAVY
from graphrf.features.features import Features
from graphrf.sampling.walks.lengths import LengthLaw
from tests.support.sequential import assert_unbiased, skewness
from tests.support.small_graphs import two_components

LAPLACIANS = ("normalized", "combinatorial")
DIRECTIONS = ("independent", "stratified")
PLATEAUS = grf.sampling.Survival([1.0, 1.0, 0.5, 0.25, 0.25])
FALLING = grf.sampling.Survival([1.0, 1.0, 0.5, 0.25, 0.2])
TABLES = (0.2, PLATEAUS)
REVERSED = grf.sampling.Coupling(np.arange(10)[::-1])
THREE = grf.sampling.Coupling([[2, 0, 1, 4, 3], [1, 2, 0, 4, 3]])
# A multiple of the groups of coupled walks of all laws.
N_WALKS = 6
# Steps that fewer walks take are left out where they matter, but not the first terms of a kernel.
RARE = 0.01
FEWEST = 3
# Most skewness of a projection, as a share of the root
# of the number of draws: up to here its p-values hold.
SKEWED = 0.15


# -- graphs ----------------------------------------------------------------------------------------


def _karate(weighted: bool) -> grf.Graph:
    return grf.Graph(
        nx.to_scipy_sparse_array(nx.karate_club_graph(), weight="weight" if weighted else None)
    )


GRAPHS = {"small": two_components, "karate": _karate}


@lru_cache
def graph_of(name: str, weighted: bool) -> grf.Graph:
    return GRAPHS[name](weighted)


@lru_cache(maxsize=8)
def copies(graph: grf.Graph, n: int) -> grf.Graph:
    """n copies of a graph side by side."""
    return grf.Graph(sp.block_diag([graph.adjacency] * n, format="csr"))


def blocks(matrix: sp.csr_array, n_nodes: int) -> np.ndarray:
    """The diagonal blocks of a matrix on copies, dense, shape (copies, rows of a copy, n_nodes)."""
    rows = n_nodes * matrix.shape[0] // matrix.shape[1]
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    assert (row // rows == matrix.indices // n_nodes).all(), "a row reaches another copy"
    dense = np.zeros((matrix.shape[0], n_nodes))
    dense[row, matrix.indices % n_nodes] = matrix.data
    return dense.reshape(-1, rows, n_nodes)


# -- kernels ---------------------------------------------------------------------------------------


def kernels_of(laplacian: str, scale: float) -> list[grf.kernels.Kernel]:
    """Every kernel that the Laplacian has; `scale` is the graph's."""
    unit = {"normalized": 1.0, "combinatorial": 0.5}[laplacian]
    given = {"laplacian": laplacian}
    kernels = [
        grf.Diffusion(unit, **given),
        grf.RegularizedLaplacian(unit, 2.0, **given),
        grf.Matern(1.5, 2 * unit, **given),
        grf.kernels.PStepRandomWalk(2.5 * scale, 3, **given),
        grf.kernels.PStepRandomWalk(2.0 * scale, 4, **given),
        grf.kernels.PowerSeries(modulation=[1.0, -0.5, 0.25, 0.1], **given),
        grf.kernels.PowerSeries(taylor=[1.0, 0.8, 0.4, 0.1], **given),
        grf.kernels.LearnedModulation(3, (0.7, 0.4, -0.2, 0.1), **given),
    ]
    kernels += [grf.Leroux(0.4)] if laplacian == "combinatorial" else []
    return kernels + ([grf.kernels.InverseCosine()] if laplacian == "normalized" else [])


def served(kernel: grf.kernels.Kernel, survival: np.ndarray, scale: float) -> grf.kernels.Kernel:
    """The kernel, or, if it decays too slowly for the walks, the first terms they serve.

    Steps that are too rare for a sample must not decide the third moment of what a draw loads,
    which is sum_k |f_k|^3 / S(k)^2: most samples would lack them.
    """
    f = kernel.modulation(survival.size, scale)
    cube = np.abs(f) ** 3 / survival**2
    heavy = np.cumsum(f * f / survival) > 0.5 * HEAVY * np.cumsum(f * f)
    heavy |= np.cumsum(np.where(survival < RARE, cube, 0.0)) > 0.01 * np.cumsum(cube)
    heavy[:FEWEST] = False
    if not heavy.any():
        return kernel
    return grf.kernels.PowerSeries(modulation=f[: heavy.argmax()], laplacian=kernel.laplacian)


# -- samplers --------------------------------------------------------------------------------------


def laws(laplacian: str) -> list[object]:
    """Every law of lengths, with a halting probability and with a table that has plateaus."""
    made: list[object] = [
        law(table)
        for law, table in itertools.product(
            (grf.sampling.IID, grf.sampling.Antithetic, grf.sampling.Stratified), TABLES
        )
    ]
    made += [
        grf.sampling.SigmaCoupled(table, coupling)
        for coupling, table in itertools.product((REVERSED, THREE), TABLES)
    ]
    made += [
        grf.sampling.SigmaCoupled(0.2),
        grf.sampling.Antithetic(0.55),
        grf.sampling.Truncated(4),
    ]
    return [*made, grf.sampling.AutoLengths(_long(laplacian))]


def _long(laplacian: str) -> grf.kernels.Kernel:
    return grf.Diffusion(2.0 if laplacian == "normalized" else 1.0, laplacian=laplacian)


@lru_cache
def samplers(laplacian: str) -> list[object]:
    """Every unbiased sampler with every law and in all directions."""
    walks = [
        grf.RandomWalks(N_WALKS, law, directions=directions, laplacian=laplacian)
        for law, directions in itertools.product(laws(laplacian), DIRECTIONS)
    ]
    budgets = [
        {"budget": 1, "max_length": 5},
        {"budget": 3, "max_length": 4},
        {"budget": 4, "lengths": FALLING},
        {"budget": 4, "lengths": grf.sampling.AutoLengths(_long(laplacian))},
        {"budget": 2},
    ]
    powers = [grf.CompressedPowers(**budget, laplacian=laplacian) for budget in budgets]
    return [*walks, *powers, grf.sampling.ExactPowers(5, laplacian=laplacian)]


def subclasses(base: type) -> set[type]:
    """All public concrete classes of the package below one."""
    found = set()
    for child in base.__subclasses__():
        found |= subclasses(child)
        is_concrete = not inspect.isabstract(child) and not child.__name__.startswith("_")
        if is_concrete and child.__module__.startswith("graphrf."):
            found.add(child)
    return found


# -- cells -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """A sampler on a graph: with every kernel, rows of F and the Gram matrix off its diagonal."""

    graph: str
    weighted: bool
    laplacian: str
    number: int  # of the sampler

    @property
    def sampler(self) -> object:
        return samplers(self.laplacian)[self.number]

    def __str__(self) -> str:
        weights = "weighted" if self.weighted else "plain"
        return f"{self.graph}-{weights}-{self.laplacian}-{self.number}-{self.sampler!r}"

    @property
    def n0(self) -> int:
        """Draws in the first round: more where few skewed estimates are far from normal."""
        lengths = getattr(self.sampler, "lengths", None)
        by_chance = isinstance(lengths, LengthLaw) and not isinstance(
            lengths, grf.sampling.Truncated
        )
        return 1000 if by_chance and self.laplacian == "normalized" else 4000

    @property
    def chosen(self) -> bool:
        """Whether it is in the part that has each sampler once, and each class in all ways.

        Walks come in pairs of directions, and laws mostly in two pairs, for their tables.
        """
        pair, second = divmod(self.number, 2)
        combinatorial, plain = (pair + second) % 2, (pair // 2 + second) % 2
        return (
            self.graph == "small"
            and self.laplacian == LAPLACIANS[combinatorial]
            and self.weighted == (not plain)
        )


def cells() -> Iterator[Cell]:
    for graph, weighted, laplacian in itertools.product(GRAPHS, (True, False), LAPLACIANS):
        for number in range(len(samplers(laplacian))):
            yield Cell(graph, weighted, laplacian, number)


class Estimates:
    """Projections of F and of the Gram matrix off its diagonal, of a sampler's kernels."""

    def __init__(self, graph: grf.Graph, sampler: object) -> None:
        self.graph, self.sampler = graph, sampler
        laplacian = sampler.laplacian
        self.n = graph.n_nodes
        self.walk = graph.walk_matrix(laplacian).toarray()
        degree = np.sqrt(np.where(graph.degrees > 0, graph.degrees, 1.0))
        eigen = np.linalg.eigh(self.walk)[1]
        # Along degrees mistakes in weights and lengths show, along eigenvectors those of single
        # steps. How much of sqrt(d) a single row holds hardly varies: there its own degree shows.
        left = [
            1 / degree,
            degree,
            degree,
            eigen[:, -2],
            eigen[:, 0],
            eigen[:, -1],
            *np.eye(self.n),
        ]
        right = [
            degree,
            degree,
            1 / degree,
            eigen[:, -2],
            eigen[:, 0],
            eigen[:, -3],
            *[degree] * self.n,
        ]
        self.left, self.right = np.array(left), np.array(right)
        self.scale = graph.laplacian_scale(laplacian)
        self.kernels = kernels_of(laplacian, self.scale)

    @property
    def names(self) -> list[str]:
        each = itertools.product(self.kernels, ("rows of F", "Gram matrix"), range(len(self.left)))
        return [f"{kernel!r}, {what}, projection {number}" for kernel, what, number in each]

    def projected(self, phi: np.ndarray) -> np.ndarray:
        """Of matrices phi, (..., n, n), and phi phi^T off its diagonal: shape (..., 2 p)."""
        gram = phi @ np.swapaxes(phi, -1, -2)
        gram[..., np.arange(self.n), np.arange(self.n)] = 0.0
        parts = [((self.left @ matrix) * self.right).sum(axis=-1) for matrix in (phi, gram)]
        return np.concatenate(parts, axis=-1)

    def truths(self, survival: np.ndarray) -> np.ndarray:
        """The exact projections of F cut after the longest walk, shape (kernels, 2 p)."""
        powers = [np.eye(self.n)]
        for _ in range(survival.size - 1):
            powers.append(powers[-1] @ self.walk)
        modulations = [kernel.modulation(survival.size, self.scale) for kernel in self.kernels]
        return np.array([self.projected(np.einsum("k,kij->ij", f, powers)) for f in modulations])

    def sample(self, round_: int, n: int) -> Features:
        return grf.sample_features(
            copies(self.graph, n), self.sampler, seed=round_, n_threads=1, dtype="float64"
        )

    def check(self, n0: int, record: Callable[[int, int], Features] | None = None) -> None:
        """Raise `AssertionError` if a projection is biased; `record` for what is wrong."""
        # A choice of lengths is made for the graph that is
        # sampled, and is to be the same in every round.
        self.sampler = self.sampler.resolved(copies(self.graph, n0))
        survival = self.sampler.survival.table
        self.kernels = [served(kernel, survival, self.scale) for kernel in self.kernels]
        truths = self.truths(survival)
        size = np.abs(truths).max(axis=1)

        def draw(round_: int, n: int) -> np.ndarray:
            features = (record or self.sample)(round_, n)
            matrices = (
                blocks(features.matrix(kernel, n_threads=1), self.n) for kernel in self.kernels
            )

            projections = np.concatenate(
                [self.projected(phi) / s for phi, s in zip(matrices, size, strict=True)], axis=1
            )
            if round_ == 0:  # not at night, when a rare draw would alarm
                worst = np.abs(skewness(projections)).max() / np.sqrt(n)
                assert worst <= SKEWED, (
                    f"p-values of {n} draws do not hold: skewness {worst:.2g} sqrt(n)"
                )
            return projections

        # Powers are stored in float32.
        slack = 1e-13 if isinstance(self.sampler, grf.RandomWalks) else 1e-6
        assert_unbiased(
            draw, (truths / size[:, None]).ravel(), n0=n0, names=self.names, slack=slack
        )
