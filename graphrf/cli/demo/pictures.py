"""The figures of the demo's parts, with captions and alternative text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from graphrf.cli.demo.parts import GramPart, InterpolationPart, PageRankPart, Part, TimePart
from graphrf.plot._curves import plot_error_against_walks, plot_front
from graphrf.plot._pairs import plot_pagerank, plot_permutation
from graphrf.plot._posterior import plot_map_posterior, plot_mesh_posterior
from graphrf.plot._style import style
from graphrf.plot._times import plot_series


@dataclass(frozen=True)
class Picture:
    """A figure, the name of its file, its caption and its alternative text."""

    file: str
    caption: str
    alt: str
    figure: Figure


def pictures(part: Part) -> list[Picture]:
    """The figures of a part."""
    with style():
        if isinstance(part, GramPart):
            return [_errors(part), _front(part), _permutation(part)]
        if isinstance(part, PageRankPart):
            return [_pagerank(part)]
        if isinstance(part, TimePart):
            return [_series(part)]
        return [_mesh(part) if "faces" in part.data.extra else _map(part)]


def _figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout="constrained")


def _errors(part: GramPart) -> Picture:
    figure = _figure(6.6, 4.8)
    curves = {label: [[row.n_walks, row.error, row.stderr] for row in rows] for label, rows in part.curves.items()}
    plot_error_against_walks(curves, ax=figure.add_subplot())
    rows = next(iter(part.curves.values()))
    ends = "; ".join(
        f"{label}: {line[0].error:.3g} to {line[-1].error:.3g}" for label, line in part.curves.items()
    )
    return Picture(
        file="error_against_walks.png",
        caption=(
            f"Error of the kernel against the number of walks (for compressed powers: of entries); means over "
            f"{part.repeats} repetitions, with error bars of two standard errors."
        ),
        alt=(
            f"Lines of error against walks on logarithmic axes, from {rows[0].n_walks} to {rows[-1].n_walks} "
            f"walks. Errors fall from left to right. {ends}."
        ),
        figure=figure,
    )


def _front(part: GramPart) -> Picture:
    figure = _figure(6.6, 4.8)
    costs = {label: [[row.steps, row.error, row.stderr] for row in rows] for label, rows in part.curves.items()}
    plot_front(
        costs, ax=figure.add_subplot(), xlabel="steps of walks, or multiply-adds of powers, per node",
        ylabel="relative error of the Gram matrix",
    )  # fmt: skip
    ends = "; ".join(
        f"{label}: {rows[-1].error:.3g} for {rows[-1].steps:.0f}" for label, rows in part.curves.items()
    )
    return Picture(
        file="error_against_cost.png",
        caption=(
            "The same errors against their cost. Grey: the Pareto front, the lowest error of any method at each "
            "cost."
        ),
        alt=f"Lines of error against operations on logarithmic axes, with their Pareto front. {ends} operations.",
        figure=figure,
    )


def _permutation(part: GramPart) -> Picture:
    figure = _figure(4.8, 4.6)
    plot_permutation(part.coupling, ax=figure.add_subplot())
    return Picture(
        file="permutation.png",
        caption=(
            "The coupling of sigma-coupled walks, learned by optimal transport: if the first walk of a pair is "
            "short, the second is long."
        ),
        alt=(
            f"{part.coupling.order} squares, one for each quantile of the first walk's length. They lie close to "
            "the diagonal from top left to bottom right, which would pair the shortest walk with the longest."
        ),
        figure=figure,
    )


def _mesh(part: InterpolationPart) -> Picture:
    mesh = part.data.extra
    figure = _figure(8.0, 7.0)
    plot_mesh_posterior(
        mesh["vertices"], mesh["faces"], part.mean, part.deviation, truth=part.truth, observed=part.observed,
        figure=figure, label=part.signal,
    )  # fmt: skip
    return Picture(
        file="mesh.png",
        caption=(
            f"The {part.signal} of {part.source.name!r}, observed on {part.n_observed:,} faces (grey: not "
            "observed) and predicted on all faces by a Gaussian process, with its standard deviation."
        ),
        alt=(
            f"Four views of the mesh {part.source.name}: the signal; the faces observed; the signal predicted on "
            f"all faces, with RMSE {part.rows[1].rmse:.3g}; and its standard deviation, "
            f"{_spread(part.deviation)}, larger far from observed faces."
        ),
        figure=figure,
    )


def _map(part: InterpolationPart) -> Picture:
    data = part.data
    assert data.graph is not None
    links = data.graph.adjacency.tocoo()
    edges = np.column_stack([links.row, links.col])[links.row < links.col]
    figure = _figure(9.0, 3.7)
    plot_map_posterior(
        data.coordinates, edges, part.mean, part.deviation, observed=part.observed, figure=figure,
        label=f"{part.signal} ({part.unit})", geographic=True,
    )  # fmt: skip
    return Picture(
        file="traffic.png",
        caption=(
            f"The {part.signal} at {part.n_observed} sensors of {part.source.name!r}, its prediction at every "
            "node, and the standard deviation of the prediction."
        ),
        alt=(
            f"Three maps of the roads of {part.source.name}: the sensors' values; the predicted {part.signal}, "
            f"{_spread(part.mean)} {part.unit}; and its standard deviation, {_spread(part.deviation)} "
            f"{part.unit}, smallest near sensors."
        ),
        figure=figure,
    )


def _series(part: TimePart) -> Picture:
    figure = _figure(8.0, 5.2)
    last = slice(max(0, part.n_times - 300), None)
    for ax, node, title in zip(
        figure.subplots(2, 1), part.example, ("observed sensor", "hidden sensor"), strict=True
    ):
        plot_series(
            part.times[last], part.mean[last, node], part.deviation[last, node], truth=part.truth[last, node],
            observed=part.observed[last, node], ax=ax, label="speed (mph)",
        )  # fmt: skip
        ax.set_title(title, loc="right", x=0.98)
        if node != part.example[0] and (legend := ax.get_legend()) is not None:
            legend.remove()
    return Picture(
        file="traffic_through_time.png",
        caption="Speeds at a sensor, with a forecast for three hours, and at a sensor that was hidden.",
        alt=(
            "Two series of speeds with 95 % bands, which are narrow where there are readings and wide in the "
            f"forecast and at the hidden sensor. For hidden ones the RMSE is {part.rows[1].rmse:.3g} mph and the "
            f"bands contain {100 * (part.rows[1].coverage or 0):.1f} % of the readings."
        ),
        figure=figure,
    )


def _pagerank(part: PageRankPart) -> Picture:
    figure = _figure(5.4, 5.0)
    plot_pagerank(part.exact, part.estimates, ax=figure.add_subplot())
    errors = "; ".join(
        f"{label}: {np.abs(scores - part.exact).sum():.3g}" for label, scores in part.estimates.items()
    )
    return Picture(
        file="pagerank.png",
        caption=(
            f"PageRank of every node from runs with {part.n_walks} walks per node, against the exact scores."
        ),
        alt=(
            "Estimated against exact scores on logarithmic axes, scattered around the line of equality. L1 errors "
            f"of these runs: {errors}."
        ),
        figure=figure,
    )


def _spread(values: np.ndarray) -> str:
    return f"from {float(np.nanmin(values)):.3g} to {float(np.nanmax(values)):.3g}"
