"""Folders of graphs with all kinds of harm: refused by the file's name, or sound graphs."""

from __future__ import annotations

import hashlib
import io
import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphrf as grf
from graphrf.graph import csr as graph_csr
from graphrf.graph.disk import folder as graph_folder
from tests.fuzz.damage import Corpus, npy, write_folder
from tests.support.bounds import within
from tests.support.mutations import json_text, mutated_arrays, mutated_bytes, mutated_json

SEEDS = st.integers(0, 2**63 - 1)
SECONDS, MEGABYTES = 20, 512
ARRAYS = graph_folder.ARRAYS


@pytest.fixture(scope="module")
def saved_graphs(tmp_path_factory):
    sources, targets = [0, 0, 1, 2, 3, 4, 5, 6], [1, 2, 2, 3, 3, 5, 6, 0]
    weights = [2.0, 0.5, 1.0, 3.0, 0.7, 1.5, 0.25, 4.0]
    names = ["a", "b", ("c", 1), 4, 5.5, True, None]
    folder = tmp_path_factory.mktemp("graphs")
    saved = Corpus(folder / "mutated")
    for number, graph in enumerate(
        (
            grf.from_edges(sources, targets),
            grf.from_edges(sources, targets, weights),
            grf.from_edges(sources, targets, weights, directed=True),
            grf.Graph(grf.from_edges(sources, targets, weights).adjacency, nodes=names),
        )
    ):
        good = folder / str(number)
        graph.save(good)
        _require_sound(grf.open_graph(good))
        files = [path for path in good.rglob("*") if path.is_file()]
        saved.append(
            (graph, {path.relative_to(good).as_posix(): path.read_bytes() for path in files})
        )
    return saved


def _forged(files: dict[str, bytes], rng: random.Random) -> dict[str, bytes]:
    """The files with other contents, whose digests and checksum are made to fit them."""
    files, record = dict(files), json.loads(files["graph.json"])
    place = f"arrays-{record['version']}"
    arrays = {name: np.load(io.BytesIO(files[f"{place}/{name}.npy"])) for name in ARRAYS}
    where = rng.randrange(4)
    if where == 0:
        arrays = {name: arrays.get(name, arrays["indices"]) for name in ARRAYS}
        arrays |= {
            name: array for name, array in mutated_arrays(arrays, rng).items() if name in ARRAYS
        }
        files |= {f"{place}/{name}.npy": npy(array) for name, array in arrays.items()}
    names = f"{place}/names.json"
    if where == 1 and names in files:
        files[names] = json_text(mutated_json(json.loads(files[names]), rng)).encode()
        record["digests"]["names"] = hashlib.sha256(files[names]).hexdigest()
    if where == 2:
        at, low = rng.randrange(arrays["indices"].size), rng.choice((0, 1, 6, 7))
        arrays["indices"][at] = low
        files[f"{place}/indices.npy"] = npy(arrays["indices"])
    digest = hashlib.sha256()
    for name in ARRAYS:
        if arrays[name].dtype.kind in "iufb":
            with np.errstate(all="ignore"):
                digest.update(graph_csr.canonical(arrays[name]))
        record["digests"][name] = digest.hexdigest()
    record.pop("checksum")
    changed = mutated_json(record, rng) if where == 3 else record
    if isinstance(changed, dict):
        changed["checksum"] = graph_folder.checksum(changed)
    files["graph.json"] = json_text(changed).encode("utf-8", "surrogatepass")
    return files


def _require_sound(graph: grf.Graph) -> None:
    adjacency = graph.adjacency
    adjacency.check_format(full_check=True)
    assert adjacency.shape == (graph.n_nodes, graph.n_nodes)
    pattern = adjacency.toarray()
    assert np.isfinite(adjacency.data).all()
    assert (adjacency.data > 0).all()
    assert np.count_nonzero(pattern) == adjacency.nnz
    np.testing.assert_allclose(graph.degrees, pattern.sum(axis=1), rtol=1e-12)
    assert graph.directed or (pattern == pattern.T).all()
    assert len(set(graph.nodes)) == graph.n_nodes
    assert repr(graph)


def _opened(folder, verify: bool) -> grf.Graph | None:
    """The graph of a folder, None where it is refused by its name."""
    with within(SECONDS, MEGABYTES):
        try:
            graph = grf.open_graph(folder, verify=verify)
        except (ValueError, FileNotFoundError) as error:
            if str(folder) not in str(error):
                raise
            return None
        if verify:
            _require_sound(graph)
        return graph


@given(SEEDS)
def test_folders_with_other_contents_and_good_digests_are_refused_or_sound(saved_graphs, seed):
    rng = random.Random(seed)
    _, files = rng.choice(saved_graphs)
    write_folder(saved_graphs.place, _forged(files, rng))
    _opened(saved_graphs.place, verify=True)
    # Without it, opening is as safe, and says nothing of values.
    assert repr(_opened(saved_graphs.place, verify=False))


@given(SEEDS)
def test_bytes_of_folders_that_change_are_noticed(saved_graphs, seed):
    rng = random.Random(seed)
    graph, files = rng.choice(saved_graphs)
    name = rng.choice(sorted(files))
    write_folder(saved_graphs.place, {**files, name: mutated_bytes(files[name], rng)})
    opened = _opened(saved_graphs.place, verify=True)
    if opened is not None:
        assert (opened.adjacency != graph.adjacency).nnz == 0
        np.testing.assert_array_equal(opened.degrees, graph.degrees)
        assert list(opened.nodes) == list(graph.nodes)
    assert repr(_opened(saved_graphs.place, verify=False))
