"""Folders of blocks with every kind of harm: refused in words, or as sound as a good one."""

from __future__ import annotations

import hashlib
import json
import random
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphrf as grf
from graphrf.features.files import fits
from graphrf.features.folder import FeatureFolder, read_folder
from tests.fuzz.damage import Corpus, archive_of, record_and_arrays, write_folder
from tests.support.bounds import within
from tests.support.mutations import json_text, mutated_arrays, mutated_bytes, mutated_json
from tests.support.same_features import parts

SEEDS = st.integers(0, 2**63 - 1)
SECONDS, MEGABYTES = 20, 256
GRAPH = grf.from_edges(
    [0, 0, 1, 2, 3, 4, 5], [1, 2, 2, 3, 3, 5, 6], [2.0, 0.5, 1.0, 3.0, 0.7, 1.5, 0.25]
)
SAMPLERS = (
    grf.RandomWalks(4),
    grf.RandomWalks(4, grf.sampling.Truncated(3), laplacian="combinatorial"),
    grf.sampling.CutPowers(3, max_length=3),
    grf.sampling.ExactPowers(3, laplacian="combinatorial"),
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of three blocks, with what is in their files, and their features."""
    found = Corpus()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("graphrf.sampling.to_folder.file_rows", lambda *_: 3)
        for number, sampler in enumerate(SAMPLERS):
            for nodes in (None, [2, 6, 2, 0, 1, 4, 3]):
                folder = tmp_path_factory.mktemp("folder")
                dtype = ("float32", "float64")[number % 2]
                features = grf.sample_features(
                    GRAPH, sampler, nodes=nodes, seed=1, dtype=dtype, path=folder
                )
                files = {file.name: file.read_bytes() for file in folder.iterdir()}
                assert sum(name.startswith("rows-") for name in files) == 3
                found.append((folder, files, parts(features)))
    return found


def _require_refused_or_sound(folder: Path) -> tuple | None:
    """What is read from the folder, if it is."""
    found, refusals = None, []
    with within(SECONDS, MEGABYTES):
        try:
            found = read_folder(folder)
            assert fits(*found)
        except (ValueError, MemoryError, FileNotFoundError) as error:
            refusals.append(str(error))
        # What a call that samples looks at.
        try:
            known = FeatureFolder(folder)
            if known.is_known:
                assert 0 <= known.seed() < 2**63
                known.begin(None, None, 3, {"graph": "x"})
        except (ValueError, FileNotFoundError) as error:
            refusals.append(str(error))
    assert all(str(folder) in refusal for refusal in refusals)
    return found


@given(SEEDS)
def test_changed_bytes_are_refused_or_change_nothing(folders, seed):
    rng = random.Random(seed)
    folder, files, state = rng.choice(folders)
    name = rng.choice(list(files))
    changed = dict(files)
    if rng.random() < 0.05:
        changed[rng.choice(list(files))] = files[name]  # a file in the place of another one
    else:
        changed[name] = mutated_bytes(files[name], rng)
    write_folder(folder, changed)
    found = _require_refused_or_sound(folder)
    if found is not None:
        for key, value in parts(grf.features.Features(*found)).items():
            np.testing.assert_array_equal(value, state[key], err_msg=f"{name} {key}")


@given(SEEDS)
def test_other_contents_with_good_keys_and_checksums_are_refused_or_sound(folders, seed):
    rng = random.Random(seed)
    folder, files, _ = rng.choice(folders)
    changed = {}
    record = json.loads(files["features.json"])
    key = old = record.pop("key")
    if rng.random() < 0.5:
        record = mutated_json(record, rng)
        text = json_text(record)
        with suppress(ValueError, RecursionError):  # no JSON: there is no key to it
            key = hashlib.sha256(json.dumps(json.loads(text), sort_keys=True).encode()).hexdigest()
        holder = (
            text[:-1]
            + (", " if len(text) > 2 else "")
            + json.dumps("key")
            + ": "
            + json.dumps(key)
            + "}"
        )
        changed["features.json"] = (holder if text.startswith("{") else text).encode(
            "utf-8", "surrogatepass"
        )
    else:
        changed["features.json"] = files["features.json"]
    harmed = rng.choice([name for name in files if name.endswith(".npz")])
    for name, content in files.items():
        if name.endswith(".npz"):
            new = name.replace(old[:16], key[:16])
            facts, arrays = record_and_arrays(content)
            facts["key"] = key
            if name == harmed:
                if rng.random() < 0.7:
                    arrays = mutated_arrays(arrays, rng)
                if rng.random() < 0.3:
                    facts = mutated_json(facts, rng)
            changed[new] = archive_of(json_text(facts), arrays, rng.random() < 0.05)
    write_folder(folder, changed)
    _require_refused_or_sound(folder)


def test_a_folder_of_no_nodes_is_refused_by_name(tmp_path):
    graph = grf.from_edges([0, 1, 2], [1, 2, 3])
    grf.sample_features(graph, grf.RandomWalks(4), nodes=[0, 2], seed=0, path=tmp_path / "kept")
    (shared,) = (tmp_path / "kept").glob("shared-*.npz")
    arrays = dict(np.load(shared))
    np.savez(shared, **(arrays | {"nodes": arrays["nodes"][:0]}))
    with pytest.raises(ValueError, match=r"whole file .*shared-.*are inconsistent"):
        read_folder(tmp_path / "kept")
