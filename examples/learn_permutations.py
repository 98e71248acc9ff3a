"""Make the shipped permutations, for p_halt of .05, .10, ..., .90 and both objectives.

As in the paper (Reid et al. 2024, Sec. 4.2 and App. E.3), on an Erdos-Renyi graph of 100 nodes with
the Hungarian algorithm. "gram": order 30, the 2-regularised Laplacian kernel, Eq. 56 averaged over
all node pairs. "pagerank": order 10, Eq. 82 summed over all nodes. A permutation and its inverse
tie, as do tiles that hold the same lengths, and rounding decides: a file made anew may hold others
of the same cost.

    python examples/learn_permutations.py graphrf/sampling/walks/permutations.json
    python examples/learn_permutations.py permutations.json --out permutations.png
"""

from __future__ import annotations

import argparse
import json
import re
from typing import Any

import numpy as np
from _figures import figure
from _options import add_figure_option

import graphrf as grf
from graphrf.plot import COLOURS

ORDERS = {"gram": 30, "pagerank": 10}


# What is drawn of them.
DRAWN = ("0.05", "0.10", "0.20", "0.30", "0.50", "0.70")


def learn(objective: str, order: int) -> dict[str, Any]:
    """The couplings of one objective, with what they were learned for."""
    learned = {
        f"{percent / 100:.2f}": grf.couplings.learn_coupling(
            p_halt=percent / 100, order=order, objective=objective
        )
        for percent in range(5, 95, 5)
    }
    for key, coupling in learned.items():
        print(
            f"{objective:<8}  p_halt {key}: cost {coupling.cost_before:.4f} -> "
            f"{coupling.cost_after:.4f}"
        )
    some = learned["0.05"]
    couplings = {
        key: {
            "permutation": coupling.permutation.tolist(),
            "cost_before": coupling.cost_before,
            "cost_after": coupling.cost_after,
        }
        for key, coupling in learned.items()
    }
    return {
        "kernel": some.kernel,
        "graph": some.graph,
        "solver": some.solver,
        "couplings": couplings,
    }


def draw(record: dict[str, dict[str, Any]], path: str) -> None:
    """Squares at matched quantiles of length; dashed: the shortest with the longest."""
    with figure(path, height=3.6) as sheet:
        axes = sheet.subplots(len(record), len(DRAWN), sharex="row", sharey="row")
        for ax, p_halt in zip(axes[0], DRAWN, strict=True):
            ax.set_title(f"halting {float(p_halt):g}")
        for row, (objective, table) in zip(axes, record.items(), strict=True):
            for ax, p_halt in zip(row, DRAWN, strict=True):
                permutation = np.array(table["couplings"][p_halt]["permutation"])
                order = permutation.size
                ax.plot(
                    [0.5, order + 0.5],
                    [order + 0.5, 0.5],
                    "--",
                    color="#9a9a9a",
                    linewidth=0.8,
                    zorder=1,
                )
                ax.plot(
                    np.arange(1, order + 1),
                    permutation + 1,
                    "s",
                    color=COLOURS[0],
                    markersize=70 / order,
                    zorder=2,
                )
                ax.set(
                    xlim=(0.5, order + 0.5),
                    ylim=(0.5, order + 0.5),
                    xticks=[1, order],
                    yticks=[1, order],
                )
                ax.set_aspect("equal")
                ax.grid(visible=False)
            row[0].set_ylabel("Gram matrices" if objective == "gram" else "PageRank")
        sheet.supxlabel("quantile of the first walk's length")
        sheet.supylabel("quantile of the second's")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", help="of the json file to be written")
    add_figure_option(parser)
    options = parser.parse_args()
    record = {objective: learn(objective, order) for objective, order in ORDERS.items()}
    # One line a coupling keeps the file readable.
    text = json.dumps(record, indent=1)
    text = re.sub(
        r"\{\s+\"permutation.*?\}", lambda match: " ".join(match[0].split()), text, flags=re.DOTALL
    )
    with open(options.path, "w", encoding="utf-8") as file:
        file.write(text + "\n")
    if options.out:
        draw(record, options.out)


if __name__ == "__main__":
    main()
