"""Couplings as JSON with all kinds of harm: refused in words, or sound permutations."""

from __future__ import annotations

import json
import math
import os
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphrf as grf
from graphrf.couplings import shipped_coupling
from graphrf.sampling.walks.coupling import _write
from tests.support.bounds import within
from tests.support.mutations import json_text, mutated_bytes, mutated_json

SEEDS = st.integers(0, 2**63 - 1)
SECONDS, MEGABYTES = 20, 512
TEXTS = (
    grf.sampling.Coupling(
        [[2, 0, 1], [1, 2, 0]], p_halt=0.2, solver="linear", cost_before=2.0, cost_after=1.0
    ).to_json(),
    grf.sampling.Coupling(
        [1, 0], law="Survival(3 entries)", kernel="é", pairs=4, projections=8, seed=2**62
    ).to_json(),
    shipped_coupling(0.1).to_json(),
)


def _require_sound(coupling: grf.sampling.Coupling) -> None:
    assert coupling.permutations.dtype == np.int64
    assert not coupling.permutations.flags.writeable
    np.testing.assert_array_equal(
        np.sort(coupling.permutations, axis=1),
        np.broadcast_to(np.arange(coupling.order), (coupling.n_walkers - 1, coupling.order)),
    )
    assert coupling.p_halt is None or (type(coupling.p_halt) is float and 0 < coupling.p_halt < 1)
    assert all(
        type(getattr(coupling, name)) is str
        for name in ("objective", "solver", "kernel", "graph", "law")
    )
    assert all(type(getattr(coupling, name)) is float for name in ("cost_before", "cost_after"))
    assert not any(math.isinf(cost) for cost in (coupling.cost_before, coupling.cost_after))
    assert all(
        type(getattr(coupling, name)) in (int, type(None))
        for name in ("pairs", "projections", "seed")
    )
    assert repr(coupling)
    again = grf.sampling.Coupling.from_json(coupling.to_json())
    assert again == coupling
    assert again.to_json() == coupling.to_json()


def _require_refused_or_sound(path) -> bool:
    with within(SECONDS, MEGABYTES):
        try:
            coupling = grf.sampling.Coupling.load(path)
        except ValueError as error:
            if str(path) not in str(error):
                raise
            return False
    _require_sound(coupling)
    return True


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("couplings") / "coupling.json"


@given(SEEDS)
def test_couplings_with_other_values_are_refused_or_sound(path, seed):
    rng = random.Random(seed)
    text = json_text(mutated_json(json.loads(rng.choice(TEXTS)), rng))
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    _require_refused_or_sound(path)


@given(SEEDS)
def test_couplings_with_other_bytes_are_refused_or_sound(path, seed):
    rng = random.Random(seed)
    path.write_bytes(mutated_bytes(rng.choice(TEXTS).encode(), rng))
    _require_refused_or_sound(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"kernel": 5},
        {"graph": None},
        {"solver": ["linear"]},
        {"objective": True},
        {"law": 1.0},
        {"seed": "x"},
        {"seed": 1.5},
        {"seed": -1},
        {"seed": True},
        {"pairs": "4"},
        {"projections": []},
        {"p_halt": 0},
        {"p_halt": 1.0},
        {"p_halt": -0.1},
        {"p_halt": "0.1"},
        {"p_halt": True},
        {"p_halt": math.nan},
        {"cost_before": [1.0]},
        {"cost_after": "1"},
        {"cost_after": math.inf},
        {"cost_before": True},
        {"cost_before": math.nan},
        {"cost_before": 10**400},
        {"p_halt": 10**400},
        {"permutations": [[True, 0]]},
        {"permutations": [[0.0, 1.0]]},
        {"permutations": []},
        {"permutations": [[]]},
        {"permutations": [[0, 1], [0]]},
        {"permutations": [0, 1]},
        {"permutations": [[[0, 1]]]},
        {"permutations": [[0, 2**64 - 1]]},
        {"permutations": [[0, 2**70]]},
        {"permutations": [[0, -1]]},
        {"permutations": {"0": [0, 1]}},
        {"permutations": None},
        {"format": "graphrf coupling 2"},
        {"new": 1},
    ],
    ids=lambda changes: repr(changes)[:40],
)
def test_wrong_values_of_every_field_are_refused(path, changes):
    path.write_text(json.dumps(json.loads(TEXTS[0]) | changes))
    assert not _require_refused_or_sound(path)
    with pytest.raises(ValueError, match="`text` must be a coupling as JSON"):
        grf.sampling.Coupling.from_json(path.read_text())


@pytest.mark.parametrize(
    "text",
    [
        "[" * 10**6,
        '{"a": ' * 10**6,
        "9" * 10**5,
        TEXTS[0][:-1] + ', "solver": "x"}',
        TEXTS[0] + TEXTS[0],
        "null",
    ],
    ids=["lists", "objects", "an integer", "a key twice", "two", "null"],
)
def test_texts_that_json_readers_choke_on_are_refused(path, text):
    path.write_text(text)
    assert not _require_refused_or_sound(path)
    with pytest.raises(ValueError, match="`text` must be a coupling as JSON"):
        grf.sampling.Coupling.from_json(text)


@pytest.mark.parametrize("text", [None, b"{}", bytearray(b"{}"), 1, ["{}"]])
def test_what_is_no_text_is_refused(text):
    with pytest.raises(TypeError, match="`text` must be a coupling as JSON"):
        grf.sampling.Coupling.from_json(text)


@pytest.mark.parametrize(
    "facts",
    [
        {"kernel": 5},
        {"seed": "x"},
        {"p_halt": 2.0},
        {"cost_after": math.inf},
        {"permutations": np.empty((0, 4), int)},
    ],
    ids=lambda changes: repr(changes)[:40],
)
def test_couplings_made_by_hand_are_checked_alike(facts):
    with pytest.raises((TypeError, ValueError), match=f"`{next(iter(facts))}` must"):
        grf.sampling.Coupling(**{"permutations": [[1, 0]], **facts})


def test_devices_and_pipes_are_no_files_of_couplings(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, "/dev/zero"):
        with (
            within(SECONDS, MEGABYTES),
            pytest.raises(ValueError, match=r"whole file written by Coupling\.save"),
        ):
            grf.sampling.Coupling.load(path)


def test_a_file_that_is_too_long_is_refused_unread(tmp_path):
    path = tmp_path / "coupling.json"
    with path.open("wb") as file:
        file.truncate(2**30)  # of holes
    with (
        within(SECONDS, 200),
        pytest.raises(ValueError, match=r"coupling\.json'?: it has more than 67,108,864 bytes"),
    ):
        grf.sampling.Coupling.load(path)


def test_what_would_be_too_long_to_load_is_not_saved(tmp_path):
    coupling = grf.sampling.Coupling([[1, 0]], p_halt=0.1)
    size = len(coupling.to_json())
    _write(coupling, tmp_path / "c.json", size)
    assert grf.sampling.Coupling.load(tmp_path / "c.json") == coupling
    with pytest.raises(
        ValueError, match=f"at most {size:,} bytes as JSON, got {size + 3:,}; lower its"
    ):
        _write(grf.sampling.Coupling([[1, 0, 2]], p_halt=0.1), tmp_path / "c.json", size)
    assert grf.sampling.Coupling.load(tmp_path / "c.json") == coupling


def test_the_shipped_couplings_are_read_through_the_same_checks():
    for objective in ("gram", "pagerank"):
        for p_halt in np.arange(1, 19) / 20:
            coupling = shipped_coupling(p_halt, objective)
            assert coupling.p_halt == pytest.approx(p_halt)
            assert coupling.cost_after <= coupling.cost_before
            _require_sound(coupling)
