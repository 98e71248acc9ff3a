"""Make the permutations that are shipped with graphrf: one for each p_halt of .05, .10, ..., .90.

As in the paper (Reid et al. 2024, Sec. 4.2): an Erdos-Renyi graph of 100 nodes, order 30, the 2-regularised
Laplacian kernel, the Hungarian algorithm, costs averaged over all node pairs. A permutation and its inverse tie,
as do tiles that hold the same lengths, and rounding decides: a file made anew may hold others of the same cost.

    python examples/learn_permutations.py graphrf/permutations.json
"""

import json
import re
import sys

import numpy as np

import graphrf as grf


def main(path: str) -> None:
    couplings, learned = {}, None
    for percent in range(5, 95, 5):
        learned = grf.learn_coupling(p_halt=percent / 100, order=30)
        couplings[f"{percent / 100:.2f}"] = {
            "permutation": learned.permutation.tolist(),
            "cost_before": learned.cost_before,
            "cost_after": learned.cost_after,
        }
        print(f"p_halt {percent / 100:.2f}: cost {learned.cost_before:.4f} -> {learned.cost_after:.4f}")
    assert learned is not None
    record = {"kernel": learned.kernel, "graph": learned.graph, "couplings": couplings}
    # One line a coupling keeps the file readable.
    text = json.dumps(record, indent=1)
    text = re.sub(r"\{\s+\"permutation.*?\}", lambda match: " ".join(match[0].split()), text, flags=re.DOTALL)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text + "\n")
    assert all(np.unique(entry["permutation"]).size == 30 for entry in couplings.values())


if __name__ == "__main__":
    main(*sys.argv[1:])
