"""`graphrf pagerank`: scores by power iteration, by walks, or from the neighbourhood of some nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphrf.cli.options.nodes import NodeNames
from graphrf.cli.options.output import OutputPath, Result, aligned, check_output, deliver
from graphrf.cli.options.reading import GraphSource, Reading, load
from graphrf.cli.options.refusals import given_options, refuse_unused, require_known
from graphrf.cli.options.running import Seeding, Talking, Threads

if TYPE_CHECKING:
    import numpy as np

    from graphrf.graph.graph import Graph

# Columns of the result, and facts of it.
Found = tuple[dict[str, Any], dict[str, Any]]
PANEL = "PageRank"
EXAMPLES = (
    "graphrf pagerank roads.csv --top 5",
    "graphrf pagerank links.tsv --directed --weight clicks -o scores.csv",
    "graphrf pagerank karate --method walks --walks 64 --batches 4 --seed 0 -o scores.csv",
    "graphrf pagerank karate --method local --sources 0,33 --top 3 --seed 0",
)
_TAKES = {
    "power": ("--tol", "--max-iter", "--sources"),
    "walks": ("--tol", "--walks", "--batches", "--sources", "--seed"),
    "local": ("--sources", "--seed"),
}
_SHOWN = 10


@dataclass(frozen=True)
class Ranking:
    """Options for ranking nodes: the method with its parameters, and the start nodes."""

    method: Annotated[
        str,
        typer.Option(
            metavar="power|walks|local",
            rich_help_panel=PANEL,
            help="Exact power iteration; estimates from walks, with standard "
            "errors; or scores local to some nodes.",
        ),
    ] = "power"
    p_halt: Annotated[
        float,
        typer.Option(help="Probability of a jump before each step; 1 - alpha in networkx.", rich_help_panel=PANEL),
    ] = 0.15
    alpha: Annotated[float | None, typer.Option(hidden=True)] = None  # networkx's name, which is refused
    sources: Annotated[
        str | None,
        typer.Option(
            metavar="NODES",
            rich_help_panel=PANEL,
            help="Where walks start: a file of nodes, or A,B,C. One ranking for all, or one for each with local.",
        ),
    ] = None
    tol: Annotated[
        float | None,
        typer.Option(help="Target L1 error. Default: 1e-12 for power, none for walks.", rich_help_panel=PANEL),
    ] = None
    max_iter: Annotated[
        int | None, typer.Option(help="Maximum number of power iterations.", rich_help_panel=PANEL)
    ] = None
    walks: Annotated[int | None, typer.Option(help="Walks per node. Default: 16.", rich_help_panel=PANEL)] = None
    batches: Annotated[
        int | None,
        typer.Option(
            help="Independent batches of walks; 2 or more give standard errors. Default: 4 for at least 16 walks; "
            "not used with `--tol`.",
            rich_help_panel=PANEL,
        ),
    ] = None  # fmt: skip

    def check(self, seeding: Seeding) -> None:
        """ValueError for an unknown method, and for options that it does not use or that are missing."""
        if self.alpha is not None:
            raise ValueError(
                "`--alpha` is not an option of graphrf pagerank; networkx's alpha is 1 minus `--p-halt`: pass "
                f"--p-halt {1 - self.alpha:.12g}"
            )
        require_known("--method", self.method, _TAKES)
        given = given_options(self) | given_options(seeding)
        del given["--method"], given["--p-halt"]  # which every method takes
        refuse_unused(given, _TAKES[self.method], f"`--method {self.method}`")
        if self.method == "local" and self.sources is None:
            raise ValueError(
                "`--sources` is needed with `--method local`: the nodes that scores are computed from"
            )


def pagerank(
    graph: GraphSource,
    reading: Reading,
    seeding: Seeding,
    threads: Threads,
    talking: Talking,
    ranking: Ranking,
    top: Annotated[
        int | None,
        typer.Option(
            help="Number of best nodes to print, or to find with local. Default: "
            f"{_SHOWN} without an output file.",
            rich_help_panel="Output",
        ),
    ] = None,
    output: OutputPath = None,
) -> None:  # fmt: skip
    """Rank the nodes of a directed or undirected graph by PageRank."""
    check_output(output, [graph])
    ranking.check(seeding)
    if top is not None and top < 1:
        raise ValueError(f"`--top` must be at least 1, got {top}")
    if top is not None and output == "-":
        raise ValueError("`--top` prints a table and `-o -` prints csv: use only one of them")
    loaded = load(graph, reading, talking)
    names = NodeNames.of_graph(loaded.graph)
    start = None if ranking.sources is None else names.chosen(ranking.sources, "--sources")
    facts: dict[str, Any] = {"graph": loaded.facts, "method": ranking.method, "p_halt": ranking.p_halt}
    if start is not None:
        facts["sources"] = names.of(start)
    if ranking.method == "local":
        assert start is not None
        seed = seeding.settled(talking)
        columns, found = _local(loaded.graph, names, start, ranking.p_halt, top, seed, threads, talking)
    else:
        weights = None if start is None else _counts(start, loaded.graph.n_nodes)
        if ranking.method == "power":
            columns, found = _power(loaded.graph, weights, ranking, threads)
        else:
            columns, found = _walks(loaded.graph, weights, ranking, seeding.settled(talking), threads, talking)
        columns = {"node": names.of(), **columns}
    shown = top or (_SHOWN if output is None else None)
    summary = None if shown is None else lambda: _best(columns, shown)
    deliver(Result("pagerank", list(columns.items()), facts | found, summary=summary), output, talking)


def _counts(start: np.ndarray, n_nodes: int) -> np.ndarray:
    import numpy as np

    return np.bincount(start, minlength=n_nodes).astype(np.float64)


def _power(graph: Graph, weights: np.ndarray | None, ranking: Ranking, threads: Threads) -> Found:
    from graphrf.pagerank.power import pagerank as exact

    options: dict[str, Any] = {} if ranking.tol is None else {"tol": ranking.tol}
    result = exact(
        graph,
        p_halt=ranking.p_halt,
        personalization=weights,
        max_iter=ranking.max_iter,
        n_threads=threads.threads,
        **options,
    )
    facts = {"converged": result.converged, "iterations": result.iterations, "error_bound": result.error_bound}
    return {"score": result.scores}, facts


def _walks(
    graph: Graph, weights: np.ndarray | None, ranking: Ranking, seed: int, threads: Threads, talking: Talking
) -> Found:
    from graphrf.pagerank.estimates import estimate

    walks = 16 if ranking.walks is None else ranking.walks
    batches = ranking.batches
    if ranking.tol is None and batches is None and walks >= 16:
        batches = 4
    result = estimate(
        graph,
        p_halt=ranking.p_halt,
        n_walks=walks,
        personalization=weights,
        tol=ranking.tol,
        n_batches=batches,
        seed=seed,
        n_threads=threads.threads,
        progress=talking.progress,
    )
    facts = {
        "seed": seed, "walks": result.walks, "steps": result.steps, "batches": result.n_batches,
        "l1_error": None if result.l1_error is None else float(result.l1_error),
    }  # fmt: skip
    return {"score": result.scores, **({} if result.stderr is None else {"stderr": result.stderr})}, facts


def _local(
    graph: Graph,
    names: NodeNames,
    start: np.ndarray,
    p_halt: float,
    top: int | None,
    seed: int,
    threads: Threads,
    talking: Talking,
) -> Found:
    """The best nodes for each source, best first: columns source, node, score, stderr."""
    import numpy as np

    from graphrf.pagerank.local import local_pagerank

    result = local_pagerank(
        graph, start, k=top, p_halt=p_halt, seed=seed, n_threads=threads.threads, progress=talking.progress
    )
    scores, errors = result.scores, result.stderr
    assert errors is not None
    sources: list[int] = []
    found: list[np.ndarray] = []
    for row in range(start.size):
        entries = np.arange(scores.indptr[row], scores.indptr[row + 1])
        found.append(entries[np.argsort(-scores.data[entries], kind="stable")])
        sources += [int(start[row])] * entries.size
    order = np.concatenate(found)
    columns = {
        "source": names.of(sources),
        "node": names.of(scores.indices[order]),
        "score": scores.data[order],
        "stderr": errors.data[order],
    }
    facts = {
        "seed": seed, "walks": int(result.walks.sum()), "pushes": int(result.pushes.sum()),
        "epsilon": result.epsilon, "failure": result.failure,
    }  # fmt: skip
    return columns, facts


def _best(columns: dict[str, Any], most: int) -> str:
    """The best nodes as a table; of several rankings the best of each."""
    import numpy as np

    scores = np.asarray(columns["score"])
    groups = columns.get("source", [None] * scores.size)
    rows, counted = [], dict.fromkeys(groups, 0)
    titles = [name for name in ("source", "node", "score", "stderr") if name in columns]
    order = range(scores.size) if "source" in columns else np.argsort(-scores, kind="stable")[:most].tolist()
    for position in order:
        counted[groups[position]] += 1
        if counted[groups[position]] > most:
            continue
        cells = [columns[name][position] for name in titles]
        rows.append([f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in cells])
    return aligned(titles, rows, left=len(titles) - (2 if "stderr" in columns else 1))
