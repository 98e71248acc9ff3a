"""Every law of lengths and coupling leaves each walk its own law, by integrals.

The lengths that `draw_lengths` gives are constant between the points where a uniform meets an entry
of the survival table. So the loop itself is run, uncompiled, with scripted words for the generator,
on the midpoint of every piece, and the pieces are added up.
"""

import numpy as np
import pytest

import graphrf as grf
from graphrf.sampling.walks import loops
from graphrf.sampling.walks.lengths import Rule, Survival

SURVIVALS = {
    "geometric .1": Survival.geometric(0.1),
    "geometric .6": Survival.geometric(0.6),
    "table": Survival([1.0, 0.9, 0.55, 0.55, 0.2]),
    "never ends early": Survival([1.0, 1.0, 1.0]),
}


def _learned(survival):
    return grf.couplings.learn_coupling(p_halt=survival, order=6)


def _learned_for_three(survival):
    return grf.couplings.learn_coupling(p_halt=survival, order=5, n_walkers=3)


LAWS = {
    "iid": (grf.sampling.IID, 2),
    "stratified": (grf.sampling.Stratified, 5),
    "shipped permutation": (
        lambda survival: grf.sampling.SigmaCoupled(
            survival, grf.sampling.SigmaCoupled(0.1).coupling
        ),
        2,
    ),
    "learned permutation": (
        lambda survival: grf.sampling.SigmaCoupled(survival, _learned(survival)),
        4,
    ),
    "three walkers": (
        lambda survival: grf.sampling.SigmaCoupled(survival, _learned_for_three(survival)),
        6,
    ),
    "identity": (
        lambda survival: grf.sampling.SigmaCoupled(survival, grf.sampling.Coupling(np.arange(4))),
        2,
    ),
}


def _lengths(monkeypatch, law, n_walks, uniform, choice=0):
    """What `draw_lengths` gives when every uniform is `uniform`, and every third word `choice`."""
    monkeypatch.setattr(loops, "philox", lambda *counter: (0, 0, np.uint64(choice), 0))
    monkeypatch.setattr(loops, "unit", lambda first, second: uniform)
    lengths = np.empty(n_walks, np.int64)
    table, permutations = law.survival.table, law.permutations(n_walks)
    loops.draw_lengths.py_func(
        np.uint64(0), int(law.rule), table, permutations, np.uint64(0), lengths
    )
    return lengths


def _pieces(ends):
    ends = np.unique(np.clip(np.append(ends, [0.0, 1.0]), 0.0, 1.0))
    return (ends[1:] + ends[:-1]) / 2, np.diff(ends)


@pytest.mark.parametrize("survival", SURVIVALS.values(), ids=SURVIVALS)
@pytest.mark.parametrize(("law", "n_walks"), LAWS.values(), ids=LAWS)
def test_every_walk_of_a_source_has_the_survival_table_exactly(monkeypatch, survival, law, n_walks):
    law = law(survival)
    table = survival.table
    tiles = {Rule.STRATIFIED: n_walks, Rule.PERMUTATION: law.permutations(n_walks).shape[1]}.get(
        law.rule, 1
    )
    reached = np.zeros((n_walks, table.size))
    for tile in range(tiles):
        # The middle of the words that choose this tile: all tiles are as likely, within 2^-32.
        choice = ((2 * tile + 1) << 32) // (2 * tiles)
        # Within tile t the uniform of the table is (t + x) / tiles.
        ends = (tiles * table[:, None] - np.arange(tiles)).ravel()
        for x, size in zip(*_pieces(ends[(ends > 0) & (ends < 1)]), strict=True):
            lengths = _lengths(monkeypatch, law, n_walks, x, choice)
            reached += (lengths[:, None] >= np.arange(table.size)) * size / tiles
    np.testing.assert_allclose(reached, np.tile(table, (n_walks, 1)), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "survival", [Survival([1.0, 0.9, 0.55, 0.55, 0.2]), Survival([1.0, 0.3, 0.2])]
)
def test_both_antithetic_walks_have_the_survival_table_exactly(monkeypatch, survival):
    table = survival.table
    halts = 1 - table[1:] / table[:-1]
    # A fresh uniform for every step, so the pieces of all steps are combined.
    ends = np.concatenate([halts, halts + 0.5, halts - 0.5, [0.5]])
    midpoints, sizes = _pieces(ends[(ends > 0) & (ends < 1)])
    law = grf.sampling.Antithetic(survival)
    steps = table.size - 1
    reached = np.zeros((2, table.size))
    for chosen in np.ndindex(*[midpoints.size] * steps):
        script = iter(midpoints[list(chosen)])
        monkeypatch.setattr(loops, "philox", lambda *counter: (0, 0, 0, 0))
        monkeypatch.setattr(loops, "unit", lambda first, second, script=script: next(script))
        lengths = np.empty(2, np.int64)
        loops.draw_lengths.py_func(
            np.uint64(0), int(law.rule), table, law.permutations(2), np.uint64(0), lengths
        )
        reached += (lengths[:, None] >= np.arange(table.size)) * sizes[list(chosen)].prod()
    np.testing.assert_allclose(reached, np.tile(table, (2, 1)), rtol=0, atol=1e-12)


def test_the_integral_finds_a_tile_that_two_walkers_share():
    # Negative control: rows that are no permutations,
    # which `Coupling` refuses, and what they would do.
    law = grf.sampling.SigmaCoupled(SURVIVALS["table"], grf.sampling.Coupling([1, 0]))
    object.__setattr__(law.coupling, "permutations", np.array([[1, 1]]))
    with pytest.raises(AssertionError), pytest.MonkeyPatch.context() as monkeypatch:
        test_every_walk_of_a_source_has_the_survival_table_exactly(
            monkeypatch, SURVIVALS["table"], lambda survival: law, 2
        )


def test_the_integral_finds_strata_that_are_not_rotated():
    # Negative control: walk j is then always in stratum
    # permutations[0, j]; the mean over the walks is as it was.
    rotated = _lengths

    def unrotated(monkeypatch, law, n_walks, uniform, choice):
        return rotated(monkeypatch, law, n_walks, uniform)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setitem(globals(), "_lengths", unrotated)
        with pytest.raises(AssertionError):
            test_every_walk_of_a_source_has_the_survival_table_exactly(
                monkeypatch, SURVIVALS["table"], grf.sampling.Stratified, 5
            )
