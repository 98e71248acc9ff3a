"""Random features of R^d for kernels, Gaussian processes, classifiers and attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrf._base import lazy

if TYPE_CHECKING:
    from graphrf.euclidean import theory as theory
    from graphrf.euclidean.attention import PerformerAttention as PerformerAttention
    from graphrf.euclidean.attention import attention_weights as attention_weights
    from graphrf.euclidean.attention import softmax_features as softmax_features
    from graphrf.euclidean.features import FourierFeatures as FourierFeatures
    from graphrf.euclidean.features import LaplaceFeatures as LaplaceFeatures
    from graphrf.euclidean.filon import filon_kernel as filon_kernel
    from graphrf.euclidean.frequencies.copula import GaussianCopula as GaussianCopula
    from graphrf.euclidean.frequencies.copula import learn_copula as learn_copula
    from graphrf.euclidean.frequencies.draw import draw_frequencies as draw_frequencies
    from graphrf.euclidean.frequencies.norms import norm_coupling as norm_coupling
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
    from graphrf.euclidean.kernel_regression import (
        KernelRegressionClassifier as KernelRegressionClassifier,
    )
    from graphrf.euclidean.kernels import stationary_kernel as stationary_kernel
    from graphrf.euclidean.modules import FourierModule as FourierModule
    from graphrf.euclidean.modules import LaplaceModule as LaplaceModule
    from graphrf.euclidean.quadrature_features import QuadratureFeatures as QuadratureFeatures

__getattr__, __dir__, __all__ = lazy.attach(
    __name__,
    {
        "attention": "PerformerAttention attention_weights softmax_features",
        "features": "FourierFeatures LaplaceFeatures",
        "filon": "filon_kernel",
        "frequencies.copula": "GaussianCopula learn_copula",
        "frequencies.draw": "draw_frequencies",
        "frequencies.norms": "norm_coupling",
        "gp.divergences": "gaussian_kl gaussian_w2",
        "gp.gpytorch_kernel": "RandomFeatureKernel",
        "gp.moments": "decoupled_moments exact_moments weight_space_moments",
        "gp.pathwise": "decoupled_draws weight_space_draws",
        "gp.sparse_spectrum": "SparseSpectrumGPRegressor",
        "gp.variational": "VariationalSparseSpectrumGPRegressor",
        "kernel_regression": "KernelRegressionClassifier",
        "kernels": "stationary_kernel",
        "modules": "FourierModule LaplaceModule",
        "quadrature_features": "QuadratureFeatures",
        "theory": "",
    },
    extra="euclidean",
)
