r"""Error of the Gram matrix of features, by exact products with the kernel, and its warnings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from graphrf._base import checks
from graphrf._base.warn import warn

# A warning is issued if the error of features is above this fraction of |K|_F,
MUCH = 0.25
# or their largest diagonal entry above this multiple of K_ii, or of a bound on it.
_MUCH_AT_NODE = 2.0
# Columns of a block of random vectors: with at most as many nodes as four blocks have columns, the
# error is exact.
_BLOCK = 8
# A warning needs the error up to a factor of two: a few columns, and products to a thousandth.
_QUICK_BLOCK, _PLAIN = 3, 2
_TOLERANCE, _QUICK_TOLERANCE = 1e-6, 1e-3
# Multiply-adds that a check may always take, some 30 ms,
# once for each kernel; more if the call takes more.
FREE = 3e7
# Approximate fraction of sum |f_k| after the end of the Chebyshev series of K.
_TAIL = 1e-3

Product = Callable[[np.ndarray], np.ndarray]


class FeatureErrorWarning(UserWarning):
    """The Gram matrix of features is off by a quarter, or its diagonal by a factor of two."""


@dataclass(frozen=True, eq=False)
class Origin:
    """Origin of features, kept as long as they stay in this process.

    `apply(kernel, v, tol=...)` is K v on their graph, `edges` the multiply-adds of a product with
    its walk matrix; `choice` records how the sampler was chosen for an error; `follow(features,
    graph, n_threads)` gives these features on an edited graph.
    """

    apply: Callable[..., np.ndarray]
    edges: int
    sampler: Any
    choice: Any = None
    follow: Callable[..., Any] | None = None


class MeasuredRows(NamedTuple):
    """Nodes of rows, the product x -> G x with their Gram matrix G, and its diagonal, if known."""

    nodes: np.ndarray
    n_nodes: int
    gram: Product
    diagonal: Callable[[], np.ndarray] | None


def measured(
    rows: MeasuredRows,
    kernel: Any,
    apply: Callable[..., np.ndarray] | None,
    origin: Origin | None,
    seed: int,
) -> float:
    """See `Features.relative_error`; without `apply` products are those of the origin."""
    if apply is None:
        if origin is None:
            raise checks.value_error(
                "apply",
                "must be given for features that do not hold their graph, since they come from a "
                "file or from another process: pass apply=functools.partial(graphrf.apply_kernel, "
                "graph)",
            )
        apply = origin.apply
    exact = _restricted(rows, lambda v: apply(kernel, v, tol=_TOLERANCE))
    return _sketched(rows.gram, exact, rows.nodes.size, _BLOCK, np.random.default_rng(seed))


class Watch:
    """Warns of a large error, once for each kernel, if the estimate is cheap beside the call."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, bytes]] = set()
        self._warned: set[tuple[str, bytes]] = set()

    def check_diagonal(
        self,
        nodes: np.ndarray,
        diagonal: Callable[[], np.ndarray],
        kernel: Any,
        f: np.ndarray,
        scale: float,
    ) -> bool:
        """Warn if the diagonal is larger at a node than any entry of K can be; True if so."""
        key = repr(kernel), f.tobytes()
        if key not in self._warned and warn_of_diagonal(nodes, diagonal(), kernel, scale):
            self._warned.add(key)
        return key in self._warned

    def check(
        self,
        rows: MeasuredRows,
        kernel: Any,
        f: np.ndarray,
        scale: float,
        origin: Origin | None,
        call_work: float,
    ) -> None:
        """Warn of an error above a quarter, or of a diagonal much too large where it is largest.

        `call_work` is the approximate number of multiply-adds of the call.
        """
        key = repr(kernel), f.tobytes()
        if key in self._seen:
            return
        if rows.diagonal is not None and self.check_diagonal(
            rows.nodes, rows.diagonal, kernel, f, scale
        ):
            return
        if origin is None:
            return
        size = np.cumsum(np.abs(f[::-1]))[::-1]
        degree = int(np.count_nonzero(size > _TAIL * size[0])) + 1
        room = max(call_work, FREE) / (degree * max(origin.edges, 1))
        if room < _PLAIN:
            return
        self._seen.add(key)
        exact = _restricted(rows, lambda v: origin.apply(kernel, v, tol=_QUICK_TOLERANCE))
        try:
            error = _quick_error(rows, exact, room)
            place, largest = (0, 0.0) if rows.diagonal is None else _largest(rows.diagonal())
            own = float(exact(np.eye(1, rows.nodes.size, place).T)[place, 0]) if largest else 0.0
        except (ValueError, MemoryError):  # the exact series is too long, or its products too large
            return
        if error > MUCH:
            warn(_words(kernel, error), FeatureErrorWarning)
        elif largest > _MUCH_AT_NODE * own:
            warn(
                _diagonal_words(kernel, rows.nodes[place], largest, f"that of K is {own:.3g}"),
                FeatureErrorWarning,
            )


def warn_of_diagonal(nodes: np.ndarray, diagonal: np.ndarray, kernel: Any, scale: float) -> bool:
    """Warn, and return True, if the diagonal exceeds twice the largest entry of K possible."""
    bound = kernel.modulation_tail(-1, scale=scale) ** 2
    place, largest = _largest(diagonal)
    wrong = largest > _MUCH_AT_NODE * bound
    if wrong:
        words = _diagonal_words(
            kernel, nodes[place], largest, f"no entry of K is above {bound:.3g}"
        )
        warn(words, FeatureErrorWarning)
    return wrong


def _largest(diagonal: np.ndarray) -> tuple[int, float]:
    """Index and value of the largest entry; 0 and 0.0 for an empty diagonal."""
    if diagonal.size == 0:
        return 0, 0.0
    place = int(np.argmax(diagonal))
    return place, float(diagonal[place])


def _diagonal_words(kernel: Any, node: int, found: float, truth: str) -> str:
    return (
        f"the Gram matrix of these features has {found:.3g} on the diagonal at node {node}, where "
        f"{truth} for {kernel!r}: the variance of this row is added to the prior variance, since "
        "the rows are too short, or the walks too few, for what the node reaches; take a larger "
        "`budget` or `n_walks`, or the kernel without an error (graphrf.apply_kernel, "
        "graphrf.kernel_block, or method='series' of GraphGPRegressor)"
    )


def _quick_error(rows: MeasuredRows, exact: Product, room: float) -> float:
    """The error from as many exact products as `room` allows."""
    rng, n = np.random.default_rng(0), rows.nodes.size
    if room >= 4 * _QUICK_BLOCK:
        return _sketched(rows.gram, exact, n, _QUICK_BLOCK, rng)
    z = _signs(rng, n, _PLAIN)
    truth = exact(z)
    return _ratio(float(np.linalg.norm(rows.gram(z) - truth)), float(np.linalg.norm(truth)))


def _words(kernel: Any, error: float) -> str:
    written = repr(kernel)
    if type(kernel).__module__.startswith("graphrf."):
        written = f"graphrf.{written}"
    return (
        f"the Gram matrix of these features is off by about {error:.0%} of the norm of {kernel!r} "
        "(features.relative_error(kernel) measures it); graphrf.sample_features(graph, "
        f"kernel={written}, error=0.1) takes a sampler that suits it, and graphrf.apply_kernel "
        "multiplies by the kernel without an error"
    )


def _restricted(rows: MeasuredRows, whole: Product) -> Product:
    """K[S, S] x for the nodes S of the rows, by products with K; nodes may repeat."""

    def exact(x: np.ndarray) -> np.ndarray:
        padded = np.zeros((rows.n_nodes, x.shape[1]))
        np.add.at(padded, rows.nodes, x)
        return np.asarray(whole(padded)[rows.nodes])

    return exact


def _sketched(
    estimate: Product, exact: Product, n: int, block: int, rng: np.random.Generator
) -> float:
    r"""|G - K|_F / |K|_F from products of the two symmetric matrices with 4 `block` vectors.

    With orthonormal Q, |E|_F^2 = |E Q|_F^2 + |E (I - Q Q^T)|_F^2. Q spans (G - K) S and K S for
    random signs S, so that the first term contains the dominant directions; the second is the mean
    of |E (I - Q Q^T) z|^2 over other random signs z.
    """
    if n <= 4 * block:
        unit = np.eye(n)
        truth = exact(unit)
        return _ratio(float(np.linalg.norm(estimate(unit) - truth)), float(np.linalg.norm(truth)))
    signs = _signs(rng, n, block)
    truth = exact(signs)
    q, _ = np.linalg.qr(np.hstack([estimate(signs) - truth, truth]))
    z = _signs(rng, n, block)
    z -= q @ (q.T @ z)
    x = np.hstack([q, z])
    truth = exact(x)
    weights = np.concatenate([np.ones(q.shape[1]), np.full(block, 1.0 / block)])
    wrong = np.square(estimate(x) - truth).sum(axis=0) @ weights
    return _ratio(float(np.sqrt(wrong)), float(np.sqrt(np.square(truth).sum(axis=0) @ weights)))


def _signs(rng: np.random.Generator, n: int, columns: int) -> np.ndarray:
    return rng.integers(0, 2, size=(n, columns)) * 2.0 - 1.0


def _ratio(wrong: float, size: float) -> float:
    """wrong / size; 0 if both are zero."""
    return wrong / size if size > 0 else (0.0 if wrong == 0 else float("inf"))
