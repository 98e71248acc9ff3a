"""Graphs with extreme weights, kernels at extreme parameters, and kernels in 60 digits."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf

mpmath = pytest.importorskip("mpmath", reason="the oracle is mpmath, which torch brings along")

DIGITS = 60
DECADES = [10.0**k for k in range(-12, 13)]


def graphs():
    """Names and adjacency matrices: weights scaled by 1e-12 .. 1e12, and ratios of 1e24."""
    rng = np.random.default_rng(0)
    base = np.triu(rng.uniform(0.5, 2.0, (6, 6)) * (rng.random((6, 6)) < 0.5), 1)
    base[np.arange(5), np.arange(1, 6)] = 1.0
    base = base + base.T
    for scale in (1e-12, 1e-6, 1.0, 1e6, 1e12):
        yield f"scaled by {scale:g}", scale * base
    spread = np.triu(base, 1)
    spread[spread > 0] = 10.0 ** np.linspace(-12, 12, np.count_nonzero(spread))
    yield "weights from 1e-12 to 1e12", spread + spread.T
    bridge = np.zeros((6, 6))
    bridge[:3, :3] = bridge[3:, 3:] = 1e12 * (1 - np.eye(3))
    bridge[2, 3] = bridge[3, 2] = 1e-12
    yield "two triangles of 1e12 joined by 1e-12", bridge
    lonely = np.zeros((6, 6))
    lonely[0, 1] = lonely[1, 0] = 1e-12
    lonely[2, 3] = lonely[3, 2] = 1e12
    yield "pairs of 1e-12 and 1e12 and isolated nodes", lonely
    yield "self-loops of 1e12 on edges of 1e-12", 1e-12 * base + 1e12 * np.eye(6)
    star = np.zeros((6, 6))
    star[0, 1:] = star[1:, 0] = 10.0 ** np.array([-12.0, -6.0, 0.0, 6.0, 12.0])
    yield "a star with legs from 1e-12 to 1e12", star
    yield "a single node with a loop of 1e-12", np.array([[1e-12]])


def kernels(laplacian, scale):
    """What makes each kernel at decades of its parameters; `scale` is the graph's."""
    unit = scale**-0.5
    for length in DECADES:
        length = float(length * unit)
        yield lambda length=length: grf.Diffusion(length, laplacian=laplacian)
        for power in (1e-6, 0.5, 2.0, 20.0, 1e6):
            yield lambda length=length, power=power: grf.RegularizedLaplacian(
                length, power, laplacian=laplacian
            )
            yield lambda length=length, power=power: grf.Matern(power, length, laplacian=laplacian)
    for alpha in (2.0, 2.0 + 1e-12, 2.5, 1e3, 1e12):
        for steps in (1, 2, 3, 8, 21, 1000):
            yield lambda alpha=alpha, steps=steps: grf.kernels.PStepRandomWalk(
                alpha * scale, steps, laplacian=laplacian
            )
    if laplacian == "normalized":
        yield grf.kernels.InverseCosine
    # On the edge of convergence: zeros of K, or of its
    # root, on the unit circle; coefficients that cancel.
    for taylor in (
        [1.0, 1.0],
        [1.0, 2.0, 1.0],
        [1.0, 0.0, 1.0],
        [1e-12, 1e-12],
        [1e12, 1e12],
        [1e-300, 1e-300],
    ):
        yield lambda taylor=taylor: grf.kernels.PowerSeries(taylor=taylor, laplacian=laplacian)
    for f in (
        [1.0, -1.0],
        [1e-12, 1e12],
        [1e12, -1e12, 1e-12],
        [1e200, 1e200],
        [1e-200, 1e-200],
        [0.0, 1.0],
    ):
        yield lambda f=f: grf.kernels.PowerSeries(modulation=f, laplacian=laplacian)
        yield lambda f=f: grf.kernels.LearnedModulation(len(f) - 1, f, laplacian=laplacian)


class Truth:
    """The eigendecomposition of a Laplacian in 60 digits, of the float64 adjacency."""

    def __init__(self, adjacency, laplacian):
        with mpmath.workdps(DIGITS):
            n = len(adjacency)
            weights = mpmath.matrix(adjacency.tolist())
            degrees = [mpmath.fsum(weights[i, :]) for i in range(n)]
            matrix = mpmath.zeros(n)
            for i in range(n):
                for j in range(n):
                    if laplacian == "combinatorial":
                        matrix[i, j] = (degrees[i] if i == j else 0) - weights[i, j]
                    elif degrees[i] and degrees[j]:
                        matrix[i, j] = (i == j) - weights[i, j] / mpmath.sqrt(
                            degrees[i] * degrees[j]
                        )
            values, vectors = mpmath.eigsy(matrix)
            self.values = [max(value, mpmath.mpf(0)) for value in values]
            self.values = (
                [
                    value if value > mpmath.mpf(10) ** -45 * max(degrees) else mpmath.mpf(0)
                    for value in self.values
                ]
                if laplacian == "combinatorial"
                else [
                    value if value > mpmath.mpf(10) ** -45 else mpmath.mpf(0)
                    for value in self.values
                ]
            )
            self.vectors = np.array(vectors.tolist(), dtype=object)
            self.scale = mpmath.mpf(1)
            if laplacian == "combinatorial" and max(degrees) > 0:
                self.scale = 2 * max(degrees)

    def matrix(self, kernel):
        """K, as float64 of shape (N, N)."""
        with mpmath.workdps(DIGITS):
            g = np.array(
                [exact_spectrum(kernel, value, self.scale) for value in self.values], dtype=object
            )
            return ((self.vectors * g) @ self.vectors.T).astype(np.float64)


def exact_spectrum(kernel, eigenvalue, scale):
    """g at an eigenvalue, from the formulas in the kernels' docstrings."""
    mp = mpmath.mpf
    match kernel:
        case grf.Diffusion():
            return mpmath.exp(-(mp(kernel.lengthscale) ** 2) / 2 * eigenvalue)
        case grf.RegularizedLaplacian():
            return (1 + mp(kernel.lengthscale) ** 2 * eigenvalue) ** -mp(kernel.power)
        case grf.Matern():
            return (2 * mp(kernel.nu) / mp(kernel.lengthscale) ** 2 + eigenvalue) ** -mp(kernel.nu)
        case grf.kernels.PStepRandomWalk():
            return (mp(kernel.alpha) - eigenvalue) ** kernel.steps
        case grf.kernels.InverseCosine():
            return mpmath.cos(mpmath.pi / 4 * eigenvalue)
    x = 1 - eigenvalue / scale
    given = (
        kernel.values if isinstance(kernel, grf.kernels.LearnedModulation) else kernel.coefficients
    )
    value = mpmath.fsum(mp(c) * x**k for k, c in enumerate(given))
    return value if getattr(kernel, "given", "modulation") == "taylor" else value**2
