"""Are sigma-coupled walks as good as published for the Gram matrices of ten graphs?

    python benchmarks/published/gram.py [--repeats 50]

Figures 3 and 10 of Reid et al. 2024, by the functions of examples/gram_error.py: the relative
Frobenius error of Phi Phi^T for the 2-regularised Laplacian, two walks from every node. The figures
print no numbers; the text claims that sigma-coupled walks are never worse than independent and
antithetic ones. Estimates have no intervals here, so that the columns of coverage are empty.
"""

from __future__ import annotations

import argparse

import numpy as np
from _table import Spent, loaded, row, start
from gram_error import P_HALT, measure, ratio_and_error

import graphrf as grf


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=50)
    options = parser.parse_args()
    start(f"Gram errors on ten graphs, two walks a node, {options.repeats} repeats")
    with Spent() as spent:
        errors = [
            measure(loaded(name).graph, 2, options.repeats, 0) for name in grf.datasets.PAPER_GRAPHS
        ]
    for p_halt in P_HALT:
        cells = []
        for rival in ("iid", "antithetic"):
            found = np.array(
                [ratio_and_error(own["sigma", p_halt], own[rival, p_halt]) for own in errors]
            )
            below, clearly = found[:, 0] < 1, found[:, 0] + 2 * found[:, 1] < 1
            above = found[:, 0] - 2 * found[:, 1] > 1
            cells.append(
                f"{rival}: below 1 on {below.sum()}, clearly on {clearly.sum()}, clearly above "
                f"{above.sum()}"
            )
        row(f"sigma, p_halt {p_halt}", "at most 1", "; ".join(cells), None, spent)


if __name__ == "__main__":
    main()
