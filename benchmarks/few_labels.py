"""Are class probabilities from few labels calibrated by default, and as good as simple methods'?

    GRAPHRF_DATA_DIR=... python benchmarks/few_labels.py     # some minutes
    python benchmarks/few_labels.py --labels 20 --draws 20

Graphs of 600 nodes: stochastic block models (mean degrees 6 within and 3 without a block;
unbalanced blocks have shares proportional to 1, 2, 4, ...) and grids with labels drawn from the
softmax of smooth fields, of one lengthscale and deviation or of those that the prior draws; and,
with the folder of data, polbooks and football. For `GraphGPClassifier`, label spreading (alpha .9)
and logistic regression on 20 eigenvectors of the normalized Laplacian: log loss, expected
calibration error (10 bins), share right and mean confidence at all other nodes of the classes that
have a label, over all draws with labels of two classes or more.
"""

from __future__ import annotations

import argparse
import os
import warnings

import networkx as nx
import numpy as np
import scipy.sparse as sp
from _machine import header
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

import graphrf as grf
from graphrf.gp.hyperparameters.class_evidence import CONSTANT, PRIOR, UNIT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--labels", type=int, nargs="+", default=[20, 60, 300])
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--only", default="", help="data whose name begins so")
    parser.add_argument("--predictive", default="mode")
    parser.add_argument("--hyperparameters", default="average")
    options = parser.parse_args()
    settings = {"predictive": options.predictive, "hyperparameters": options.hyperparameters}
    print(header("scipy", "scikit-learn"))
    print(
        f"{'log loss, error, right, confidence':<34} {'GraphGPClassifier':<23} {'spreading':<23} "
        "logistic"
    )
    real = ["polbooks", "football"] if os.environ.get("GRAPHRF_DATA_DIR") else []
    made = [
        f"{kind} {n_classes}"
        for kind in ("blocks", "unbalanced", "fields", "prior")
        for n_classes in (3, 5)
    ]
    for name in [*made, *real]:
        for n in [
            n
            for n in options.labels
            if name.startswith(options.only) and (n < 100 or name not in real)
        ]:
            answers: list[list[tuple[np.ndarray, np.ndarray]]] = [[], [], []]
            scales = []
            for draw in range(options.draws):
                rng = np.random.default_rng([draw, n])
                graph, labels = drawn(name, rng)
                nodes = rng.choice(graph.n_nodes, n, replace=False)
                if np.unique(labels[nodes]).size < 2:
                    continue
                rest = np.setdiff1d(np.flatnonzero(np.isin(labels, labels[nodes])), nodes)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    gp = grf.GraphGPClassifier(graph, seed=draw, **settings).fit(
                        nodes, labels[nodes]
                    )
                scales.append(gp.output_scale_)
                own = np.searchsorted(gp.classes_, labels[rest])
                fits = [
                    gp.predict_proba(),
                    spreading(graph, nodes, labels[nodes]),
                    logistic(graph, nodes, labels[nodes]),
                ]
                for method, probabilities in zip(answers, fits, strict=True):
                    method.append((own, probabilities[rest]))
            low, middle, high = np.quantile(scales, [0.25, 0.5, 0.75])
            shown = [summary(each) for each in answers]
            print(
                f"{name:<14}{n:4d} labels          {'   '.join(shown)}  scale {low:.2g} "
                f"{middle:.2g} {high:.2g}",
                flush=True,
            )


def drawn(name: str, rng: np.random.Generator) -> tuple[grf.Graph, np.ndarray]:
    """A graph and the classes of its nodes."""
    if name in ("polbooks", "football"):
        data = grf.datasets.load(name)
        return data.graph, np.asarray(data.targets).reshape(data.graph.n_nodes, -1)[:, 0]
    kind, n_classes = name.split()[0], int(name.split()[1])
    if kind in ("fields", "prior"):
        graph = grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(24, 25)))
        length, deviation, shift = 8.0, 2.5, np.zeros(n_classes)
        if kind == "prior":
            (middle, by), (scale, factor) = PRIOR.lengthscale, PRIOR.output_scale
            length, shift = (
                middle * by ** rng.standard_normal(),
                CONSTANT**0.5 * rng.standard_normal(n_classes),
            )
            deviation = UNIT * (scale * factor ** rng.standard_normal()) ** 0.5
        fields = grf.apply_root(graph, grf.Diffusion(length), rng.standard_normal((600, n_classes)))
        fields -= fields.mean(axis=0)
        chances = softmax(deviation * fields / fields.std() + shift, axis=1)
        return graph, (rng.random((600, 1)) > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)
    shares = 2.0 ** np.arange(n_classes) if kind == "unbalanced" else np.ones(n_classes)
    labels = np.sort(
        np.searchsorted(np.cumsum(shares / shares.sum()), (np.arange(600) + 0.5) / 600)
    )
    within, without = 6 / np.bincount(labels), 3 / (600 - np.bincount(labels))
    same = labels[:, None] == labels
    chances = np.where(
        same, within[labels][:, None], np.sqrt(without[labels][:, None] * without[labels])
    )
    edges = np.triu(rng.random((600, 600)) < chances, 1)
    return grf.Graph(sp.csr_array((edges | edges.T).astype(float))), labels


def spreading(graph: grf.Graph, nodes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Label spreading (Zhou et al. 2004); nodes out of reach have the classes' shares."""
    given = (labels[:, None] == np.unique(labels)).astype(float)
    start = np.zeros((graph.n_nodes, given.shape[1]))
    start[nodes] = given
    walk = np.eye(graph.n_nodes) - normalized_laplacian(graph)
    found = np.linalg.solve(np.eye(graph.n_nodes) - 0.9 * walk, start) + 1e-9 * given.mean(axis=0)
    return found / found.sum(axis=1, keepdims=True)


def logistic(graph: grf.Graph, nodes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Logistic regression on the 20 smoothest eigenvectors, of mean square 1."""
    features = graph.n_nodes**0.5 * np.linalg.eigh(normalized_laplacian(graph))[1][:, :20]
    return LogisticRegression(max_iter=2_000).fit(features[nodes], labels).predict_proba(features)


def normalized_laplacian(graph: grf.Graph) -> np.ndarray:
    adjacency = graph.adjacency.toarray()
    roots = np.sqrt(np.maximum(adjacency.sum(axis=1), 1.0))
    return np.eye(graph.n_nodes) - adjacency / np.outer(roots, roots)


def summary(answers: list[tuple[np.ndarray, np.ndarray]]) -> str:
    """Log loss, expected calibration error, share right and mean confidence."""
    chances = np.concatenate([p[np.arange(own.size), own] for own, p in answers])
    best = np.concatenate([p.max(axis=1) for _, p in answers])
    right = np.concatenate([p.argmax(axis=1) == own for own, p in answers])
    place = np.minimum((10 * best).astype(int), 9)
    error = sum(abs((right - best)[place == k].sum()) for k in range(10)) / best.size
    surprise = -np.log(np.maximum(chances, 1e-12)).mean()
    return f"{surprise:.3f} {error:.3f} {right.mean():.3f} {best.mean():.3f}"


if __name__ == "__main__":
    main()
