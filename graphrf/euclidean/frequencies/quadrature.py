r"""Quadrature rules for the spectral integral of a kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special

from graphrf._base import checks
from graphrf.euclidean.kernels import StationaryKernel, stationary_kernel

RULES = ("gauss-hermite", "gauss-legendre", "simpson")
# A rule: from a number of nodes to nodes w and weights v, both of shape (n_nodes,), such that the
# integral of f(w) dw over the line is approximately sum_i v_i f(w_i).
Rule = Callable[[int], tuple[np.ndarray, np.ndarray]]

# Limits of a product rule; 2^20 columns of float64 take 8 MiB for each point.
MAX_DIMENSION = 4
_MOST_NODES = 2**20
# P(|w| > cutoff) in one dimension at the default end of Simpson's and Filon's rules.
_TAIL = 1e-4


def gauss_hermite(n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Hermite nodes (increasing) and weights of an integral over the line, n_nodes >= 1.

    With xi_i the roots of the Hermite polynomial H_n and alpha_i its (physicists') weights,

        w_i = sqrt(2) xi_i,    v_i = sqrt(2) alpha_i exp(xi_i^2),

    so that v_i times the standard normal density at w_i is alpha_i / sqrt(pi). sum_i v_i f(w_i) is
    exact when f is the normal density times a polynomial of degree 2 n - 1. For another spectral
    density p the rule integrates p / q, with q the normal density: importance weights, which grow
    as exp(w^2 / 2), so that the rule converges slowly for Matern kernels. alpha_i underflows at the
    outer nodes from n = 370 on; the weights here come from the Hermite functions and do not. Cost:
    O(n_nodes^2) time.

    Source: "Numerical methods for improved decoupled sampling of Gaussian processes", Sec. A.3.3.1,
    Eqs. A.16 to A.20.

    Examples
    --------
    >>> nodes, weights = gauss_hermite(3)
    >>> nodes.round(4), (weights * np.exp(-(nodes**2) / 2) / np.sqrt(2 * np.pi)).round(4)
    (array([-1.7321,  0.    ,  1.7321]), array([0.1667, 0.6667, 0.1667]))
    """
    n_nodes = checks.integer("n_nodes", n_nodes, low=1)
    xi = special.roots_hermite(n_nodes)[0]
    # The orthonormal Hermite functions by their recurrence, rescaled at each step with the scale
    # kept as a logarithm: alpha_i exp(xi_i^2) = 1 / (n psi_{n-1}(xi_i)^2).
    current, previous = np.ones(n_nodes), np.zeros(n_nodes)
    log_scale = -0.5 * xi**2 - 0.25 * np.log(np.pi)
    for degree in range(n_nodes - 1):
        following = (
            xi * np.sqrt(2 / (degree + 1)) * current - np.sqrt(degree / (degree + 1)) * previous
        )
        size = np.maximum(np.abs(following), np.abs(current))
        current, previous = following / size, current / size
        log_scale += np.log(size)
    weights = np.exp(-2 * log_scale) / (n_nodes * current**2)
    return np.sqrt(2) * xi, np.sqrt(2) * weights


def gauss_legendre(n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights of an integral over the line, by w = tan(pi u / 2).

    With xi_i in (-1, 1) and alpha_i the Gauss-Legendre rule of degree n,

        w_i = tan(pi xi_i / 2),    v_i = (pi / 2) alpha_i (1 + w_i^2).

    The normal density is not integrated exactly: the weights v_i p(w_i) sum to 1.078 for 5 nodes
    and to 1.0002 for 20; with standard deviation 1/0.7, to 0.949 and 0.9997. Cost: O(n_nodes^2)
    time.

    Source: "Numerical methods for improved decoupled sampling of Gaussian processes", Sec. A.3.3.2.
    1/cos^2 is 1 + tan^2. Its T maps [-1, 1] to the line.

    Examples
    --------
    >>> nodes, weights = gauss_legendre(5)
    >>> float((weights * np.exp(-(nodes**2) / 2) / np.sqrt(2 * np.pi)).sum().round(3))
    1.078
    """
    xi, alpha = special.roots_legendre(checks.integer("n_nodes", n_nodes, low=1))
    nodes = np.tan(np.pi / 2 * xi)
    return nodes, np.pi / 2 * alpha * (1 + nodes**2)


def simpson(n_nodes: int, max_frequency: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the compound Simpson rule on +-max_frequency, n_nodes odd and >= 3.

    Nodes are h = 2 max_frequency / (n_nodes - 1) apart, with weights h/3 (1, 4, 2, 4, ..., 2, 4,
    1). Equidistant frequencies alias: the kernel they give repeats with period 2 pi / h,
    k(t + 2 pi / h) = k(t), and near t = pi / h there is a spurious peak of height -1/3 (1/3 for an
    odd number of pairs of intervals). Keep distances well below pi / h.

    Source: "Numerical methods for improved decoupled sampling of Gaussian processes", Sec. A.3.3.3,
    Eqs. A.24 to A.27.

    Examples
    --------
    >>> nodes, weights = simpson(5, 2.0)
    >>> nodes.tolist(), (3 * weights).round(12).tolist()
    ([-2.0, -1.0, 0.0, 1.0, 2.0], [1.0, 4.0, 2.0, 4.0, 1.0])
    """
    n_nodes = checks.integer("n_nodes", n_nodes, low=3)
    if n_nodes % 2 == 0:
        raise checks.value_error(
            "n_nodes", f"must be odd for Simpson's rule, got {n_nodes}: use {n_nodes + 1}"
        )
    end = checks.number("max_frequency", max_frequency, low=0, include_low=False)
    nodes = np.linspace(-end, end, n_nodes)
    weights = np.full(n_nodes, 2.0)
    weights[1::2], weights[0], weights[-1] = 4, 1, 1
    return nodes, 2 * end / (3 * (n_nodes - 1)) * weights


def spectral_cutoff(kernel: StationaryKernel) -> float:
    """The frequency that |w| exceeds in one dimension with probability 1e-4, lengthscale 1."""
    return float(kernel.norm_quantile(np.array(1 - _TAIL), 1))


def spectral_rule(
    n_nodes: int,
    dimension: int,
    *,
    rule: str | Rule = "gauss-hermite",
    kernel: str | StationaryKernel = "gaussian",
    normalize: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies and weights with k(x - x') about sum_i a_i cos(w_i . (x - x')), lengthscale 1.

    The nodes are the Cartesian product of a rule with itself; the weight of a node is the product
    of the rule's weights times the kernel's spectral density p in R^d. As the cosine is even, one
    node of each pair +-w is kept, with twice the weight: m is about n_nodes^d / 2 frequencies (m,
    d), of which the first is 0 for an odd n_nodes, and positive weights (m,). Nodes whose weight
    underflows to 0 are omitted.

    Cost: O(d n_nodes^d) time and numbers. Source: "Numerical methods for improved decoupled
    sampling of Gaussian processes", Sec. A.3.3, Eqs. A.20, A.23.

    Parameters
    ----------
    n_nodes : int
        Nodes per dimension.
    dimension : int
        d, from 1 to 4.
    rule : {"gauss-hermite", "gauss-legendre", "simpson"} or callable
        The one-dimensional rule, or a function from a number of nodes to nodes and weights of an
        integral over the line: `functools.partial(simpson, max_frequency=6.0)` sets the interval of
        Simpson's rule. By default it ends at the frequency that |w| exceeds in one dimension with
        probability 1e-4.
    kernel : str or StationaryKernel
    normalize : bool
        Divide the weights by their sum, so that k(0) = 1 exactly.

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type or out of range, if there would be more than 2^20 nodes,
        or if a given rule has nodes that are not symmetric about 0 or weights that are not
        positive, whose square roots features need (plain Newton-Cotes rules have negative ones at
        degree 8 and from degree 10 on).

    Examples
    --------
    >>> frequencies, weights = spectral_rule(3, 1)
    >>> frequencies.round(4).tolist(), weights.round(4).tolist()
    ([[0.0], [1.7321]], [0.6667, 0.3333])
    """
    n_nodes = checks.integer("n_nodes", n_nodes, low=1)
    dimension = checks.integer("dimension", dimension, low=1)
    if dimension > MAX_DIMENSION:
        raise ValueError(
            f"quadrature is for points of at most {MAX_DIMENSION} dimensions, got {dimension}: its "
            f"product rule has n_nodes^{dimension} nodes; use FourierFeatures, with any number of "
            "frequencies"
        )
    if n_nodes**dimension > _MOST_NODES:
        raise ValueError(
            f"n_nodes^d = {n_nodes}^{dimension} = {n_nodes**dimension} nodes are more than "
            f"{_MOST_NODES}; lower `n_nodes`, or use FourierFeatures"
        )

    spectrum = stationary_kernel(kernel)
    normalize = checks.flag("normalize", normalize)
    nodes, weights = _line_rule(rule, n_nodes, spectrum)

    # In lexicographic order the product's nodes reversed are their negatives: the upper half has
    # one of each pair, and starts with the origin if there is one.
    half = np.arange(n_nodes**dimension // 2, n_nodes**dimension)
    digits = np.stack(np.unravel_index(half, (n_nodes,) * dimension), axis=1)
    frequencies = nodes[digits]
    product = weights[digits].prod(axis=1) * spectrum.spectral_density(frequencies)
    product[frequencies.any(axis=1)] *= 2
    kept = product > 0
    frequencies, product = frequencies[kept], product[kept]

    if normalize:
        product /= product.sum()
    return frequencies, product


def step(
    n_nodes: int, *, rule: str | Rule = "gauss-hermite", kernel: str | StationaryKernel = "gaussian"
) -> float | None:
    """Distance h of the nodes of a rule if equidistant, with period 2 pi / h; else None.

    Examples
    --------
    >>> step(9, rule=lambda n: simpson(n, 4.0)), step(9)
    (1.0, None)
    """
    nodes, _ = _line_rule(rule, n_nodes, stationary_kernel(kernel))
    gaps = np.diff(nodes)
    equal = gaps.size > 1 and np.ptp(gaps) <= 1e-9 * gaps.max()
    return float(gaps.mean()) if equal else None


def _line_rule(
    rule: str | Rule, n_nodes: int, spectrum: StationaryKernel
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on the line, exactly symmetric."""
    if isinstance(rule, str):
        name = checks.choice("rule", rule, RULES)
        if name == "gauss-hermite":
            nodes, weights = gauss_hermite(n_nodes)
        elif name == "gauss-legendre":
            nodes, weights = gauss_legendre(n_nodes)
        else:
            nodes, weights = simpson(n_nodes, spectral_cutoff(spectrum))
    elif callable(rule):
        given = rule(n_nodes)
        if not isinstance(given, tuple) or len(given) != 2:
            raise checks.type_error(
                "rule", f"must return nodes and weights, two arrays, got {checks.describe(given)}"
            )
        nodes, weights = (np.asarray(part, dtype=np.float64) for part in given)
        _check_given_rule(nodes, weights, n_nodes)
    else:
        raise checks.type_error(
            "rule", f"must be one of {', '.join(map(repr, RULES))} or a function, got {rule!r}"
        )

    return (nodes - nodes[::-1]) / 2, (weights + weights[::-1]) / 2


def _check_given_rule(nodes: np.ndarray, weights: np.ndarray, n_nodes: int) -> None:
    """Raise an error for a rule that is not symmetric and positive."""
    if nodes.shape != (n_nodes,) or weights.shape != (n_nodes,):
        raise checks.value_error(
            "rule",
            f"must return {n_nodes} nodes and {n_nodes} weights, got arrays of shape {nodes.shape} "
            f"and {weights.shape}",
        )

    checks.finite("rule", nodes)
    checks.finite("rule", weights)
    if not (weights > 0).all():
        raise checks.value_error(
            "rule",
            "must have positive weights, whose square roots the features need; got "
            f"{weights.min():g}. Newton-Cotes rules of high degree have negative ones: use "
            "'simpson' or a Gauss rule",
        )

    symmetric = np.allclose(nodes, -nodes[::-1], rtol=1e-9, atol=1e-9 * np.abs(nodes).max())
    if not (
        symmetric and (np.diff(nodes) > 0).all() and np.allclose(weights, weights[::-1], rtol=1e-9)
    ):
        raise checks.value_error(
            "rule", "must have increasing nodes, symmetric about 0, with symmetric weights"
        )
