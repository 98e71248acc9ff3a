"""What do readers that trust nothing cost, and writers that lose nothing, beside plain ones?

python benchmarks/files.py [--entries 2000000]
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.io
import scipy.sparse as sp
from _machine import header, timed

import graphrf as grf
from graphrf.features.files import named_arrays
from graphrf.graph.files import matrix_files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=2_000_000, help="of the matrices")
    entries = parser.parse_args().entries
    print(header("scipy"))
    rng = np.random.default_rng(0)
    n_nodes = entries // 10
    ends = np.sort(rng.integers(0, n_nodes, (2, entries)), axis=0)[:, :entries]
    matrix = sp.coo_array(
        (rng.random(entries), tuple(ends[::-1])), shape=(n_nodes, n_nodes)
    ).tocsr()
    graph = grf.from_edges(*ends, n_nodes=n_nodes)
    features = grf.sample_features(graph, grf.RandomWalks(16), seed=0)
    arrays = named_arrays(features.info, features.nodes, features.record)
    with tempfile.TemporaryDirectory() as folder:
        market, npz, ours, plain = (
            Path(folder) / name for name in ("m.mtx", "m.npz", "ours.npz", "plain.npz")
        )
        scipy.io.mmwrite(market, matrix, symmetry="general")
        sp.save_npz(npz, matrix)
        features.save(ours)
        np.savez(plain, **arrays)
        pairs, weighted = Path(folder) / "pairs.csv", Path(folder) / "weighted.csv"
        edges = pd.DataFrame({"source": ends[0], "target": ends[1]})
        edges.to_csv(pairs, index=False)
        edges.assign(weight=rng.random(entries)).to_csv(weighted, index=False)
        cases = {
            "edges in csv, against pandas": (
                lambda: grf.load_graph(pairs),
                lambda: grf.load_graph(pd.read_csv(pairs)),
            ),
            "weighted edges in csv, against pandas": (
                lambda: grf.load_graph(weighted, weight="weight"),
                lambda: grf.load_graph(pd.read_csv(weighted), weight="weight"),
            ),
            "MatrixMarket, against scipy": (
                lambda: matrix_files.read_matrix_market(market),
                lambda: scipy.io.mmread(market),
            ),
            "npz of scipy, against scipy": (
                lambda: matrix_files.read_npz(npz),
                lambda: sp.load_npz(npz),
            ),
            "features loaded, against numpy.load": (
                lambda: grf.features.load_features(ours),
                lambda: [np.load(plain)[name] for name in arrays],
            ),
            "features saved, against numpy.savez": (
                lambda: features.save(ours),
                lambda: np.savez(plain, **arrays),
            ),
        }
        size = sum(array.nbytes for array in arrays.values()) / 2**20
        print(
            f"{matrix.nnz:,} entries; features of {size:.0f} MiB; medians [least, largest] of 5 in "
            "seconds"
        )
        for name, (own, rival) in cases.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                pair = [timed(function) for function in (own, rival)]
            words = "  ".join(
                f"{median:7.2f} [{least:.2f}, {most:.2f}]" for median, least, most in pair
            )
            print(f"{name:<38} {words}  ratio {pair[0][0] / pair[1][0]:.1f}")


if __name__ == "__main__":
    main()
