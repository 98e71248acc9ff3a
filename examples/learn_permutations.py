"""Make the permutations that are shipped with graphrf, for each p_halt of .05, .10, ..., .90 and both objectives.

As in the paper (Reid et al. 2024, Sec. 4.2 and App. E.3), on an Erdos-Renyi graph of 100 nodes with the Hungarian
algorithm. "gram": order 30, the 2-regularised Laplacian kernel, Eq. 56 averaged over all node pairs. "pagerank":
order 10, Eq. 82 summed over all nodes. A permutation and its inverse tie, as do tiles that hold the same lengths,
and rounding decides: a file made anew may hold others of the same cost.

    python examples/learn_permutations.py graphrf/permutations.json
"""

import json
import re
import sys

import graphrf as grf

ORDERS = {"gram": 30, "pagerank": 10}


def learn(objective: str, order: int) -> dict[str, object]:
    """The couplings of one objective, with what they were learned for."""
    learned = {
        f"{percent / 100:.2f}": grf.learn_coupling(p_halt=percent / 100, order=order, objective=objective)
        for percent in range(5, 95, 5)
    }
    for key, coupling in learned.items():
        print(f"{objective:<8}  p_halt {key}: cost {coupling.cost_before:.4f} -> {coupling.cost_after:.4f}")
    some = learned["0.05"]
    couplings = {
        key: {
            "permutation": coupling.permutation.tolist(),
            "cost_before": coupling.cost_before,
            "cost_after": coupling.cost_after,
        }
        for key, coupling in learned.items()
    }
    return {"kernel": some.kernel, "graph": some.graph, "solver": some.solver, "couplings": couplings}


def main(path: str) -> None:
    record = {objective: learn(objective, order) for objective, order in ORDERS.items()}
    # One line a coupling keeps the file readable.
    text = json.dumps(record, indent=1)
    text = re.sub(r"\{\s+\"permutation.*?\}", lambda match: " ".join(match[0].split()), text, flags=re.DOTALL)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
