"""The parts of the demo as text and table cells: what is estimated, how to read the numbers, what was found."""

from __future__ import annotations

import math
from dataclasses import dataclass

from graphrf.cli.demo.parts import (
    COMPRESSED,
    GramPart,
    GramRow,
    InterpolationPart,
    InterpolationRow,
    PageRankPart,
    PageRankRow,
    Part,
    TimePart,
)

_TOO_SHORT = (
    "Walks that end with probability {:g} before each step are too short for this kernel: all estimates except "
    "the truncated ones have a very large variance. A smaller --p-halt makes the walks longer."
)
# 95 % intervals with a lower coverage than this are called too narrow.
_CALIBRATED = 0.93


@dataclass(frozen=True)
class Section:
    """One part, ready for layout.

    Attributes
    ----------
    title, question : str
        What is estimated, from what.
    reading : pairs of a term and its meaning
        What each column contains and which values are good.
    columns : headers
    rows : cells, as many as there are columns
    n_words : number of leading columns that contain words; the others contain numbers
    best : positions of the rows to point out, one for each question that the table answers
    findings : sentences that summarise the result
    caption : what rows in bold are
    """

    title: str
    question: str
    reading: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    n_words: int
    best: tuple[int, ...]
    findings: tuple[str, ...]
    caption: str = "The lowest error is in bold."


def section(part: Part) -> Section:
    """The text and table cells of a part."""
    if isinstance(part, GramPart):
        return _kernel(part)
    if isinstance(part, InterpolationPart):
        return _interpolation(part)
    if isinstance(part, TimePart):
        return _through_time(part)
    return _pagerank(part)


def _compared(baseline: GramRow, sigma: GramRow) -> str:
    """The effect of sigma coupling on the error, if it exceeds twice the standard error of the difference."""
    noise = 2 * math.hypot(baseline.stderr, sigma.stderr)
    if abs(baseline.error - sigma.error) <= noise:
        return "Here, sigma coupling of the lengths alone makes no significant difference."
    return f"Sigma coupling of the lengths alone divides the error by {baseline.error / sigma.error:.2f}."


def _kernel(part: GramPart) -> Section:
    source, baseline = part.source, part.rows[0]
    best = min(part.rows, key=lambda row: row.error)
    sigma = next(row for row in part.rows if row.lengths == "sigma-coupled")
    whole = part.compared_rows == source.n_nodes
    compared = "all pairs" if whole else f"{part.compared_rows} random rows of the matrix"
    question = (
        f"How similar are two nodes of a graph? The kernel {part.kernel} answers this for every pair of the "
        f"{source.n_nodes:,} nodes of {source.name!r} ({source.n_edges:,} edges). Graph random features, which "
        "are meant for graphs too large for exact methods, estimate it here on a graph small enough for a check: "
        f"{part.n_walks} random walks per node, compared with the exact kernel ({compared}; computed in "
        f"{_seconds(part.exact_seconds)})."
    )
    error = (
        "Distance between the estimated and the exact matrix, relative to the norm of the exact one: 0.1 means "
        "10 %. Lower at the same number of walks is better; four times as many independent walks halve it."
    )
    lengths = (
        f"'independent' walks each end with probability {part.p_halt:g} before each step; 'antithetic', "
        "'sigma-coupled' (as in the paper) and 'stratified' couple the lengths of walks from the same node so "
        "that they differ; 'truncated' walks all have the same length. 'compressed powers', the default sampler, "
        "uses no walks: it propagates whole distributions with as many entries as the other rows have walks."
    )
    directions = "'stratified' sends walks that are at the same node to different neighbours."
    cost = (
        "Cost per node in time (for compressed powers, edges read instead of steps) and in memory. Seconds are "
        "for all nodes together."
    )
    who = f"With the same {part.n_walks} walks per node, {best.lengths} lengths and {best.directions} directions"
    if best.lengths == COMPRESSED:
        who = f"With {part.n_walks} entries instead of {part.n_walks} walks, compressed powers"
    finding = (
        f"{who} reduce the error of independent walks by a factor of {baseline.error / best.error:.1f}, with "
        f"{best.steps:.0f} steps per node instead of {baseline.steps:.0f}."
    )
    coupled = _compared(baseline, sigma)
    if part.p_halt < 0.3:
        coupled += " Coupling of lengths matters more when walks end early (--p-halt 0.3)."
    return Section(
        title=f"Graph random features: {source.name}",
        question=question,
        reading=(("error", error), ("lengths", lengths), ("directions", directions), ("steps, non-zeros", cost)),
        columns=("lengths", "directions", "error (± std. error)", "improvement", "steps", "non-zeros", "seconds"),
        rows=tuple(
            (
                row.lengths,
                row.directions,
                _error(row),
                f"{baseline.error / row.error:.2f} ×",
                f"{row.steps:.0f}",
                f"{row.nonzeros:.1f}",
                f"{row.seconds:.4f}",
            )
            for row in part.rows
        ),
        n_words=2,
        best=(part.rows.index(best),),
        findings=(finding, coupled, *([_TOO_SHORT.format(part.p_halt)] if part.too_short else [])),
    )


def _interpolation(part: InterpolationPart) -> Section:
    unit = f" ({part.unit})" if part.unit else ""
    noisy = f" with added noise of standard deviation {part.noise:g}" if part.noise else ""
    calibrated = [row for row in part.rows[1:] if row.coverage >= _CALIBRATED]
    constant, default, diffusion = part.rows
    question = (
        f"What is the {part.signal} where it was not observed? {part.n_observed:,} of the "
        f"{part.source.n_nodes:,} nodes of {part.source.name!r} are observed{noisy}; a Gaussian process on the "
        f"graph predicts the value at {part.n_predicted:,} others, with uncertainty."
    )
    coverage = (
        "Fraction of true values within the 95 % intervals: 0.95 is calibrated, less is overconfident, more is "
        "conservative."
    )
    deviation = (
        "Root mean square of the predicted standard deviations: the error that the method expects. It is close to "
        "the RMSE when the method is calibrated."
    )
    finding = (
        f"By default, kernels are compared by their evidence; here the best is the {part.kernel}. It has "
        f"{_share(default, constant)} of the error of the mean of the observations; the diffusion kernel with the "
        f"normalized Laplacian has {_share(diffusion, constant)}."
    )
    return Section(
        title=f"Prediction with uncertainty: {part.source.name}",
        question=question,
        reading=(
            ("RMSE", "Root mean square error of the predictions; lower is better."),
            ("coverage", coverage),
            ("expected", deviation),
        ),
        columns=("method", f"RMSE{unit}", "95 % coverage", f"expected{unit}", "seconds"),
        rows=tuple(
            (
                row.method,
                f"{row.rmse:#.4g}",
                f"{row.coverage:.3f}",
                f"{row.deviation:#.4g}",
                "-" if row.seconds is None else f"{row.seconds:.2f}",
            )
            for row in part.rows
        ),
        n_words=1,
        best=(part.rows.index(min(calibrated, key=lambda row: row.rmse)),) if calibrated else (),
        caption=f"In bold: the lowest error among processes with at least {100 * _CALIBRATED:.0f} % coverage.",
        findings=(
            finding,
            *_narrow(part),
            *part.notes,
        ),
    )


def _share(row: InterpolationRow, constant: InterpolationRow) -> str:
    return f"{100 * row.rmse / constant.rmse:.0f} %"


def _narrow(part: InterpolationPart) -> list[str]:
    """Which intervals are too narrow, and why those of the first of them are."""
    narrow = [row for row in part.rows[1:] if row.coverage < _CALIBRATED]
    if not narrow:
        return []
    row = narrow[0]
    rows = " and ".join(f"'{row.method}' ({100 * row.coverage:.1f} %)" for row in narrow)
    held = f"The intervals of {rows} are too narrow; they should contain 95 % of the true values."
    if not part.noise:
        why = (
            f"With {part.n_predicted} values, the standard error of the coverage is at least "
            f"{100 * math.sqrt(0.95 * 0.05 / part.n_predicted):.1f} %, and more if errors are correlated; "
            "measurements also have outliers that Gaussian noise does not describe."
        )
    elif row.fitted_noise is None or row.fitted_noise <= part.noise:
        why = "The signal is rougher in some places than a kernel with a single lengthscale allows."
    else:
        expected = math.hypot(row.deviation, math.sqrt(row.fitted_noise**2 - part.noise**2))
        why = (
            f"The noise fitted by the first has standard deviation {row.fitted_noise:.3g}, more than the "
            f"{part.noise:g} that was added: variation between nodes that is too fast for the kernel is fitted "
            "as noise, which the standard deviation of the noise-free function excludes. If it is included, the "
            f"expected error is {expected:.3g}, compared with an RMSE of {row.rmse:.3g}."
        )
    return [f"{held} {why}"]


def _through_time(part: TimePart) -> Section:
    usual, process, _, ahead = part.rows
    finding = (
        f"At hidden sensors, the Gaussian process has an RMSE of {process.rmse:.3g} mph, and the mean for the "
        f"time of day one of {usual.rmse:.3g} mph; forecasts for the next three hours at the others have an "
        f"RMSE of {ahead.rmse:.3g} mph. The graph kernel selected is the {part.kernel}. Training and prediction "
        f"took {_seconds(part.seconds)}."
    )
    return Section(
        title=f"Traffic through time: {part.source.name}",
        question=(
            f"How fast was the traffic where there is no sensor, and how fast will it be? {part.n_hidden} of the "
            f"{part.source.n_nodes} sensors of {part.source.name!r} are hidden at all {part.n_times} times, and "
            "the last three hours are hidden at every sensor; a Gaussian process on graph and time predicts both."
        ),
        reading=(
            ("RMSE", "Root mean square error of the predictions in miles per hour; lower is better."),
            ("coverage", "Fraction of readings within the 95 % intervals: 0.95 is calibrated."),
        ),
        columns=("method", "where", "RMSE (mph)", "95 % coverage"),
        rows=tuple(
            (row.method, row.where, f"{row.rmse:#.4g}", "-" if row.coverage is None else f"{row.coverage:.3f}")
            for row in part.rows
        ),
        n_words=2,
        best=tuple(
            part.rows.index(min((row for row in part.rows if row.where == where), key=lambda row: row.rmse))
            for where in dict.fromkeys(row.where for row in part.rows)
        ),
        findings=(finding,),
    )


def _pagerank(part: PageRankPart) -> Section:
    baseline = part.rows[0]
    best = min(part.rows, key=lambda row: row.error)
    question = (
        f"Which nodes of {part.source.name!r} are important? The PageRank of a node is the probability that a "
        "walk which starts at a random node, follows random edges and ends with probability "
        f"{part.p_halt:g} before each step ends there. It is estimated from {part.n_walks} walks per node and "
        "compared with the exact scores."
    )
    error = (
        "Sum over all nodes of |estimated - exact|. Scores sum to 1, so 0.05 means that 2.5 % of the total score "
        "is at the wrong nodes."
    )
    estimator = (
        "'endpoints' counts only where walks end (as in the paper), 'visits' counts every node that they visit."
    )
    coupling = (
        "How the lengths of walks from the same node depend on each other; 'pooled' moves all walkers at a node "
        "together."
    )
    exact = (
        f"Power iteration took {_seconds(part.exact_seconds)} ({part.exact_iterations} products with the "
        "transition matrix). Use it if one vector of scores is wanted and the graph fits into memory."
    )
    comparison = (
        f"With {part.n_walks} walks per node, {best.estimator} of {best.coupling} walks reduce the error of end "
        f"points of independent walks by a factor of {baseline.error / best.error:.1f}."
    )
    leaders = ", ".join(f"{name} ({score:.4f})" for name, score in part.top[:3])
    return Section(
        title=f"PageRank from random walks: {part.source.name}",
        question=question,
        reading=(("L1 error", error), ("estimator", estimator), ("coupling", coupling), ("exact", exact)),
        columns=("estimator", "coupling", "L1 error (± std. error)", "improvement", "steps", "seconds"),
        rows=tuple(
            (
                row.estimator,
                row.coupling,
                _error(row),
                f"{baseline.error / row.error:.2f} ×",
                f"{row.steps:.0f}",
                f"{row.seconds:.4f}",
            )
            for row in part.rows
        ),
        n_words=2,
        best=(part.rows.index(best),),
        findings=(comparison, f"The nodes with the highest exact scores are {leaders}."),
    )


def _error(row: GramRow | PageRankRow) -> str:
    return f"{row.error:.4f} ± {row.stderr:.4f}"


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else f"{float(f'{1000 * value:.2g}'):g} ms"
