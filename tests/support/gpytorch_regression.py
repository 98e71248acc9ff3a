"""A GPyTorch regression over a graph kernel, with a constant mean and an output scale."""

from __future__ import annotations

import gpytorch


class Regression(gpytorch.models.ExactGP):
    """The noise at the start is `noise`; `likelihood` and `mean` replace GPyTorch's defaults."""

    def __init__(self, x, y, kernel, *, noise=0.05, mean=None, likelihood=None):
        super().__init__(x, y, likelihood or gpytorch.likelihoods.GaussianLikelihood())
        self.likelihood.noise = noise
        self.mean_module = mean or gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))
