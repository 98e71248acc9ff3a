"""Gradients of the objectives of Gaussian processes, by finite differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
import torch


def assert_slopes(
    objective: Callable[[dict[str, torch.Tensor]], float], point: Mapping[str, object], rel: float
) -> None:
    """The gradient that `objective` leaves in tensors is that of differences at `point`."""
    leaves = {name: torch.tensor(value, requires_grad=True) for name, value in point.items()}
    objective(leaves)
    for name, value in point.items():
        array = np.asarray(value)
        for index in np.ndindex(array.shape):
            step = np.zeros(array.shape)
            step[index] = 1e-5
            above, below = (
                objective(
                    {key: torch.tensor(each) for key, each in {**point, name: array + move}.items()}
                )
                for move in (step, -step)
            )
            assert leaves[name].grad[index].item() == pytest.approx(
                (above - below) / 2e-5, rel=rel, abs=1e-6
            )
