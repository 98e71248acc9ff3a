"""Parts of the demo: generated data, a model, its errors at what it did not see, and a figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrf import datasets
from graphrf.gp import GraphGPRegressor, GraphTimeGPRegressor
from graphrf.graph.builders import from_edges
from graphrf.graph.graph import Graph
from graphrf.kernels import Matern
from graphrf.operators.series.apply import kernel_block

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TWO_SIDED = 1.959964  # the normal quantile of 95 % intervals


@dataclass(frozen=True)
class Part:
    """A part of the report: plain words, numbers by name, and a figure with its description."""

    title: str
    question: str
    answer: str
    numbers: Mapping[str, str]
    figure: Figure
    shown: str

    @property
    def text(self) -> str:
        """The part as it is printed."""
        width = max(map(len, self.numbers))
        lines = [f"  {name:{width}}  {value}" for name, value in self.numbers.items()]
        return "\n".join([self.title, *lines, ""])


def _figure(height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(8.0, height), layout="constrained")


def _errors(mean: np.ndarray, std: np.ndarray, truth: np.ndarray, unit: str = "") -> dict[str, str]:
    """The root-mean-square error and the coverage of 95 % intervals."""
    error = mean - truth
    covered = np.mean(np.abs(error) < _TWO_SIDED * std)
    return {
        "RMSE": f"{np.sqrt(np.mean(error**2)):.3g}{unit}",
        "coverage of 95 % intervals": f"{covered:.0%}",
    }


def _roads(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray, Graph]:
    """Coordinates, edges and graph of a town: a crooked grid of streets, some of them missing."""
    number = np.arange(size * size).reshape(size, size)
    across = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], axis=1)
    down = np.stack([number[:-1].ravel(), number[1:].ravel()], axis=1)
    edges = np.concatenate([across, down[rng.random(len(down)) < 0.6]])
    places = np.stack(np.divmod(number.ravel(), size), axis=1) + rng.uniform(
        -0.3, 0.3, (size * size, 2)
    )
    return places, edges, from_edges(edges[:, 0], edges[:, 1], n_nodes=size * size)


def _smooth(graph: Graph, lengthscale: float, rng: np.random.Generator) -> np.ndarray:
    """A random smooth signal on the nodes, of about unit variance."""
    matrix = kernel_block(graph, Matern(nu=2.0, lengthscale=lengthscale))
    signal = np.linalg.cholesky(matrix + 1e-10 * np.eye(graph.n_nodes)) @ rng.standard_normal(
        graph.n_nodes
    )
    return np.asarray(signal / np.sqrt(np.mean(np.diag(matrix))))


def roads(seed: int) -> Part:
    """Speeds at all junctions of a town from sensors at some."""
    from graphrf.plot import plot_map_posterior

    rng = np.random.default_rng(seed)
    places, edges, graph = _roads(rng, 20)
    speed = 50 + 12 * _smooth(graph, 6.0, rng)
    sensors = rng.permutation(graph.n_nodes)[:160]
    readings = speed[sensors] + 2 * rng.standard_normal(sensors.size)
    used, held = sensors[:120], sensors[120:]

    gp = GraphGPRegressor(graph, seed=seed).fit(used, readings[:120])
    mean, std = gp.predict(return_std=True)
    noisy = gp.predict(held, return_std="observation")
    baseline = np.sqrt(np.mean((readings[120:] - readings[:120].mean()) ** 2))
    seen = np.full(graph.n_nodes, np.nan)
    seen[used] = readings[:120]

    figure = _figure(7.0)
    axes = figure.subplots(2, 2).ravel()
    plot_map_posterior(
        places,
        mean,
        std,
        edges=edges,
        truth=speed,
        observed=seen,
        ax=axes,
        label="speed (km/h)",
        deviation_label="standard deviation (km/h)",
        geographic=False,
    )

    return Part(
        "Roads: speeds where there is no sensor",
        f"A town has {graph.n_nodes} junctions. Sensors at 120 of them measure the speed of cars "
        "with an error of 2 km/h. How fast are the cars elsewhere?",
        "A Gaussian process on the road network predicts the speed at every junction, with an "
        "interval. It is compared with 40 more sensors that it did not see. The baseline predicts "
        "the mean speed everywhere.",
        {
            **_errors(noisy[0], noisy[1], readings[120:], " km/h"),
            "RMSE of the baseline": f"{baseline:.3g} km/h",
            "sensors used, held out": "120, 40",
        },
        figure,
        "Four maps of the town: true speeds, readings, predicted speeds, and the standard "
        "deviation of these, which is small near sensors.",
    )


def districts(seed: int) -> Part:
    """Relative risks of districts from counts of cases."""
    from matplotlib.colors import LogNorm

    rng = np.random.default_rng(seed + 1)
    size = 14
    number = np.arange(size * size).reshape(size, size)
    src = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()])
    dst = np.concatenate([number[:, 1:].ravel(), number[1:].ravel()])
    graph = from_edges(src, dst, n_nodes=size * size)

    expected = rng.uniform(3, 30, graph.n_nodes)
    risk = np.exp(0.35 * _smooth(graph, 4.0, rng))
    cases = rng.poisson(expected * risk)

    gp = GraphGPRegressor(graph, kernel="bym2", likelihood="poisson", seed=seed)
    gp.fit(np.arange(graph.n_nodes), cases, exposure=expected)
    found = gp.predict()
    low, high = gp.predict(quantiles=[0.025, 0.975]).T
    above = gp.probability(above=1.0)
    flagged = above > 0.95

    figure = _figure(3.0)
    # A half and twice the average are equally far from 1, which is white.
    risks: dict[str, Any] = {"cmap": "RdBu_r", "norm": LogNorm(0.5, 2.0)}
    panels: tuple[tuple[str, np.ndarray, dict[str, Any]], ...] = (
        ("cases / expected", np.maximum(cases / expected, 0.01), risks),
        ("relative risk", found, risks),
        ("P(risk > 1)", above, {"vmin": 0.0, "vmax": 1.0}),
    )

    for ax, (title, values, colours) in zip(figure.subplots(1, 3), panels, strict=True):
        image = ax.imshow(values.reshape(size, size), **colours)
        ax.set(title=title, xticks=[], yticks=[])
        bar = figure.colorbar(
            image, ax=ax, shrink=0.7, extend="both" if colours is risks else "neither"
        )
        if colours is risks:
            bar.set_ticks([0.5, 0.7, 1.0, 1.4, 2.0], labels=["0.5", "0.7", "1", "1.4", "2"])
            bar.minorticks_off()

    raw = np.sqrt(np.mean((cases / expected - risk) ** 2))
    return Part(
        "Districts: where the risk is raised",
        f"Cases of a disease were counted in {graph.n_nodes} districts, and the number expected "
        "from their population is known. Small districts have few cases, so that the ratio of the "
        "two is noisy. In which districts is the risk really above the average?",
        "A BYM2 model for Poisson counts smooths the ratios over neighbouring districts. For each "
        "district it gives the relative risk, its interval, and the probability that the risk "
        "exceeds 1.",
        {
            "RMSE of relative risks": f"{np.sqrt(np.mean((found - risk) ** 2)):.3g}",
            "RMSE of cases / expected": f"{raw:.3g}",
            "coverage of 95 % intervals": f"{np.mean((low < risk) & (risk < high)):.0%}",
            "districts with P(risk > 1) > 0.95": (
                f"{flagged.sum()}, of which {(risk[flagged] > 1).sum()} truly have a risk above 1"
            ),
        },
        figure,
        "Three maps of the districts: the noisy ratios, the smooth relative risks, and the "
        "probability that each risk exceeds 1.",
    )


def mesh(seed: int) -> Part:
    """A signal on a closed surface from few of its faces."""
    from graphrf.plot import plot_mesh_posterior

    data = datasets.load("generated-torus")
    graph, truth = data.graph, data.targets
    assert graph is not None
    assert truth is not None

    rng = np.random.default_rng(seed + 2)
    order = rng.permutation(graph.n_nodes)
    used, held = order[:200], order[200:]
    gp = GraphGPRegressor(graph, seed=seed).fit(
        used, truth[used] + 0.05 * rng.standard_normal(used.size)
    )
    mean, std = gp.predict(return_std=True)

    figure = _figure(3.0)
    plot_mesh_posterior(
        data.extra["vertices"],
        data.extra["faces"],
        mean,
        std,
        truth=truth,
        label="slope",
        deviation_label="standard deviation",
        figure=figure,
    )

    return Part(
        "Mesh: a signal on a surface",
        "The slope of a surface, the vertical part of its normal, is measured at 200 of the "
        f"{graph.n_nodes:,} triangles of a torus. What is it on the others?",
        "The triangles are the nodes of a graph, on which neighbours share an edge. The same "
        "model as for the roads predicts the signal on all triangles; distances are those along "
        "the surface.",
        {
            **_errors(mean[held], std[held], truth[held]),
            "RMSE of the baseline": f"{np.std(truth[held]):.3g}",
            "triangles used, held out": f"{used.size}, {held.size:,}",
        },
        figure,
        "Three views of a torus: the true signal, the predicted signal and its standard deviation.",
    )


def through_time(seed: int) -> Part:
    """Gaps of a time series filled, and its next day forecast."""
    from graphrf.plot import plot_series

    rng = np.random.default_rng(seed + 3)
    _, _, graph = _roads(rng, 4)
    hours = np.arange(24.0 * 8)
    amount = 1 + 0.3 * _smooth(graph, 2.0, rng)
    drift = np.cumsum(rng.standard_normal(hours.size)) / 4
    day = 8 * np.sin(2 * np.pi * hours / 24) + 4 * np.cos(4 * np.pi * hours / 24)
    truth = 50 + day[:, None] * amount + drift[:, None] * amount[::-1]
    readings = truth + rng.standard_normal(truth.shape)

    known = readings.copy()
    last, gap, place = hours >= 24 * 7, (hours >= 60) & (hours < 84), 5
    known[last] = known[gap, place] = np.nan
    gp = GraphTimeGPRegressor(graph, "diffusion", seed=seed).fit(known, times=hours)
    mean, std = gp.predict(times=hours, return_std="observation")

    filled = _errors(mean[gap, place], std[gap, place], readings[gap, place], " km/h")
    forecast = _errors(mean[last], std[last], readings[last], " km/h")
    baseline = np.sqrt(np.mean((readings[last] - np.nanmean(known)) ** 2))

    figure = _figure(3.2)
    ax = figure.subplots()
    plot_series(
        hours,
        mean[:, place],
        std[:, place],
        observed=known[:, place],
        truth=truth[:, place],
        ax=ax,
        label="km/h",
    )
    ax.set_xlabel("days")

    return Part(
        "Time series: gaps and a forecast",
        f"Sensors at {graph.n_nodes} junctions report the speed every hour. One fails for a day, "
        "and tomorrow has not come yet. What would it have measured, and what will all of them "
        "measure?",
        "A Gaussian process on graph and time learns the daily rhythm and how sensors resemble "
        "their neighbours, so that a gap is filled from the other sensors and the next day "
        "follows from the days before.",
        {
            **{f"gap: {name}": value for name, value in filled.items()},
            **{f"forecast: {name}": value for name, value in forecast.items()},
            "forecast: RMSE of the mean": f"{baseline:.3g} km/h",
        },
        figure,
        "A curve of hourly speeds at one junction over eight days, with its interval: narrow "
        "where there are readings, wider in the gap and on the last day.",
    )


PARTS = (roads, districts, mesh, through_time)
