import json
import pickle

import numpy as np
import pytest

import graphrf as grf
from graphrf.sampling.walks.coupling import Coupling, shipped_coupling
from graphrf.sampling.walks.lengths import Survival, van_der_corput_order

LAWS = [
    grf.sampling.IID,
    grf.sampling.Stratified,
    grf.sampling.Antithetic,
    grf.sampling.SigmaCoupled,
]


def test_geometric_survival_is_the_power_of_one_minus_p_within_the_resolution():
    table = Survival.geometric(0.1).table
    np.testing.assert_allclose(table, 0.9 ** np.arange(table.size), rtol=0, atol=2.0**-53)
    assert table[-1] > 0
    assert 0.9**table.size < 2.0**-53
    assert Survival.geometric(0.1).is_complete
    assert not Survival([1.0, 0.5]).is_complete


@pytest.mark.parametrize(
    "text",
    ["Survival.geometric(0.1)", "Survival.geometric(0.0007)", "Survival.geometric(0.333333333333)"],
)
def test_the_repr_of_a_geometric_table_makes_it_again(text):
    survival = eval(text)
    assert repr(survival) == text
    assert repr(grf.sampling.Stratified(survival)) == f"Stratified({text})"
    assert repr(pickle.loads(pickle.dumps(survival))) == text


@pytest.mark.parametrize(
    "table",
    [
        [1.0],
        Survival.geometric(0.2).table[:3],  # two entries are no pattern
        np.r_[1.0, Survival.geometric(0.2).table],
        Survival.geometric(0.2).table * np.r_[1.0, 1.0, 0.999, np.ones(162)],
        Survival.geometric(1 / 3).table,  # needs more digits than are shown
    ],
)
def test_the_repr_of_another_table_tells_its_size_only(table):
    assert repr(Survival(table)).startswith(f"Survival({len(table)} entries, mean length")


@pytest.mark.parametrize(
    ("make", "given", "message"),
    [
        (Survival, [], "shape"),
        (Survival, [0.9, 0.5], "begin with"),
        (Survival, [1.0, 0.5, 0.6], r"not increase .* got S\(2\) = 0.6 after 0.5"),
        (Survival, [1.0, -0.1], "at least 0"),
        (Survival, np.ones(65_536), "at most 65534 steps"),
        *((Survival, table, "`table` must be numbers") for table in ("abc", [1, "x"], [1 + 1j])),
        *((Coupling, rows, "once in every row") for rows in ([0, 0], [1, 2], [[0, 1], [1, 1]])),
        *((law, p_halt, "p_halt") for law in LAWS for p_halt in (0.0, 1.0, -0.5, 1.5, np.nan)),
        (grf.sampling.IID, 1e-5, "use Truncated"),
        (grf.sampling.Truncated, -1, "max_length"),
        (grf.sampling.SigmaCoupled, Survival([1.0, 0.5]), "needed with a Survival"),
        (grf.sampling.SigmaCoupled, 0.97, "learn one with"),
        (Survival.geometric(0.1).cut, -1, "`max_length` must be"),
        (
            lambda objective: shipped_coupling(0.3, objective),
            "visits",
            "one of 'gram', 'pagerank', got 'visits'",
        ),
        *((lambda law: grf.RandomWalks(5, law), law(0.1), "multiple of 2") for law in LAWS[2:]),
    ],
)
def test_what_is_no_law_of_lengths_is_refused(make, given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make(given)


def test_laws_take_a_survival_table_in_place_of_p_halt():
    survival = Survival([1.0, 0.75, 0.25])
    assert grf.sampling.IID(survival).survival is survival
    assert grf.sampling.SigmaCoupled(survival, Coupling([1, 0])).survival is survival
    np.testing.assert_array_equal(grf.sampling.Truncated(3).survival.table, np.ones(4))


@pytest.mark.parametrize(("objective", "order"), [("gram", 30), ("pagerank", 10)])
def test_every_shipped_permutation_is_one_and_lowers_its_cost(objective, order):
    for percent in range(5, 95, 5):
        coupling = shipped_coupling(percent / 100, objective)
        assert (coupling.p_halt, coupling.objective) == (percent / 100, objective)
        assert sorted(coupling.permutation) == list(range(order))
        assert coupling.cost_after < coupling.cost_before
    assert shipped_coupling(0.12, objective).p_halt == 0.10
    with pytest.raises(
        ValueError, match=rf"learn_coupling\(p_halt=0.97, objective='{objective}'\)"
    ):
        shipped_coupling(0.97, objective)


def test_sigma_coupled_takes_the_shipped_permutation_of_gram_matrices():
    assert (
        grf.sampling.SigmaCoupled(0.3).coupling
        == shipped_coupling(0.3)
        == shipped_coupling(0.3, "gram")
    )
    assert shipped_coupling(0.3) != shipped_coupling(0.3, "pagerank")


def test_the_repr_of_a_sigma_coupled_law_tells_a_coupling_that_is_not_the_shipped_one():
    assert (
        repr(grf.sampling.SigmaCoupled(0.12))
        == repr(grf.sampling.SigmaCoupled(0.12, shipped_coupling(0.1)))
        == "SigmaCoupled(0.12)"
    )
    own = "Coupling(2 walkers, order 2, given)"
    assert repr(grf.sampling.SigmaCoupled(0.1, Coupling([1, 0]))) == f"SigmaCoupled(0.1, {own})"
    assert repr(grf.sampling.SigmaCoupled(0.97, Coupling([1, 0]))) == f"SigmaCoupled(0.97, {own})"
    table = Survival([1.0, 0.5])
    assert (
        repr(grf.sampling.SigmaCoupled(table, Coupling([1, 0])))
        == f"SigmaCoupled({table!r}, {own})"
    )


def test_couplings_go_to_json_and_back(tmp_path):
    coupling = Coupling(
        [[2, 0, 1], [1, 2, 0]], p_halt=0.2, solver="linear", cost_before=2.0, cost_after=1.0
    )
    assert coupling.n_walkers == 3
    again = Coupling.from_json(coupling.to_json())
    np.testing.assert_array_equal(again.permutations, coupling.permutations)
    assert (again.p_halt, again.cost_before, again.solver) == (0.2, 2.0, "linear")
    assert again == coupling
    assert hash(again) == hash(coupling)
    assert again != Coupling(coupling.permutations, p_halt=0.3)
    assert grf.sampling.SigmaCoupled(0.1) == grf.sampling.SigmaCoupled(0.1)
    coupling.save(tmp_path / "coupling.json")
    np.testing.assert_array_equal(
        Coupling.load(tmp_path / "coupling.json").permutations, coupling.permutations
    )
    assert json.loads(Coupling([0, 1]).to_json())["cost_before"] is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": "graphrf coupling 1"}',
        '{"format": "graphrf coupling 1", "permutations": [[0, 0]]}',
        '{"format": "graphrf coupling 1", "permutations": "no"}',
        '{"format": "graphrf coupling 1", "permutations": [[0]], "surprise": 1}',
    ],
)
def test_text_that_is_no_coupling_is_refused(text):
    with pytest.raises(ValueError, match=r"coupling|permutations"):
        Coupling.from_json(text)


def test_van_der_corput_order_is_a_permutation_whose_runs_are_spread():
    for n in (1, 2, 5, 16, 33):
        order = van_der_corput_order(n)
        assert sorted(order) == list(range(n))
    order = van_der_corput_order(64)
    for start in range(0, 64, 8):
        np.testing.assert_array_equal(np.sort(order[start : start + 8] // 8), np.arange(8))


@pytest.mark.parametrize("table", [Survival.geometric(0.1), Survival.geometric(0.35)])
def test_a_cut_table_is_the_beginning_of_the_whole_one_and_its_repr_says_so(table):
    cut = table.cut(12)
    np.testing.assert_array_equal(cut.table, table.table[:13])
    assert not cut.is_complete
    assert repr(cut) == f"{table!r}.cut(12)"
    assert eval(repr(cut), {"Survival": Survival}) == cut
    assert table.cut(10_000) == table
