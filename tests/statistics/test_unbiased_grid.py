"""Features of every sampler are unbiased for every kernel, weighted or not, in all directions.

Each cell of the grid compares rows of F and the Gram matrix off its diagonal with the exact ones,
for all kernels of one Laplacian, in one sequential test. The negative controls are wrong in one way
each.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import graphrf as grf
from graphrf.kernels.kernel import Kernel
from graphrf.sampling.walks import random_walks
from graphrf.sampling.walks.lengths import LengthLaw
from graphrf.sampling.walks.random_walks import AdaptiveLengths
from graphrf.sampling.walks.transitions import transitions
from tests.statistics.grid import (
    DIRECTIONS,
    FALLING,
    LAPLACIANS,
    N_WALKS,
    REVERSED,
    Cell,
    Estimates,
    blocks,
    cells,
    copies,
    graph_of,
    kernels_of,
    laws,
    samplers,
    subclasses,
)
from tests.support.same_features import changed
from tests.support.sequential import assert_unbiased

pytestmark = pytest.mark.filterwarnings("ignore::graphrf.features.TruncationWarning")

N0 = 1000


def _marked(cell: Cell):
    return pytest.param(cell, id=str(cell), marks=() if cell.chosen else pytest.mark.full)


@pytest.mark.parametrize("cell", [_marked(cell) for cell in cells()])
def test_rows_and_gram_are_unbiased_for_every_kernel(cell):
    Estimates(graph_of(cell.graph, cell.weighted), cell.sampler).check(cell.n0)


# -- the grid is complete --------------------------------------------------------------------------


def test_every_kernel_law_and_sampler_is_in_the_grid():
    kernels = {type(kernel) for laplacian in LAPLACIANS for kernel in kernels_of(laplacian, 1.0)}
    # These have no series, and no features.
    assert kernels == subclasses(Kernel) - {grf.BYM2, grf.CAR, grf.ICAR}
    used = {type(law) for law in laws("normalized")}
    assert used == subclasses(LengthLaw) | subclasses(AdaptiveLengths)
    public = (getattr(grf.sampling, name) for name in grf.sampling.__all__)
    found = {one for one in public if isinstance(one, type) and hasattr(one, "prepare")} - {
        grf.sampling.Sampler
    }
    biased = {grf.sampling.CutPowers}  # see below
    assert {type(sampler) for sampler in samplers("normalized")} | biased == found


def _class(sampler):
    return type(sampler.lengths if isinstance(sampler, grf.RandomWalks) else sampler)


def test_the_fast_part_of_the_grid_has_every_sampler_and_every_class_in_all_ways():
    few = [cell for cell in cells() if cell.chosen]
    assert sorted(cell.number for cell in few) == list(range(len(samplers("normalized"))))
    all_ways = set(itertools.product((False, True), LAPLACIANS, DIRECTIONS))
    assert {
        (c.weighted, c.laplacian, getattr(c.sampler, "directions", None)) for c in few
    } >= all_ways
    for one in {_class(cell.sampler) for cell in few} - {grf.sampling.ExactPowers}:
        of_class = [cell for cell in few if _class(cell.sampler) == one]
        assert {cell.weighted for cell in of_class} == {False, True}, one
        assert {cell.laplacian for cell in of_class} == set(LAPLACIANS), one
        assert len({(cell.weighted, cell.laplacian) for cell in of_class}) == min(
            4, len(of_class)
        ), one


@pytest.mark.parametrize("laplacian", LAPLACIANS)
@pytest.mark.parametrize("weighted", [False, True])
def test_cut_powers_are_off_by_no_more_than_they_say(weighted, laplacian):
    graph = graph_of("small", weighted)
    estimates = Estimates(graph, grf.sampling.CutPowers(2, 5, laplacian=laplacian))
    features = grf.sample_features(graph, estimates.sampler, dtype="float64")
    for kernel in estimates.kernels:
        phi, root = features.matrix(kernel).toarray(), kernel.dense_root(graph)
        off = np.linalg.norm(phi - root, axis=1)
        rounding = 1e-6 * np.abs(kernel.modulation(6, estimates.scale)).sum()
        assert (off <= features.row_errors(kernel) + rounding).all()
        assert off.max() > 1e-3 * np.linalg.norm(root, axis=1).max()  # there is something to bound
        assert np.linalg.norm(phi @ phi.T - root @ root.T, 2) <= features.truncation_error(kernel)


# -- negative controls -----------------------------------------------------------------------------


def _fails(estimates, record, n0=N0):
    with pytest.raises(AssertionError, match=r"biased: .*round [12],"):
        estimates.check(n0, record)


def _believing(estimates, believed):
    """Samples whose features divide by another survival table."""

    def record(round_, n):
        features = estimates.sample(round_, n)
        size = features.info.survival.size
        table = np.pad(believed[:size], (0, max(0, size - believed.size)), mode="edge")
        return changed(features, survival=table)

    return record


SHIFT = 0.05
HALTING = [
    grf.sampling.IID,
    grf.sampling.Antithetic,
    lambda p_halt: grf.sampling.SigmaCoupled(p_halt, REVERSED),
    grf.sampling.Stratified,
]


@pytest.mark.parametrize("directions", DIRECTIONS)
@pytest.mark.parametrize("law", HALTING, ids=["iid", "antithetic", "sigma", "stratified"])
def test_a_halting_probability_five_percent_off_fails(law, directions):
    estimates = Estimates(
        graph_of("small", True), grf.RandomWalks(N_WALKS, law(1.05 * 0.2), directions=directions)
    )
    _fails(estimates, _believing(estimates, grf.sampling.Survival.geometric(0.2).table))


@pytest.mark.parametrize(
    "law", HALTING[-1:] + [lambda table: grf.sampling.IID(table)], ids=["stratified", "iid"]
)
def test_one_entry_of_a_table_that_is_off_by_a_twentieth_fails(law):
    estimates = Estimates(graph_of("small", True), grf.RandomWalks(N_WALKS, law(FALLING)))
    _fails(estimates, _believing(estimates, FALLING.table * [1, 1, 1.05, 1, 1]))


@pytest.mark.parametrize(
    "sampler", [grf.RandomWalks(N_WALKS, grf.sampling.Stratified(0.2)), grf.CompressedPowers(3, 4)]
)
def test_the_degree_of_one_node_that_is_off_by_a_twentieth_fails(sampler):
    estimates = Estimates(graph_of("small", True), sampler)

    def record(round_, n):
        features = estimates.sample(round_, n)
        return changed(
            features, degrees=features.info.degrees * np.tile([1, 1, 1.05, 1, 1, 1, 1, 1], n)
        )

    _fails(estimates, record)


@pytest.mark.parametrize(
    "sampler",
    [
        grf.RandomWalks(2, grf.sampling.Stratified(0.2)),
        pytest.param(
            grf.RandomWalks(2, grf.sampling.Truncated(4), directions="independent"),
            marks=pytest.mark.full,
        ),
    ],
)
def test_random_numbers_that_nodes_share_fail_in_the_gram_matrix(sampler):
    # Every node of a copy is sampled at place 0 of a
    # relabelled graph, with the random numbers of that place.
    graph = graph_of("small", True)
    estimates, kernel = Estimates(graph, sampler), grf.kernels.PowerSeries(modulation=np.ones(4))
    at_first = [np.r_[node, np.delete(np.arange(8), node)] for node in range(8)]

    def projections(round_, n):
        phi = np.empty((n, 8, 8))
        for node, order in enumerate(at_first):
            relabelled = copies(grf.Graph(graph.adjacency[order][:, order]), n)
            features = grf.sample_features(
                relabelled,
                sampler,
                nodes=8 * np.arange(n),
                seed=round_,
                n_threads=1,
                dtype="float64",
            )
            phi[:, node, order] = blocks(features.matrix(kernel, n_threads=1), 8)[:, 0]
        return estimates.projected(phi)

    truth = estimates.projected(kernel.dense_root(graph))
    rows, gram = np.split(np.arange(truth.size), 2)
    assert_unbiased(
        lambda round_, n: projections(round_, n)[:, rows], truth[rows], n0=2 * N0, slack=1e-13
    )
    with pytest.raises(AssertionError, match=r"biased: .*round [12],"):
        assert_unbiased(lambda round_, n: projections(round_, n)[:, gram], truth[gram], n0=2 * N0)


def _shifted(adjacency, weighted=True):
    """Transitions whose first edges are taken a hundredth more often: low offsets."""
    made = transitions(adjacency, weighted)
    inner = np.delete(np.arange(made.cumulative.size), made.indptr[1:][made.indptr[1:] > 0] - 1)
    cumulative = made.cumulative.copy()
    cumulative[inner] += SHIFT * (1 - cumulative[inner])
    cumulative.setflags(write=False)
    return made._replace(cumulative=cumulative)


@pytest.mark.parametrize("directions", DIRECTIONS)
def test_a_shifted_offset_of_directions_fails(directions, monkeypatch):
    monkeypatch.setattr(random_walks, "transitions", _shifted)
    _fails(
        Estimates(
            graph_of("small", True),
            grf.RandomWalks(N_WALKS, grf.sampling.Truncated(4), directions=directions),
        ),
        None,
    )


@pytest.mark.parametrize(
    "budget", [{"budget": 3, "max_length": 4}, {"budget": 4, "lengths": FALLING}], ids=str
)
def test_weight_that_is_lost_by_powers_fails(budget):
    estimates = Estimates(graph_of("small", True), grf.CompressedPowers(**budget))

    def record(round_, n):
        features = estimates.sample(round_, n)
        return changed(
            features,
            counts=np.where(features.record.steps == 2, 0.99, 1).astype(np.float32)
            * features.record.counts,
        )

    _fails(estimates, record)
