"""Each part of graphrf used once: it gives the right value, or names its missing extra.

python package_parts.py

It runs in an environment that graphrf was installed into, by checks/package.py.

One line of JSON a part: its name, and null where it works, else the text of the ImportError. A part
turns to graphrf before it imports what an extra brings, so that graphrf is what says that it is
missing.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np

import graphrf as grf

GRAPH = grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(12, 12)))
KERNEL = grf.Diffusion(lengthscale=1.0)
NODES = np.arange(0, 144, 3)
VALUES = np.sin(NODES / 20)


def regression() -> None:
    """Posterior mean and deviations of the exact series against dense Gaussian-process algebra."""
    fixed = {"optimize": False, "noise": 0.01, "output_scale": 0.4, "mean": "zero"}
    gp = grf.GraphGPRegressor(GRAPH, kernel=KERNEL, method="series", **fixed)
    mean, std = gp.fit(NODES, VALUES).predict(return_std=True)
    k = KERNEL.dense(GRAPH)
    k /= k.diagonal().mean()
    weights = np.linalg.solve(
        k[np.ix_(NODES, NODES)] * gp.output_scale_ + 0.01 * np.eye(NODES.size), k[NODES]
    )
    np.testing.assert_allclose(mean, gp.output_scale_ * weights.T @ VALUES, atol=1e-5)
    variance = gp.output_scale_ * (
        k.diagonal() - gp.output_scale_ * (k[NODES] * weights).sum(axis=0)
    )
    np.testing.assert_allclose(std, np.sqrt(variance), atol=1e-4)
    field = grf.Matern(1.0, 3.0)
    series, sparse = (
        grf.GraphGPRegressor(GRAPH, kernel=field, method=method, **fixed).fit(NODES, VALUES)
        for method in ("series", "precision")
    )
    np.testing.assert_allclose(sparse.predict(), series.predict(), atol=1e-4)
    assert sparse.sample(n_samples=2, seed=0).std() > 0


def classification() -> None:
    """Every observed label is given back."""
    labels = NODES > 70
    gp = grf.GraphGPClassifier(GRAPH, kernel=KERNEL, seed=0).fit(NODES, labels)
    assert (gp.predict(NODES) == labels).all()


def latent_model() -> None:
    """A constant, fitted as a fixed effect."""
    data = _frame({"y": [0.9, 1.0, 1.1]})  # first: formulas need more extras than the model does
    made = grf.gp.LatentGaussianModel("y ~ 1", seed=0).fit(data)
    assert abs(made.coefficients_["mean"].iloc[0] - 1.0) < 1e-3


def _frame(columns: dict[str, list[float]]) -> object:
    """A data frame; graphrf says which extra brings formulas before pandas is asked for."""
    from graphrf._base import lazy

    lazy.need("formulaic", "formulas of fixed effects")
    import pandas

    return pandas.DataFrame(columns)


def gpytorch_kernel() -> None:
    """A module whose entries are those of the dense kernel, normalised, with gradients."""
    kernel = grf.gp.GRFKernel(GRAPH, KERNEL).double()
    import torch

    matrix = kernel(torch.arange(144)).to_dense()
    dense = KERNEL.dense(GRAPH)
    np.testing.assert_allclose(matrix.detach().numpy(), dense / dense.diagonal().mean(), atol=1e-6)
    matrix.sum().backward()
    assert all(parameter.grad is not None for parameter in kernel.parameters())


def torch_features() -> None:
    """The features as a sparse tensor are those of scipy."""
    features = grf.sample_features(GRAPH, seed=0)
    np.testing.assert_allclose(
        features.torch(KERNEL).to_dense(), features.matrix(KERNEL).toarray(), atol=1e-6
    )


def torch_pagerank() -> None:
    """Walks on the device of torch against power iteration."""
    exact = grf.pagerank(GRAPH, p_halt=0.15).scores
    found = grf.pagerank.estimate(GRAPH, p_halt=0.15, n_walks=256, engine="torch", seed=0).scores
    assert np.abs(found - exact).sum() < 0.05


def botorch_model() -> None:
    """The posterior of the model is that of its regressor."""
    model = grf.gp.GraphGPModel
    import torch

    gp = grf.GraphGPRegressor(GRAPH, kernel=KERNEL, optimize=False, noise=0.01, seed=0).fit(
        NODES, VALUES
    )
    nodes = torch.arange(10, dtype=torch.float64)[:, None]
    mean = model(gp).posterior(nodes).mean.detach().numpy()
    np.testing.assert_allclose(mean.ravel(), gp.predict(np.arange(10)), atol=1e-6)


def geometric_kernel() -> None:
    """The heat kernel of GeometricKernels without eigenpairs, against the dense exponential."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what GeometricKernels imports
        from graphrf.bridges.geometric import MaternSeriesKernel

        kernel = MaternSeriesKernel(GRAPH, laplacian="normalized", normalize=True)
        found = kernel.K(
            {"nu": np.array([np.inf]), "lengthscale": np.array([1.0])}, np.arange(144)[:, None]
        )
    dense = KERNEL.dense(GRAPH)
    np.testing.assert_allclose(found, dense / dense.diagonal().mean(), atol=1e-6)


def fourier_features() -> None:
    """Features of points in R^d approximate their kernel."""
    x = np.random.default_rng(0).normal(size=(50, 4))
    phi = grf.euclidean.FourierFeatures(1024, lengthscale=2.0, seed=0).fit_transform(x)
    exact = np.exp(-((x[:, None] - x) ** 2).sum(axis=2) / 8)
    assert np.abs(phi @ phi.T - exact).max() < 0.1


def attention() -> None:
    """Attention by random features approximates softmax attention."""
    attend = grf.euclidean.PerformerAttention(8, 1024, seed=0)
    import torch

    query, key, value = 0.5 * torch.randn(
        3, 1, 2, 20, 8, generator=torch.Generator().manual_seed(0)
    )
    with torch.no_grad():
        exact = torch.nn.functional.scaled_dot_product_attention(query, key, value)
        assert (attend(query, key, value) - exact).abs().max() < 0.1


def pyg_transform() -> None:
    """The return probabilities of a triangle's nodes are found on its data object."""
    AddReturnProbabilities = importlib.import_module("graphrf.pyg").AddReturnProbabilities
    import torch
    from torch_geometric.data import Data

    triangle = Data(edge_index=torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]]), num_nodes=3)
    found = AddReturnProbabilities(walk_length=3, seed=0)(triangle).return_probabilities
    np.testing.assert_allclose(found[0], [0, 0.5, 0.25], atol=0.1)


def mesh_file() -> None:
    """The graph of the corners of a tetrahedron in a file is complete."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tetrahedron.off"
        path.write_text(
            "OFF\n4 4 6\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n3 0 1 3\n3 0 2 3\n3 1 2 3\n"
        )
        assert grf.from_mesh(path).n_edges == 6


def mesh_data_set() -> None:
    """A generated data set that is a mesh."""
    assert grf.datasets.load("generated-torus").graph.n_nodes == 4096


def figure() -> None:
    """A picture of a graph, as a PNG."""
    import graphrf.plot as plot

    edges = np.argwhere(GRAPH.adjacency.toarray())
    axes = plot.plot_graph_signal(
        np.argwhere(np.ones((12, 12))).astype(float), edges, np.arange(144.0)
    )
    with tempfile.TemporaryDirectory() as folder:
        axes.figure.savefig(Path(folder) / "graph.png")
        assert (Path(folder) / "graph.png").read_bytes().startswith(b"\x89PNG")


def frame() -> None:
    """A table of values at nodes, indexed by their names."""
    found = importlib.import_module("graphrf.graph.tables").frame_of(
        NODES.tolist(), {"mean": VALUES}
    )
    assert found.loc[3, "mean"] == VALUES[1]


def page() -> None:
    """A map to zoom, as a page of its own."""
    import graphrf.plot as plot

    with tempfile.TemporaryDirectory() as folder:
        plot.interactive_map(
            np.argwhere(np.ones((12, 12))),
            np.arange(144.0),
            edges=GRAPH,
            path=f"{folder}/graph.html",
        )
        assert Path(folder, "graph.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def cluster() -> None:
    """Features from workers are, to the bit, those of one process."""
    sample = grf.distributed.sample_features  # what says that Dask is missing
    from dask.distributed import Client

    with Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None
    ) as client:
        there = sample(GRAPH, client=client, seed=0).gather()
    here = grf.sample_features(GRAPH, seed=0)
    assert (there.matrix(KERNEL) != here.matrix(KERNEL)).nnz == 0


def pymc_field() -> None:
    """The density of a field in PyMC against the dense one."""
    field = importlib.import_module("graphrf.bridges.pymc").GraphField
    import pymc as pm

    density = pm.logp(field.dist(GRAPH, grf.Leroux(0.9)), np.sin(np.arange(144))).eval()
    assert abs(float(density) - _dense_density()) < 1e-6


def numpyro_field() -> None:
    """The density of a field in NumPyro against the dense one."""
    field = importlib.import_module("graphrf.bridges.numpyro").GraphField
    import numpyro

    numpyro.enable_x64()
    assert (
        abs(
            float(field(GRAPH, grf.Leroux(0.9)).log_prob(np.sin(np.arange(144)))) - _dense_density()
        )
        < 1e-6
    )


def _dense_density() -> float:
    k, x = grf.Leroux(0.9).dense(GRAPH), np.sin(np.arange(144))
    return -0.5 * float(np.linalg.slogdet(2 * np.pi * k)[1] + x @ np.linalg.solve(k, x))


PARTS: dict[str, Callable[[], None]] = {
    part.__name__: part
    for part in (
        regression,
        classification,
        gpytorch_kernel,
        torch_features,
        torch_pagerank,
        botorch_model,
        geometric_kernel,
        fourier_features,
        attention,
        pyg_transform,
        mesh_file,
        mesh_data_set,
        figure,
        page,
        frame,
        latent_model,
        cluster,
        pymc_field,
        numpyro_field,
    )
}


if __name__ == "__main__":
    for name in sys.argv[1:] or PARTS:
        try:
            PARTS[name]()
            missing = None
        except ImportError as error:
            missing = str(error)
        print(json.dumps([name, missing]), flush=True)
