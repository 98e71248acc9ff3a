"""BoTorch's acquisition functions on GraphGPModel, beside BoTorch's GP of the same kernel.

Needs the extra `bo`.

python checks/neighbours/botorch_acquisition.py

Each acquisition function is evaluated at all nodes (or pairs of nodes) of a small graph on both
models, with the same random numbers. It passes if the values are finite and agree. Prints a table
of what passed and failed, and why. The exit status is 1 where something failed that `EXPECTED` does
not name, or passed that it does.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

import graphrf as grf
from graphrf.gp import GraphGPModel

# isort: split
# After graphrf, which imports linear_operator without a warning of torch's.
import botorch.acquisition as acq
import gpytorch
from botorch.acquisition import multi_objective as multi
from botorch.acquisition.active_learning import qNegIntegratedPosteriorVariance
from botorch.acquisition.fixed_feature import FixedFeatureAcquisitionFunction
from botorch.acquisition.joint_entropy_search import qJointEntropySearch
from botorch.acquisition.max_value_entropy_search import (
    qLowerBoundMaxValueEntropy,
    qMaxValueEntropy,
)
from botorch.acquisition.multi_step_lookahead import qMultiStepLookahead
from botorch.acquisition.objective import GenericMCObjective
from botorch.acquisition.penalized import PenalizedAcquisitionFunction
from botorch.acquisition.predictive_entropy_search import qPredictiveEntropySearch
from botorch.acquisition.prior_guided import PriorGuidedAcquisitionFunction
from botorch.acquisition.thompson_sampling import PathwiseThompsonSampling
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.deterministic import MatheronPathModel
from botorch.models.model import ModelList
from botorch.sampling import SobolQMCNormalSampler
from botorch.sampling.list_sampler import ListSampler
from botorch.utils.multi_objective.box_decompositions.non_dominated import (
    FastNondominatedPartitioning,
)
from botorch.utils.sampling import manual_seed

NOISE = 0.05
OWN_GP = "written for BoTorch's exact GP alone"
# Acquisition function -> why it cannot pass.
EXPECTED = {
    "NoisyExpectedImprovement": f"{OWN_GP}, which it asks for by name",
    "AnalyticExpectedUtilityOfBestOption": "for models of comparisons, whose `datapoints` it reads",
    "qPredictiveEntropySearch": f"{OWN_GP}, whose kernel's derivatives in positions it takes",
}
# Acquisition function -> why its values are not compared; that they are finite passes.
NOT_COMPARED = {
    "PathwiseThompsonSampling": "draws of its own",
    "MatheronPathModel": "draws of its own",
    "qJointEntropySearch": (
        "GPyTorch 1.15 has the mean wrong after conditioning with another noise; see tests"
    ),
}
# Largest difference of values that agree, as a share of the largest value.
TOLERANCE = 1e-3

OBSERVED = np.array([3, 8, 30, 17, 22])
VALUES = np.random.default_rng(0).standard_normal((OBSERVED.size, 2))
BEST = float(VALUES[:, 0].max())
GRAPH = grf.from_edges(
    [*(6 * i + j for i in range(6) for j in range(5)), *range(30)],
    [*(6 * i + j + 1 for i in range(6) for j in range(5)), *range(6, 36)],
)
EVERY = torch.arange(36, dtype=torch.float64)[:, None]
SEEN = torch.tensor(OBSERVED, dtype=torch.float64)[:, None]
REFERENCE = torch.tensor([-2.0, -2.0], dtype=torch.float64)


class TableKernel(gpytorch.kernels.Kernel):
    """The entries of a matrix."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.register_buffer("table", table, persistent=False)

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        rows, cols = x1[..., 0].long(), x2[..., 0].long()
        if diag:
            return self.table[rows, cols]
        return self.table[rows[..., :, None], cols[..., None, :]]


def regressor(y: np.ndarray) -> grf.GraphGPRegressor:
    gp = grf.GraphGPRegressor(
        GRAPH,
        kernel=grf.Diffusion(2.0),
        optimize=False,
        noise=NOISE,
        output_scale=1.7,
        mean="zero",
        method="series",
        seed=0,
    )
    return gp.fit(OBSERVED, y)


def ours(n_outputs: int, apart: bool) -> Any:
    """A model of one or two outputs, or a list of two models."""
    if apart:
        return ModelList(*(GraphGPModel(regressor(column)) for column in VALUES.T[:n_outputs]))
    return GraphGPModel(regressor(VALUES[:, 0] if n_outputs == 1 else VALUES))


def theirs(n_outputs: int) -> Any:
    """BoTorch's exact GP with the same covariance, noise and mean."""
    table = torch.from_numpy(regressor(VALUES[:, 0]).prior_covariance())
    models = []
    for column in VALUES.T[:n_outputs]:
        y, kernel = torch.tensor(column)[:, None], TableKernel(table).double()
        likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
        likelihood.noise = NOISE
        model = SingleTaskGP(
            SEEN,
            y,
            likelihood=likelihood,
            covar_module=kernel,
            mean_module=gpytorch.means.ZeroMean(),
            outcome_transform=None,
        )
        models.append(model.eval())
    return models[0] if n_outputs == 1 else ModelListGP(*models)


def sampler(size: int = 32, seed: int = 0) -> SobolQMCNormalSampler:
    return SobolQMCNormalSampler(torch.Size([size]), seed=seed)


def partition() -> FastNondominatedPartitioning:
    return FastNondominatedPartitioning(ref_point=REFERENCE, Y=torch.tensor(VALUES))


def optimum() -> tuple[Tensor, Tensor]:
    """Nodes and heights of imagined maxima."""
    return EVERY[[7, 21, 28]], torch.tensor([[2.0], [2.5], [3.0]], dtype=torch.float64)


def first_objective() -> GenericMCObjective:
    return GenericMCObjective(lambda samples, X=None: samples[..., 0])


# Name, outputs of the model, nodes of a candidate, and what makes it of a model.
Made = Callable[[Any], Any]
FUNCTIONS: list[tuple[str, int, int, Made]] = [
    ("ExpectedImprovement", 1, 1, lambda m: acq.ExpectedImprovement(m, BEST)),
    ("LogExpectedImprovement", 1, 1, lambda m: acq.LogExpectedImprovement(m, BEST)),
    ("ProbabilityOfImprovement", 1, 1, lambda m: acq.ProbabilityOfImprovement(m, BEST)),
    ("UpperConfidenceBound", 1, 1, lambda m: acq.UpperConfidenceBound(m, 4.0)),
    ("PosteriorMean", 1, 1, lambda m: acq.PosteriorMean(m)),
    ("PosteriorStandardDeviation", 1, 1, lambda m: acq.PosteriorStandardDeviation(m)),
    (
        "NoisyExpectedImprovement",
        1,
        1,
        lambda m: acq.NoisyExpectedImprovement(m, SEEN, num_fantasies=4),
    ),
    (
        "ConstrainedExpectedImprovement",
        2,
        1,
        lambda m: acq.ConstrainedExpectedImprovement(m, BEST, 0, {1: (None, 0.5)}),
    ),
    ("qExpectedImprovement", 1, 2, lambda m: acq.qExpectedImprovement(m, BEST, sampler())),
    ("qLogExpectedImprovement", 1, 2, lambda m: acq.qLogExpectedImprovement(m, BEST, sampler())),
    (
        "qLogExpectedImprovement, pending",
        1,
        1,
        lambda m: acq.qLogExpectedImprovement(m, BEST, sampler(), X_pending=EVERY[[12]]),
    ),
    (
        "qNoisyExpectedImprovement",
        1,
        2,
        lambda m: acq.qNoisyExpectedImprovement(m, SEEN, sampler(), cache_root=False),
    ),
    (
        "qLogNoisyExpectedImprovement",
        1,
        2,
        lambda m: acq.qLogNoisyExpectedImprovement(m, SEEN, sampler(), cache_root=False),
    ),
    (
        "qProbabilityOfImprovement",
        1,
        2,
        lambda m: acq.qProbabilityOfImprovement(m, BEST, sampler()),
    ),
    ("qUpperConfidenceBound", 1, 2, lambda m: acq.qUpperConfidenceBound(m, 4.0, sampler())),
    ("qLowerConfidenceBound", 1, 2, lambda m: acq.qLowerConfidenceBound(m, 4.0, sampler())),
    ("qPosteriorStandardDeviation", 1, 2, lambda m: acq.qPosteriorStandardDeviation(m, sampler())),
    ("qSimpleRegret", 1, 2, lambda m: acq.qSimpleRegret(m, sampler())),
    (
        "qKnowledgeGradient",
        1,
        5,
        lambda m: acq.qKnowledgeGradient(m, num_fantasies=4, sampler=sampler(4)),
    ),
    (
        "qMultiStepLookahead",
        1,
        1 + 2 + 4,
        lambda m: qMultiStepLookahead(
            m, [1, 1], samplers=[sampler(2), sampler(2)], valfunc_cls=[acq.PosteriorMean] * 3
        ),
    ),
    (
        "qMaxValueEntropy",
        1,
        1,
        lambda m: qMaxValueEntropy(m, EVERY, num_fantasies=2, num_mv_samples=5),
    ),
    (
        "qMaxValueEntropy, pending",
        1,
        1,
        lambda m: qMaxValueEntropy(
            m, EVERY, num_fantasies=2, num_mv_samples=5, X_pending=EVERY[[12]]
        ),
    ),
    (
        "qLowerBoundMaxValueEntropy",
        1,
        1,
        lambda m: qLowerBoundMaxValueEntropy(m, EVERY, num_mv_samples=5),
    ),
    ("qJointEntropySearch", 1, 1, lambda m: qJointEntropySearch(m, *optimum())),
    (
        "qJointEntropySearch, noisy",
        1,
        1,
        lambda m: qJointEntropySearch(m, *optimum(), condition_noiseless=False),
    ),
    (
        "qPredictiveEntropySearch",
        1,
        1,
        lambda m: qPredictiveEntropySearch(m, optimum()[0][:, None]),
    ),
    (
        "qNegIntegratedPosteriorVariance",
        1,
        1,
        lambda m: qNegIntegratedPosteriorVariance(m, EVERY, sampler=sampler(1)),
    ),
    (
        "PairwiseMCPosteriorVariance",
        1,
        2,
        lambda m: acq.PairwiseMCPosteriorVariance(m, first_objective(), sampler()),
    ),
    (
        "qExpectedUtilityOfBestOption",
        1,
        2,
        lambda m: acq.qExpectedUtilityOfBestOption(m, sampler=sampler()),
    ),
    (
        "AnalyticExpectedUtilityOfBestOption",
        1,
        2,
        lambda m: acq.AnalyticExpectedUtilityOfBestOption(m),
    ),
    (
        "PriorGuidedAcquisitionFunction",
        1,
        2,
        lambda m: PriorGuidedAcquisitionFunction(
            acq.qExpectedImprovement(m, BEST, sampler()), _Prior(), log=False
        ),
    ),
    (
        "PenalizedAcquisitionFunction",
        1,
        1,
        lambda m: PenalizedAcquisitionFunction(
            acq.UpperConfidenceBound(m, 4.0), lambda X: X[..., 0].mean(-1) / 36, 0.1
        ),
    ),
    (
        "FixedFeatureAcquisitionFunction",
        1,
        1,
        lambda m: FixedFeatureAcquisitionFunction(
            acq.qUpperConfidenceBound(_FirstColumn(m), 4.0, sampler()),
            d=2,
            columns=[1],
            values=[0.0],
        ),
    ),
    ("PathwiseThompsonSampling", 1, 2, lambda m: PathwiseThompsonSampling(m)),
    ("MatheronPathModel", 2, 2, lambda m: MatheronPathModel(m)),
    (
        "ExpectedHypervolumeImprovement",
        2,
        1,
        lambda m: multi.ExpectedHypervolumeImprovement(m, REFERENCE, partition()),
    ),
    (
        "qExpectedHypervolumeImprovement",
        2,
        2,
        lambda m: multi.qExpectedHypervolumeImprovement(m, REFERENCE, partition(), sampler()),
    ),
    (
        "qLogExpectedHypervolumeImprovement",
        2,
        2,
        lambda m: multi.qLogExpectedHypervolumeImprovement(m, REFERENCE, partition(), sampler()),
    ),
    (
        "qNoisyExpectedHypervolumeImprovement",
        2,
        2,
        lambda m: multi.qNoisyExpectedHypervolumeImprovement(
            m, REFERENCE, SEEN, sampler(), cache_root=False
        ),
    ),
    (
        "qLogNoisyExpectedHypervolumeImprovement",
        2,
        2,
        lambda m: multi.qLogNoisyExpectedHypervolumeImprovement(
            m, REFERENCE, SEEN, sampler(), cache_root=False
        ),
    ),
    (
        "qHypervolumeKnowledgeGradient, list of models",
        2,
        1 + 2 * 2,
        lambda m: multi.qHypervolumeKnowledgeGradient(
            m, REFERENCE, num_fantasies=2, num_pareto=2, sampler=_two()
        ),
    ),
]


def _two() -> ListSampler:
    return ListSampler(sampler(2), sampler(2, 1))


class _Prior(torch.nn.Module):
    def forward(self, X: Tensor) -> Tensor:
        return 1 + X[..., 0] / 36


class _FirstColumn(torch.nn.Module):
    """A model of the first of two columns."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.num_outputs, self.batch_shape = 1, torch.Size()

    def posterior(self, X: Tensor, **options: Any) -> Any:
        return self.model.posterior(X[..., :1], **options)


def values(make: Made, model: Any, width: int) -> Tensor:
    """At 36 candidates of `width` nodes each."""
    nodes = np.stack(
        [
            np.random.default_rng(7).permutation(36),
            *(np.random.default_rng(k).permutation(36) for k in range(width - 1)),
        ]
    )
    candidates = torch.tensor(nodes.T, dtype=torch.float64)[..., None]
    with manual_seed(0), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # BoTorch's, of its own old names and of jitter
        function = make(model)
        with torch.no_grad():
            return function(candidates)


def judged(name: str, n_outputs: int, width: int, make: Made) -> str:
    """Nothing, or what is wrong."""
    try:
        found = values(make, ours(n_outputs, "list" in name), width)
    except Exception as error:  # whatever a neighbour raises is its answer
        traceback.print_exc(limit=-3)
        return f"{type(error).__name__}: {str(error).splitlines()[0][:90] if str(error) else ''}"
    if not bool(torch.isfinite(found).all()):
        return "values that are not finite"
    if name in NOT_COMPARED:
        return ""
    expected = values(make, theirs(n_outputs), width)
    if found.shape != expected.shape:
        return f"shape {tuple(found.shape)} for {tuple(expected.shape)}"
    off = float((found - expected).abs().max() / expected.abs().max())
    return "" if off <= TOLERANCE else f"values are off by {off:.2g} of the largest"


def main() -> int:
    wrong: list[str] = []
    reasons = {name: judged(name, *rest) for name, *rest in FUNCTIONS}
    print("| acquisition function | on GraphGPModel | why |\n|---|---|---|")
    for name, reason in reasons.items():
        if bool(reason) != (name in EXPECTED):
            wrong.append(name)
        why = EXPECTED.get(name, reason) if reason else NOT_COMPARED.get(name, "")
        print(f"| {name} | {'failed' if reason else 'passed'} | {why} |")
    failed = sum(map(bool, reasons.values()))
    print(
        "\n"
        f"{len(reasons) - failed} passed, {failed} failed, not as expected: "
        f"{', '.join(wrong) or 'none'}"
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
