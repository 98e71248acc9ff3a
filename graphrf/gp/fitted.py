"""What a fitted regressor rests on, and its file."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from graphrf.gp.observations import Observations
from graphrf.kernels import Kernel


class Conditions(NamedTuple):
    """What a fitted regressor rests on, besides its settings: all that is needed to condition anew.

    Attributes
    ----------
    observations : Observations
        Of y less `offset`.
    offset : ndarray, shape (p,)
    single : bool
        Whether y had no axis of outputs.
    kernel : Kernel
    output_scale, noise, mean_variance : float
    sampler : Sampler or None
        None for the series.
    seed : int
    log_marginal_likelihood : float
    trained : bool
        Whether training converged.
    """

    observations: Observations
    offset: np.ndarray
    single: bool
    kernel: Kernel
    output_scale: float
    noise: float
    mean_variance: float
    sampler: Any
    seed: int
    log_marginal_likelihood: float
    trained: bool
