"""`graphrf pagerank`: scores by power iteration, by walks, or from the neighbourhood of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrf.cli.options.commands import refuse_unused, require_known
from graphrf.cli.options.graphs import Reading, load
from graphrf.cli.options.messages import Talking, brief
from graphrf.cli.options.nodes import NodeNames
from graphrf.cli.options.output import Result, aligned, check_output, deliver

if TYPE_CHECKING:
    import numpy as np

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


def pagerank(
    graph: str,
    reading: Reading,
    talking: Talking,
    seed: int | None = None,
    threads: int | None = None,
    method: str = "power",
    p_halt: float = 0.15,
    alpha: float | None = None,
    sources: str | None = None,
    tol: float | None = None,
    max_iter: int | None = None,
    walks: int | None = None,
    batches: int | None = None,
    top: int | None = None,
    output: str | None = None,
) -> None:
    """Rank the nodes of a directed or undirected graph by PageRank."""
    check_output(output, [graph])
    if alpha is not None:
        raise ValueError(
            "`--alpha` is not an option of graphrf pagerank; networkx's alpha is 1 minus "
            f"`--p-halt`: pass --p-halt {1 - alpha:.12g}"
        )

    require_known("--method", method, tuple(_TAKES))
    given = {
        "--tol": tol,
        "--max-iter": max_iter,
        "--walks": walks,
        "--batches": batches,
        "--sources": sources,
        "--seed": seed,
    }
    refuse_unused(given, _TAKES[method], f"`--method {method}`")
    if method == "local" and sources is None:
        raise ValueError(
            "`--sources` is needed with `--method local`: the nodes that scores are computed from"
        )
    _check_top(top, output)

    loaded = load(graph, reading, talking)
    names = NodeNames.of_graph(loaded.graph)
    start = None if sources is None else names.chosen(sources, "--sources")
    facts: dict[str, Any] = {"graph": loaded.facts, "method": method, "p_halt": p_halt}
    if start is not None:
        facts["sources"] = names.of(start)
    if method != "power":
        facts["seed"] = seed = talking.settled(seed)
    options: dict[str, Any] = {"p_halt": p_halt, "n_threads": threads}

    if method == "local":
        columns, more = _local(loaded.graph, start, names, talking, k=top, seed=seed, **options)
    else:
        options["personalization"] = None if start is None else _counts(start, loaded.graph.n_nodes)
        if method == "power":
            columns, more = _exact(loaded.graph, tol, max_iter=max_iter, **options)
        else:
            columns, more = _estimated(
                loaded.graph, talking, walks, tol, batches, seed=seed, **options
            )
        columns = {"node": names.of()} | columns
    facts |= more

    shown = top or (_SHOWN if output is None else None)
    summary = None if shown is None else lambda: _best(columns, shown)
    deliver(Result("pagerank", list(columns.items()), facts, summary=summary), output, talking)


def _check_top(top: int | None, output: str | None) -> None:
    if top is not None and top < 1:
        raise ValueError(f"`--top` must be at least 1, got {top}")
    if top is not None and output == "-":
        raise ValueError("`--top` prints a table and `-o -` prints csv: use only one of them")


def _local(
    graph: Any, start: Any, names: NodeNames, talking: Talking, **options: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Rankings for each source, by pushes and walks near it."""
    from graphrf.pagerank.local import local_pagerank

    local = local_pagerank(graph, start, progress=talking.progress, **options)
    return _rankings(local, start, names), {
        "walks": int(local.walks.sum()),
        "pushes": int(local.pushes.sum()),
        "epsilon": local.epsilon,
        "failure": local.failure,
    }


def _exact(graph: Any, tol: float | None, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Scores by power iteration."""
    from graphrf.pagerank.power import pagerank as power

    exact = power(graph, **options | ({} if tol is None else {"tol": tol}))
    facts = {
        "converged": exact.converged,
        "iterations": exact.iterations,
        "error_bound": exact.error_bound,
    }
    return {"score": exact.scores}, facts


def _estimated(
    graph: Any,
    talking: Talking,
    walks: int | None,
    tol: float | None,
    batches: int | None,
    **options: Any,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Scores by random walks, with standard errors from batches of them."""
    from graphrf.pagerank.estimates import estimate

    n_walks = 16 if walks is None else walks
    if tol is None and batches is None and n_walks >= 16:
        batches = 4
    found = estimate(
        graph, n_walks=n_walks, tol=tol, n_batches=batches, progress=talking.progress, **options
    )
    facts = {
        "walks": found.walks,
        "steps": found.steps,
        "batches": found.n_batches,
        "l1_error": None if found.l1_error is None else float(found.l1_error),
    }
    return {"score": found.scores} | (
        {} if found.stderr is None else {"stderr": found.stderr}
    ), facts


def _counts(start: np.ndarray, n_nodes: int) -> np.ndarray:
    import numpy as np

    return np.bincount(start, minlength=n_nodes).astype(np.float64)


def _rankings(result: Any, start: np.ndarray, names: NodeNames) -> dict[str, Any]:
    """The best nodes for each source, best first."""
    import numpy as np

    scores = result.scores
    rows = np.repeat(np.arange(start.size), np.diff(scores.indptr))
    order = np.lexsort((-scores.data, rows))  # stable
    return {
        "source": names.of(start[rows[order]]),
        "node": names.of(scores.indices[order]),
        "score": scores.data[order],
        "stderr": result.stderr.data[order],
    }


def _best(columns: dict[str, Any], most: int) -> str:
    """The best nodes as a table; of several rankings the best of each."""
    import numpy as np

    sources = columns.get("source", [None] * len(columns["node"]))
    counted = dict.fromkeys(sources, 0)
    order = np.argsort(-np.asarray(columns["score"]), kind="stable")
    rows = []
    for position in range(order.size) if "source" in columns else order[:most].tolist():
        counted[sources[position]] += 1
        if counted[sources[position]] <= most:
            cells = [column[position] for column in columns.values()]
            rows.append([brief(cell) if isinstance(cell, float) else str(cell) for cell in cells])
    return aligned(list(columns), rows)
