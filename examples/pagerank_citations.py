"""A ranking of machine-learning papers by PageRank, and how sure its order is.

The directed Cora graph: an edge leads from the citing paper to the cited one, so a paper passes its
rank on to the papers that it cites, in equal parts. Papers that cite none of the others pass it on
to all (personalised: to where rank starts). Scores are estimated by pooled walkers, in 16
independent pools that give the standard errors. The exact ones of power iteration, which nobody
need do without on a graph of this size, stand beside them.

Printed are the highest papers; how the estimates agree with the exact scores for growing numbers of
walks; and three other questions asked of the same graph: the citations turned round, and rank that
starts only from the papers of one topic, or from one paper.

    python examples/pagerank_citations.py --out pagerank_citations.png
    python examples/pagerank_citations.py --topic Theory --paper 1365
"""

from __future__ import annotations

import argparse
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from _figures import figure, legend_below
from _options import add_figure_option
from scipy.stats import kendalltau

import graphrf as grf
from graphrf.pagerank import PageRankEstimate, pagerank
from graphrf.plot import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BATCHES = 16


class Citations(NamedTuple):
    """The graph, from citing to cited papers, and the topic of every paper."""

    graph: grf.Graph
    topics: np.ndarray

    @property
    def cited_by(self) -> np.ndarray:
        """How many papers cite each."""
        return np.bincount(self.graph.adjacency.indices, minlength=self.graph.n_nodes)

    def reversed(self) -> grf.Graph:
        """The graph from cited to citing papers."""
        return grf.Graph(self.graph.adjacency.T.tocsr(), nodes=self.graph.nodes, directed=True)


def load() -> Citations:
    """The directed graph with the topics of the undirected one, of the same numbers."""
    graph = grf.datasets.load("cora-directed").graph
    labelled = grf.datasets.load("cora")
    topics = np.array(labelled.extra["classes"])[labelled.targets]
    return Citations(graph, topics[labelled.graph.index([str(paper) for paper in graph.nodes])])


def estimate(
    graph: grf.Graph, n_walks: int, p_halt: float, seed: int, start: Any = None
) -> PageRankEstimate:
    """Scores with standard errors, from `n_walks` a node, or as many in all from fewer."""
    if start is not None:
        n_walks = n_walks * graph.n_nodes // np.count_nonzero(start)
    return grf.pagerank.estimate(
        graph, p_halt=p_halt, n_walks=n_walks, n_batches=BATCHES, personalization=start, seed=seed
    )


def separations(scores: np.ndarray, stderr: np.ndarray) -> np.ndarray:
    """Differences of successive scores in standard errors, taken as independent."""
    return -np.diff(scores) / np.hypot(stderr[1:], stderr[:-1])


class Agreement(NamedTuple):
    """How estimated scores agree with exact ones."""

    l1: float
    tau: float
    top_10: int
    top_100: int
    covered: float


def agreement(found: PageRankEstimate, exact: np.ndarray, ranked: np.ndarray) -> Agreement:
    """L1 error and overlaps of tops; of `ranked` ones Kendall's tau and coverage."""
    error = np.abs(found.scores - exact)
    own, true = (np.argsort(-scores, kind="stable") for scores in (found.scores, exact))
    assert found.stderr is not None
    return Agreement(
        l1=float(error.sum()),
        tau=float(kendalltau(found.scores[ranked], exact[ranked]).statistic),
        top_10=np.intersect1d(own[:10], true[:10]).size,
        top_100=np.intersect1d(own[:100], true[:100]).size,
        covered=float(np.mean(error[ranked] <= 2 * found.stderr[ranked])),
    )


HEADER = (
    f"{'paper':<9} {'topic':<24}{'cites':>5} {'cited by':>9}  "
    f"{'score ± standard error':<22}  {'exact':<7}"
)


def row(citations: Citations, found: PageRankEstimate, exact: np.ndarray, node: int) -> str:
    """What is printed of one paper, below `HEADER`."""
    assert found.stderr is not None
    graph = citations.graph
    return (
        f"{graph.nodes[node]:<9} "
        f"{citations.topics[node]:<24}{np.diff(graph.adjacency.indptr)[node]:>5} "
        f"{citations.cited_by[node]:>9}  {found.scores[node]:.5f} ± "
        f"{found.stderr[node]:.5f}{'':<7}{exact[node]:.5f}"
    )


def print_top(citations: Citations, found: PageRankEstimate, exact: np.ndarray, size: int) -> None:
    """The highest papers, and whether each is above the next by more than two standard errors."""
    assert found.stderr is not None
    order = np.argsort(-found.scores, kind="stable")[: size + 1]
    places = np.empty(exact.size, dtype=np.int64)
    places[np.argsort(-exact, kind="stable")] = np.arange(1, exact.size + 1)
    apart = separations(found.scores[order], found.stderr[order])
    print(f"place {HEADER} (place)  above the next by")
    for place, node in enumerate(order[:size]):
        clear = "" if apart[place] > 2 else ": not clear"
        print(
            f"{place + 1:>5} {row(citations, found, exact, node)} {f'({places[node]})':<9}"
            f"{apart[place]:>5.1f} errors{clear}"
        )
    clear = apart > 2
    right = exact[order[:-1]] > exact[order[1:]]
    print(
        f"{clear.sum()} of {size} papers are clearly above the next, {(clear & right).sum()} of "
        "these in truth"
    )


def print_agreement(
    citations: Citations, exact: np.ndarray, options: argparse.Namespace
) -> np.ndarray:
    """Rows for more and more walks; steps and L1 errors."""
    ranked = np.flatnonzero(citations.cited_by)
    print(
        "\n"
        f"agreement with the exact scores; tau and coverage over the {ranked.size} papers that are "
        "cited"
    )
    print(
        "walks per node       steps   L1 error    tau   of the top 10   of the top 100   within 2 "
        "errors"
    )
    costs = []
    for n_walks in options.walks * 4 ** np.arange(4):
        found = estimate(citations.graph, int(n_walks), options.p_halt, options.seed)
        at = agreement(found, exact, ranked)
        print(
            f"{n_walks:>12} {found.steps:>11} {at.l1:>10.4f} {at.tau:>6.3f} {at.top_10:>15} "
            f"{at.top_100:>16} {at.covered:>17.3f}"
        )
        costs.append((found.steps, at.l1))
    return np.array(costs)


def cost_of_power_iteration(graph: grf.Graph, exact: np.ndarray, p_halt: float) -> np.ndarray:
    """Edges passed and L1 errors after a few numbers of iterations."""
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged is what is asked
        for n in (1, 2, 4, 8, 16, 32, 64):
            found = pagerank(graph, p_halt=p_halt, max_iter=n)
            rows.append((n * graph.adjacency.nnz, np.abs(found.scores - exact).sum()))
    return np.array(rows)


def print_question(
    title: str, citations: Citations, found: PageRankEstimate, exact: np.ndarray
) -> None:
    """The five highest papers of another question."""
    print(f"\n{title}")
    for node in np.argsort(-found.scores, kind="stable")[:5]:
        print(f"      {row(citations, found, exact, node)}")


def draw(
    citations: Citations,
    found: PageRankEstimate,
    exact: np.ndarray,
    costs: dict[str, np.ndarray],
    path: str,
) -> None:
    """The highest papers; estimates of all; error against cost, with power iteration."""
    colours = dict(zip(sorted(set(citations.topics)), COLOURS, strict=True))
    with figure(path, height=7.4) as sheet:
        grid = sheet.add_gridspec(2, 2, height_ratios=[1.0, 1.0])
        top, every, cost = (
            sheet.add_subplot(place) for place in (grid[:, 0], grid[0, 1], grid[1, 1])
        )
        draw_top(top, citations, found, exact, colours)
        for topic, colour in colours.items():
            own = citations.topics == topic
            every.plot(
                exact[own],
                found.scores[own] / exact[own],
                "o",
                markersize=3,
                color=colour,
                markeredgewidth=0,
                alpha=0.7,
                label=topic.replace("_", " "),
            )
        every.axhline(1.0, color="black", linewidth=0.8, zorder=1)
        every.set(xscale="log", xlabel="exact PageRank", ylabel="estimate / exact")
        every.set_title(f"all papers, {found.walks // exact.size} walks per node")
        for label, curve in costs.items():
            cost.plot(*curve.T, "o-", label=label)
        cost.set(
            xscale="log", yscale="log", xlabel="steps of walks, or edges passed", ylabel="L1 error"
        )
        cost.legend(frameon=False)
        cost.set_title("error against cost")
        legend_below(sheet, every, columns=4)


def draw_top(
    ax: Axes,
    citations: Citations,
    found: PageRankEstimate,
    exact: np.ndarray,
    colours: dict[str, str],
) -> None:
    """The highest 20 papers with what was said of their errors."""
    from matplotlib.ticker import NullFormatter

    assert found.stderr is not None
    order = np.argsort(-found.scores, kind="stable")[:20]
    for place, node in enumerate(order):
        ax.errorbar(
            found.scores[node],
            place,
            xerr=2 * found.stderr[node],
            fmt="o",
            color=colours[citations.topics[node]],
        )
    ax.plot(exact[order], np.arange(order.size), "|", color="black", markersize=12, label="exact")
    ax.set_yticks(np.arange(order.size), [str(citations.graph.nodes[node]) for node in order])
    ax.invert_yaxis()
    ax.set_xscale("log")
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xticks([0.005, 0.01, 0.02], ["0.005", "0.01", "0.02"])
    ax.set_xlabel("PageRank, two standard errors each way")
    ax.set_ylabel("paper")
    ax.set_title("the 20 highest")
    ax.legend(loc="lower right")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--walks", type=int, default=64, help=f"walks per node, a multiple of {BATCHES}"
    )
    parser.add_argument("--top", type=int, default=15, help="papers in the ranking")
    parser.add_argument("--p-halt", type=float, default=0.15)
    parser.add_argument("--topic", default="Reinforcement_Learning")
    parser.add_argument("--paper", type=int, default=887)
    parser.add_argument("--seed", type=int, default=0)
    add_figure_option(parser)
    options = parser.parse_args()
    if options.walks < 1 or options.walks % BATCHES:
        parser.error(f"--walks must be a multiple of {BATCHES}")
    citations = load()
    if options.topic not in citations.topics:
        parser.error(f"--topic must be one of {', '.join(sorted(set(citations.topics)))}")
    if options.paper not in citations.graph.nodes:
        parser.error("--paper must be the number of a paper")

    def answer(graph: grf.Graph, start: Any = None) -> tuple[PageRankEstimate, np.ndarray]:
        found = estimate(graph, options.walks, options.p_halt, options.seed, start)
        return found, pagerank(graph, p_halt=options.p_halt, personalization=start).scores

    graph = citations.graph
    found, exact = answer(graph)
    print(
        f"{graph!r}: p_halt {options.p_halt:g}, {options.walks} walks per node in {BATCHES} pools"
    )
    print_top(citations, found, exact, options.top)
    walked = print_agreement(citations, exact, options)
    title = "citations turned round: rank goes to the citing papers"
    print_question(title, citations, *answer(citations.reversed()))
    topic = (citations.topics == options.topic).astype(float)
    title = f"rank starts from the {int(topic.sum())} papers of {options.topic}"
    print_question(title, citations, *answer(graph, topic))
    paper = (np.array(graph.nodes) == options.paper).astype(float)
    print_question(f"rank starts from paper {options.paper}", citations, *answer(graph, paper))
    if options.out:
        iterated = cost_of_power_iteration(graph, exact, options.p_halt)
        draw(
            citations,
            found,
            exact,
            {"pooled walks": walked, "power iteration": iterated},
            options.out,
        )


if __name__ == "__main__":
    main()
