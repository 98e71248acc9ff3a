"""Training on K of longer and longer rows, while the data favour the longest lengthscale that they
serve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from graphrf._base.warn import warn
from graphrf.gp.hyperparameters.kernel_axis import KernelAxis
from graphrf.gp.hyperparameters.latent_mode import LatentMode
from graphrf.gp.hyperparameters.space import Model
from graphrf.gp.methods.protocol import Grams, Method
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel

# The probability of the longest lengthscale above which longer ones are tried, and how near to it a
# mode is at it.
_PROBABLE, _NEAR = 0.1, 0.98

Result = TypeVar("Result")


def trained_on_long_enough(
    candidates: Iterable[Grams],
    train: Callable[[Grams], Result],
    probability_at_end: Callable[[Result], float],
) -> Result:
    """The result of `train` on the first of the candidates whose longest lengthscale is improbable,
    or on the last of them.
    """
    for grams in candidates:
        result = train(grams)
        if probability_at_end(result) <= _PROBABLE:
            break
    return result


class KernelMode(NamedTuple):
    """The mode of one kernel, its hyperparameter that varies, and K on which it was found."""

    mode: LatentMode
    axis: KernelAxis
    grams: Grams


def mode_on_long_enough(
    graph: Graph,
    method: Method,
    member: tuple[Kernel, tuple[str, ...]],
    nodes: Sequence[np.ndarray],
    seed: int,
    find: Callable[[KernelAxis, Grams, Model | None], LatentMode],
) -> KernelMode:
    """The mode of one kernel by `find`, which begins at the mode on shorter rows; it warns where
    the longest rows are not long enough.
    """
    kernel, names = member
    start: Model | None = None

    def train(grams: Grams) -> KernelMode:
        nonlocal start
        if set(names) - {"lengthscale", *kernel.proportions}:
            grams = method.exact_grams(grams, kernel, nodes, seed)
        axis = KernelAxis.of(graph, kernel, names, grams.longest)
        mode = find(axis, grams, start)
        start = mode.model
        return KernelMode(mode, axis, grams)

    def at_end(result: KernelMode) -> float:
        if not result.axis.is_cut:
            return 0.0
        longest = result.axis.ranges["lengthscale"][1]
        lengthscale = result.mode.model.kernel.hyperparameters["lengthscale"]
        return float(lengthscale >= _NEAR * longest)

    result = trained_on_long_enough(method.grams([member], nodes, seed), train, at_end)
    if at_end(result):
        longest = result.axis.ranges["lengthscale"][1]
        warn(
            f"the data favour a lengthscale longer than {longest:.3g}, {method.limitation(kernel)}"
        )
    return result
