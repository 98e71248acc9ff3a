"""Does a change of the code move a result? Digests of what graphrf computes, to be compared.

python checks/digests.py                        # a line for each setting: its name and hash
python checks/digests.py --write before.json    # keeps them
python checks/digests.py --compare before.json  # prints the settings that differ

The last exits with 1 if there are any.

Only public names are used, so that the same file runs before and after files have been moved.
Results hash with their bytes, dtypes and shapes; the few whose last digits depend on the threads of
BLAS or torch are `rounded`. A setting that needs an extra or a data set that is not here is
reported as skipped, one that raises as failed: both differ from a digest. Compare what ran on one
machine with the same versions of numpy, scipy, numba and torch. The first run compiles the loops,
which takes a minute more.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from functools import partial
from importlib import import_module as need
from itertools import islice, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp

import graphrf as grf

SETTINGS: dict[str, Callable[[], Any]] = {}


def setting(
    name: str, cases: Mapping[str, Any] | Iterable[str] = ()
) -> Callable[[Callable[..., Any]], None]:
    """Enters a function of results: as one setting, or as one for each case it is given."""

    def enter(function: Callable[..., Any]) -> None:
        named = cases if isinstance(cases, Mapping) else {case: case for case in cases}
        new = {f"{name} {case}": partial(function, value) for case, value in named.items()} or {
            name: function
        }
        assert not new.keys() & SETTINGS.keys()
        SETTINGS.update(new)

    return enter


def pieces(part: Any) -> Iterator[bytes]:
    """The bytes of a result: an array, matrix, tensor, graph, word, number, or several."""
    if isinstance(part, np.ndarray | np.generic):
        yield f"{part.dtype.str}{part.shape}".encode()
        yield np.ascontiguousarray(part).tobytes()
    elif sp.issparse(part):
        matrix = sp.csr_array(part, copy=True)
        matrix.sort_indices()
        yield from pieces([matrix.shape, matrix.indptr, matrix.indices, matrix.data])
    elif isinstance(part, grf.Graph):
        yield from pieces([part.directed, list(part.nodes), part.adjacency])
    elif hasattr(part, "detach"):
        sparse = str(part.layout) == "torch.sparse_csr"
        if sparse:
            parts = [part.crow_indices(), part.col_indices(), part.values()]
        else:
            parts = part.detach().numpy()
        yield from pieces(parts)
    elif isinstance(part, Mapping):
        yield from pieces(sorted(part.items()))
    elif isinstance(part, list | tuple):
        yield f"{len(part)} of".encode()
        for each in part:
            yield from pieces(each)
    elif part is None or isinstance(part, str | bool | int | float):
        yield repr(part).encode()
    else:
        raise TypeError(f"no digest of a {type(part).__name__}")


def digest(*parts: Any) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of results."""
    return hashlib.sha256(b"\0".join(pieces(parts))).hexdigest()[:16]


def rounded(*parts: Any, digits: int = 6) -> list[Any]:
    """Arrays and numbers with so many significant digits of the largest entry of each."""
    found: list[Any] = []
    for part in parts:
        array = np.asarray(part, dtype=np.float64)
        largest = float(np.abs(array).max()) * (1 + 1e-9)  # 1 and 1 - 1e-16 are of one decade
        unit = 10.0 ** (np.floor(np.log10(largest)) + 1 - digits) if largest else 1.0
        found += [np.rint(array / unit) + 0.0, unit]
    return found


def of(result: Any, names: str) -> list[Any]:
    """Attributes by their names."""
    return [getattr(result, name) for name in names.split()]


# A grid; named nodes with loops, unequal weights and components, and the same with directions,
# where a third of the nodes is dangling; two hubs with 199 leaves each, and an isolated node.
RNG = np.random.default_rng(0)
NAMES = [f"n{i}" for i in range(150)]
ENDS, WEIGHTS = RNG.integers(0, 150, (2, 400)), RNG.uniform(0.2, 3, 400)
LEAVES = np.arange(2, 400)
GRID = grf.datasets.load("generated-grid").graph
WEIGHTED = grf.from_edges(*ENDS, WEIGHTS, nodes=NAMES)
DIRECTED = grf.from_edges(ENDS[0] % 100, ENDS[1], WEIGHTS, nodes=NAMES, directed=True)
HUBS = grf.from_edges(np.r_[LEAVES % 2, LEAVES[:-1:3]], np.r_[LEAVES, LEAVES[1::3]], n_nodes=401)
KERNEL, COMBINATORIAL = grf.Diffusion(2.0), grf.Diffusion(0.5, laplacian="combinatorial")


# -- features --------------------------------------------------------------------------------------


class ByDegree(grf.sampling.AdaptiveLengths):
    """A choice of lengths as users may write it."""

    laplacian = "normalized"

    def law(self, graph: grf.Graph, sampler: grf.RandomWalks) -> grf.sampling.LengthLaw:
        return grf.sampling.IID(1 / (4 + float(graph.degrees.mean())))


BOTH = {"walks": grf.RandomWalks(24), "powers": grf.CompressedPowers(12, max_length=10)}
SAMPLERS: dict[str, Any] = {
    "walks iid": grf.RandomWalks(16, grf.sampling.IID(0.1), directions="independent"),
    "walks antithetic": grf.RandomWalks(16, grf.sampling.Antithetic(0.2)),
    "walks sigma": grf.RandomWalks(16, grf.sampling.SigmaCoupled(0.1), directions="independent"),
    "walks stratified": grf.RandomWalks(
        16, grf.sampling.Stratified(grf.sampling.Survival([1, 1, 0.5, 0.25]))
    ),
    "walks truncated": grf.RandomWalks(12, grf.sampling.Truncated(6)),
    "walks auto": grf.RandomWalks(16, grf.sampling.AutoLengths(KERNEL)),
    "walks choice": grf.RandomWalks(16, ByDegree()),
    "walks combinatorial": grf.RandomWalks(16, laplacian="combinatorial"),
    "default": None,
    "compressed auto": grf.CompressedPowers(16, lengths=grf.sampling.AutoLengths(KERNEL)),
    "compressed combinatorial": grf.CompressedPowers(16, laplacian="combinatorial"),
    "cut": grf.sampling.CutPowers(10, 8),
    "exact": grf.sampling.ExactPowers(5),
    "exact combinatorial": grf.sampling.ExactPowers(5, laplacian="combinatorial"),
} | BOTH


def record(features: grf.features.Features) -> list[Any]:
    """What features say in public; the random modulation tells all steps apart."""
    kernel = KERNEL if features.laplacian == "normalized" else COMBINATORIAL
    modulation = np.random.default_rng(0).standard_normal(features.max_length + 1)
    matrices = [features.matrix(kernel), features.matrix_from_modulation(modulation)]
    sizes = of(features, "nodes shape n_walks n_steps nnz max_length seed laplacian")
    return [*sizes, *matrices, features.truncation_error(kernel), features.row_errors(kernel)]


@setting("features", SAMPLERS)
def features_of_sampler(sampler: Any) -> Any:
    return [record(grf.sample_features(graph, sampler, seed=7)) for graph in (GRID, WEIGHTED, HUBS)]


@setting("descriptions of features")
def descriptions() -> Any:
    return [
        grf.sample_features(WEIGHTED, sampler, seed=1).description for sampler in SAMPLERS.values()
    ]


@setting(
    "features with",
    {
        "nodes": {"nodes": ["n5", "n0", "n149", "n5"]},
        "float64": {"dtype": "float64"},
        "one thread": {"n_threads": 1},
        "two threads": {"n_threads": 2},
        "torch": {"engine": "torch", "device": "cpu"},
    },
)
def features_with_option(options: dict[str, Any]) -> Any:
    return [
        record(grf.sample_features(WEIGHTED, sampler, seed=3, **options))
        for sampler in BOTH.values()
    ]


@setting("features in files of", BOTH)
def features_in_files(sampler: Any) -> Any:
    with TemporaryDirectory() as folder:
        drawn = grf.sample_features(HUBS, sampler, seed=3, path=f"{folder}/blocks")
        drawn.save(f"{folder}/one.npz")
        return [
            record(grf.features.load_features(f"{folder}/{name}")) for name in ("blocks", "one.npz")
        ], record(drawn)


@setting("products of", BOTH)
def products_of_features(sampler: Any) -> Any:
    one, two = (grf.sample_features(WEIGHTED, sampler, seed=seed) for seed in (1, 2))
    grams = (
        one.gram(KERNEL),
        one.gram(KERNEL, rows=[3, 1], cols=[0, 9]),
        one.gram(KERNEL, other=two),
    )
    factor, f = one.take([5, *range(149), 5]).factor(n_threads=2), KERNEL.modulation(9)
    x = np.random.default_rng(0).standard_normal((151, 3)).astype(np.float32)
    return (
        grams,
        factor.apply(f, x[1:]),
        factor.apply_t(f, x),
        factor.grad_f(x[1:], x),
        factor.diagonal(f),
    )


@setting("chains of", BOTH)
def chains_of_features(sampler: Any) -> Any:
    draw = partial(grf.sampling.sample_product, WEIGHTED, sampler, n_factors=3, dtype="float64")
    one, two = draw(seed=1), draw(seed=2)
    x = np.random.default_rng(0).standard_normal((150, 2))
    exact = (
        one.matrix(KERNEL),
        one.apply(KERNEL, x),
        one.apply_t(KERNEL, x),
        of(one, "seed nnz n_steps shape"),
    )
    # These are dense products by BLAS.
    return exact, rounded(one.gram(KERNEL, rows=[1, 0]), one.gram(KERNEL, other=two))


# -- kernels and series ----------------------------------------------------------------------------


@setting(
    "kernel",
    {
        "diffusion": KERNEL,
        "regularized Laplacian": grf.RegularizedLaplacian(1.5, 2.0),
        "Matern": grf.Matern(1.5, 3.0),
        "even steps": grf.kernels.PStepRandomWalk(2.5, 4),
        "odd steps": grf.kernels.PStepRandomWalk(2.5, 3),
        "inverse cosine": grf.kernels.InverseCosine(),
        "power series": grf.kernels.PowerSeries(taylor=[4.0, 2.0, 0.5, 0.1]),
        "learned modulation": grf.kernels.LearnedModulation(3, [1.0, 0.5, -0.25, 0.1]),
        "diffusion combinatorial": COMBINATORIAL,
        "Matern combinatorial": grf.Matern(1.5, 0.5, laplacian="combinatorial"),
        "odd steps combinatorial": grf.kernels.PStepRandomWalk(200.0, 3, laplacian="combinatorial"),
    },
)
def kernel_in_numbers(kernel: grf.kernels.Kernel) -> Any:
    scale = kernel.check_graph(WEIGHTED)
    at = None if kernel.laplacian == "normalized" else scale
    series = kernel.taylor(20, at), kernel.modulation(20, at), kernel.modulation_jacobian(20, at)
    cut = kernel.truncation_length(0.05, at), kernel.modulation_tail(6, at)
    eigenvalues = np.linspace(0, scale * (2 if at is None else 1), 9)
    spectra = kernel.spectrum(eigenvalues, at), kernel.root_spectrum(eigenvalues, at)
    dense = rounded(kernel.dense(WEIGHTED), kernel.dense_root(WEIGHTED))  # eigenvectors by LAPACK
    x = np.random.default_rng(0).standard_normal((900, 2))
    ways = product(
        (grf.apply_kernel, grf.apply_root), (WEIGHTED, GRID), (1, 2), (np.float32, np.float64)
    )
    products = [
        f(g, kernel, x[: g.n_nodes].astype(t), tol=1e-4, n_threads=threads)
        for f, g, threads, t in ways
    ]
    return (
        kernel.hyperparameters,
        kernel.hyperparameter_bounds(at),
        series,
        cut,
        spectra,
        dense,
        products,
    )


# -- couplings and PageRank ------------------------------------------------------------------------


@setting(
    "coupling",
    {
        "linear": {"order": 12},
        "of three": {"order": 8, "n_walkers": 3},
        "quadratic": {"order": 8, "solver": "quadratic"},
        "quadratic projected": {"order": 6, "solver": "quadratic", "projections": 50},
        "quadratic pairs": {"order": 6, "solver": "quadratic", "pairs": 40},
        "projection": {"order": 8, "solver": "projection"},
        "exhaustive": {"order": 5, "solver": "exhaustive"},
        "survival": {
            "order": 6,
            "p_halt": grf.sampling.Survival([1, 1, 0.5, 0.25]),
            "kernel": COMBINATORIAL,
        },
        "PageRank": {"order": 10, "objective": "pagerank"},
    },
)
def learned_coupling(options: dict[str, Any]) -> Any:
    couplings = [
        grf.couplings.learn_coupling(graph, **{"p_halt": 0.2, "seed": 5, **options})
        for graph in (None, WEIGHTED)
    ]
    return [
        of(coupling, "permutations cost_before cost_after order n_walkers")
        for coupling in couplings
    ]


RANKS = "scores stderr l1_error walks steps seed exact_steps n_batches"
ESTIMATES = product(("visits", "endpoints"), ("iid", "antithetic", "sigma", "stratified"))


@setting(
    "pagerank",
    {
        "pooled": {},
        "tolerance": {"tol": 0.02},
        "exact steps": {"exact_steps": 3, "n_batches": 4},
        "personal": {"personalization": {"n3": 1.0, "n70": 2.0}, "coupling": "iid", "n_threads": 1},
        "several": {"personalization": [{"n3": 1.0}, {"n70": 2.0, "n1": 1.0}]},
        "torch": {"engine": "torch", "device": "cpu", "n_batches": 2},
    }
    | {
        f"{estimator} {coupling}": {"estimator": estimator, "coupling": coupling}
        for estimator, coupling in ESTIMATES
    },
)
def pagerank_by_walks(options: dict[str, Any]) -> Any:
    found = [grf.pagerank.estimate(graph, seed=3, **options) for graph in (WEIGHTED, DIRECTED)]
    return [[of(result, RANKS), result.top(3)] for result in found]


@setting("pagerank refined and iterated")
def pagerank_iterated() -> Any:
    refined = islice(grf.pagerank.refine(DIRECTED, n_walks=4, seed=0), 3)
    many: list[dict[str, Any]] = [
        {},
        {"personalization": np.eye(3, 150)},
        {"dangling": {"n1": 1.0}, "p_halt": 0.3},
    ]
    iterated = [grf.pagerank(graph, **each) for each in many for graph in (WEIGHTED, DIRECTED)]
    numbers = "scores converged iterations residual error_bound"
    return [of(result, RANKS) for result in refined], [of(result, numbers) for result in iterated]


@setting(
    "pagerank local",
    {"walks": {"k": 5, "seed": 1}, "all": {"seed": 1}, "push": {"max_residual": 1e-3}},
)
def pagerank_of_sources(options: dict[str, Any]) -> Any:
    results = [
        grf.pagerank.local_pagerank(graph, [0, 7, 0], **options) for graph in (DIRECTED, HUBS)
    ]
    names = (
        "scores stderr sources residual pushes walks steps touched "
        "delta epsilon failure max_residual seed"
    )
    return [[of(result, names), result.top(3), result.best(4)] for result in results]


@setting("pagerank in networkx")
def pagerank_in_networkx() -> Any:
    graph = nx.gnp_random_graph(200, 0.03, seed=1, directed=True)
    ways: list[dict[str, Any]] = [
        {},
        {"alpha": 0.7, "personalization": {3: 1.0}},
        {"method": "walks", "seed": 2},
    ]
    return [nx.pagerank(graph, backend="graphrf", **way) for way in ways]


# -- Gaussian processes ----------------------------------------------------------------------------

NODES = RNG.choice(900, 150, replace=False)
SIGNAL = 3 * grf.apply_root(
    GRID, grf.Diffusion(4.0), RNG.standard_normal(900)
) + 0.2 * RNG.standard_normal(900)
FIXED: dict[str, Any] = {
    "kernel": grf.Diffusion(3.0),
    "optimize": False,
    "noise": 0.1,
    "output_scale": 2.0,
}
COMPRESSED: dict[str, Any] = {"method": "features", "sampler": BOTH["powers"]}


def regressor(**options: Any) -> grf.GraphGPRegressor:
    """A regressor on the grid; arguments of `Numerics` go there."""
    inner = {field.name for field in fields(grf.gp.Numerics)} & set(options)
    numerics = grf.gp.Numerics(**{name: options.pop(name) for name in inner})
    return grf.GraphGPRegressor(GRID, seed=4, numerics=numerics, **options)


def answers(gp: Any) -> list[Any]:
    """What a fitted regressor has learned, and what it predicts."""
    learned = of(
        gp, "output_scale_ noise_ mean_ log_marginal_likelihood_ mean_variance_ truncation_error_"
    )
    state = of(gp, "solver_ converged_ n_observations_ n_observed_nodes_")
    few = [0, 450, 899, 0]
    near = (
        gp.predict(few, return_std="observation"),
        gp.predict(few, return_cov=True),
        gp.prior_covariance(few),
    )
    return [
        gp.kernel_.hyperparameters,
        learned,
        state,
        gp.predict(return_std=True),
        near,
        gp.sample(few, 2, seed=1),
    ]


@setting(
    "regression",
    {
        "walks": {"method": "features"},
        "walks sampler": {"method": "features", "sampler": grf.RandomWalks(32)},
        "series": {"method": "series"},
        "auto": {},
        "Matern": {"kernel": "matern", "mean": "zero"},
        "trend": {"mean": RNG.random((900, 2)), "noise": 0.05},
        "fixed noise": {"method": "features", "noise": 0.05, "output_scale": 1.0},
        "blocks": {"max_train": 60},
        "blocks walks": {"max_train": 60, "method": "features"},
        "blocks precision": {"max_train": 60, "method": "precision", "kernel": grf.Matern(2.0)},
        "not normalized": {"normalize": False},
        "combinatorial": {"kernel": grf.Diffusion(2.0, laplacian="combinatorial")},
        "fixed": FIXED,
        "cg": {**FIXED, "solver": "cg", "std_method": "sampled"},
        "cg walks": {**FIXED, **COMPRESSED, "solver": "cg"},
    },
)
def regression(options: dict[str, Any]) -> Any:
    return answers(regressor(**options).fit(NODES, SIGNAL[NODES]))


@setting("regression saved", {"series": {}, "walks": COMPRESSED})
def regression_saved(options: dict[str, Any]) -> Any:
    nodes = np.r_[NODES, NODES[:9]]  # of two outputs, with repeated nodes
    gp = regressor(**FIXED, **options).fit(nodes, np.stack([SIGNAL, -(SIGNAL**2)], 1)[nodes])
    with TemporaryDirectory() as folder:
        gp.save(f"{folder}/gp.npz")
        return answers(gp), answers(grf.GraphGPRegressor.load(f"{folder}/gp.npz"))


@setting(
    "classification",
    {
        "walks": {"method": "features"},
        "series": {"method": "series", "normalize": False},
        "auto": {"predictive": "integrated", "max_train": 60},
        "fixed": {"kernel": grf.Matern(1.5, 4.0), "optimize": False, "output_scale": 3.0},
    },
)
def classification(options: dict[str, Any]) -> Any:
    nodes = NODES[:90]
    gp = grf.GraphGPClassifier(GRID, seed=4, **options).fit(
        nodes, np.array(["a", "b", "c"])[nodes % 30 // 10]
    )
    learned = of(gp, "class_bias_ output_scale_ log_marginal_likelihood_ converged_")
    return gp.kernel_.hyperparameters, learned, gp.predict_proba(), gp.predict().tolist()


@setting("graph and time", {"complete": 1.0, "gaps": 0.8})
def graph_and_time(share: float) -> Any:
    times, rng = np.arange(30.0), np.random.default_rng(2)
    y = np.sin(times[:, None] / 4 + SIGNAL[NODES[:12]])
    y[rng.random(y.shape) >= share] = np.nan
    gp = grf.gp.GraphTimeGPRegressor(GRID, "diffusion", max_train=100, n_draws=4, seed=1)
    gp.fit(y, times=times, nodes=NODES[:12])
    later = np.array([3.0, 35.0])
    return (
        gp.parts_[-1][1:],
        gp.predict(NODES, later, return_std=True),
        gp.sample(NODES[:3], later, seed=0),
    )


SOURCES: dict[str, Callable[[], Any]] = {
    "graph": lambda: grf.gp.GRFKernel(WEIGHTED, grf.Matern(1.5, 3.0)),
    "walks": lambda: grf.gp.GRFKernel(grf.sample_features(WEIGHTED, BOTH["walks"], seed=1), KERNEL),
    "learned": lambda: grf.gp.GRFKernel(
        WEIGHTED, grf.kernels.LearnedModulation(2, [1.0, 0.5, 0.25]), normalize=False
    ),
}


@setting("gpytorch", SOURCES)
def kernel_in_gpytorch(make: Callable[[], Any]) -> Any:
    gpytorch, torch = need("gpytorch"), need("torch")

    class Regression(gpytorch.models.ExactGP):
        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    x = torch.arange(0, 150, 3)[:, None]
    y = torch.sin(x[:, 0].double())
    model = Regression(x, y, gpytorch.likelihoods.GaussianLikelihood())
    model.mean_module, model.covar_module = (
        gpytorch.means.ZeroMean(),
        gpytorch.kernels.ScaleKernel(make()),
    )
    model.double().train()
    value = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)(model(x), y)
    value.backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    return (
        model.covar_module(x).to_dense(),
        model.covar_module(x[:5], x[3:]).to_dense(),
        value,
        gradients,
    )


@setting("operator", SOURCES)
def operator(make: Callable[[], Any]) -> Any:
    torch, kernel = need("torch"), make().double()
    rows, cols = kernel.root_rows(torch.arange(40)), kernel.root_rows(torch.tensor([3, 1, 77]))
    f, x = kernel.root_modulation(), torch.linspace(-1, 1, 80, dtype=torch.float64).reshape(40, 2)
    square, block = (grf.gp.FactorOperator(f, rows=rows, cols=other) for other in (rows, cols))
    return (
        f,
        square.matmul(x),
        block.mT.matmul(x),
        block.to_dense(),
        square.diagonal(),
        square[3:5, 2:9].to_dense(),
    )


@setting("device draws", SOURCES)
def device_draws(make: Callable[[], Any]) -> Any:
    torch = need("torch")
    x = torch.arange(0, 150, 4)
    draws = grf.gp.pathwise_draws(
        make().double(), x, torch.cos(x.double()), 0.1, n_samples=3, seed=2
    )
    # torch solves on its own threads.
    return rounded(draws.coefficients, draws.at(torch.arange(9)))


@setting("tensor of", BOTH)
def tensor_of_features(sampler: Any) -> Any:
    return grf.sample_features(WEIGHTED, sampler, seed=1).torch(KERNEL)


@setting("metrics")
def metrics() -> Any:
    rng, m = np.random.default_rng(0), grf.gp.metrics
    (y, mean), std = rng.standard_normal((2, 50)), rng.uniform(0.5, 2, 50)
    labels, shares = rng.integers(0, 3, 50), rng.dirichlet(np.ones(3), 50)
    a, b = (np.cov(rng.standard_normal((4, 9))) for _ in range(2))
    moments = (
        m.rmse(y, mean),
        m.nlpd(y, mean, std),
        m.coverage(y, mean, std),
        m.kl_divergence(y[:4], a, mean[:4], b),
    )
    return moments, [
        f(labels, shares) for f in (m.log_loss, m.reliability, m.expected_calibration_error)
    ]


# -- Euclidean features ----------------------------------------------------------------------------

X = RNG.standard_normal((60, 4))
DIRECTIONS = (
    "iid",
    "orthogonal",
    "simplex",
    "simplex+",
    "orthogonal-hd",
    "simplex-hd",
    "halton",
    "sobol",
)


def mapped(features: Any) -> list[Any]:
    """What a feature map makes of arrays and tensors."""
    points = X, X.astype(np.float32), need("torch").from_numpy(X)
    return [features.fit(X).frequencies_.matrix, *(features.transform(x) for x in points)]


@setting("Fourier features", DIRECTIONS)
def fourier_features(directions: str) -> Any:
    ways = ("gaussian", "pnc", "paired"), ("matern32", "iid", "phased"), ("laplace", "pm", "paired")
    ways = [(a, None if directions in ("halton", "sobol") else b, c) for a, b, c in ways]
    return [
        mapped(
            grf.euclidean.FourierFeatures(
                24, directions=directions, kernel=a, norms=b, readout=c, lengthscale=2.0
            )
        )
        for a, b, c in ways
    ]


@setting(
    "other features", {"Laplace": ("LaplaceFeatures", 24), "quadrature": ("QuadratureFeatures", 5)}
)
def other_features(case: tuple[str, int]) -> Any:
    if case[0][0] == "L":
        options = {"directions": "simplex", "antithetic": False}
    else:
        options = {"rule": "gauss-legendre"}
    return [mapped(getattr(grf.euclidean, case[0])(case[1], **each)) for each in ({}, options)]


@setting(
    "sparse spectrum",
    {
        "fixed": ("SparseSpectrumGPRegressor", {"lengthscale": "shared"}),
        "trained": ("SparseSpectrumGPRegressor", {"frequencies": "trained"}),
        "variational": ("VariationalSparseSpectrumGPRegressor", {}),
    },
)
def sparse_spectrum(case: tuple[str, dict[str, Any]]) -> Any:
    gp = getattr(grf.euclidean, case[0])(4, seed=1, max_iterations=3, **case[1])
    gp.fit(X, np.sin(X[:, 0]) + 0.1 * X[:, 1])
    learned = of(gp, "lengthscale_ output_scale_ noise_ mean_ frequencies_ converged_")
    return learned, gp.predict(X[:9], return_std=True), gp.sample(X[:4], n_samples=2, seed=0)


@setting("attention", {"full": {}, "causal": {"is_causal": True}})
def attention(options: dict[str, Any]) -> Any:
    torch = need("torch")
    query, key, value = torch.randn(3, 2, 10, 8, generator=torch.Generator().manual_seed(0))
    module = grf.euclidean.PerformerAttention(8, 32, seed=0, norms="pm", antithetic=True)
    weights = grf.euclidean.attention_weights(query, key, module.frequencies, **options)
    return module(query, key, value, **options), weights, module.frequencies


@setting("divergences and copula")
def divergences() -> Any:
    a, b = np.cov(X[:30].T), np.cov(X[30:].T)
    learned = grf.euclidean.learn_copula(X[:20], n_steps=5, learning_rate=0.1, seed=0)
    distances = (
        grf.euclidean.gaussian_w2(X[0], a, X[1], b),
        grf.euclidean.gaussian_kl(X[0], a, X[1], b),
    )
    return *distances, learned.losses, learned.copula.cholesky


@setting("pathwise draws")
def pathwise_draws() -> Any:
    e, y, new = grf.euclidean, np.sin(X[:, 0]), X[:5] + 0.1
    features, known = e.FourierFeatures(32).fit(X), {"noise": 0.1, "n_samples": 3, "seed": 1}
    draws = (
        e.decoupled_draws(features, "gaussian", X, y, **known),
        e.weight_space_draws(features, X, y, **known),
    )
    moments = e.decoupled_moments(features, "gaussian", X, y, new, noise=0.1)
    moments = *moments, *e.exact_moments("matern32", X, y, new, noise=0.1)
    return rounded(*(each.at(new) for each in draws), *moments)  # dense solves by LAPACK


# -- PyTorch Geometric; graphs from files and points -----------------------------------------------


@setting(
    "transform",
    {
        "diffusion": ("GRFDiffusion", [KERNEL, 6], {"seed": 1}),
        "diffusion rows": (
            "GRFDiffusion",
            [KERNEL, 6],
            {"normalization": "row", "sampler": SAMPLERS["exact"]},
        ),
        "pagerank": ("PersonalizedPageRank", [6], {}),
        "pagerank symmetric": (
            "PersonalizedPageRank",
            [6],
            {"normalization": "sym", "max_residual": 1e-3},
        ),
        "features": ("AddRandomFeatures", [KERNEL, 20], {"seed": 1}),
        "features sampled": (
            "AddRandomFeatures",
            [KERNEL, 20],
            {"seed": 1, "sampler": BOTH["powers"]},
        ),
        "returns": ("AddReturnProbabilities", [6], {"seed": 1}),
    },
)
def transform(case: tuple[str, list[Any], dict[str, Any]]) -> Any:
    tensor, edges = need("torch").from_numpy, WEIGHTED.adjacency.tocoo()
    ends, weights = tensor(np.stack(edges.coords).astype(np.int64)), tensor(edges.data)
    data = need("torch_geometric.data").Data(edge_index=ends, edge_weight=weights, num_nodes=150)
    return getattr(need("graphrf.pyg"), case[0])(*case[1], **case[2])(data).to_dict()


@setting("graphs of files")
def graphs_of_files() -> Any:
    with TemporaryDirectory() as folder:
        table = Path(folder, "edges.csv")
        table.write_text("from,to,km\nb,a,1.5\na,c,2.0\nc,b,0.25\nb,a,4\nd,d,1\n", encoding="utf-8")
        load = partial(grf.load_graph, table, columns=("from", "to"), weight="km")
        WEIGHTED.save(f"{folder}/saved")
        return (
            load(),
            load(weight_is="distance", directed=True),
            digest(grf.open_graph(f"{folder}/saved")),
        )


@setting("graphs of points")
def graphs_of_points() -> Any:
    mesh = (
        np.random.default_rng(1).random((4, 3)),
        np.array([[0, 1, 2], [0, 2, 3], [0, 1, 3], [1, 2, 3]]),
    )
    points = [
        grf.from_points(X, n_neighbors=4, weights=name)
        for name in ("unit", "gaussian", "inverse_length")
    ]
    meshes = [grf.from_mesh(mesh, weights=name) for name in ("unit", "inverse_length")]
    return points, meshes, grf.from_mesh(mesh, on="vertices", weights="cotangent")


@setting(
    "data set",
    ["les-miserables", "generated-torus", "dolphins", "mesh-teapot", "pems-bay", "uci-concrete"],
)
def data_set(name: str) -> Any:
    return of(grf.datasets.load(name), "graph targets target_nodes coordinates features")


# -- the command line ------------------------------------------------------------------------------


def outcome(compute: Callable[[], Any]) -> str:
    """The digest of a setting's results, or why there is none."""
    try:
        return digest(compute())
    except Exception as error:
        # A module of graphrf is no extra.
        own = (getattr(error, "name", None) or "").startswith("graphrf")
        lacking = isinstance(error, ImportError | ConnectionError) and not own
        return (
            f"{'skipped' if lacking else 'failed'}: {type(error).__name__}: {error}".splitlines()[0]
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", type=Path, metavar="FILE")
    parser.add_argument("--compare", type=Path, metavar="FILE")
    options = parser.parse_args()
    before = json.loads(options.compare.read_text(encoding="utf-8")) if options.compare else {}
    warnings.simplefilter("ignore")
    start, found = time.perf_counter(), {}
    for name, compute in SETTINGS.items():
        found[name] = outcome(compute)
        if options.compare is None:
            print(f"{name}  {found[name]}", flush=True)
    skipped = sum(value.startswith("skipped") for value in found.values())
    seconds = time.perf_counter() - start
    where = Path(grf.__file__).parent
    print(
        f"{len(found)} settings, {skipped} of them skipped, of {where} in {seconds:.0f} s",
        file=sys.stderr,
    )
    if options.write is not None:
        options.write.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    wrong = [name for name in found if found[name].startswith("failed")]
    if options.compare is not None:
        wrong = [
            name for name in before | found if name in wrong or before.get(name) != found.get(name)
        ]
        for name in wrong:
            print(f"{name}  before: {before.get(name)}  now: {found.get(name)}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
