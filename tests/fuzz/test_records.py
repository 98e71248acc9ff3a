"""Files of features and regressors with all kinds of harm: refused in words, or sound."""

from __future__ import annotations

import json
import random
import warnings
import zipfile
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphrf as grf
from graphrf.features.features import Features
from tests.fuzz.damage import Corpus, archive_of, record_and_arrays
from tests.support.bounds import within
from tests.support.mutations import json_text, mutated_arrays, mutated_bytes, mutated_json
from tests.support.same_features import parts

SEEDS = st.integers(0, 2**63 - 1)
KERNELS = {name: grf.Diffusion(1.0, laplacian=name) for name in ("normalized", "combinatorial")}
SECONDS, MEGABYTES = 20, 512


def _graph() -> grf.Graph:
    sources, targets = [0, 0, 1, 2, 3, 4, 5], [1, 2, 2, 3, 3, 5, 6]
    return grf.from_edges(sources, targets, [2.0, 0.5, 1.0, 3.0, 0.7, 1.5, 0.25])


def _mutated(record: dict, arrays: dict[str, np.ndarray], rng: random.Random) -> bytes:
    """An archive with good checksums, and harm in its record, its arrays or both."""
    where = rng.randrange(3)
    text = json_text(mutated_json(record, rng) if where != 1 else record)
    return archive_of(text, mutated_arrays(arrays, rng) if where else arrays, rng.random() < 0.05)


def _require_refused_or(path, read: Callable[[Path], Any], check: Callable[[Any], None]) -> None:
    """A file is refused by its name, within bounds, or what it holds passes the check."""
    with within(SECONDS, MEGABYTES), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = read(path)
        except (ValueError, MemoryError) as error:
            if str(path) not in str(error):
                raise
            return
        check(found)


# -- features --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved_features(tmp_path_factory):
    graph, folder = _graph(), tmp_path_factory.mktemp("features")
    saved = Corpus(folder / "mutated.npz")
    for laplacian, kernel in KERNELS.items():
        for number, sampler in enumerate(
            (
                grf.RandomWalks(n_walks=4, laplacian=laplacian),
                grf.RandomWalks(n_walks=4, lengths=grf.sampling.Truncated(3), laplacian=laplacian),
                grf.sampling.ExactPowers(3, laplacian=laplacian),
                grf.sampling.CutPowers(budget=3, max_length=3, laplacian=laplacian),
                grf.CompressedPowers(3, 3, laplacian=laplacian),
            )
        ):
            features = grf.sample_features(
                graph, sampler, seed=1, dtype=("float32", "float64")[number % 2]
            )
            path = folder / f"{laplacian}{number}.npz"
            features.save(path)
            _require_sound(grf.features.load_features(path))
            _require_same(grf.features.load_features(path), features)
            saved.append((features, path.read_bytes(), *record_and_arrays(path.read_bytes())))
            assert kernel.laplacian == features.laplacian
    return saved


def _require_same(one: Features, other: Features) -> None:
    ours, theirs = parts(one), parts(other)
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)


def _require_sound(features: Features) -> None:
    """All that reads the arrays works, and gives numbers for sensible degrees and values."""
    kernel, n = KERNELS[features.laplacian], features.nodes.size
    counts, degrees = features.record.counts, features.info.degrees
    of_this_world = counts.size == 0 or counts.max() < 1e12
    if degrees is not None:
        of_this_world &= degrees.size == 0 or degrees.max() < 1e12
        of_this_world &= degrees.min() > 1e-12
    assert features.n_steps >= 0
    assert repr(features)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            matrix = features.matrix(kernel)
        except ValueError as error:
            if features.laplacian == "normalized" or "kernel" not in str(error):
                raise
            return  # a scale that is legal, but not with this kernel
        except MemoryError:
            if features.n_nodes < 10**6:
                raise
            return  # a vector of so many nodes
        assert matrix.shape == (n, features.n_nodes)
        matrix.check_format(full_check=True)
        assert not of_this_world or np.isfinite(matrix.data).all()
        if features.n_nodes < 10**6:
            gram = features.gram(kernel)
            assert gram.shape == (n, n)
            assert not of_this_world or np.isfinite(gram).all()
        assert features.row_errors(kernel).shape == (n,)
        if n:
            assert features.take(features.nodes[[0, -1]]).shape == (2, features.n_nodes)
        if features.n_nodes < 1000:
            f, factor = np.ones(2), features.factor(n_threads=1)
            assert factor.apply(f, np.ones(features.n_nodes)).shape == (n,)
            assert factor.apply_t(f, np.ones(n)).shape == (features.n_nodes,)
            factor.grad_f(np.ones(features.n_nodes), np.ones(n))
            features.truncation_error(kernel)


@given(SEEDS)
def test_features_with_other_contents_and_good_checksums_are_refused_or_sound(saved_features, seed):
    path, rng = saved_features.place, random.Random(seed)
    _, _, record, arrays = rng.choice(saved_features)
    path.write_bytes(_mutated(record, arrays, rng))
    _require_refused_or(path, grf.features.load_features, _require_sound)


@given(SEEDS)
def test_bytes_of_features_that_change_are_noticed(saved_features, seed):
    path, rng = saved_features.place, random.Random(seed)
    features, content, *_ = rng.choice(saved_features)
    path.write_bytes(mutated_bytes(content, rng))
    _require_refused_or(
        path, grf.features.load_features, lambda loaded: _require_same(loaded, features)
    )


def test_an_array_that_the_table_of_contents_loses_is_missed(saved_features, tmp_path):
    cut = next(
        content for features, content, *_ in saved_features if features.record.dropped is not None
    )
    path = tmp_path / "cut.npz"
    path.write_bytes(cut)
    with zipfile.ZipFile(path) as archive:
        kept = {name: archive.read(name) for name in archive.namelist() if name != "dropped.npy"}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in kept.items():
            archive.writestr(name, content)
    with pytest.raises(ValueError, match="its record and its arrays are inconsistent"):
        grf.features.load_features(path)


def test_features_that_memory_has_no_room_for_are_refused_unread(
    saved_features, tmp_path, monkeypatch
):
    features, content, *_ = saved_features[0]
    (tmp_path / "f.npz").write_bytes(content)
    monkeypatch.setattr("graphrf._base.files.arrays.available_memory", lambda: 1000)
    with pytest.raises(
        MemoryError, match=r"f\.npz.* needs more memory than is available .*; free some"
    ):
        grf.features.load_features(tmp_path / "f.npz")
    monkeypatch.setattr("graphrf._base.files.arrays.available_memory", lambda: None)
    _require_same(grf.features.load_features(tmp_path / "f.npz"), features)


def test_a_file_of_another_format_is_refused_before_its_arrays_are_read(saved_features, tmp_path):
    _, _, record, arrays = saved_features[0]
    large = arrays | {"counts": np.zeros(2**24)}  # 128 MiB
    with (tmp_path / "f.npz").open("wb") as file, zipfile.ZipFile(file, "w") as archive:
        text = np.frombuffer(json.dumps(record | {"format": "another"}).encode(), np.uint8)
        for name, array in ({"record": text} | large).items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    with within(SECONDS, 64), pytest.raises(ValueError, match=r"f\.npz.*another format"):
        grf.features.load_features(tmp_path / "f.npz")


# -- regressors ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved_regressors(tmp_path_factory):
    graph, folder = _graph(), tmp_path_factory.mktemp("regressors")
    named = grf.Graph(graph.adjacency, nodes=["a", "b", ("c", 1), 4, 5.5, True, None])
    saved = Corpus(folder / "mutated.npz")
    common = {
        "kernel": "diffusion",
        "optimize": False,
        "noise": 0.1,
        "seed": 1,
        "numerics": grf.gp.Numerics(n_threads=1),
    }
    plain, counts = [1.0, -1.0, 0.5, 2.0], [1.0, 0, 1, 2]
    two = [[1.0, 0], [0, 1], [2, 3], [0.5, 0.5]]
    numbers = grf.kernels.PowerSeries(taylor=[Fraction(1, 3), Decimal("0.1"), 0.01])
    numerics, walks = grf.gp.Numerics, grf.RandomWalks(4, lengths=grf.sampling.SigmaCoupled(0.3))
    trend = {"mean": np.arange(7.0)[:, None] ** 2, "kernel": "matern"}
    powers = {
        "numerics": numerics(sampler=grf.CompressedPowers(4, 3)),
        "kernel": grf.kernels.LearnedModulation(2),
    }
    prior = grf.gp.HyperparameterPrior(output_scale=(1.0, 2.0))
    cases = (
        (graph, plain, {"kernel": grf.Diffusion(1.0), "method": "series"}),
        (named, two, {"kernel": grf.Matern(1.5, 2.0, laplacian="combinatorial")}),
        (graph, plain, {"kernel": numbers}),
        (graph, [1e6, 2e6, 3e6, 1e6], {"numerics": numerics(solver="cg"), **trend}),
        (graph, counts, {"numerics": numerics(sampler=walks), "method": "features"}),
        (graph, counts, powers),
        (graph, plain, {"kernel": "auto", "optimize": True, "noise": None}),
        (graph, counts, {"noise": [0.1, 0.2, 0.3, 0.1], "prior": prior}),
    )
    for number, (of, y, settings) in enumerate(cases):
        gp = grf.GraphGPRegressor(of, **{**common, **settings}).fit([0, 1, 4, 4], y)
        path = folder / f"{number}.npz"
        gp.save(path)
        _require_predictions(grf.GraphGPRegressor.load(path))
        record, arrays = record_and_arrays(path.read_bytes())
        saved.append((gp.predict(), path.read_bytes(), record, arrays))
    return saved


def _require_predictions(gp: grf.GraphGPRegressor) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mean, deviation = gp.predict(return_std=True)
        drawn = gp.sample(None, 2, seed=1)
    for numbers in (mean, deviation, drawn):
        assert np.isfinite(numbers).all()
    assert (deviation >= 0).all()
    assert repr(gp)


@given(SEEDS)
def test_regressors_with_other_contents_and_good_checksums_are_refused_or_predict(
    saved_regressors, seed
):
    path, rng = saved_regressors.place, random.Random(seed)
    _, _, record, arrays = rng.choice(saved_regressors)
    path.write_bytes(_mutated(record, arrays, rng))
    _require_refused_or(path, grf.GraphGPRegressor.load, _require_predictions)


@given(SEEDS)
def test_bytes_of_regressors_that_change_are_noticed(saved_regressors, seed):
    path, rng = saved_regressors.place, random.Random(seed)
    predictions, content, *_ = rng.choice(saved_regressors)
    path.write_bytes(mutated_bytes(content, rng))
    _require_refused_or(
        path,
        grf.GraphGPRegressor.load,
        lambda gp: np.testing.assert_array_equal(gp.predict(), predictions),
    )


def test_pointers_that_scipy_lets_pass_do_not_end_the_process(saved_regressors, tmp_path):
    path = tmp_path / "gp.npz"
    _, _, record, arrays = saved_regressors[0]
    for last in (-1, -(2**31), 2**31 - 1):
        indptr = arrays["indptr"].copy()
        indptr[-1] = last
        path.write_bytes(archive_of(json.dumps(record), {**arrays, "indptr": indptr}))
        with pytest.raises(ValueError, match="its graph has arrays that are inconsistent"):
            grf.GraphGPRegressor.load(path)


@pytest.mark.parametrize(
    "value",
    [
        {"class": "Fraction", "arguments": {"numerator": "1e999999999"}},
        {"class": "Fraction", "arguments": {"numerator": "1/1e999999999"}},
        {"class": "Decimal", "arguments": {"value": "1e999999999"}},
        {"class": "LearnedModulation", "arguments": {"max_length": 10**12}},
        {"class": "Truncated", "arguments": {"max_length": 10**12}},
        {"class": "Fraction", "arguments": {}},
        {"class": "eval", "arguments": {"source": "1"}},
        {"class": ["Diffusion"], "arguments": {}},
    ],
    ids=lambda value: f"{value['class']} {list(value['arguments'].values())}"[:40],
)
def test_small_texts_that_stand_for_huge_things_are_refused(saved_regressors, tmp_path, value):
    path = tmp_path / "gp.npz"
    _, _, record, arrays = saved_regressors[2]
    kernel = {
        "class": "PowerSeries",
        "arguments": {"taylor": [1, value], "laplacian": "normalized"},
    }
    for changed in (kernel, value):
        path.write_bytes(archive_of(json.dumps(record | {"kernel": changed}), arrays))
        with (
            within(SECONDS, MEGABYTES),
            pytest.raises(ValueError, match="whole file written by GraphGPRegressor"),
        ):
            grf.GraphGPRegressor.load(path)
