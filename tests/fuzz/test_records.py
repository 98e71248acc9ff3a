"""Files of features and regressors with every kind of harm: refused in words, or as sound as a good one."""

from __future__ import annotations

import io
import json
import random
import warnings
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphrf as grf
from graphrf.features import Features
from tests.bounds import within
from tests.mutations import json_text, mutated_arrays, mutated_bytes, mutated_json

SEEDS = st.integers(0, 2**63 - 1)
KERNELS = {name: grf.Diffusion(1.0, laplacian=name) for name in ("normalized", "combinatorial")}
SECONDS, MEGABYTES = 20, 512


class _Corpus(list):
    """Good files; a name of its own, because hypothesis writes down what tests are called with."""

    def __init__(self, path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"{len(self)} files"


def _graph() -> grf.Graph:
    sources, targets = [0, 0, 1, 2, 3, 4, 5], [1, 2, 2, 3, 3, 5, 6]
    return grf.from_edges(sources, targets, [2.0, 0.5, 1.0, 3.0, 0.7, 1.5, 0.25])


def _content(path) -> tuple[dict, dict[str, np.ndarray]]:
    with np.load(path) as archive:
        arrays = dict(archive)
    return json.loads(arrays.pop("record").tobytes()), arrays


def _archive(text: str, arrays: dict[str, np.ndarray], compressed: bool) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as archive:
        record = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
        for name, array in {"record": record, **arrays}.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
            archive.writestr(f"{name}.npy", member.getvalue())
    return content.getvalue()


def _mutated(record: dict, arrays: dict[str, np.ndarray], rng: random.Random) -> bytes:
    """An archive with good checksums, and harm in its record, its arrays or both."""
    where = rng.randrange(3)
    text = json_text(mutated_json(record, rng) if where != 1 else record)
    return _archive(text, mutated_arrays(arrays, rng) if where else arrays, rng.random() < 0.05)


# -- features ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved_features(tmp_path_factory):
    graph, folder = _graph(), tmp_path_factory.mktemp("features")
    saved = _Corpus(folder / "mutated.npz")
    for laplacian, kernel in KERNELS.items():
        for number, sampler in enumerate(
            (
                grf.RandomWalks(n_walks=4, laplacian=laplacian),
                grf.RandomWalks(n_walks=4, lengths=grf.Truncated(3), laplacian=laplacian),
                grf.ExactPowers(3, laplacian=laplacian),
                grf.CutPowers(budget=3, max_length=3, laplacian=laplacian),
                grf.CompressedPowers(3, 3, laplacian=laplacian),
            )
        ):
            features = grf.sample_features(graph, sampler, seed=1, dtype=("float32", "float64")[number % 2])
            path = folder / f"{laplacian}{number}.npz"
            features.save(path)
            _require_sound(grf.load_features(path))
            _require_same(grf.load_features(path), features)
            saved.append((features, path.read_bytes(), *_content(path)))
            assert kernel.laplacian == features.laplacian
    return saved


def _require_same(one: Features, other: Features) -> None:
    ours, theirs = one._state(), other._state()
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)


def _require_sound(features: Features) -> None:
    """All that reads the arrays works, and gives numbers where the degrees and values are of this world."""
    kernel, n = KERNELS[features.laplacian], features.nodes.size
    numbers = [
        features._counts,
        *([] if features._degrees is None else [features._degrees, 1 / features._degrees]),
    ]
    of_this_world = all(array.size == 0 or float(array.max()) < 1e12 for array in numbers)
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
        assert matrix.shape == (n, features.n_nodes)
        matrix.check_format(full_check=True)
        assert not of_this_world or np.isfinite(matrix.data).all()
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
    path, rng = saved_features.path, random.Random(seed)
    _, _, record, arrays = rng.choice(saved_features)
    path.write_bytes(_mutated(record, arrays, rng))
    with within(SECONDS, MEGABYTES):
        try:
            features = grf.load_features(path)
        except (ValueError, MemoryError) as error:
            refusal = str(error)
        else:
            refusal = str(path)
            _require_sound(features)
        assert str(path) in refusal


@given(SEEDS)
def test_bytes_of_features_that_change_are_noticed(saved_features, seed):
    path, rng = saved_features.path, random.Random(seed)
    features, content, *_ = rng.choice(saved_features)
    path.write_bytes(mutated_bytes(content, rng))
    with within(SECONDS, MEGABYTES):
        try:
            loaded = grf.load_features(path)
        except (ValueError, MemoryError) as error:
            refusal = str(error)
        else:
            refusal = str(path)
            _require_same(loaded, features)
        assert str(path) in refusal
