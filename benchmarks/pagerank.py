"""PageRank: how good are pooled walks, what does one global vector cost, and what a local query?

    python benchmarks/pagerank.py equal     # errors at equal walks, on graphs of all kinds
    python benchmarks/pagerank.py global    # a vector of 1M nodes and 4M edges to an error of 1 %
    python benchmarks/pagerank.py local     # the ten best of one seed node on the same graphs

p_halt is .15 throughout, errors are L1 distances to power iteration at 1e-12. Rivals take part
where they are installed (requirements.txt): networkx, igraph (prpack), scikit-network (piteration),
and twenty lines of scipy. Where a method does not state its error, it gets the cheapest setting
that reaches the error, found beforehand with the truth at hand: a favour that users do not have.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from _machine import header, peak_gib, timed
from walks import grid, random_graph

import graphrf as grf
from graphrf.pagerank import estimate, local_pagerank, pagerank

P_HALT = 0.15
N_NODES = 1_000_000


def preferential(n_nodes: int, per_node: int, seed: int = 0) -> grf.Graph:
    """A Barabasi-Albert graph: every new node links to ends of edges drawn from those before it."""
    from numba import njit

    @njit
    def attach(start: np.ndarray, end: np.ndarray, uniform: np.ndarray, per_node: int) -> None:
        for e in range(start.size):
            node = start[e]
            if node <= per_node:
                end[e] = (node + 1 + e % per_node) % (per_node + 1)
            else:
                place = int(uniform[e] * 2 * node * per_node)
                end[e] = start[place // 2] if place % 2 else end[place // 2]

    start = np.repeat(np.arange(n_nodes), per_node)
    end = np.empty_like(start)
    attach(start, end, np.random.default_rng(seed).random(start.size), per_node)
    return grf.from_edges(start[start != end], end[start != end], n_nodes=n_nodes)


def installed(*modules: str) -> list[str]:
    return [module for module in modules if importlib.util.find_spec(module)]


# -- equal walks -----------------------------------------------------------------------------------


def equal(repeats: int) -> None:
    """The error of pooled visits against the paper's sigma-coupled end points, 16 walks a node."""
    graphs = {
        "random, 10k nodes, degree 8": random_graph(10_000, 8),
        "preferential, 10k nodes, degree 8": preferential(10_000, 4),
        "grid, 100 x 100": grid(100),
        "random, 2k nodes, degree 200": random_graph(2000, 200),
    }
    names = (*grf.datasets.PAPER_GRAPHS, "cora-directed", "san-jose")
    for name in names:
        try:
            graphs[name] = grf.datasets.load(name).graph
        except (OSError, ValueError) as error:
            print(f"{name}: {error}")
    methods = {
        "sigma end points": {"estimator": "endpoints", "coupling": "sigma"},
        "iid visits": {"coupling": "iid"},
        "pooled visits": {},
    }
    print(f"16 walks a node, mean L1 error over {repeats} runs (standard error of the mean)\n")
    print(f"| graph | nodes | {' | '.join(methods)} | pooled / sigma |")
    print("|---|---|" + "---|" * (len(methods) + 1))
    for name, graph in graphs.items():
        truth = pagerank(graph, p_halt=P_HALT).scores
        errors = {}
        for method, options in methods.items():
            runs = [
                np.abs(
                    estimate(graph, p_halt=P_HALT, n_walks=16, seed=seed, **options).scores - truth
                ).sum()
                for seed in range(repeats)
            ]
            errors[method] = (np.mean(runs), np.std(runs, ddof=1) / np.sqrt(repeats))
        cells = " | ".join(f"{mean:.4f} ({spread:.4f})" for mean, spread in errors.values())
        ratio = errors["pooled visits"][0] / errors["sigma end points"][0]
        print(f"| {name} | {graph.n_nodes} | {cells} | {ratio:.3f} |", flush=True)


# -- one global vector -----------------------------------------------------------------------------


def transposed_transitions(adjacency: sp.csr_array) -> sp.csr_array:
    """P^T as everybody writes it with scipy; rows of dangling nodes are empty."""
    degrees = np.asarray(adjacency.sum(axis=1)).ravel()
    inverse = np.divide(1.0, degrees, out=np.zeros_like(degrees), where=degrees > 0)
    return sp.csr_array((sp.diags_array(inverse) @ adjacency).T)


def scipy_power(step: sp.csr_array, iterations: int, start: np.ndarray) -> np.ndarray:
    """Power iteration with the jumps of networkx."""
    scores = start
    for _ in range(iterations):
        walked = (1 - P_HALT) * (step @ scores)
        scores = walked + (1 - walked.sum()) * start
    return scores


def fewest(
    solve: Callable[[int], np.ndarray], truth: np.ndarray, error: float, settings: list[int]
) -> int:
    """The first of the settings that reaches the error."""
    return next(setting for setting in settings if np.abs(solve(setting) - truth).sum() <= error)


def row(name: str, setup: float | None, seconds: tuple[float, float, float], error: float) -> None:
    middle, low, high = seconds
    made = "-" if setup is None else f"{setup:.2f}"
    print(f"| {name} | {made} | {middle:.2f} [{low:.2f}, {high:.2f}] | {error:.1e} |", flush=True)


def global_vector(target: float) -> None:
    graphs = {"random": random_graph(N_NODES, 8), "preferential": preferential(N_NODES, 4)}
    estimate(grf.Graph(grid(70).adjacency), n_walks=2, seed=0)  # compiles
    pagerank(grid(70))
    for name, graph in graphs.items():
        truth = pagerank(graph, p_halt=P_HALT, tol=1e-12).scores
        uniform = np.full(graph.n_nodes, 1 / graph.n_nodes)
        print(
            f"\n{name} graph, {graph.n_nodes} nodes, {graph.n_edges} edges, L1 error {target:g}\n"
        )
        print("| method | set-up s | seconds [min, max] | L1 error |\n|---|---|---|---|")

        def measure(
            label: str, solve: Callable[[], np.ndarray], setup=None, repeats=5, truth=truth
        ) -> None:  # type: ignore[no-untyped-def]
            kept: list[np.ndarray] = []

            def run() -> None:
                kept[:] = [solve()]

            seconds = timed(run, repeats)
            row(label, setup, seconds, float(np.abs(kept[0] - truth).sum()))

        started = time.perf_counter()
        step = transposed_transitions(graph.adjacency)
        setup = time.perf_counter() - started
        count = fewest(
            lambda n, s=step, u=uniform: scipy_power(s, n, u), truth, target, list(range(1, 60))
        )
        measure(
            f"scipy, {count} iterations",
            lambda n=count, s=step, u=uniform: scipy_power(s, n, u),
            setup,
        )
        measure(
            "the same with set-up",
            lambda n=count, g=graph, u=uniform: scipy_power(
                transposed_transitions(g.adjacency), n, u
            ),
        )
        measure(f"pagerank(tol={target:g})", lambda g=graph: pagerank(g, tol=target).scores)
        measure("pagerank(tol=1e-10)", lambda g=graph: pagerank(g, tol=1e-10).scores)
        walks = fewest(
            lambda n, g=graph: estimate(g, n_walks=n, seed=1).scores,
            truth,
            target,
            [16, 32, 48, 64, 80, 96, 128, 192],
        )
        measure(
            f"estimate(n_walks={walks})",
            lambda g=graph, n=walks: estimate(g, n_walks=n, seed=1).scores,
        )
        few = {"n_walks": 4, "seed": 1}
        steps = fewest(
            lambda n, g=graph, o=few: estimate(g, exact_steps=n, **o).scores,
            truth,
            target,
            list(range(8, 30)),
        )
        measure(
            f"estimate(n_walks=4, exact_steps={steps})",
            lambda g=graph, n=steps, o=few: estimate(g, exact_steps=n, **o).scores,
        )
        measure(
            f"estimate(n_walks=4, tol={target:g})",
            lambda g=graph, o=few: estimate(g, tol=target, **o).scores,
            repeats=3,
        )
        for rival in installed("igraph", "sknetwork", "networkx"):
            globals()[f"rival_{rival}"](graph, measure, truth, target)
        print(f"\npeak memory {peak_gib():.1f} GiB")


def rival_igraph(graph, measure, truth, target) -> None:  # type: ignore[no-untyped-def]
    import igraph

    upper = sp.triu(graph.adjacency).tocoo()
    started = time.perf_counter()
    other = igraph.Graph(n=graph.n_nodes, edges=np.column_stack(upper.coords))
    setup = time.perf_counter() - started
    measure("igraph prpack", lambda: np.array(other.pagerank(damping=1 - P_HALT)), setup, repeats=3)


def rival_sknetwork(graph, measure, truth, target) -> None:  # type: ignore[no-untyped-def]
    from sknetwork.ranking import PageRank

    adjacency = sp.csr_matrix(graph.adjacency)

    def solve(iterations: int) -> np.ndarray:
        return PageRank(damping_factor=1 - P_HALT, n_iter=iterations, tol=0).fit_predict(adjacency)

    count = fewest(solve, truth, target, list(range(1, 60)))
    measure(f"scikit-network piteration, {count} iterations", lambda: solve(count))


def rival_networkx(graph, measure, truth, target) -> None:  # type: ignore[no-untyped-def]
    import networkx as nx

    started = time.perf_counter()
    other = nx.from_scipy_sparse_array(graph.adjacency)
    setup = time.perf_counter() - started

    def solve() -> np.ndarray:
        # It stops at a change of tol * N: this is a change of `target`, and an error near it.
        scores = nx.pagerank(other, alpha=1 - P_HALT, tol=target / graph.n_nodes)
        return np.array([scores[node] for node in range(graph.n_nodes)])

    measure("networkx", solve, setup, repeats=2)


# -- local queries ---------------------------------------------------------------------------------


def local(queries: int) -> None:
    graphs = {
        "random": random_graph(N_NODES, 8),
        "preferential": preferential(N_NODES, 4),
        "grid": grid(1000),
    }
    settings = {
        "defaults": {"seed": 1},
        "pushes, 1e-5": {"max_residual": 1e-5},
        "pushes, 1e-4": {"max_residual": 1e-4},
    }
    compile_local()
    print(
        f"the 10 best of {queries} seed nodes, drawn at random and asked one by one, 1 thread; "
        "score share: of"
    )
    print("the 10 found to that of the 10 best; touched: nodes met\n")
    print(
        "| graph | setting | median ms | slowest ms | recall | worst recall | score share | "
        "touched |"
    )
    print("|---|---|---|---|---|---|---|---|")
    rng = np.random.default_rng(5)
    for name, graph in graphs.items():
        sources = rng.choice(np.flatnonzero(graph.degrees), queries, replace=False)
        starts = [{int(source): 1.0} for source in sources]
        exact = pagerank(graph, p_halt=P_HALT, personalization=starts, tol=1e-9).scores
        local_pagerank(graph, 0, k=10, seed=0)  # looks at the whole graph, once
        for setting, options in settings.items():
            seconds, recalls, shares, touched = [], [], [], []
            for source, scores in zip(sources.tolist(), exact, strict=True):
                started = time.perf_counter()
                result = local_pagerank(graph, source, k=10, p_halt=P_HALT, n_threads=1, **options)
                seconds.append(1e3 * (time.perf_counter() - started))
                best = np.sort(np.partition(scores, -10)[-10:])
                found = [node for node, _ in result.top()]
                # Nodes that tie with the tenth within the precision of the truth are as good.
                recalls.append(np.mean(scores[found] >= best[0] * (1 - 1e-6)))
                shares.append(scores[found].sum() / best.sum())
                touched.append(result.touched[0])
            print(
                f"| {name} | {setting} | {statistics.median(seconds):.1f} | {max(seconds):.1f} | "
                f"{np.mean(recalls):.3f} | {min(recalls):.1f} | {np.mean(shares):.5f} | "
                f"{np.mean(touched):.0f} |",
                flush=True,
            )
        many = rng.choice(np.flatnonzero(graph.degrees), 5000, replace=False)
        for threads in (1, None):
            middle, low, high = timed(
                lambda g=graph, m=many, t=threads: local_pagerank(
                    g, m, k=32, max_residual=1e-4, n_threads=t
                ),
                3,
            )
            rates = " to ".join(f"{many.size / seconds:.0f}" for seconds in (high, low))
            print(
                f"{name}: pushes to 1e-4 for {many.size} sources, {threads or 'all'} threads: "
                f"{rates} sources/s"
            )
        middle, low, high = timed(
            lambda g=graph: pagerank(g, p_halt=P_HALT, personalization={0: 1.0}, tol=1e-4), 3
        )
        print(
            f"{name}: pagerank from one node to an L1 error of 1e-4: {middle:.2f} s [{low:.2f}, "
            f"{high:.2f}]"
        )
        for rival in installed("igraph", "sknetwork"):
            globals()[f"local_{rival}"](name, graph)


def compile_local() -> None:
    small = grid(70)
    local_pagerank(small, 0, k=10, seed=0)
    local_pagerank(small, 0, k=10, max_residual=1e-4)


def local_igraph(name: str, graph: grf.Graph) -> None:
    import igraph

    other = igraph.Graph(
        n=graph.n_nodes, edges=np.column_stack(sp.triu(graph.adjacency).tocoo().coords)
    )
    middle, low, high = timed(
        lambda: other.personalized_pagerank(damping=1 - P_HALT, reset_vertices=[0]), 3
    )
    print(f"{name}: igraph prpack from one node: {middle:.2f} s [{low:.2f}, {high:.2f}]")


def local_sknetwork(name: str, graph: grf.Graph) -> None:
    from sknetwork.ranking import PageRank

    adjacency = sp.csr_matrix(graph.adjacency)
    solver = PageRank(damping_factor=1 - P_HALT, n_iter=30, tol=1e-4)
    middle, low, high = timed(lambda: solver.fit_predict(adjacency, weights={0: 1}), 3)
    print(
        f"{name}: scikit-network piteration from one node, change 1e-4: {middle:.2f} s [{low:.2f}, "
        f"{high:.2f}]"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", choices=["equal", "global", "local"])
    parser.add_argument(
        "--repeats", type=int, default=20, help="runs of `equal`, queries of `local`"
    )
    parser.add_argument("--error", type=float, default=0.01, help="L1 error of `global`")
    arguments = parser.parse_args()
    print(header("scipy", *(name for name in installed("igraph", "networkx"))), "\n")
    if arguments.case == "equal":
        equal(arguments.repeats)
    elif arguments.case == "global":
        global_vector(arguments.error)
    else:
        local(arguments.repeats)


if __name__ == "__main__":
    main()
