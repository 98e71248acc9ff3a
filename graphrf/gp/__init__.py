"""Gaussian processes on graphs: regression with honest deviations, and the parts that it is made of."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from graphrf.gp import metrics as metrics

if TYPE_CHECKING:
    from graphrf.gp.botorch import GraphModel as GraphModel
    from graphrf.gp.classification import GraphGPClassifier as GraphGPClassifier
    from graphrf.gp.exact import ExactGraphGP as ExactGraphGP
    from graphrf.gp.kernel import GRFKernel as GRFKernel
    from graphrf.gp.operator import FactorOperator as FactorOperator
    from graphrf.gp.posterior import SolverWarning as SolverWarning
    from graphrf.gp.regression import GraphGPRegressor as GraphGPRegressor
    from graphrf.gp.torch_draws import DeviceDraws as DeviceDraws
    from graphrf.gp.torch_draws import device_draws as device_draws

# Loaded when first used: the regressor needs scikit-learn, which `import graphrf.gp` does not.
_HOME = {
    "DeviceDraws": "torch_draws",
    "ExactGraphGP": "exact",
    "FactorOperator": "operator",
    "GRFKernel": "kernel",
    "GraphGPClassifier": "classification",
    "GraphGPRegressor": "regression",
    "GraphModel": "botorch",
    "SolverWarning": "posterior",
    "device_draws": "torch_draws",
}

__all__ = [
    "DeviceDraws",
    "ExactGraphGP",
    "FactorOperator",
    "GRFKernel",
    "GraphGPClassifier",
    "GraphGPRegressor",
    "GraphModel",
    "SolverWarning",
    "device_draws",
    "metrics",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(_module(name), name)
    raise AttributeError(f"module 'graphrf.gp' has no attribute {name!r}")


def _module(name: str) -> Any:
    """The module of a public name; what it lacks is named with the extra that brings it."""
    try:
        return importlib.import_module(f"graphrf.gp.{_HOME[name]}")
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in ("torch", "gpytorch", "linear_operator", "botorch", "sklearn", "threadpoolctl"):
            raise
        extra = "bo" if name == "GraphModel" else "gp"
        raise ImportError(
            f"{name} needs {library}, which is not installed: pip install 'graphrf[{extra}]'"
        ) from error


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
