"""Damage to files, and reading those of graphs: a sound graph, or an error that names the file."""

from __future__ import annotations

import io
import json
import random
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from graphrf.graph.graph import Graph
from graphrf.graph.loaders import load_graph
from tests.support.bounds import within


def mutated(good: bytes, pieces: Sequence[bytes], n_numbers: int, rng: random.Random) -> bytes:
    """The file with bits flipped, parts cut, doubled or moved, pieces put between.

    The first of the pieces are numbers.
    """
    content = bytearray(good)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(content) + 1)
        to = min(len(content), at + rng.choice((1, 4, 20, len(content))))
        way = rng.randrange(7)
        if way == 0 and content:
            content[min(at, len(content) - 1)] ^= 1 << rng.randrange(8)
        elif way == 1:
            del content[at:to]
        elif way == 2:
            content[at:at] = content[at:to]
        elif way == 3:
            content[at:at] = rng.choice(pieces)
        elif way == 4:
            content[at : at + 1] = rng.choice(pieces)
        elif way == 5:
            digits = [place for place, byte in enumerate(content) if 48 <= byte < 58]
            if digits:
                place = rng.choice(digits)
                content[place : place + 1] = rng.choice(pieces[:n_numbers])
        else:
            content = content[:at] + content[to:] + content[at:to]
    return bytes(content)


def check_sound(graph: Graph) -> None:
    """Check what every graph promises: finite positive weights, columns, symmetry, names."""
    adjacency = graph.adjacency
    assert (adjacency.data > 0).all()
    assert np.isfinite(adjacency.data).all()
    fresh = sp.csr_array(
        (adjacency.data, adjacency.indices, adjacency.indptr), shape=adjacency.shape
    )
    fresh.check_format(full_check=True)
    assert fresh.has_canonical_format
    assert graph.directed or (fresh != fresh.T).nnz == 0
    assert len(set(graph.nodes)) == graph.n_nodes >= 1


def read(
    content: bytes,
    suffix: str,
    reader: Callable[..., Graph] = load_graph,
    megabytes: int = 400,
    **options,
) -> Graph | str:
    """The graph of a file with this content, once sound, or the words that refuse it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x{suffix}"
        path.write_bytes(content)
        try:
            with within(seconds=10, megabytes=megabytes):
                graph = reader(path, **options)
        except (ValueError, MemoryError) as error:
            message = str(error)
            assert len(message) < 1000
            assert "not done after" not in message
            assert f"x{suffix}" in message or "`columns`" in message
            return message
    check_sound(graph)
    return graph


class Corpus(list):
    """Good files, and where harm is done; named, since hypothesis prints what tests get."""

    def __init__(self, place: Path | None = None) -> None:
        self.place = place

    def __repr__(self) -> str:
        return f"{len(self)} good ones"


def record_and_arrays(data: bytes) -> tuple[dict, dict[str, np.ndarray]]:
    """Record and arrays of a file, without the list of arrays, which would refuse harm."""
    with np.load(io.BytesIO(data)) as archive:
        arrays = dict(archive)
    record = json.loads(arrays.pop("record").tobytes())
    assert record.pop("arrays") == list(arrays)
    return record, arrays


def archive_of(text: str, arrays: Mapping[str, np.ndarray], compressed: bool = False) -> bytes:
    """A file with this text as its record, and these arrays."""
    content = io.BytesIO()
    with zipfile.ZipFile(
        content, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    ) as archive:
        record = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
        for name, array in {"record": record, **arrays}.items():
            archive.writestr(f"{name}.npy", npy(array))
    return content.getvalue()


def npy(array: np.ndarray) -> bytes:
    """The content of an .npy file."""
    content = io.BytesIO()
    np.lib.format.write_array(content, np.asanyarray(array), allow_pickle=False)
    return content.getvalue()


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Have these files, and no others, in a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_bytes(content)
