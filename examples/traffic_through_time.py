"""Traffic through time: gaps, new places and a forecast, on a week of METR-LA.

207 sensors in Los Angeles, every fifteen minutes. Hidden are 40 sensors for the whole week, all
sensors for six hours of a Sunday morning, and the last three hours. `GraphTimeGPRegressor` learns
from the rest by its defaults. Printed is the error at what was hidden, beside the mean of what was
seen at that time of the day, and how often intervals contain it. The picture has the series of a
sensor that was seen and of one that was not, and a morning's map with its standard deviation;
`--film` writes a moving map of a day.

    python examples/traffic_through_time.py --out traffic_through_time.png [--film day.gif]
"""

from __future__ import annotations

import argparse

import numpy as np
from _figures import figure
from _options import add_figure_option

import graphrf as grf
from graphrf.gp import metrics
from graphrf.plot import animate_map, plot_map_posterior, plot_series

DAY = 96  # quarters of an hour
HIDDEN_SENSORS = 40
OUTAGE = slice(3 * DAY + 24, 3 * DAY + 48)  # six to noon of a Sunday
FORECAST = 12
MORNING = 4 * DAY + 32  # eight o'clock of the day after
SHOWN = slice(2 * DAY, 7 * DAY)


def usual(y: np.ndarray) -> np.ndarray:
    """What was seen at that time of the day, on average over days and sensors, (T,)."""
    daily = np.array([np.nanmean(y[start::DAY]) for start in range(DAY)])
    return daily[np.arange(len(y)) % DAY]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--film", help="a .gif or .mp4 file of the fifth day")
    add_figure_option(parser)
    options = parser.parse_args()
    data = grf.datasets.load("metr-la")
    speeds = data.extra["speeds"][::3]
    times = np.arange(len(speeds)) / 4
    unseen = np.random.default_rng(options.seed).permutation(speeds.shape[1])[:HIDDEN_SENSORS]
    y = speeds.copy()
    y[:, unseen] = y[OUTAGE] = y[-FORECAST:] = np.nan
    gp = grf.gp.GraphTimeGPRegressor(data.graph, seed=options.seed).fit(y, times=times)
    mean, std = gp.predict(times=times, return_std="observation")
    print(f"{gp.kernel_}, noise {gp.noise_:.3g}; {gp.n_observations_} readings seen")
    seen = np.setdiff1d(np.arange(speeds.shape[1]), unseen)
    profile = np.broadcast_to(usual(y)[:, None], speeds.shape)
    for name, rows, columns in (
        ("sensors never seen", np.arange(len(times) - FORECAST), unseen),
        ("six hours of all", np.arange(OUTAGE.start, OUTAGE.stop), seen),
        ("the next three hours", np.arange(len(times) - FORECAST, len(times)), seen),
    ):
        at = np.ix_(rows, columns)
        print(
            f"{name:22}RMSE {metrics.rmse(speeds[at], mean[at]):5.2f} mph (mean of the time of day "
            f"{metrics.rmse(speeds[at], profile[at]):5.2f}), 95 % intervals contain "
            f"{metrics.coverage(speeds[at], mean[at], std[at]):.3f}"
        )
    links = data.graph.adjacency.tocoo()
    edges = np.column_stack([links.row, links.col])[links.row < links.col]
    if options.out:
        with figure(options.out, height=7.6) as sheet:
            top, below = sheet.subfigures(2, 1, height_ratios=(1.7, 1.0))
            axes = top.subplots(2, 1)
            for ax, node, title in zip(
                axes, (seen[30], unseen[0]), ("with", "without"), strict=True
            ):
                plot_series(
                    times[SHOWN],
                    mean[SHOWN, node],
                    std[SHOWN, node],
                    observed=y[SHOWN, node],
                    truth=speeds[SHOWN, node],
                    ax=ax,
                    label="speed (mph)",
                )
                ax.set_title(f"a place {title} a sensor", loc="right", x=0.98)
            axes[1].get_legend().remove()
            plot_map_posterior(
                data.coordinates,
                mean[MORNING],
                std[MORNING],
                edges=edges,
                observed=y[MORNING],
                figure=below,
                label="speed (mph)",
                geographic=True,
            )
    if options.film:
        day = slice(MORNING - 32, MORNING - 32 + DAY)
        titles = [f"{int(hour % 24):02d}:{int(60 * (hour % 1)):02d}" for hour in times[day]]
        animate_map(
            options.film,
            data.coordinates,
            edges,
            mean[day],
            titles=titles,
            label="speed (mph)",
            geographic=True,
        )


if __name__ == "__main__":
    main()
