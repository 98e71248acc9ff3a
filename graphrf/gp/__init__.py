"""Gaussian processes on graphs: regression with calibrated uncertainty, and its components."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrf._base import lazy

if TYPE_CHECKING:
    from graphrf.gp import metrics as metrics
    from graphrf.gp.classification import GraphGPClassifier as GraphGPClassifier
    from graphrf.gp.fields.triangle_mesh import TriangleMesh as TriangleMesh
    from graphrf.gp.latent.model import LatentGaussianModel as LatentGaussianModel
    from graphrf.gp.likelihoods.counts import NegativeBinomial as NegativeBinomial
    from graphrf.gp.likelihoods.counts import Poisson as Poisson
    from graphrf.gp.likelihoods.counts import (
        ZeroInflatedNegativeBinomial as ZeroInflatedNegativeBinomial,
    )
    from graphrf.gp.likelihoods.counts import ZeroInflatedPoisson as ZeroInflatedPoisson
    from graphrf.gp.likelihoods.likelihood import Likelihood as Likelihood
    from graphrf.gp.likelihoods.ordinal import Ordinal as Ordinal
    from graphrf.gp.likelihoods.point_process import PointProcess as PointProcess
    from graphrf.gp.likelihoods.positive import Gamma as Gamma
    from graphrf.gp.likelihoods.positive import LogNormal as LogNormal
    from graphrf.gp.likelihoods.positive import Weibull as Weibull
    from graphrf.gp.likelihoods.proportions import Bernoulli as Bernoulli
    from graphrf.gp.likelihoods.proportions import Beta as Beta
    from graphrf.gp.likelihoods.proportions import Binomial as Binomial
    from graphrf.gp.likelihoods.real import StudentT as StudentT
    from graphrf.gp.likelihoods.tweedie import Tweedie as Tweedie
    from graphrf.gp.metric.graph import MetricGraph as MetricGraph
    from graphrf.gp.model.hyperparameters import ComparedKernel as ComparedKernel
    from graphrf.gp.model.numerics import Numerics as Numerics
    from graphrf.gp.model.prior import HyperparameterPrior as HyperparameterPrior
    from graphrf.gp.model.prior import PenalisedMixing as PenalisedMixing
    from graphrf.gp.posterior.by_rows import SolverWarning as SolverWarning
    from graphrf.gp.regression import GraphGPRegressor as GraphGPRegressor
    from graphrf.gp.space.regression import FieldGPRegressor as FieldGPRegressor
    from graphrf.gp.terms.covariate import Covariate as Covariate
    from graphrf.gp.terms.field import Field as Field
    from graphrf.gp.terms.groups import Groups as Groups
    from graphrf.gp.terms.nodes import Nodes as Nodes
    from graphrf.gp.terms.steps import Steps as Steps
    from graphrf.gp.time.regression import GraphTimeGPRegressor as GraphTimeGPRegressor
    from graphrf.gp.torch.botorch import GraphGPModel as GraphGPModel
    from graphrf.gp.torch.draws import PathwiseDraws as PathwiseDraws
    from graphrf.gp.torch.draws import pathwise_draws as pathwise_draws
    from graphrf.gp.torch.kernel import GRFKernel as GRFKernel
    from graphrf.gp.torch.operator import FactorOperator as FactorOperator

__getattr__, __dir__, __all__ = lazy.attach(
    __name__,
    {
        "classification": "GraphGPClassifier",
        "fields.triangle_mesh": "TriangleMesh",
        "posterior.by_rows": "SolverWarning",
        "latent.model": "LatentGaussianModel",
        "likelihoods.counts": (
            "NegativeBinomial Poisson ZeroInflatedNegativeBinomial ZeroInflatedPoisson"
        ),
        "likelihoods.likelihood": "Likelihood",
        "likelihoods.ordinal": "Ordinal",
        "likelihoods.point_process": "PointProcess",
        "likelihoods.positive": "Gamma LogNormal Weibull",
        "likelihoods.proportions": "Bernoulli Beta Binomial",
        "likelihoods.real": "StudentT",
        "likelihoods.tweedie": "Tweedie",
        "metric.graph": "MetricGraph",
        "metrics": "",
        "regression": "GraphGPRegressor",
        "space.regression": "FieldGPRegressor",
        "torch.botorch": "GraphGPModel",
        "torch.draws": "PathwiseDraws pathwise_draws",
        "torch.kernel": "GRFKernel",
        "torch.operator": "FactorOperator",
        "terms.covariate": "Covariate",
        "terms.field": "Field",
        "terms.groups": "Groups",
        "terms.nodes": "Nodes",
        "terms.steps": "Steps",
        "time.regression": "GraphTimeGPRegressor",
        "model.hyperparameters": "ComparedKernel",
        "model.numerics": "Numerics",
        "model.prior": "HyperparameterPrior PenalisedMixing",
    },
)
