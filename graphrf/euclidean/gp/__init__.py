"""Gaussian processes on R^d by random features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrf._base import lazy

if TYPE_CHECKING:
    from graphrf.euclidean.gp.divergences import gaussian_kl as gaussian_kl
    from graphrf.euclidean.gp.divergences import gaussian_w2 as gaussian_w2
    from graphrf.euclidean.gp.gpytorch_kernel import RandomFeatureKernel as RandomFeatureKernel
    from graphrf.euclidean.gp.moments import decoupled_moments as decoupled_moments
    from graphrf.euclidean.gp.moments import exact_moments as exact_moments
    from graphrf.euclidean.gp.moments import weight_space_moments as weight_space_moments
    from graphrf.euclidean.gp.pathwise import decoupled_draws as decoupled_draws
    from graphrf.euclidean.gp.pathwise import weight_space_draws as weight_space_draws
    from graphrf.euclidean.gp.sparse_spectrum import (
        SparseSpectrumGPRegressor as SparseSpectrumGPRegressor,
    )
    from graphrf.euclidean.gp.variational import (
        VariationalSparseSpectrumGPRegressor as VariationalSparseSpectrumGPRegressor,
    )

__getattr__, __dir__, __all__ = lazy.attach(
    __name__,
    {
        "divergences": "gaussian_kl gaussian_w2",
        "gpytorch_kernel": "RandomFeatureKernel",
        "moments": "decoupled_moments exact_moments weight_space_moments",
        "pathwise": "decoupled_draws weight_space_draws",
        "sparse_spectrum": "SparseSpectrumGPRegressor",
        "variational": "VariationalSparseSpectrumGPRegressor",
    },
    extra="euclidean",
)
