"""Random features of R^d, and what consumes them: kernels, Gaussian processes, classifiers and attention."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphrf.euclidean import theory as theory
    from graphrf.euclidean.attention import PerformerAttention as PerformerAttention
    from graphrf.euclidean.attention import attention_weights as attention_weights
    from graphrf.euclidean.attention import softmax_features as softmax_features
    from graphrf.euclidean.copula import GaussianCopula as GaussianCopula
    from graphrf.euclidean.copula import learn_copula as learn_copula
    from graphrf.euclidean.divergences import gaussian_kl as gaussian_kl
    from graphrf.euclidean.divergences import gaussian_w2 as gaussian_w2
    from graphrf.euclidean.features import FourierFeatures as FourierFeatures
    from graphrf.euclidean.features import LaplaceFeatures as LaplaceFeatures
    from graphrf.euclidean.filon import filon_kernel as filon_kernel
    from graphrf.euclidean.frequencies import draw_frequencies as draw_frequencies
    from graphrf.euclidean.gp import SparseSpectrumGPRegressor as SparseSpectrumGPRegressor
    from graphrf.euclidean.gpytorch_kernel import RandomFeatureKernel as RandomFeatureKernel
    from graphrf.euclidean.kernel_regression import KernelRegressionClassifier as KernelRegressionClassifier
    from graphrf.euclidean.kernels import stationary_kernel as stationary_kernel
    from graphrf.euclidean.modules import FourierModule as FourierModule
    from graphrf.euclidean.modules import LaplaceModule as LaplaceModule
    from graphrf.euclidean.norms import norm_coupling as norm_coupling
    from graphrf.euclidean.pathwise import decoupled_draws as decoupled_draws
    from graphrf.euclidean.pathwise import weight_space_draws as weight_space_draws
    from graphrf.euclidean.pathwise_moments import decoupled_moments as decoupled_moments
    from graphrf.euclidean.pathwise_moments import exact_moments as exact_moments
    from graphrf.euclidean.pathwise_moments import weight_space_moments as weight_space_moments
    from graphrf.euclidean.quadrature_features import QuadratureFeatures as QuadratureFeatures
    from graphrf.euclidean.variational import (
        VariationalSparseSpectrumGPRegressor as VariationalSparseSpectrumGPRegressor,
    )

# Loaded when first used: feature maps need scikit-learn, modules and regressors torch, the kernel GPyTorch.
_HOME = {
    "FourierFeatures": "features",
    "FourierModule": "modules",
    "GaussianCopula": "copula",
    "KernelRegressionClassifier": "kernel_regression",
    "LaplaceFeatures": "features",
    "LaplaceModule": "modules",
    "PerformerAttention": "attention",
    "QuadratureFeatures": "quadrature_features",
    "RandomFeatureKernel": "gpytorch_kernel",
    "SparseSpectrumGPRegressor": "gp",
    "VariationalSparseSpectrumGPRegressor": "variational",
    "attention_weights": "attention",
    "decoupled_draws": "pathwise",
    "decoupled_moments": "pathwise_moments",
    "draw_frequencies": "frequencies",
    "exact_moments": "pathwise_moments",
    "filon_kernel": "filon",
    "gaussian_kl": "divergences",
    "gaussian_w2": "divergences",
    "learn_copula": "copula",
    "norm_coupling": "norms",
    "softmax_features": "attention",
    "stationary_kernel": "kernels",
    "weight_space_draws": "pathwise",
    "weight_space_moments": "pathwise_moments",
}

__all__ = [*sorted(_HOME), "theory"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name == "theory":
        return _module("theory")
    raise AttributeError(f"module 'graphrf.euclidean' has no attribute {name!r}")


def _module(name: str) -> Any:
    try:
        return importlib.import_module(f"graphrf.euclidean.{name}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("sklearn", "torch", "threadpoolctl"):
            raise
        raise ImportError(
            f"this needs {error.name}, which is not installed: pip install 'graphrf[euclidean]'"
        ) from error


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
