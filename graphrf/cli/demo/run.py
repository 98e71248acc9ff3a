"""Computations of `graphrf demo`, end to end. Nothing is printed or written here.

Each part is a record of what was estimated and how accurately: a signal on a mesh, speeds on roads and through
time, PageRank, and a graph kernel. `graphrf.cli.demo.report` turns them into text, JSON and a page with figures.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrf import datasets
from graphrf._base.progress import progress_bar
from graphrf._base.warn import warn
from graphrf.cli.demo.data import graph_data, graph_of, mesh_data, source_of
from graphrf.cli.demo.parts import (
    COMPRESSED,
    GramPart,
    GramRow,
    InterpolationPart,
    InterpolationRow,
    PageRankPart,
    PageRankRow,
    Part,
    Settings,
)
from graphrf.cli.demo.seconds import timed
from graphrf.cli.demo.through_time import predict_through_time
from graphrf.datasets.sets import Dataset
from graphrf.features.bounds import HeavyTailWarning
from graphrf.features.features import Features
from graphrf.gp.metrics import coverage, rmse
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.named import Diffusion, RegularizedLaplacian
from graphrf.operators.series.apply import kernel_block
from graphrf.pagerank.estimates import estimate
from graphrf.pagerank.power import pagerank
from graphrf.sampling.powers.powers import CompressedPowers
from graphrf.sampling.sample import sample_features
from graphrf.sampling.walks.lengths import IID, Antithetic, LengthLaw, SigmaCoupled, Stratified, Truncated
from graphrf.sampling.walks.random_walks import DIRECTIONS, RandomWalks

if TYPE_CHECKING:
    from graphrf.gp.regression import GraphGPRegressor

PAGERANK_P_HALT = 0.15
# Up to here the whole kernel matrix is compared; above, this many of its rows.
_LARGEST_DENSE = 1_000
_SAMPLED_ROWS = 256
# Of the faces of a mesh, and at most so many, which keeps the largest meshes within minutes.
_OBSERVED_SHARE, _MOST_OBSERVED = 0.2, 1_000
_NOISE = 0.1
# So many observations load most of what a Gaussian process on the graph runs.
_WARM_UP = 20
# The paper trains on 250 of the 325 sensors of San Jose.
_TRAFFIC_OBSERVED = 250


def run(settings: Settings, *, progress: bool = False) -> Iterator[Part]:
    """The parts of the demo, each as soon as it is computed. All data is loaded before anything is computed.

    Parameters
    ----------
    settings : Settings
    progress : bool
        Show bars on standard error (on a terminal only).

    Raises
    ------
    ValueError, ConnectionError, ImportError
        For unknown data sets, unavailable data, and data that lacks what a part needs.
    """
    graph = graph_data(settings.dataset)
    mesh = mesh_data(settings.mesh)
    traffic = datasets.load("san-jose") if settings.traffic else None
    week = _week_of_speeds() if settings.traffic else None
    return _parts(settings, graph, mesh, traffic, week, progress)


def _week_of_speeds() -> Dataset | None:
    """Speeds through time; None, with a warning, where they are not at hand."""
    try:
        return datasets.load("metr-la")
    except ConnectionError as error:
        warn(f"traffic through time is left out, because its data is not available: {error}")
        return None


def _parts(
    settings: Settings,
    graph: Dataset,
    mesh: Dataset,
    traffic: Dataset | None,
    week: Dataset | None,
    progress: bool,
) -> Iterator[Part]:
    yield interpolate_mesh(mesh, settings, progress=progress)
    if traffic is not None:
        yield interpolate_traffic(traffic, settings, progress=progress)
    if week is not None:
        yield predict_through_time(week, settings)
    yield estimate_pagerank(graph, settings, progress=progress)
    yield estimate_kernel(graph, settings, progress=progress)


# -- the kernel --------------------------------------------------------------------------------------------


class _Truth:
    """The exact kernel matrix, or some of its rows if it is large."""

    def __init__(self, graph: Graph, kernel: Kernel, rng: np.random.Generator) -> None:
        self.kernel = kernel
        if graph.n_nodes <= _LARGEST_DENSE:
            self.rows = np.arange(graph.n_nodes)
            started = time.perf_counter()
            self.values = kernel.dense(graph)
        else:
            self.rows = np.sort(rng.choice(graph.n_nodes, _SAMPLED_ROWS, replace=False))
            kernel_block(graph, kernel, self.rows[:2])  # compiles
            started = time.perf_counter()
            self.values = kernel_block(graph, kernel, self.rows)
        self.seconds = time.perf_counter() - started
        self.norm = float(np.linalg.norm(self.values))

    def error(self, features: Features) -> float:
        """Relative error in the Frobenius norm of the estimate Phi Phi^T."""
        return float(np.linalg.norm(features.gram(self.kernel, rows=self.rows) - self.values)) / self.norm


def estimate_kernel(data: Dataset, settings: Settings, *, progress: bool = False) -> GramPart:
    """Every distribution of lengths and kind of directions, and compressed powers, against one exact kernel."""
    graph = graph_of(data)
    kernel = RegularizedLaplacian(1.0, 2)
    laws: dict[str, LengthLaw] = {
        "independent": IID(settings.p_halt),
        "antithetic": Antithetic(settings.p_halt),
        "sigma-coupled": SigmaCoupled(settings.p_halt),
        "stratified": Stratified(settings.p_halt),
        "truncated": Truncated(kernel.truncation_length(0.01)),
    }
    in_figure = {
        "independent walks": ("independent", "independent"),
        "antithetic lengths": ("antithetic", "independent"),
        "sigma-coupled lengths (the paper)": ("sigma-coupled", "independent"),
        "stratified lengths and directions": ("stratified", "stratified"),
        "stratified directions, truncated": ("truncated", "stratified"),
        "compressed powers (the default)": (COMPRESSED, ""),
    }
    m = settings.n_walks

    def sampler_of(law: str, directions: str, size: int) -> RandomWalks | CompressedPowers:
        if law == COMPRESSED:
            return CompressedPowers(size)
        return RandomWalks(size, laws[law], directions=directions)

    walks = sorted({max(2, 2 * round(m * factor / 2)) for factor in (0.25, 0.5, 1, 2, 4)})
    tasks = [(law, directions, m) for law in laws for directions in DIRECTIONS] + [(COMPRESSED, "", m)]
    n_rows = len(tasks)
    tasks += [(*case, n) for case in in_figure.values() for n in walks if n != m]

    truth = _Truth(graph, kernel, np.random.default_rng(settings.seed))
    done: dict[tuple[str, str, int], GramRow] = {}
    bar_of = None if progress else False
    with (
        progress_bar("kernel", bar_of, total=len(tasks) * settings.repeats, leave=False) as bar,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", HeavyTailWarning)  # told by the part
        for task in tasks:
            done[task] = _gram_row(task, graph, truth, sampler_of(*task), settings, bar.update)
    return GramPart(
        source=source_of(data),
        kernel=repr(kernel),
        p_halt=settings.p_halt,
        n_walks=m,
        repeats=settings.repeats,
        rows=tuple(done[task] for task in tasks[:n_rows]),
        curves={label: tuple(done[(*case, n)] for n in walks) for label, case in in_figure.items()},
        compared_rows=truth.rows.size,
        exact_seconds=truth.seconds,
        too_short=_too_short(graph, kernel, sampler_of("independent", "independent", m)),
        coupling=SigmaCoupled(settings.p_halt).coupling,
    )


def _too_short(graph: Graph, kernel: Kernel, sampler: RandomWalks | CompressedPowers) -> bool:
    """True if walks end so early that estimates of the kernel have a huge variance."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", HeavyTailWarning)
        try:
            sample_features(graph, sampler, nodes=[0], seed=0).matrix(kernel)
        except HeavyTailWarning:
            return True
    return False


def _gram_row(
    task: tuple[str, str, int],
    graph: Graph,
    truth: _Truth,
    sampler: RandomWalks | CompressedPowers,
    settings: Settings,
    tick: Callable[[], Any],
) -> GramRow:
    # The first call compiles the loops, which is no part of a method's time.
    sample_features(graph, sampler, nodes=[0], seed=settings.seed).matrix(truth.kernel)
    errors, steps, nonzeros, seconds = [], 0, 0, 0.0
    for repeat in range(settings.repeats):
        started = time.perf_counter()
        features = sample_features(graph, sampler, seed=_seed(settings, repeat))
        features.matrix(truth.kernel)
        seconds += time.perf_counter() - started
        errors.append(truth.error(features))
        steps += features.n_steps
        nonzeros += features.nnz
        tick()
    count = settings.repeats * graph.n_nodes
    return GramRow(
        lengths=task[0],
        directions=task[1],
        n_walks=task[2],
        error=float(np.mean(errors)),
        stderr=_standard_error(errors),
        steps=steps / count,
        nonzeros=nonzeros / count,
        seconds=seconds / settings.repeats,
    )


# -- interpolation -----------------------------------------------------------------------------------------


def interpolate_mesh(data: Dataset, settings: Settings, *, progress: bool = False) -> InterpolationPart:
    """The height component of a mesh's normals from noisy values on a fifth of its faces."""
    graph, truth = graph_of(data), data.targets
    assert truth is not None
    rng = np.random.default_rng(settings.seed)
    order = rng.permutation(graph.n_nodes)
    seen = np.sort(order[: min(max(2, round(_OBSERVED_SHARE * graph.n_nodes)), _MOST_OBSERVED)])
    observed = np.full(graph.n_nodes, np.nan)
    observed[seen] = truth[seen] + _NOISE * rng.standard_normal(seen.size)
    return _interpolated(
        data, settings, observed, truth, signal="height (z) component of the face normals", unit="", noise=_NOISE,
        progress=progress,
    )  # fmt: skip


def interpolate_traffic(data: Dataset, settings: Settings, *, progress: bool = False) -> InterpolationPart:
    """Speeds on the highways of San Jose from 250 of the 325 sensors."""
    graph = graph_of(data)
    assert data.targets is not None
    assert data.target_nodes is not None
    truth = np.full(graph.n_nodes, np.nan)
    truth[data.target_nodes] = data.targets
    seen = np.random.default_rng(settings.seed).permutation(data.target_nodes)[:_TRAFFIC_OBSERVED]
    observed = np.full(graph.n_nodes, np.nan)
    observed[seen] = truth[seen]
    return _interpolated(
        data, settings, observed, truth, signal="traffic speed", unit="mph", noise=0.0,
        progress=progress,
    )  # fmt: skip


def _interpolated(
    data: Dataset,
    settings: Settings,
    observed: np.ndarray,
    truth: np.ndarray,
    *,
    signal: str,
    unit: str,
    noise: float,
    progress: bool,
) -> InterpolationPart:
    """Gaussian processes by default and with one kernel, beside the mean of the observations."""
    from graphrf.gp import GraphGPRegressor  # imports scikit-learn, which takes a second

    graph = graph_of(data)
    seen = np.flatnonzero(np.isfinite(observed))
    hidden = np.flatnonzero(np.isfinite(truth) & np.isnan(observed))
    # Without noise of our own the truth is a measurement too, and deviations have to cover its noise.
    predictive = noise == 0
    y = observed[seen]
    constant = np.full(hidden.size, y.mean()), np.full(hidden.size, y.std(ddof=1))
    rows = [_interpolation_row("mean of the observations", truth[hidden], *constant)]
    notes: list[str] = []
    cases: list[tuple[str, str, dict[str, Any]]] = [
        ("auto", "by default", {}),
        ("series", "diffusion kernel", {"kernel": Diffusion()}),
    ]
    with _bar(data.name, len(cases), progress) as bar:
        fitted = []
        for method, words, options in cases:
            name = f"Gaussian process, {words}"
            bar.set_description(f"{data.name}, {method}")
            model = GraphGPRegressor(graph, method=method, seed=settings.seed, **options)
            mean, deviation, seconds, caught = _predicted(model, seen, y, predictive)
            notes += _notes(name, caught)
            fitted_noise = float(np.sqrt(model.noise_))
            rows.append(
                _interpolation_row(name, truth[hidden], mean[hidden], deviation[hidden], seconds, fitted_noise)
            )
            fitted.append((model, mean, deviation))
            bar.update()
    model, mean, deviation = fitted[0]
    return InterpolationPart(
        source=source_of(data),
        signal=signal,
        unit=unit,
        n_observed=seen.size,
        n_predicted=hidden.size,
        noise=noise,
        predictive=predictive,
        rows=tuple(rows),
        notes=tuple(notes),
        kernel=f"{type(model.kernel_).__name__} kernel with the {model.kernel_.laplacian} Laplacian",
        hyperparameters={
            **model.kernel_.hyperparameters,
            "output_scale": float(model.output_scale_),
            "noise": float(model.noise_),
            "mean": float(model.mean_),
        },
        observed=observed,
        truth=truth,
        mean=mean,
        deviation=deviation,
        data=data,
    )


def _predicted(
    model: GraphGPRegressor, seen: np.ndarray, y: np.ndarray, predictive: bool
) -> tuple[np.ndarray, np.ndarray, float, list[warnings.WarningMessage]]:
    """Mean and standard deviation at all nodes, the seconds that they took, and what was warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of so few observations
        model.fit(seen[:_WARM_UP], y[:_WARM_UP]).predict(seen[:_WARM_UP], return_std=True)

    def predicted() -> tuple[np.ndarray, np.ndarray, list[warnings.WarningMessage]]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            model.fit(seen, y)
            return *model.predict(None, return_std="observation" if predictive else True), caught

    (mean, deviation, caught), seconds = timed(predicted)
    return mean, deviation, seconds, caught


def _notes(method: str, caught: list[warnings.WarningMessage]) -> Iterator[str]:
    """Warnings issued by training, without their remedies, which are options that the demo does not have."""
    for warning in caught:
        if not issubclass(warning.category, UserWarning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
            continue
        fact = re.split("[:;] ", str(warning.message))[0]
        told = re.sub(r"[A-Z]\w*\(.*\)", "these rows", fact)  # a sampler, with all its settings
        yield f"{method}: {told}."


def _interpolation_row(
    method: str,
    truth: np.ndarray,
    mean: np.ndarray,
    deviation: np.ndarray,
    seconds: float | None = None,
    fitted_noise: float | None = None,
) -> InterpolationRow:
    return InterpolationRow(
        method=method,
        rmse=rmse(truth, mean),
        coverage=coverage(truth, mean, deviation),
        deviation=float(np.sqrt(np.mean(deviation**2))),
        seconds=seconds,
        fitted_noise=fitted_noise,
    )


# -- PageRank ----------------------------------------------------------------------------------------------


def estimate_pagerank(data: Dataset, settings: Settings, *, progress: bool = False) -> PageRankPart:
    """End points and visits of walks with every coupling, against power iteration."""
    graph = graph_of(data)
    cases = [("endpoints", coupling) for coupling in ("iid", "antithetic", "sigma", "stratified")]
    cases += [("visits", coupling) for coupling in ("iid", "antithetic", "sigma", "stratified", "pooled")]
    in_figure = {
        "end points of independent walks": ("endpoints", "iid"),
        "visits of independent walks": ("visits", "iid"),
        "visits of pooled walks": ("visits", "pooled"),
    }
    pagerank(graph, p_halt=PAGERANK_P_HALT, tol=0.5)  # compiles
    started = time.perf_counter()
    exact = pagerank(graph, p_halt=PAGERANK_P_HALT)
    exact_seconds = time.perf_counter() - started
    rows, single = [], {}
    with progress_bar(
        "PageRank", None if progress else False, total=len(cases) * settings.repeats, leave=False
    ) as bar:
        for estimator, coupling in cases:
            arguments: dict[str, Any] = {
                "p_halt": PAGERANK_P_HALT,
                "n_walks": settings.n_walks,
                "estimator": estimator,
                "coupling": coupling,
            }
            estimate(graph, **arguments, seed=settings.seed)  # compiles
            errors, steps = [], 0
            started = time.perf_counter()
            for repeat in range(settings.repeats):
                result = estimate(graph, **arguments, seed=_seed(settings, repeat))
                errors.append(float(np.abs(result.scores - exact.scores).sum()))
                steps += result.steps
                bar.update()
            single[estimator, coupling] = result.scores
            rows.append(
                PageRankRow(
                    estimator=estimator,
                    coupling=coupling,
                    error=float(np.mean(errors)),
                    stderr=_standard_error(errors),
                    steps=steps / (settings.repeats * graph.n_nodes),
                    seconds=(time.perf_counter() - started) / settings.repeats,
                )
            )
    return PageRankPart(
        source=source_of(data),
        p_halt=PAGERANK_P_HALT,
        n_walks=settings.n_walks,
        repeats=settings.repeats,
        rows=tuple(rows),
        top=tuple((str(name), score) for name, score in exact.top(5)),
        exact_seconds=exact_seconds,
        exact_iterations=exact.iterations,
        exact=exact.scores,
        estimates={label: single[case] for label, case in in_figure.items()},
    )


# -- what the parts share ----------------------------------------------------------------------------------


def _seed(settings: Settings, repeat: int) -> int:
    """A seed for every repetition; far apart, so that demos of neighbouring seeds share none."""
    return settings.seed * 1_000_003 + repeat


def _standard_error(values: list[float]) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def _bar(what: str, total: int, shown: bool) -> Any:
    """A bar on a terminal, nothing in a log."""
    return progress_bar(what, None if shown else False, total=total, leave=False)
