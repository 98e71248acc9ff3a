"""Topics of papers and types of pages from few labels: accuracy, loss, calibration.

GraphGPClassifier beside one-vs-rest GraphGPRegressor, label spreading (scikit-learn's rule, on the
graph itself) and logistic regression on a spectral embedding, on random splits. Only the graph is
used, no words.

    python examples/node_classification.py --graph cora --labelled 140 541 --splits 5 --out
    reliability.png python examples/node_classification.py --graph facebook-pages --labelled 2000
    --splits 1
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
from _figures import figure
from _options import add_figure_option
from scipy.sparse.linalg import eigsh
from sklearn.linear_model import LogisticRegression

import graphrf as grf
from graphrf.gp import metrics
from graphrf.plot import plot_reliability

Classifier = Callable[[grf.Graph, np.ndarray, np.ndarray, np.ndarray, int], np.ndarray]
_SMALLEST = 1e-6


def gp_classifier(
    graph: grf.Graph, nodes: np.ndarray, y: np.ndarray, rest: np.ndarray, seed: int
) -> np.ndarray:
    """Softmax of the posterior mode."""
    return grf.GraphGPClassifier(graph, seed=seed).fit(nodes, y).predict_proba(rest)


def gp_integrated(
    graph: grf.Graph, nodes: np.ndarray, y: np.ndarray, rest: np.ndarray, seed: int
) -> np.ndarray:
    """Softmax integrated over the latent posterior."""
    gp = grf.GraphGPClassifier(graph, predictive="integrated", seed=seed)
    return gp.fit(nodes, y).predict_proba(rest)


def gp_regressor(
    graph: grf.Graph, nodes: np.ndarray, y: np.ndarray, rest: np.ndarray, seed: int
) -> np.ndarray:
    """Means of one output for each class, cut below and divided by their sum."""
    gp = grf.GraphGPRegressor(graph, seed=seed).fit(nodes, np.eye(y.max() + 1)[y])
    return shares(gp.predict(rest))


def propagation(
    graph: grf.Graph, nodes: np.ndarray, y: np.ndarray, rest: np.ndarray, seed: int
) -> np.ndarray:
    """Label spreading, F <- a W F + (1 - a) Y, a = .9 (Zhou et al. 2004), normalised."""
    start = np.zeros((graph.n_nodes, y.max() + 1))
    start[nodes, y] = 1.0
    walk, scores = graph.walk_matrix("normalized"), start
    for _ in range(100):
        scores = 0.9 * (walk @ scores) + 0.1 * start
    found = scores[rest]
    found[found.sum(axis=1) < 1e-12] = start.sum(axis=0)  # out of reach of any label
    return shares(found / found.sum(axis=1, keepdims=True))


def spectral(
    graph: grf.Graph, nodes: np.ndarray, y: np.ndarray, rest: np.ndarray, seed: int
) -> np.ndarray:
    """Logistic regression on 64 eigenvectors of W, scaled to unit rows."""
    start = np.random.default_rng(seed).standard_normal(graph.n_nodes)
    vectors = eigsh(graph.walk_matrix("normalized").tocsc(), 64, which="LA", v0=start, tol=1e-4)[1]
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    model = LogisticRegression(C=10.0, max_iter=1000).fit(vectors[nodes], y)
    return np.asarray(model.predict_proba(vectors[rest]))


def shares(scores: np.ndarray) -> np.ndarray:
    """Scores as probabilities, none below a millionth."""
    cut = np.maximum(scores, _SMALLEST)
    return np.asarray(cut / cut.sum(axis=1, keepdims=True))


METHODS: dict[str, Classifier] = {
    "GraphGPClassifier": gp_classifier,
    "  integrated": gp_integrated,
    "GraphGPRegressor, one-vs-rest": gp_regressor,
    "label spreading": propagation,
    "logistic on spectral embedding": spectral,
}


def cell(values: list[float], digits: int = 3) -> str:
    """Mean and its standard error."""
    error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return f"{np.mean(values):.{digits}f} ± {error:.{digits}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graph", default="cora")
    parser.add_argument("--labelled", type=int, nargs="+", default=[140, 541])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--skip", nargs="*", default=[], choices=[name.strip() for name in METHODS])
    parser.add_argument("--seed", type=int, default=0)
    add_figure_option(parser)
    args = parser.parse_args()

    data = grf.datasets.load(args.graph)
    graph, y = data.graph, np.asarray(data.targets)
    curves: dict[int, dict[str, np.ndarray]] = {}
    for n in args.labelled:
        print(
            "\n"
            f"{args.graph}: {n} of {graph.n_nodes} nodes labelled, {y.max() + 1} classes, "
            f"{args.splits} splits"
        )
        print(f"{'':32}{'accuracy':>16}{'log loss':>16}{'calibration':>16}{'seconds':>10}")
        for name, method in METHODS.items():
            if name.strip() in args.skip:
                continue
            table: list[list[float]] = []
            truths, probabilities = [], []
            for split in range(args.splits):
                order = np.random.default_rng(args.seed + split).permutation(graph.n_nodes)
                nodes, rest = order[:n], order[n:]
                begin = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    p = method(graph, nodes, y[nodes], rest, args.seed + split)
                seconds = time.perf_counter() - begin
                truth = y[rest]
                table.append(
                    [
                        float(np.mean(p.argmax(axis=1) == truth)),
                        metrics.log_loss(truth, p),
                        metrics.expected_calibration_error(truth, p),
                        seconds,
                    ]
                )
                truths.append(truth)
                probabilities.append(p)
            columns = list(zip(*table, strict=True))
            cells = "".join(f"{cell(list(column)):>16}" for column in columns[:3])
            print(f"{name:32}{cells}{np.mean(columns[3]):10.1f}", flush=True)
            label = name.replace("  ", "GraphGPClassifier, ")
            curves.setdefault(n, {})[label] = reliability(
                np.concatenate(truths), np.concatenate(probabilities)
            )
    if args.out:
        draw(args.out, args.graph, curves)


def reliability(truth: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Points of the curve over all splits with binomial errors; bins of 20 nodes or more."""
    curve = metrics.reliability(truth, p, n_bins=10)
    error = np.sqrt(curve.accuracy * (1 - curve.accuracy) / curve.weight)
    return np.stack([curve.confidence, curve.accuracy, error], axis=1)[curve.weight >= 20]


def draw(path: str, graph: str, curves: dict[int, dict[str, np.ndarray]]) -> None:
    """How often the predicted class is right against its probability, by labels."""
    with figure(path, height=4.9 if len(curves) == 2 else 4.2) as sheet:
        panels = sheet.subplots(1, len(curves), sharey=True, squeeze=False)[0]
        for ax, (n, own) in zip(panels, curves.items(), strict=True):
            plot_reliability(own, ax=ax)
            ax.set_title(f"{graph}: {n} nodes labelled")
            ax.get_legend().remove()
        for ax in panels[1:]:
            ax.set_ylabel("")
        sheet.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)


if __name__ == "__main__":
    main()
