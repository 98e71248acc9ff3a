"""Half-integer orders: how large are factors, and how far off deviations, by number of fields?

Meshes, `Field(mesh, alpha=...)`: a unit square, range 0.2, observations at 0.7 points per vertex.
Numbers and multiply-adds of the factor of the posterior's precision, seconds of that factor and of
the selected inverse after it; errors of deviations on a small mesh against dense algebra.

Lattices, `Matern(nu=...)`: the hidden layers of `SparsePrecision`, as many as it takes or fewer,
and sums of as many independent fields, with 0.7 observations per node.

    python benchmarks/half_integers.py errors
    python benchmarks/half_integers.py mesh --edge 0.01 0.005
    python benchmarks/half_integers.py lattice --sizes 300x300 500x300      # 15 minutes

Numbers of the factor, and multiply-adds in brackets; "error" is the largest of a variance, of the
prior or of any posterior. Large factors took 0.2 to 0.9 s for 1e9 multiply-adds on one core of an
AMD EPYC that other work shared, and selected inverses as long.

| mesh | 14,916 vertices | error | 58,477 vertices | error |
|---|---|---|---|---|
| alpha = 1 | 7.6e5 (4.3e7) | | 3.4e6 (3.0e8) | |
| alpha = 2 | 1.8e6 (2.5e8) | | 8.8e6 (2.1e9) | |
| alpha = 3 | 3.1e6 (7.4e8) | | 1.6e7 (6.3e9) | |
| alpha = 1.5, 2 fields | 6.6e6 (1.9e9) | .13 | 3.3e7 (1.6e10) | .18 |
| alpha = 1.5, 3 fields, by default | 1.4e7 (6.1e9) | .024 | 7.1e7 (5.2e10) | .040 |
| alpha = 1.5, 4 fields | 2.5e7 (1.5e10) | .004 | 1.2e8 (1.2e11) | .009 |
| alpha = 2.5, 2 fields | 6.3e6 (1.8e9) | .092 | 3.2e7 (1.5e10) | .14 |
| alpha = 2.5, 3 fields, by default | 1.0e7 (3.6e9) | .014 | 5.1e7 (3.0e10) | .026 |

Deviations on a mesh of 2,548 vertices, largest relative error in %: of the prior, and at vertices
between 50, 500 and 1,911 observed ones, with half of "error" beside them.

| | prior | 50 | 500 | 1,911 | bound |
|---|---|---|---|---|---|
| alpha = 1.5, 2 fields | .91 | 1.50 | 1.91 | 2.97 | 3.30 |
| alpha = 1.5, 3 fields | .13 | .23 | .23 | .31 | .42 |
| alpha = 2.5, 2 fields | .56 | 1.20 | 1.52 | 1.85 | 1.95 |
| alpha = 2.5, 3 fields | .06 | .07 | .11 | .13 | .19 |

| lattice, lengthscale 10 | 300 x 300 | 500 x 300 | error |
|---|---|---|---|
| nu = 1 | 4.1e6 (3.7e8) | 7.4e6 (8.5e8) | |
| nu = 2 | 1.1e7 (2.8e9) | 1.9e7 (5.2e9) | |
| nu = 1.5, 2 layers | 4.1e7 (2.3e10) | 6.8e7 (4.1e10) | .014 |
| nu = 1.5, 3 layers | 9.0e7 (7.6e10) | 1.5e8 (1.4e11) | .0008 |
| nu = 1.5, 5 layers, by default | 2.5e8 (3.5e11) | 4.1e8 (6.3e11) | < 1e-4 |
| nu = 1.5, sum of 2 fields | 3.9e7 (2.1e10) | 6.9e7 (4.4e10) | .014 |
| nu = 1.5, sum of 3 fields | 8.4e7 (6.8e10) | | .0008 |

So a sum of fields is as large as as many layers, of which it is another coordinate system: what is
saved on graphs is saved by fewer layers alone. The five are those of the longest lengthscale that
training tries. A factor grows with the square of the number of fields, not in proportion to it,
since observations couple them.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import scipy.sparse as sp
import shapely
from _machine import header

import graphrf as grf
from graphrf.gp import TriangleMesh
from graphrf.gp.fields.half_order_precision import HalfOrderMatrices, HalfOrderPrecision
from graphrf.gp.fields.kernel import FieldKernel
from graphrf.gp.fields.mesh_precision import MeshMatrices, MeshPrecision
from graphrf.operators.precision.markov import SparsePrecision
from graphrf.operators.precision.root_chain import RootChain
from graphrf.operators.sparse.cholesky import SparseCholesky
from graphrf.operators.sparse.ordering import Elimination, FactorTooLargeError

RANGE, LENGTHSCALE, NOISE = 0.2, 10.0, 0.1
# Numbers of a factor that is only counted, since it takes minutes.
COUNTED = 2e8


class FewLayers(SparsePrecision):
    """A precision with a stated number of layers."""

    layers = 2

    @property
    def _n_layers(self) -> int:
        return type(self).layers


def square(edge: float) -> TriangleMesh:
    """A mesh of the unit square."""
    return TriangleMesh.from_points(
        None, boundary=shapely.box(0, 0, 1, 1), max_edge=edge, margin=0.0
    )


def half_order(mesh: TriangleMesh, alpha: float, n_fields: int) -> HalfOrderPrecision:
    """A field of half order as a sum of a stated number of fields."""
    matrices = HalfOrderMatrices(mesh.elements, alpha, RANGE)
    inner = matrices.degrees[0]
    matrices.n_fields = n_fields
    matrices.degrees = (inner, *[inner % 2] * (n_fields - 1))
    return HalfOrderPrecision(matrices, FieldKernel(RANGE, alpha, 2))


def measure(name: str, error: float, matrix: sp.csr_array) -> None:
    """The factor of a matrix: its numbers, multiply-adds and seconds."""
    try:
        elimination = Elimination.of(matrix)
    except FactorTooLargeError:
        print(f"{name:34} no room")
        return
    size = f"{elimination.n_entries:9.2e} numbers {elimination.operations:9.2e} operations"
    if elimination.n_entries > COUNTED:
        print(f"{name:34} error {error:6.4f} {size}", flush=True)
        return
    started = time.perf_counter()
    factor = SparseCholesky(matrix, elimination)
    factored = time.perf_counter()
    factor.selected_inverse()
    seconds = f"{factored - started:6.2f} s + {time.perf_counter() - factored:6.2f} s"
    print(f"{name:34} error {error:6.4f} {size} {seconds}", flush=True)


def meshes(edge: float) -> None:
    """Factors by order and number of fields."""
    mesh = square(edge)
    print(mesh)
    n = int(0.7 * mesh.n_vertices)
    weights = mesh.weights(np.random.default_rng(0).random((n, 2)))
    for alpha in (1, 2, 3, 1.5, 2.5):
        for n_fields in (1,) if alpha in (1, 2, 3) else (2, 3, 4):
            if n_fields == 1:
                matrices = MeshMatrices(mesh.elements, int(alpha))
                precision, error = MeshPrecision(matrices, FieldKernel(RANGE, alpha, 2)), 0.0
            else:
                precision = half_order(mesh, alpha, n_fields)
                error = precision._chain.error
            shape = n, precision.n_nodes
            a = sp.csr_array((weights.data, weights.indices, weights.indptr), shape=shape)
            posterior = sp.csr_array(precision.matrix + a.T @ a / NOISE)
            measure(f"alpha {alpha}, {n_fields} fields", error, posterior)


def lattice(first: int, second: int) -> None:
    """Layers against sums of fields, on a lattice."""
    n = first * second
    nodes = np.arange(n).reshape(first, second)
    ends = [(nodes[1:], nodes[:-1]), (nodes[:, 1:], nodes[:, :-1])]
    row, column = (np.concatenate([pair[side].ravel() for pair in ends]) for side in (0, 1))
    half = sp.csr_array((np.ones(row.size), (row, column)), shape=(n, n))
    graph = grf.Graph(sp.csr_array(half + half.T))
    observed = np.random.default_rng(0).random(n) < 0.7

    print(f"lattice of {first} x {second}")
    for nu in (1.0, 2.0):
        precision = SparsePrecision(graph, grf.Matern(nu=nu, lengthscale=LENGTHSCALE))
        measure(f"nu {nu:g}", 0.0, _observed(precision.matrix, observed, 1))
    kernel = grf.Matern(nu=1.5, lengthscale=LENGTHSCALE)
    for layers in (2, 3, None):
        FewLayers.layers = layers
        precision = FewLayers(graph, kernel) if layers else SparsePrecision(graph, kernel)
        count = precision.n_nodes // n
        try:
            elimination = precision.own_elimination
        except FactorTooLargeError:
            print("no room for the layers")
            continue
        print(
            f"nu 1.5, {count} layers: {elimination.n_entries:.2e} numbers, "
            f"{elimination.operations:.2e} operations, error {precision._chain.error:.4f}"
        )
    c, t, _ = precision._power
    base, low = precision.base, c
    for n_fields in (2, 3):
        chain = RootChain.of(low, c + t * precision._largest_of(kernel), n_fields)
        blocks = [
            base @ (base + pole * sp.eye_array(n, format="csr")) / weight
            for pole, weight in zip(chain.poles, chain.weights, strict=True)
        ]
        total = _observed(sp.csr_array(sp.block_diag(blocks)), observed, n_fields)
        measure(f"nu 1.5, sum of {n_fields} fields", chain.error, total)


def _observed(prior: sp.csr_array, observed: np.ndarray, n_fields: int) -> sp.csr_array:
    """The posterior's precision, where observations read the sum of all fields."""
    ones = np.ones((n_fields, n_fields))
    return sp.csr_array(prior + sp.kron(ones, sp.diags_array(observed / NOISE)))


def errors() -> None:
    """Errors of deviations against dense algebra: of the prior, and given exact observations."""
    mesh = square(0.025)
    print(mesh, "deviations of the prior, and between observations of 50, 500 and all but one in 4")
    mass, v = mesh.elements.lumped_mass, mesh.n_vertices
    root = np.sqrt(mass)
    values, vectors = np.linalg.eigh(mesh.elements.stiffness().toarray() / np.outer(root, root))
    places = np.random.default_rng(0).permutation(v)
    for alpha in (1.5, 2.5):
        kernel = FieldKernel(RANGE, alpha, 2)
        spectrum = kernel.kappa**2 + values.clip(0)
        scaled = vectors / root[:, None] * spectrum ** (-0.5 * alpha)
        exact = scaled @ scaled.T / np.exp(kernel.log_tau_squared)
        for n_fields in (2, 3, 4):
            precision = half_order(mesh, alpha, n_fields)
            found = precision.factor().solve(np.eye(precision.n_nodes, v))[:v]
            off = [_largest(np.diagonal(found), np.diagonal(exact))]
            for count in (50, 500, 3 * v // 4):
                pair = (_between(each, places[:count], places[-100:]) for each in (found, exact))
                off.append(_largest(*pair))
            text = " ".join(f"{100 * each:6.2f} %" for each in off)
            bound = 50 * precision._chain.error
            print(f"alpha {alpha}, {n_fields} fields: {text}   bound {bound:.2f} %", flush=True)


def _between(covariance: np.ndarray, given: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Variances at some vertices given others, with a small noise."""
    cross = covariance[np.ix_(given, asked)]
    inner = covariance[np.ix_(given, given)] + 1e-4 * np.eye(given.size)
    return np.diagonal(covariance)[asked] - (cross * np.linalg.solve(inner, cross)).sum(axis=0)


def _largest(found: np.ndarray, exact: np.ndarray) -> float:
    """The largest relative error of a deviation."""
    return float(abs(np.sqrt(found / exact) - 1).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("errors", "mesh", "lattice"))
    parser.add_argument("--edge", type=float, nargs="*", default=[0.01])
    parser.add_argument("--sizes", nargs="*", default=["300x300"])
    options = parser.parse_args()
    print(header("scipy"))
    if options.part == "errors":
        errors()
    elif options.part == "mesh":
        for edge in options.edge:
            meshes(edge)
    else:
        for size in options.sizes:
            lattice(*map(int, size.split("x")))


if __name__ == "__main__":
    main()
