"""Covariances among nodes: graph kernels, and covariances learned from the signal of sensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf._base.cached import cached_property
from graphrf._base.memory import require_memory
from graphrf.gp.model.settings import AUTO, KERNELS
from graphrf.gp.posterior.by_rows import LARGEST_JOINT
from graphrf.gp.time.posterior import QueriedNodes
from graphrf.graph.graph import Graph, given_nodes
from graphrf.kernels.kernel import Kernel, cleaned_eigenvalues
from graphrf.kernels.lengthscales import lengthscale_unit
from graphrf.kernels.named import Diffusion, Matern
from graphrf.operators.series.apply import (
    kernel_block,
    kernel_blocks,
    kernel_diagonal,
    mean_variance,
)

# Up to so many nodes the Laplacian is decomposed once for all kernels.
_LARGEST_DENSE = 1_200
# Of the series, relative to the largest value of a kernel's spectrum.
_TOL = 1e-8
# The ridge on C's diagonal, relative to its mean, where nodes are predicted from sensors.
_RIDGE = 0.05


def candidate_kernels(
    graph: Graph, kernel: Any, largest_dense: int = _LARGEST_DENSE
) -> list[Kernel]:
    """The kernels of the setting `kernel`: a Kernel itself, or several lengthscales of a name."""
    if isinstance(kernel, Kernel):
        return [kernel]
    series = [name for name, made in KERNELS.items() if made().is_series]
    name = checks.choice("kernel", kernel, (AUTO, *series))
    laplacians = (
        ("normalized", "combinatorial") if graph.n_nodes <= largest_dense else ("normalized",)
    )

    result: list[Kernel] = []
    for laplacian in laplacians:
        lengthscales = lengthscale_unit(graph, laplacian) * np.array(
            [0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
        )
        if name == AUTO:
            shapes: list[Kernel] = [Matern(nu=nu, laplacian=laplacian) for nu in (1.0, 2.0)]
            shapes.append(Diffusion(laplacian=laplacian))
        else:
            shapes = [KERNELS[name](laplacian=laplacian)]

        for shape in shapes:
            if "lengthscale" in shape.hyperparameters:
                result += [
                    shape.replace(lengthscale=float(lengthscale)) for lengthscale in lengthscales
                ]
            else:
                result.append(shape)
    return result


class GraphCovariance:
    """C: a graph kernel with mean variance 1 over all nodes, by blocks of any nodes.

    The Laplacian is decomposed once where the graph is small enough; else blocks are Chebyshev
    series, whose products several kernels share.
    """

    own_correlation = 0.0  # individual variation is independent

    def __init__(self, graph: Graph, seed: int, largest_dense: int = _LARGEST_DENSE) -> None:
        self._graph = graph
        self._is_small = graph.n_nodes <= largest_dense
        self._seed = seed
        self._spectra: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._means: dict[Kernel, float] = {}
        self._kept: dict[tuple[Any, ...], np.ndarray] = {}

    def block(self, kernel: Kernel, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """C between nodes, shape (rows, columns)."""
        if not self._is_small:
            known = [
                self._graph.positions(nodes) for nodes in (rows, columns)
            ]  # names may be integers too
            return self._once(
                (kernel, rows.tobytes(), columns.tobytes()),
                lambda: kernel_block(self._graph, kernel, *known, tol=_TOL) / self._mean(kernel),
            )
        values, vectors = self._spectrum(kernel)
        return np.asarray((vectors[rows] * (values / values.mean())) @ vectors[columns].T)

    def blocks(self, kernels: list[Kernel], nodes: np.ndarray) -> dict[Kernel, np.ndarray]:
        """C among distinct nodes for each of several kernels."""
        require_memory(
            8.0 * nodes.size**2 * len(kernels),
            f"{len(kernels)} covariances of {nodes.size} sensors",
            "pass a Kernel, or the name of one",
        )
        if self._is_small:
            return {kernel: self.block(kernel, nodes, nodes) for kernel in kernels}
        result: dict[Kernel, np.ndarray] = {}
        for laplacian in {kernel.laplacian: None for kernel in kernels}:
            some = [kernel for kernel in kernels if kernel.laplacian == laplacian]
            computed = kernel_blocks(self._graph, some, nodes, nodes, tol=_TOL)
            result |= {
                kernel: block / self._mean(kernel)
                for kernel, block in zip(some, computed, strict=True)
            }
        return result

    def diagonal(self, kernel: Kernel, nodes: np.ndarray) -> np.ndarray:
        """C(u, u)."""
        if not self._is_small:
            return self._once(
                (kernel, nodes.tobytes()),
                lambda: kernel_diagonal(self._graph, kernel, nodes, tol=_TOL) / self._mean(kernel),
            )
        values, vectors = self._spectrum(kernel)
        return np.asarray(vectors[nodes] ** 2 @ (values / values.mean()))

    def _spectrum(self, kernel: Kernel) -> tuple[np.ndarray, np.ndarray]:
        scale = kernel.check_graph(self._graph)
        if kernel.laplacian not in self._spectra:
            values, vectors = np.linalg.eigh(
                self._graph.laplacian(kernel.laplacian == "normalized").toarray()
            )
            self._spectra[kernel.laplacian] = (
                cleaned_eigenvalues(values, self._graph, kernel.laplacian),
                vectors,
            )
        eigenvalues, vectors = self._spectra[kernel.laplacian]
        return kernel.spectrum(eigenvalues, scale), vectors

    def _once(self, key: tuple[Any, ...], made: Callable[[], np.ndarray]) -> np.ndarray:
        """The array of a key, kept while among the last: forecasts often need the same nodes."""
        if key in self._kept:
            return self._kept[key]
        result = made()
        if result.size <= 5_000_000:
            self._kept = dict([*self._kept.items(), (key, result)][-4:])
        return result

    def _mean(self, kernel: Kernel) -> float:
        if kernel not in self._means:
            # to 0.4 % on graphs of 10,000 nodes
            self._means[kernel] = mean_variance(
                self._graph, kernel, n_probes=32, seed=self._seed
            ).value
        return self._means[kernel]


def empirical(y: np.ndarray, noise: float, near: np.ndarray) -> np.ndarray:
    """The covariance of sensors over times of y (T, n), without noise, scaled as C: (n, n)."""
    centred = y - y.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred / len(y))
    matrix = (vectors * np.maximum(values - noise, 0.0)) @ vectors.T
    trace = float(np.trace(matrix))
    return matrix * (np.trace(near) / trace) if trace > 0 else near


class LearnedCovariance(GraphCovariance):
    r"""C (1 - w) + E w among sensors, for a graph kernel C and an empirical E, `matrix` (n, n).

    Other nodes inherit E by the graph's prediction of them from the sensors,

    .. math:: f_u = W_u f_S + r_u, \quad W = C_{US} (C_{SS} + \delta I)^{-1},

    whose error r has the covariance that C gives it: a covariance function on all nodes, and C
    itself if E is C and delta is 0. A sensor's row of W is that of the identity. `weight` is w,
    `own_correlation` as in `Sensors`.

    Source: Le and Zidek 1992, "Interpolation with uncertain spatial covariances: a Bayesian
    alternative to Kriging".
    """

    def __init__(
        self,
        graph: GraphCovariance,
        kernel: Kernel,
        sensors: np.ndarray,
        weight: float,
        own_correlation: float,
        matrix: np.ndarray,
        ridge: float = _RIDGE,
    ) -> None:
        self._ridge = ridge
        self.graph, self.kernel, self.sensors = graph, kernel, sensors
        self.weight, self.own_correlation, self.matrix = weight, own_correlation, matrix

    def block(self, kernel: Kernel, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The covariance between nodes, shape (rows, columns)."""
        near = self.graph.block(kernel, rows, columns)
        left, right = self._weights(rows), self._weights(columns)
        inherited = left @ self.matrix @ right.T
        # Covariances of errors; those of sensors are 0.
        new, other = self._unseen(rows), self._unseen(columns)
        if new.size and other.size:
            to_sensors = self.graph.block(kernel, rows[new], self.sensors)
            from_sensors = self.graph.block(kernel, columns[other], self.sensors)
            a, b = left[new], right[other]
            error = (
                near[np.ix_(new, other)]
                - a @ from_sensors.T
                - to_sensors @ b.T
                + a @ self._near @ b.T
            )
            inherited[np.ix_(new, other)] += error
        return np.asarray((1.0 - self.weight) * near + self.weight * inherited)

    def diagonal(self, kernel: Kernel, nodes: np.ndarray) -> np.ndarray:
        """The variances of nodes."""
        near, weights, new = (
            self.graph.diagonal(kernel, nodes),
            self._weights(nodes),
            self._unseen(nodes),
        )
        inherited = np.einsum("qn,qn->q", weights @ self.matrix, weights)
        if new.size:
            a = weights[new]
            inherited[new] += near[new] - 2.0 * np.einsum(
                "qn,qn->q", a, self.graph.block(kernel, nodes[new], self.sensors)
            )
            inherited[new] += np.einsum("qn,qn->q", a @ self._near, a)
        return np.asarray((1.0 - self.weight) * near + self.weight * inherited)

    @cached_property
    def _near(self) -> np.ndarray:
        return self.graph.block(self.kernel, self.sensors, self.sensors)

    @cached_property
    def _inverse(self) -> np.ndarray:
        n = self.sensors.size
        return np.linalg.inv(self._near + self._ridge * np.trace(self._near) / n * np.eye(n))

    @cached_property
    def _places(self) -> dict[int, int]:
        return {int(node): place for place, node in enumerate(self.sensors)}

    def _unseen(self, nodes: np.ndarray) -> np.ndarray:
        """Mask of the nodes without a sensor."""
        return np.flatnonzero(~np.isin(nodes, self.sensors))

    def _weights(self, nodes: np.ndarray) -> np.ndarray:
        """W, shape (q, n)."""
        result = np.zeros((nodes.size, self.sensors.size))
        new = self._unseen(nodes)
        known = np.setdiff1d(np.arange(nodes.size), new)
        result[known, [self._places[int(node)] for node in nodes[known]]] = 1.0
        if new.size:
            result[new] = self.graph.block(self.kernel, nodes[new], self.sensors) @ self._inverse
        return result


def distinct_places(
    graph: Graph,
    covariance: GraphCovariance,
    kernel: Kernel,
    sensors: np.ndarray,
    nodes: Any,
    hours: np.ndarray,
    purpose: str,
) -> tuple[QueriedNodes, np.ndarray, np.ndarray, np.ndarray]:
    """Distinct places and hours for "means", "variances" or "draws", and where each one is."""
    positions, columns = np.unique(given_nodes(graph, nodes), return_inverse=True)
    if positions.size == 0 or hours.size == 0:
        raise checks.value_error("nodes", "and `times` must not be empty")
    distinct, rows = np.unique(hours, return_inverse=True)
    if purpose == "draws" and positions.size > LARGEST_JOINT:
        raise checks.value_error(
            "nodes",
            f"must hold at most {LARGEST_JOINT} distinct nodes for joint draws, got "
            f"{positions.size}",
        )
    sensor = np.full(graph.n_nodes, -1)
    sensor[sensors] = np.arange(sensors.size)
    among = np.zeros(positions.size)
    if purpose == "variances":
        among = covariance.diagonal(kernel, positions)
    elif purpose == "draws":
        among = covariance.block(kernel, positions, positions)
    places = QueriedNodes(covariance.block(kernel, positions, sensors), among, sensor[positions])
    return places, columns, distinct, rows


Blocks = Callable[[Kernel], np.ndarray]
"""C among the sensors for a kernel."""
