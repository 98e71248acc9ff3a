"""A fitted regressor as a BoTorch model: acquisition functions over the nodes of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphrf._base import checks
from graphrf.gp.inference.posterior import LARGEST_JOINT
from graphrf.gp.regression import GraphGPRegressor
from graphrf.gp.torch.kernel import node_ids

# isort: split
# After operator.py, which imports linear_operator without a warning of torch's.
from botorch.models.model import Model
from botorch.posteriors.gpytorch import GPyTorchPosterior
from gpytorch.distributions import MultitaskMultivariateNormal, MultivariateNormal
from linear_operator import to_linear_operator


class GraphGPModel(Model):
    r"""The posterior of a fitted `GraphGPRegressor`, where BoTorch expects a model.

    .. math:: p(f(X_b) \mid y) = N(m_{X_b}, \Sigma_{X_b X_b}) \quad \text{for each batch } X_b \text{ of q nodes}.

    Candidates are node positions, so acquisition functions are maximised by `optimize_acqf_discrete`; gradients
    in positions do not exist. Acquisition functions that need a posterior and no more work
    (`LogExpectedImprovement`, `UpperConfidenceBound`, `qLogNoisyExpectedImprovement` and so on); those that
    condition on imagined observations (`qKnowledgeGradient`) do not. Refit the regressor when observations come.

    Parameters
    ----------
    regressor : GraphGPRegressor
        Fitted. Not copied.

    Raises
    ------
    TypeError, sklearn.exceptions.NotFittedError

    Examples
    --------
    >>> import torch, graphrf as grf
    >>> from botorch.acquisition import LogExpectedImprovement
    >>> from botorch.optim import optimize_acqf_discrete
    >>> graph = grf.from_edges([0, 1, 2, 3, 4], [1, 2, 3, 4, 5])
    >>> gp = grf.GraphGPRegressor(graph, kernel=grf.Diffusion(1.0), optimize=False, noise=0.01, seed=0)
    >>> model = grf.gp.GraphGPModel(gp.fit([0, 2], [0.0, 1.0]))
    >>> nodes = torch.arange(6, dtype=torch.float64)[:, None]
    >>> best, _ = optimize_acqf_discrete(LogExpectedImprovement(model, best_f=1.0), q=1, choices=nodes)
    >>> int(best) in range(6)
    True
    """

    def __init__(self, regressor: GraphGPRegressor) -> None:
        super().__init__()
        if not isinstance(regressor, GraphGPRegressor):
            raise checks.type_error("regressor", f"must be a GraphGPRegressor, got {checks.describe(regressor)}")
        self._gp = regressor
        # one prediction says how many outputs there are, and that the regressor is fitted
        mean = np.asarray(regressor.predict(regressor.graph.positions([0])))
        self._n_outputs = 1 if mean.ndim == 1 else mean.shape[1]

    def extra_repr(self) -> str:
        """What torch prints between the brackets."""
        return f"{self._gp.graph!r}, {self._gp.kernel_!r}, num_outputs={self._n_outputs}"

    @property
    def num_outputs(self) -> int:
        """Columns of the y that the regressor was fitted to."""
        return self._n_outputs

    @property
    def batch_shape(self) -> torch.Size:
        """Empty: there is one model."""
        return torch.Size()

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: Any = None,
    ) -> GPyTorchPosterior:
        """The joint posterior at the q nodes of each batch.

        Parameters
        ----------
        X : Tensor, shape (..., q, 1)
            Node positions: integers, or integral floats below 2^24 (float32) or 2^53 (float64).
        output_indices : list of int, optional
        observation_noise : bool or Tensor
            True adds the regressor's noise variance; a tensor of shape broadcastable to (..., q, outputs) its own.
        posterior_transform : optional
            As in BoTorch.

        Returns
        -------
        GPyTorchPosterior
            Of the dtype of X (float64 for integers), on its device. Several outputs are independent.

        Notes
        -----
        Cost: for q = 1 one prediction of deviations at the distinct nodes of all batches; for q > 1 their joint
        covariance, at most 5,000 distinct nodes at once. Where a node stands twice in a batch the covariance is
        singular, and linear_operator warns when it adds jitter to sample from it.
        """
        if not isinstance(X, Tensor) or X.ndim < 2:
            raise checks.value_error("X", f"must be a tensor of shape (..., q, 1), got {checks.describe(X)}")
        nodes = node_ids("X", X)
        flat = nodes.reshape(-1, nodes.shape[-1])
        mean, covariance = self._moments(flat)
        batch = nodes.shape[:-1]
        like = X if X.is_floating_point() else torch.zeros((), dtype=torch.float64, device=X.device)
        means = torch.from_numpy(mean).to(like).reshape(*batch, nodes.shape[-1], self._n_outputs)
        shared = torch.from_numpy(covariance).to(like).reshape(*batch, *covariance.shape[-2:])
        chosen = list(range(self._n_outputs))
        if output_indices is not None:
            chosen = [chosen[index] for index in output_indices]
        # As operators covariances are factored when samples are asked for, and may be singular until then.
        parts = [
            MultivariateNormal(
                means[..., k], to_linear_operator(shared + self._noise(observation_noise, means, k))
            )
            for k in chosen
        ]
        together = parts[0] if len(parts) == 1 else MultitaskMultivariateNormal.from_independent_mvns(parts)
        posterior = GPyTorchPosterior(together)
        return posterior if posterior_transform is None else posterior_transform(posterior)

    def _noise(self, given: bool | Tensor, means: Tensor, output: int) -> Tensor:
        """What is added to the covariance of an output."""
        if isinstance(given, Tensor):
            return torch.diag_embed(given.to(means).expand_as(means)[..., output])
        variance = self._gp.noise_ if checks.flag("observation_noise", given) else 0.0
        return variance * torch.eye(means.shape[-2], dtype=means.dtype, device=means.device)

    def _moments(self, batches: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means, shape (b, q, outputs), and covariances, shape (b, q, q), of b batches of q nodes."""
        distinct, at = np.unique(batches, return_inverse=True)
        at = at.reshape(batches.shape)
        asked = self._gp.graph.positions(distinct)
        if batches.shape[1] == 1:
            mean, std = self._gp.predict(asked, return_std=True)
            variance = np.square(std.reshape(distinct.size, -1)[:, 0])
            return mean.reshape(distinct.size, -1)[at], variance[at][:, :, None]
        if distinct.size > LARGEST_JOINT and batches.shape[0] > 1:
            half = batches.shape[0] // 2
            parts = self._moments(batches[:half]), self._moments(batches[half:])
            means, covariances = zip(*parts, strict=True)
            return np.concatenate(means), np.concatenate(covariances)
        mean, covariance = self._gp.predict(asked, return_cov=True)
        return mean.reshape(distinct.size, -1)[at], covariance[at[:, :, None], at[:, None, :]]
