"""The start of training on graph and time: settings, kernels, variances, and the transform."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from graphrf._base import checks
from graphrf._base.blas import blas_threads
from graphrf._base.threads import thread_count
from graphrf.gp.model.settings import AUTO
from graphrf.gp.time.covariance import Part, Separable
from graphrf.gp.time.data import Grid
from graphrf.gp.time.graph_kernels import GraphCovariance, candidate_kernels
from graphrf.gp.time.kernels import ConstantTime, MaternTime, PeriodicTime, TimeKernel
from graphrf.gp.time.response_scale import TRANSFORMS, ResponseScale
from graphrf.gp.time.training.search import TrainingGrid, log_density
from graphrf.graph.graph import require_graph
from graphrf.kernels.kernel import Kernel


def checked_parts(time_kernel: Any) -> list[Any]:
    """The time kernels and parts of a setting; none for "auto"."""
    if time_kernel == AUTO:
        return []
    plain = isinstance(time_kernel, TimeKernel | Part | str)
    single = plain or not isinstance(time_kernel, Sequence)
    listed = [time_kernel] if single else list(time_kernel)
    for part in listed:
        if isinstance(part, Part) and isinstance(part.kernel, TimeKernel):
            checks.number("shared", part.shared, low=0)
            checks.number("own", part.own, low=0)
            checks.number("shared + own", part.shared + part.own, low=0, include_low=False)
        elif not isinstance(part, TimeKernel):
            raise checks.type_error(
                "time_kernel",
                "must be 'auto', or hold TimeKernels or Parts of graphrf.gp.time such as "
                f"MaternTime(lengthscale=6.0), got {checks.describe(part)}",
            )
    if not listed:
        raise checks.value_error("time_kernel", "must hold at least one kernel, got none")
    return listed


def checked_settings(gp: Any) -> list[Kernel]:
    """The kernels that a `GraphTimeGPRegressor` compares, if all of its settings are legal."""
    require_graph(gp.graph).require_undirected("a Gaussian process on its nodes")
    kernels = candidate_kernels(gp.graph, gp.kernel)
    for kernel in kernels:
        kernel.check_graph(gp.graph)

    parts = checked_parts(gp.time_kernel)
    known = bool(parts) and all(isinstance(part, Part) for part in parts)
    checks.flag("optimize", gp.optimize)
    checks.flag("progress", gp.progress)
    if gp.noise is not None:
        checks.number("noise", gp.noise, low=0, include_low=False)
    if not gp.optimize and (len(kernels) > 1 or gp.noise is None or not known):
        raise checks.value_error(
            "optimize", "= False needs a Kernel as `kernel`, Parts as `time_kernel`, and `noise`"
        )

    if gp.transform is not None:
        checks.choice("transform", gp.transform, (*TRANSFORMS, AUTO))
    if gp.max_train is not None:
        checks.integer("max_train", gp.max_train, low=10)
    checks.integer("n_draws", gp.n_draws, low=2)
    checks.number("tol", gp.tol, low=1e-12, high=0.1)
    thread_count(gp.n_threads)
    return kernels


class Start(NamedTuple):
    """Settings of the initial model."""

    parts: list[Any]  # from `checked_parts`
    noise: float | None
    optimize: bool

    @classmethod
    def of(cls, gp: Any) -> Start:
        """The settings of a `GraphTimeGPRegressor`."""
        return cls(checked_parts(gp.time_kernel), gp.noise, gp.optimize)

    def model(self, grid: Grid, variance: float) -> Separable:
        """The initial model for values of this variance."""
        largest = float(np.nanmax(np.abs(grid.values)))
        if self.optimize and not variance > (1e-12 * largest) ** 2:
            raise checks.value_error(
                "Y",
                "must not be constant, nor change by rounding alone, where hyperparameters are "
                "trained: pass more values, or the hyperparameters with optimize=False",
            )

        if not self.parts:
            parts = _automatic_parts(grid.times, variance)
        else:
            each = 0.5 * variance / len(self.parts)
            parts = tuple(
                part if isinstance(part, Part) else Part(part, each, each) for part in self.parts
            )

        if self.optimize:  # logarithms are trained
            least = 1e-6 * variance
            parts = tuple(
                part._replace(shared=max(part.shared, least), own=max(part.own, least))
                for part in parts
            )
        return Separable(parts, 0.05 * variance if self.noise is None else float(self.noise))

    def scale(
        self,
        transform: str | None,
        grid: Grid,
        covariance: GraphCovariance,
        kernels: list[Kernel],
        seed: int,
        n_threads: int,
    ) -> ResponseScale:
        """The transform of readings: by name, or the one that gives the largest density."""
        if transform != AUTO:
            return ResponseScale.of(transform, grid.values)
        if not self.optimize:
            raise checks.value_error(
                "transform", "= 'auto' is trained: name one, or set optimize=True"
            )
        matrices = covariance.blocks(kernels, grid.nodes)
        mask = ~np.isnan(grid.values)

        def density(scale: ResponseScale) -> float:
            values = scale.forward(grid.values)
            residual = np.where(mask, values - float(np.nanmean(np.nanmean(values, axis=0))), 0.0)
            start = self.model(grid._replace(values=values), float(residual[mask].var()))
            task = TrainingGrid(residual, mask, grid.times, matrices.__getitem__, seed, n_threads)
            fitted = 0.5 * scale.n_fitted * float(np.log(mask.sum()))  # Schwarz's approximation
            return log_density(task, start, kernels, scale.log_slope(grid.values)) - fitted

        with blas_threads(1):
            return max(ResponseScale.candidates(grid.values), key=density)


def _automatic_parts(times: np.ndarray, variance: float) -> tuple[Part, ...]:
    """Levels, profiles of day and week where times can show them, and Matern processes."""
    span = float(times[-1] - times[0])
    step = float(np.median(np.diff(times))) if times.size > 1 else 1.0
    kernels: list[tuple[TimeKernel, float, float]] = [(ConstantTime(), 0.1, 0.1)]
    if span >= 48 and step <= 6:
        kernels.append(
            (PeriodicTime(24.0, decay=20 * 24.0, harmonics=min(6, int(12 / step))), 0.2, 0.1)
        )
    if span >= 3 * 168 and step <= 24:
        kernels.append(
            (PeriodicTime(168.0, decay=20 * 168.0, harmonics=min(6, int(84 / step))), 0.1, 0.1)
        )
    kernels.append((MaternTime(30 * step, nu=1.5), 0.2, 0.1))
    kernels.append((MaternTime(10 * step), 0.1, 0.05))
    kernels.append((MaternTime(4 * step, nu=1.5), 0.05, 0.05))
    kernels.append((MaternTime(1.5 * step), 0.05, 0.05))
    return tuple(
        Part(kernel, shared * variance, each * variance) for kernel, shared, each in kernels
    )
