"""float32 against float64: matrices within the bounds of rounding, on the extreme graphs."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf
from tests.numerics.extremes import graphs

GRAPHS = dict(graphs())
U = 2.0**-24  # half a unit in the last place of float32
SAMPLERS = {
    "walks": grf.RandomWalks(n_walks=64, lengths=grf.sampling.IID(0.2)),
    "exact powers": grf.sampling.ExactPowers(12),
}
KERNELS = [
    grf.Diffusion(1.0),
    grf.Matern(1.5, 1e-6),
    grf.RegularizedLaplacian(1.0, 1e6),
    grf.kernels.PStepRandomWalk(1e3, 4),
]


def _pair(name, sampler):
    graph = grf.Graph(GRAPHS[name])
    return [
        grf.sample_features(graph, sampler, seed=0, dtype=dtype) for dtype in ("float32", "float64")
    ]


def _within(single, double, size, factor):
    return bool((np.abs(single.astype(np.float64) - double) <= factor * size + 1e-44).all())


@pytest.mark.filterwarnings("ignore::graphrf.features.HeavyTailWarning")
@pytest.mark.filterwarnings("ignore::graphrf.features.TruncationWarning")
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("name", GRAPHS)
def test_float32_is_float64_rounded(name, sampler):
    single, double = _pair(name, SAMPLERS[sampler])
    for kernel in KERNELS:
        phi32, phi = single.matrix(kernel).toarray(), double.matrix(kernel).toarray()
        # Entries are summed in float64 and rounded once.
        assert _within(phi32, phi, np.abs(phi), U * (1 + 1e-6))
        # An inner product of n terms, both of whose factors are rounded: gamma_{n + 2}.
        n = len(phi)
        gram32, gram = single.gram(kernel), double.gram(kernel)
        size = np.abs(phi) @ np.abs(phi).T
        assert _within(gram32, gram, size, (n + 2) * U / (1 - (n + 2) * U))


def test_apply_kernel_in_float32_is_float64_rounded():
    graph = grf.Graph(GRAPHS["weights from 1e-12 to 1e12"])
    v = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
    single, double = (
        grf.apply_kernel(graph, grf.Diffusion(2.0), x) for x in (v, v.astype(np.float64))
    )
    assert single.dtype == np.float32
    assert _within(single, double, np.abs(double), U)
    assert not _within(single.astype(np.float16), double, np.abs(double), U)


def test_half_precision_would_break_the_bound():
    phi = _pair("scaled by 1", SAMPLERS["exact powers"])[1].matrix(KERNELS[0]).toarray()
    assert not _within(phi.astype(np.float16), phi, np.abs(phi), U)
