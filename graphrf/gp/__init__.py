"""Gaussian processes on graphs: regression with honest deviations, and the parts that it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrf._base import lazy

if TYPE_CHECKING:
    from graphrf.gp import metrics as metrics
    from graphrf.gp.classification import GraphGPClassifier as GraphGPClassifier
    from graphrf.gp.exact import ExactGraphGP as ExactGraphGP
    from graphrf.gp.inference.pathwise import PosteriorDraws as PosteriorDraws
    from graphrf.gp.inference.pathwise import posterior_draws as posterior_draws
    from graphrf.gp.inference.posterior import SolverWarning as SolverWarning
    from graphrf.gp.likelihoods import Bernoulli as Bernoulli
    from graphrf.gp.likelihoods import Binomial as Binomial
    from graphrf.gp.likelihoods import Gamma as Gamma
    from graphrf.gp.likelihoods import Likelihood as Likelihood
    from graphrf.gp.likelihoods import NegativeBinomial as NegativeBinomial
    from graphrf.gp.likelihoods import Poisson as Poisson
    from graphrf.gp.likelihoods import StudentT as StudentT
    from graphrf.gp.metric.graph import MetricGraph as MetricGraph
    from graphrf.gp.metric.regression import MetricGraphGPRegressor as MetricGraphGPRegressor
    from graphrf.gp.prior import HyperparameterPrior as HyperparameterPrior
    from graphrf.gp.prior import PenalisedMixing as PenalisedMixing
    from graphrf.gp.regression import Coefficients as Coefficients
    from graphrf.gp.regression import GraphGPRegressor as GraphGPRegressor
    from graphrf.gp.time.regression import GraphTimeGPRegressor as GraphTimeGPRegressor
    from graphrf.gp.torch.botorch import GraphGPModel as GraphGPModel
    from graphrf.gp.torch.draws import PathwiseDraws as PathwiseDraws
    from graphrf.gp.torch.draws import pathwise_draws as pathwise_draws
    from graphrf.gp.torch.kernel import GRFKernel as GRFKernel
    from graphrf.gp.torch.operator import FactorOperator as FactorOperator
    from graphrf.gp.training.comparison import CandidateKernel as CandidateKernel

__getattr__, __dir__, __all__ = lazy.attach(
    __name__,
    {
        "classification": "GraphGPClassifier",
        "exact": "ExactGraphGP",
        "inference.pathwise": "PosteriorDraws posterior_draws",
        "inference.posterior": "SolverWarning",
        "likelihoods": "Bernoulli Binomial Gamma Likelihood NegativeBinomial Poisson StudentT",
        "metric.graph": "MetricGraph",
        "metric.regression": "MetricGraphGPRegressor",
        "metrics": "",
        "regression": "Coefficients GraphGPRegressor",
        "torch.botorch": "GraphGPModel",
        "torch.draws": "PathwiseDraws pathwise_draws",
        "torch.kernel": "GRFKernel",
        "torch.operator": "FactorOperator",
        "time.regression": "GraphTimeGPRegressor",
        "training.comparison": "CandidateKernel",
        "prior": "HyperparameterPrior PenalisedMixing",
    },
    former={"DeviceDraws": "PathwiseDraws", "GraphModel": "GraphGPModel", "device_draws": "pathwise_draws"},
)
