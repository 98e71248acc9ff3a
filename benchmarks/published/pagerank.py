"""Are sigma-coupled walks as good as published for PageRank on ten graphs?

    python benchmarks/published/pagerank.py [--repeats 100]

Figure 9 of Reid et al. 2024, by the functions of examples/pagerank_couplings.py: ||rho^ - rho||_2
of scores from the end points of two walks a node. The figure prints no numbers; the text claims
that sigma-coupled walks are never worse than independent and antithetic ones. The paper has 1,000
repeats.

Intervals are not in the paper: scores of 64 walks a node in 16 batches plus and minus their
standard errors times Student's t of 15 degrees of freedom, p_halt .15, over the nodes of the ten
graphs and 10 seeds, beside the exact scores. Visits are the default estimator, end points that of
the paper.
"""

from __future__ import annotations

import argparse

import numpy as np
from _table import LEVELS, Shares, Spent, loaded, row, start
from pagerank_couplings import P_HALT, errors_of, ratio_and_error
from scipy.stats import t as student

import graphrf as grf
from graphrf.pagerank import estimate, pagerank

BATCHES, SEEDS, USUAL = 16, 10, 0.15


def compared(graph: grf.Graph, p_halt: float, repeats: int) -> list[tuple[float, float]]:
    """Errors of sigma-coupled end points relative to independent and antithetic ones."""
    exact = pagerank(graph, p_halt=p_halt).scores
    errors = {
        coupling: errors_of(graph, exact, ("endpoints", coupling), p_halt, 2, range(repeats))
        for coupling in ("sigma", "iid", "antithetic")
    }
    return [ratio_and_error(errors["sigma"], errors[rival]) for rival in ("iid", "antithetic")]


def covered_scores(graphs: list[grf.Graph], estimator: str) -> tuple[str, Shares]:
    """The mean L1 error, and the share of exact scores within the intervals."""
    inside, errors = [], []
    for graph in graphs:
        exact = pagerank(graph, p_halt=USUAL, tol=1e-12).scores
        for seed in range(SEEDS):
            found = estimate(
                graph,
                p_halt=USUAL,
                n_walks=64,
                estimator=estimator,
                coupling="iid",
                n_batches=BATCHES,
                seed=seed,
            )
            error = np.abs(found.scores - exact)
            quantiles = student.ppf(0.5 + 0.5 * np.array(LEVELS), BATCHES - 1)
            inside.append(error <= quantiles[:, None] * found.stderr)
            errors.append(error.sum())
    return f"L1 error {np.mean(errors):.4f}", tuple(np.concatenate(inside, axis=1).mean(axis=1))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=100)
    options = parser.parse_args()
    graphs = [loaded(name).graph for name in grf.datasets.PAPER_GRAPHS]
    start(f"Errors of end points on ten graphs, {options.repeats} repeats; intervals of scores")
    for p_halt in P_HALT:
        with Spent() as spent:
            found = np.array([compared(graph, p_halt, options.repeats) for graph in graphs])
        cells = [
            f"{rival}: {ratio.min():.3f} to {ratio.max():.3f}, clearly above on "
            f"{(ratio - 2 * error > 1).sum()}"
            for rival, ratio, error in zip(
                ("independent", "antithetic"), *found.transpose(2, 1, 0), strict=True
            )
        ]
        row(f"sigma, p_halt {p_halt}", "at most 1", "; ".join(cells), None, spent)
    for estimator in ("endpoints", "visits"):
        with Spent() as spent:
            here, held = covered_scores(graphs, estimator)
        row(f"{estimator}, 64 walks, p_halt {USUAL}", "", here, held, spent)


if __name__ == "__main__":
    main()
