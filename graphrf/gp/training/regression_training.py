"""All training of a regression: the nodes that it sees, the best of some kernels, and points averaged over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from graphrf.gp.inference.observations import Observations
from graphrf.gp.prior import HyperparameterPrior
from graphrf.gp.progress import Step
from graphrf.gp.training.blocks import SCOUT, training_blocks
from graphrf.gp.training.candidates import SeriesTables, TrainingSet
from graphrf.gp.training.fitting import CandidateKernel, Targets, compare, train
from graphrf.gp.training.grid import GridCell
from graphrf.gp.training.likelihood_search import LikelihoodResult
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel


class Trained(NamedTuple):
    """What training found.

    Attributes
    ----------
    best : LikelihoodResult
    sampler : Sampler or None
        Of the posterior's rows.
    candidates : sequence of CandidateKernel
        Best first.
    points : sequence of GridCell
        Hyperparameters over which predictions are averaged; none where the best ones are taken alone.
    """

    best: LikelihoodResult
    sampler: Any
    candidates: Sequence[CandidateKernel]
    points: Sequence[GridCell]


@dataclass(frozen=True)
class RegressionTraining:
    """What a regression observed, and how it trains on that.

    Attributes
    ----------
    graph : Graph
    positions : ndarray of int, shape (n,)
        The observed nodes; repeats are repeated observations.
    values : ndarray, shape (n, p)
    precisions : ndarray, shape (n,), optional
        Relative to 1 / noise.
    basis : ndarray, shape (N, b)
        Of the mean function.
    output_scale, noise : float or None
        None trains them.
    normalize : bool
    prior : HyperparameterPrior
    n_train : int
        Nodes that training sees.
    share : float
        Of the graph that its products reach.
    method : "series" or "features"
    sampler : Sampler or None
    integrate : bool
        Whether points are wanted.
    seed : int
    n_threads : int or None
    """

    graph: Graph
    positions: np.ndarray
    values: np.ndarray
    precisions: np.ndarray | None
    basis: np.ndarray
    output_scale: float | None
    noise: float | None
    normalize: bool
    prior: HyperparameterPrior
    n_train: int
    share: float
    method: str
    sampler: Any
    integrate: bool
    seed: int
    n_threads: int | None

    def run(self, kernels: Sequence[tuple[Kernel, Sequence[str]]], step: Step | None) -> Trained:
        """Train the named hyperparameters of the best of some kernels; `step` is called at every evaluation."""
        blocks, scouts = self._blocks()
        whole, few = self._targets(blocks, step), self._targets(scouts, step)
        integrate = self.integrate and whole.vary
        if not whole.vary:
            kernels, whole = [(kernels[0][0], ())], whole.fixed()
        if not few.vary:  # what varies is elsewhere, if anything does
            scouts, few = blocks, whole
        tables = SeriesTables(self.graph, self.share, self.n_threads)
        sets = [
            TrainingSet(self.graph, kernel, names, scouts, self.share, self.seed, self.n_threads, tables)
            for kernel, names in kernels
        ]
        compared = compare(sets, few, self.method, self.sampler)
        chosen = compared.training[0]._replace(blocks=blocks)
        best, sampler = train(chosen, whole, compared.grids[0], self.method, self.sampler)
        points = compared.points(blocks, whole, self.method, sampler) if integrate else []
        return Trained(best, sampler, compared.kernels, points)

    def _blocks(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The nodes that training sees, and those on which kernels are compared."""
        rng = np.random.default_rng(self.seed)
        distinct = np.unique(self.positions)
        blocks = training_blocks(self.graph, distinct, self.n_train, rng)
        if len(blocks) == 1 and distinct.size > 2 * SCOUT:
            # smaller blocks compare kernels at a fraction of the cost
            return blocks, training_blocks(self.graph, distinct, distinct.size - 1, rng, SCOUT)
        return blocks, blocks

    def _targets(self, blocks: Sequence[np.ndarray], step: Step | None) -> Targets:
        observed = []
        for block in blocks:
            own = np.isin(self.positions, block)
            precisions = None if self.precisions is None else self.precisions[own]
            observed.append(Observations.of(self.positions[own], self.values[own], self.basis, precisions))
        return Targets(observed, self.output_scale, self.noise, self.normalize, self.prior, step)
