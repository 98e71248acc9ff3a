"""A fitted regressor as a BoTorch model: acquisition functions over the nodes of a graph."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

if find_spec("botorch") is None:  # before torch is missed, whose own extra would not be enough
    raise ModuleNotFoundError("No module named 'botorch'", name="botorch")

import numpy as np
import torch
from torch import Tensor

from graphrf._base import checks
from graphrf.gp.posterior.by_rows import LARGEST_JOINT
from graphrf.gp.regression import GraphGPRegressor
from graphrf.gp.torch.kernel import node_ids, node_tensor

# isort: split
# After operator.py, which imports linear_operator without a warning of torch's.
from botorch.models.model import FantasizeMixin, Model
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.sampling.pathwise.paths import SamplePath
from botorch.sampling.pathwise.posterior_samplers import DrawMatheronPaths
from gpytorch.constraints import Positive
from gpytorch.distributions import MultitaskMultivariateNormal, MultivariateNormal
from gpytorch.likelihoods import GaussianLikelihood
from linear_operator import to_linear_operator
from linear_operator.utils.cholesky import psd_safe_cholesky


@dataclass(frozen=True)
class _Imagined:
    """Hypothetical observations that condition a model, but not its regressor."""

    # (*b, n), without the batch axes of several sets of values for the same nodes.
    nodes: np.ndarray
    values: Tensor  # (*b', n, outputs)
    noise: Tensor  # variances, of a shape that expands to that of the values


class GraphGPModel(FantasizeMixin, Model):
    r"""The posterior of a fitted `GraphGPRegressor` as a BoTorch model.

    .. math:: p(f(X_b) \mid y) = N(m_{X_b}, \Sigma_{X_b X_b}) \quad \text{for each batch } X_b
        \text{ of q nodes}.

    Candidates are node positions, so acquisition functions are maximised by
    `optimize_acqf_discrete`; there are no gradients in positions. Acquisition functions that need a
    posterior work (`LogExpectedImprovement`, `qLogNoisyExpectedImprovement`), and those that
    condition on hypothetical observations (`qKnowledgeGradient`, `qJointEntropySearch`) or draw
    functions (`PathwiseThompsonSampling`). Refit the regressor to new observations.

    Examples
    --------
    >>> import torch, graphrf as grf
    >>> from botorch.acquisition import LogExpectedImprovement
    >>> from botorch.optim import optimize_acqf_discrete
    >>> graph = grf.from_edges([0, 1, 2, 3, 4], [1, 2, 3, 4, 5])
    >>> gp = grf.GraphGPRegressor(
    ...     graph, kernel=grf.Diffusion(1.0), optimize=False, noise=0.01, seed=0
    ... )
    >>> model = grf.gp.GraphGPModel(gp.fit([0, 2], [0.0, 1.0]))
    >>> nodes = torch.arange(6, dtype=torch.float64)[:, None]
    >>> best, _ = optimize_acqf_discrete(
    ...     LogExpectedImprovement(model, best_f=1.0), q=1, choices=nodes
    ... )
    >>> int(best) in range(6)
    True

    Parameters
    ----------
    regressor : GraphGPRegressor
        Fitted; not copied. The model is the normal distribution with the mean and covariance of its
        predictions. With another likelihood than the Gaussian, f is the latent function (for
        counts, the log rate).
    """

    def __init__(self, regressor: GraphGPRegressor) -> None:
        super().__init__()
        if not isinstance(regressor, GraphGPRegressor):
            raise checks.type_error(
                "regressor", f"must be a GraphGPRegressor, got {checks.describe(regressor)}"
            )
        self._gp = regressor
        # one prediction has as many outputs as there are, and needs a fitted regressor
        mean = np.asarray(regressor.predict(regressor.graph.positions([0])))
        self._outputs = list(range(1 if mean.ndim == 1 else mean.shape[1]))
        self._imagined: _Imagined | None = None
        # BoTorch needs a kind of noise; for noise that differs between observations it is the mean
        self.likelihood = (
            GaussianLikelihood(noise_constraint=Positive()).double().requires_grad_(False)
        )
        if hasattr(regressor, "noise_"):
            self.likelihood.noise = max(float(np.mean(regressor.noise_)), np.finfo(np.float64).tiny)

    def extra_repr(self) -> str:
        """The text that torch prints between the brackets."""
        return f"{self._gp.graph!r}, {self._gp.kernel_!r}, num_outputs={self.num_outputs}"

    @property
    def num_outputs(self) -> int:
        """Columns of the y that the regressor was fitted to, or those chosen by `subset_output`."""
        return len(self._outputs)

    @property
    def batch_shape(self) -> torch.Size:
        """Empty for one model; the shape of the sets of values that it was conditioned on."""
        given = self._imagined
        return torch.Size() if given is None else given.values.shape[:-2]

    def posterior(  # type: ignore[override]  # the mixin's signature is narrower than Model's
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: Any = None,
    ) -> GPyTorchPosterior:
        """The joint posterior at the q nodes of each batch, of dtype and device of X.

        Parameters
        ----------
        X : Tensor, shape (..., q, 1)
            Node positions: integers, or integral floats below 2^24 (float32) or 2^53 (float64).
        output_indices : list of int, optional
        observation_noise : bool or Tensor
            True adds the regressor's noise variance (the mean, where it has one for each
            observation); a tensor, broadcastable to (..., q, outputs), is added itself.
        posterior_transform : optional
            See BoTorch.

        Notes
        -----
        Several outputs are independent. The batch is that of X, broadcast with `batch_shape`. Cost:
        for q = 1 one prediction of deviations at the distinct nodes of all batches; for q > 1 their
        joint covariance; given n more observations, that of the n + q nodes and n^3 / 3 operations
        for each batch. Where a node occurs twice in a batch, linear_operator warns when it adds
        jitter to sample.
        """
        nodes = _batches(X)
        like = X if X.is_floating_point() else torch.zeros((), dtype=torch.float64, device=X.device)
        chosen = list(range(self.num_outputs))
        if output_indices is not None:
            chosen = [chosen[index] for index in output_indices]
        parts = []
        for k, (mean, covariance) in zip(chosen, self._laws(nodes, chosen, like), strict=True):
            noisy = covariance + self._noise(observation_noise, mean, k)
            # Operators are factored when samples are drawn, and may be singular until then.
            parts.append(MultivariateNormal(mean, to_linear_operator(noisy)))
        if len(parts) == 1:
            together = parts[0]
        else:
            together = MultitaskMultivariateNormal.from_independent_mvns(parts)
        posterior = GPyTorchPosterior(together)
        return posterior if posterior_transform is None else posterior_transform(posterior)

    def condition_on_observations(
        self, X: Tensor, Y: Tensor, noise: Tensor | None = None, **kwargs: Any
    ) -> GraphGPModel:
        r"""The model after more observations, hyperparameters kept; the regressor is unchanged.

        .. math:: m'_Q = m_Q + \Sigma_{QX} (\Sigma_{XX} + \mathrm{diag}(noise))^{-1} (Y - m_X),
            \quad
                  \Sigma'_{QQ} = \Sigma_{QQ} - \Sigma_{QX} (\Sigma_{XX} +
                  \mathrm{diag}(noise))^{-1} \Sigma_{XQ}.

        Parameters
        ----------
        X : Tensor, shape (..., n, 1)
            Nodes, as in `posterior`.
        Y : Tensor, shape (..., n, outputs)
            Values, whose batch is broadcast with that of X and of the model to the new
            `batch_shape`: several sets of values for the same nodes share one factorisation.
            Gradients reach Y.
        noise : Tensor, optional
            Variances, of a shape that expands to that of Y; default the regressor's, as in
            `posterior`.
        """
        nodes = _batches(X)
        if not isinstance(Y, Tensor) or Y.shape[-2:] != (nodes.shape[-1], self.num_outputs):
            raise checks.value_error(
                "Y",
                f"must have shape (..., {nodes.shape[-1]}, {self.num_outputs}), got "
                f"{checks.describe(Y)}",
            )
        given = self._noise_variance("noise") if noise is None else noise
        batch = torch.broadcast_shapes(nodes.shape[:-1], Y.shape[:-2], self.batch_shape)
        added = _Imagined(
            nodes, Y.expand(*batch, *Y.shape[-2:]), given.to(Y).expand(*batch, *Y.shape[-2:])
        )
        model = copy.copy(self)
        model._imagined = added if self._imagined is None else _joined(self._imagined, added)
        return model

    def subset_output(self, idcs: Sequence[int]) -> GraphGPModel:
        """The model of some of the outputs, in this order."""
        model = copy.copy(self)
        model._outputs = [self._outputs[index] for index in idcs]
        if self._imagined is not None:
            values, noise = (
                self._imagined.values[..., list(idcs)],
                self._imagined.noise[..., list(idcs)],
            )
            model._imagined = _Imagined(self._imagined.nodes, values, noise)
        return model

    def transform_inputs(self, X: Tensor, input_transform: Any = None) -> Tensor:
        """X: nodes are not transformed."""
        return X

    def _noise(self, given: bool | Tensor, mean: Tensor, output: int) -> Tensor:
        """The noise that is added to the covariance of an output."""
        if isinstance(given, Tensor):
            given = given.to(mean).expand(*mean.shape, self.num_outputs)
            return torch.diag_embed(given[..., output])
        own = checks.flag("observation_noise", given)
        variance = self._noise_variance("observation_noise").to(mean) if own else 0.0
        return variance * torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device)

    def _noise_variance(self, argument: str) -> Tensor:
        """The regressor's noise variance, or their mean."""
        if not hasattr(self._gp, "noise_"):
            raise checks.value_error(
                argument,
                "must give the variances as a tensor: the regressor's likelihood is not Gaussian "
                "and has none",
            )
        return self.likelihood.noise

    def _laws(
        self, nodes: np.ndarray, chosen: list[int], reference: Tensor
    ) -> list[tuple[Tensor, Tensor]]:
        """The means and covariances of f at batches of nodes, for each of the chosen outputs."""
        imagined = self._imagined
        if imagined is None:
            means, covariance = self._tensors(nodes, reference)
            return [(means[..., self._outputs[k]], covariance) for k in chosen]

        n = imagined.nodes.shape[-1]
        batch = np.broadcast_shapes(nodes.shape[:-1], imagined.nodes.shape[:-1])
        together = [
            np.broadcast_to(part, (*batch, part.shape[-1])) for part in (imagined.nodes, nodes)
        ]
        means, covariance = self._tensors(np.concatenate(together, axis=-1), reference)
        between, later = covariance[..., :n, n:], covariance[..., n:, n:]

        laws = []
        for k in chosen:
            mean = means[..., self._outputs[k]]
            noise, values = (
                imagined.noise[..., k].to(reference),
                imagined.values[..., k].to(reference),
            )
            factor = psd_safe_cholesky(
                covariance[..., :n, :n] + torch.diag_embed(_without_copies(noise))
            )
            gain = torch.cholesky_solve(between, factor).mT
            update = (gain @ (values - mean[..., :n])[..., None])[..., 0]
            after = later - gain @ between
            mean = mean[..., n:] + update
            laws.append((mean, after.expand(*mean.shape[:-1], *after.shape[-2:])))
        return laws

    def _tensors(self, nodes: np.ndarray, like: Tensor) -> tuple[Tensor, Tensor]:
        """Means, shape (..., q, outputs), and covariances of the regressor at batches of nodes."""
        mean, covariance = self._moments(nodes.reshape(-1, nodes.shape[-1]))
        means = torch.from_numpy(mean).to(like).reshape(*nodes.shape, -1)
        return means, torch.from_numpy(covariance).to(like).reshape(
            *nodes.shape[:-1], *covariance.shape[-2:]
        )

    def _moments(self, batches: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means (b, q, outputs) and covariances (b, q, q) of b batches of q nodes."""
        distinct, at = np.unique(batches, return_inverse=True)
        at = at.reshape(batches.shape)
        asked = self._gp.graph.positions(distinct)
        if batches.shape[1] == 1:
            mean, std = self._gp.predict(asked, return_std=True, latent=True)
            variance = np.square(std.reshape(distinct.size, -1)[:, 0])
            return mean.reshape(distinct.size, -1)[at], variance[at][:, :, None]
        if distinct.size > LARGEST_JOINT and batches.shape[0] > 1:
            half = batches.shape[0] // 2
            parts = self._moments(batches[:half]), self._moments(batches[half:])
            means, covariances = zip(*parts, strict=True)
            return np.concatenate(means), np.concatenate(covariances)
        mean, covariance = self._gp.predict(asked, return_cov=True, latent=True)
        return mean.reshape(distinct.size, -1)[at], covariance[at[:, :, None], at[:, None, :]]


def _batches(X: Tensor) -> np.ndarray:
    """Nodes of shape (..., q, 1), without the last axis."""
    if not isinstance(X, Tensor) or X.ndim < 2:
        raise checks.value_error(
            "X", f"must be a tensor of shape (..., q, 1), got {checks.describe(X)}"
        )
    return node_ids("X", X)


def _joined(before: _Imagined, after: _Imagined) -> _Imagined:
    """Both sets of observations, with their batches broadcast."""
    batch = np.broadcast_shapes(before.nodes.shape[:-1], after.nodes.shape[:-1])
    nodes = [np.broadcast_to(one.nodes, (*batch, one.nodes.shape[-1])) for one in (before, after)]
    whole = torch.broadcast_shapes(before.values.shape[:-2], after.values.shape[:-2])
    values, noise = (
        torch.cat([part.expand(*whole, *part.shape[-2:]) for part in parts], -2)
        for parts in ((before.values, after.values), (before.noise, after.noise))
    )
    return _Imagined(np.concatenate(nodes, -1), values, noise)


def _without_copies(noise: Tensor) -> Tensor:
    """Variances without batch axes along which they were expanded: each set is factored once."""
    for axis in range(noise.ndim - 1):
        if noise.stride(axis) == 0:
            noise = noise.narrow(axis, 0, 1)
    return noise


class _DrawnFunctions(SamplePath):
    """Draws of f on the whole graph: sample_shape, outputs if there are several, and nodes."""

    values: Tensor

    def __init__(self, values: Tensor) -> None:
        super().__init__()
        self.input_transform = self.output_transform = None
        self.register_buffer("values", values)

    def forward(self, x: Tensor, **kwargs: Any) -> Tensor:
        """f at nodes of shape (..., q, 1), whose batch is broadcast with that of the draws."""
        nodes = node_tensor("x", x)
        batch = torch.broadcast_shapes(self.values.shape[:-1], nodes.shape[:-1])
        values = self.values.expand(*batch, self.values.shape[-1])
        result = values.gather(-1, nodes.expand(*batch, nodes.shape[-1]))
        return result.to(x) if x.is_floating_point() else result

    def set_ensemble_as_batch(self, ensemble_as_batch: bool) -> None:
        """Nothing: the model is no ensemble."""


@DrawMatheronPaths.register(GraphGPModel)
def _draw_paths(model: GraphGPModel, *, sample_shape: torch.Size, **unused: Any) -> _DrawnFunctions:
    """Functions drawn by `GraphGPRegressor.sample`, on all nodes, seeded by torch's generator."""
    if model._imagined is not None:
        raise checks.value_error(
            "model",
            "must not be conditioned on imagined observations: fit its regressor to them to draw "
            "functions",
        )
    seed = int(torch.randint(2**62, ()))
    drawn = torch.from_numpy(model._gp.sample(n_samples=max(sample_shape.numel(), 1), seed=seed))
    if drawn.ndim == 3:
        drawn = drawn.movedim(-1, -2)[:, model._outputs]
    if model.num_outputs == 1:
        drawn = drawn.reshape(drawn.shape[0], -1)
    return _DrawnFunctions(drawn.reshape(*sample_shape, *drawn.shape[1:]))
