"""fast-graph-gp as its authors run it: 16 walks a node, 10 steps, 100 steps of AdamW, 64 draws."""

from __future__ import annotations

import warnings

import gpytorch
import linear_operator
import numpy as np
import scipy.sparse as sp
import torch
from grf_gp import GRFGP, GeneralGRFKernel, GRFSampler
from grf_gp.utils.config import set_gp_defaults

import graphrf as grf


def fast_graph_gp(
    graph: grf.Graph, nodes: np.ndarray, y: np.ndarray, asked: np.ndarray, steps: int = 100
) -> tuple[np.ndarray, np.ndarray, float]:
    """Means and deviations at the asked nodes, of 64 draws, and the noise variance it learned."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    set_gp_defaults(linear_operator.settings, gpytorch.settings)
    walk = sp.csr_array(graph.walk_matrix("normalized"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensor = torch.sparse_csr_tensor(
            torch.tensor(walk.indptr, dtype=torch.int64),
            torch.tensor(walk.indices, dtype=torch.int64),
            torch.tensor(walk.data),
            size=walk.shape,
        )
        matrices = GRFSampler(tensor, walks_per_node=16, p_halt=0.1, max_walk_length=10, seed=1)()
        kernel = GeneralGRFKernel(matrices, max_walk_length=10)
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        x, targets = torch.tensor(nodes).reshape(-1, 1), torch.tensor(y)
        model = GRFGP(x, targets, likelihood, kernel)
        objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
        optimiser = torch.optim.AdamW(model.parameters(), lr=0.05)
        model.train()
        for _ in range(steps):
            optimiser.zero_grad()
            loss = -objective(model(x), targets)
            loss.backward()
            optimiser.step()
        model.eval()
        draws = model.predict_sample(torch.tensor(asked).reshape(-1, 1), n_samples=64).numpy()
    return draws.mean(axis=0), draws.std(axis=0), float(likelihood.noise)
