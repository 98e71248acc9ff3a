"""How long does a density with its gradient take, by SparseField, PyMC, NumPyro and others?

    make test-bridges                               # makes .venv-bridges, with PyMC and NumPyro
    .venv-bridges/bin/python benchmarks/bridges.py  # about six minutes

Areas on a random triangulation: the log density of a field and its gradient in all values and
hyperparameters, at new hyperparameters each time, beside a dense Cholesky factor and PyMC's own
`CAR`. That finds the eigenvalues of a dense matrix once, in compilation, where the adjacency matrix
is a constant. One thread; smallest and median wall time after a first call.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from _machine import header
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial import Delaunay

import graphrf as grf
from graphrf.bridges import SparseField

SIZES = (56, 6_000)
KERNELS = (grf.CAR(0.9), grf.Leroux(0.9), grf.BYM2(0.5), grf.Matern(1.0, 3.0), grf.Matern(2.0, 3.0))


def areas(n: int) -> grf.Graph:
    """Neighbours in a triangulation of random points."""
    triangles = Delaunay(np.random.default_rng(0).random((n, 2))).simplices
    pairs = np.sort(
        np.vstack([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [0, 2]]]), axis=1
    )
    return grf.from_edges(*np.unique(pairs, axis=0).T, n_nodes=n)


def report(name: str, function: Callable[[float], object], start: float, repeats: int) -> None:
    """Times of a function at a new hyperparameter each time, after a first call if several."""
    if repeats > 1:
        function(start)
    seconds = []
    for i in range(repeats):
        value = start * (1 - 1e-4 * (i + 1))
        started = time.perf_counter()
        function(value)
        seconds.append(time.perf_counter() - started)
    low, middle = 1e3 * min(seconds), 1e3 * float(np.median(seconds))
    print(f"| {name} | {low:,.2f} | {middle:,.2f} |", flush=True)


def _gradients(field: SparseField, x: np.ndarray, at: float) -> object:
    return field.gradients(x, np.array([at, 1.0]))


def dense(graph: grf.Graph, x: np.ndarray) -> Callable[[float], object]:
    """Density and gradient of a CAR by a dense factor and inverse."""
    adjacency = graph.adjacency.toarray()
    degrees = np.diag(adjacency.sum(axis=1))

    def gradient(rho: float) -> object:
        q = degrees - rho * adjacency
        factor = cho_factor(q, lower=True)
        inverse = cho_solve(factor, np.eye(x.size))
        slope = -0.5 * float((inverse * adjacency).sum()) + 0.5 * x @ adjacency @ x
        return np.log(np.diag(factor[0])).sum() - 0.5 * x @ q @ x, -q @ x, slope

    return gradient


def in_pymc(
    graph: grf.Graph, kernel: grf.kernels.Kernel, x: np.ndarray
) -> Callable[[float], object]:
    """The same density and gradient, compiled by PyTensor."""
    import pymc as pm
    import pytensor.tensor as pt

    from graphrf.bridges.pymc import GraphField

    field, value = pt.vector(dtype="float64"), pt.scalar(dtype="float64")
    name = SparseField(graph, kernel).free[0]
    density = pm.logp(GraphField.dist(graph, kernel, **{name: value}), field)
    compiled = pm.compile([field, value], [density, *pt.grad(density, [field, value])])
    return lambda at: compiled(x, at)


def pymc_car(graph: grf.Graph, x: np.ndarray) -> Callable[[float], object]:
    """PyMC's own CAR, of a sparse adjacency matrix."""
    import pymc as pm
    import pytensor.tensor as pt
    import scipy.sparse as sp

    field, value = pt.vector(dtype="float64"), pt.scalar(dtype="float64")
    weights = sp.csr_matrix(graph.adjacency)
    density = pm.logp(pm.CAR.dist(np.zeros(x.size), weights, value, 1.0), field).sum()
    started = time.perf_counter()
    compiled = pm.compile([field, value], [density, *pt.grad(density, [field, value])])
    print(f"| PyMC's own CAR, compiled once | {1e3 * (time.perf_counter() - started):,.0f} | |")
    return lambda at: compiled(x, at)


def in_numpyro(
    graph: grf.Graph, kernel: grf.kernels.Kernel, x: np.ndarray
) -> Callable[[float], object]:
    """The same density and gradient, compiled by JAX."""
    import jax
    import numpyro

    from graphrf.bridges.numpyro import GraphField

    numpyro.enable_x64()
    name = SparseField(graph, kernel).free[0]

    def density(field: object, value: object) -> object:
        return GraphField(graph, kernel, **{name: value}).log_prob(field)

    compiled = jax.jit(jax.value_and_grad(density, (0, 1)))
    return lambda at: jax.block_until_ready(compiled(x, at))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("--only-car", action="store_true", help="PyMC's own CAR alone")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(header("scipy", "pymc", "pytensor", "numpyro", "jax"))
    for n in options.sizes:
        graph, x = areas(n), np.random.default_rng(1).standard_normal(n)
        print(f"\n| {n:,} areas: density and gradient | smallest, ms | median, ms |\n|---|---|---|")
        if options.only_car:
            report("PyMC's own CAR", pymc_car(graph, x), 0.9, options.repeats)
            continue
        for kernel in KERNELS:
            field = SparseField(graph, kernel)
            start = kernel.hyperparameters[field.free[0]]
            report(
                f"SparseField, {kernel!r}", partial(_gradients, field, x), start, options.repeats
            )
        car = KERNELS[0]
        report("PyMC, GraphField with CAR", in_pymc(graph, car, x), 0.9, options.repeats)
        report("NumPyro, GraphField with CAR", in_numpyro(graph, car, x), 0.9, options.repeats)
        report("dense factor and inverse, CAR", dense(graph, x), 0.9, 21 if n < 1_000 else 3)
        report("PyMC's own CAR", pymc_car(graph, x), 0.9, options.repeats)


if __name__ == "__main__":
    main()
