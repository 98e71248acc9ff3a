"""A table of edges and a table of nodes with features, cross-validated, saved and loaded elsewhere.

The tables are simulated: 99,856 plots of land joined to those beside them, three features with
gaps, and values at a tenth of the plots. A pipeline of scikit-learn fills and scales the features,
a grid search compares two kernels, and the best model is saved. Another process loads it and
predicts. Printed are the scores, the coefficients beside the truth, the share of 95 % intervals
that hold the true value, and the largest difference of both processes.

    pip install 'graphrf[gp,pandas]'
    python examples/from_tables.py
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import graphrf as grf

EFFECTS = {"age": 0.7, "income": -0.3, "visits": 0.0}  # of one standard deviation
ELSEWHERE = """
import sys, graphrf as grf
loaded = grf.GraphGPRegressor.load(sys.argv[1])
loaded.predict(return_std=True, as_frame=True).to_csv(sys.argv[2])
"""


def simulated(side: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame, pd.Series, pd.Series]:
    """Edges, features with gaps, true values of all plots and noisy ones of a tenth."""
    rng = np.random.default_rng(seed)
    n, at = side**2, np.arange(side**2).reshape(side, side)
    names = pd.Index([f"plot{i}" for i in range(n)], name="node")
    ends = (
        np.vstack([at[:, :-1].ravel(), at[:, 1:].ravel()]),
        np.vstack([at[:-1].ravel(), at[1:].ravel()]),
    )
    ends = np.hstack(ends)[:, rng.random(2 * side * (side - 1)) > 0.1]
    edges = pd.DataFrame({"source": names[ends[0]], "target": names[ends[1]]})
    scaled = rng.standard_normal((n, len(EFFECTS)))
    wave = np.sin(at.ravel() // side / 9) + np.cos(at.ravel() % side / 7)
    truth = pd.Series(wave + scaled @ list(EFFECTS.values()), index=names)
    features = pd.DataFrame(50 + 20 * scaled, index=names, columns=list(EFFECTS))
    features = features.mask(rng.random(features.shape) < 0.001)
    return (
        edges,
        features,
        truth,
        (truth + 0.3 * rng.standard_normal(n)).sample(n // 10, random_state=seed),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--side", type=int, default=316, help="plots along a side")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    edges, features, truth, seen = simulated(options.side, options.seed)
    # Nothing is learned about a plot without an edge, whose prior deviation is far above others.
    features = features[features.index.isin(np.unique(edges))]
    seen = seen[seen.index.isin(features.index)]
    start = time.perf_counter()
    graph = grf.from_edges(edges["source"], edges["target"], nodes=features.index)
    prepare = make_pipeline(SimpleImputer(), StandardScaler()).set_output(transform="pandas")
    covariates = prepare.fit_transform(features)
    model = grf.GraphGPRegressor(graph, mean=covariates, method="precision", seed=options.seed)
    folds = KFold(2, shuffle=True, random_state=options.seed)
    search = GridSearchCV(model, {"kernel": [grf.Matern(nu=1), grf.Matern(nu=2)]}, cv=folds)
    search.fit(seen.index, seen)
    print(f"{graph}, {len(seen)} values: {time.perf_counter() - start:.0f} s")
    for kernel, score in zip(
        search.cv_results_["param_kernel"], search.cv_results_["mean_test_score"], strict=True
    ):
        print(f"{kernel!r}: R^2 {score:.3f}")
    gp = search.best_estimator_
    for name, effect in EFFECTS.items():
        print(f"{name}: {gp.coefficients_.loc[name, 'mean']:.2f}, truth {effect:g}")
    with tempfile.TemporaryDirectory() as folder:
        file, predicted = Path(folder, "model.npz"), Path(folder, "predicted.csv")
        gp.save(file)
        subprocess.run([sys.executable, "-c", ELSEWHERE, file, predicted], check=True)
        table = pd.read_csv(predicted, index_col="node")
    table["true"] = truth
    held = table.drop(seen.index)
    inside = (held["mean"] - held["true"]).abs() < 1.96 * held["std"]
    here = gp.predict(as_frame=True)["mean"]
    print(
        f"{inside.mean():.3f} of the other plots inside; both processes differ by at most "
        f"{(table['mean'] - here).abs().max():.1g}"
    )


if __name__ == "__main__":
    main()
