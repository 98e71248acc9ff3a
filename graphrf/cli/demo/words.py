"""The parts of the demo in words and cells: what is estimated, how to read the numbers, what came out."""

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
    "Walks that end with probability {:g} before every step are too short for this kernel: all but the truncated "
    "ones have a huge variance. A smaller --p-halt makes them longer."
)
# Intervals for 95 % that hold less are called too narrow.
_HONEST = 0.93


@dataclass(frozen=True)
class Section:
    """One part, ready to be laid out.

    Attributes
    ----------
    title, question : str
        What is estimated, from what.
    reading : pairs of a term and its meaning
        What the columns hold and what a good number looks like.
    columns : headers
    rows : cells, as many as there are columns
    n_words : columns of words, the first ones; the others hold numbers
    best : the row to point out, by position
    findings : sentences, the result in short
    """

    title: str
    question: str
    reading: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    n_words: int
    best: int
    findings: tuple[str, ...]


def section(part: Part) -> Section:
    """The words and cells of a part."""
    if isinstance(part, GramPart):
        return _kernel(part)
    if isinstance(part, InterpolationPart):
        return _interpolation(part)
    if isinstance(part, TimePart):
        return _through_time(part)
    return _pagerank(part)


def _compared(baseline: GramRow, sigma: GramRow) -> str:
    """What sigma coupling does to the error, if it is more than twice the standard error of the difference."""
    noise = 2 * math.hypot(baseline.stderr, sigma.stderr)
    if abs(baseline.error - sigma.error) <= noise:
        return "Sigma coupling of the lengths alone makes no difference beyond the noise here."
    return f"Sigma coupling of the lengths alone divides the error by {baseline.error / sigma.error:.2f}."


def _kernel(part: GramPart) -> Section:
    source, baseline = part.source, part.rows[0]
    best = min(part.rows, key=lambda row: row.error)
    sigma = next(row for row in part.rows if row.lengths == "sigma-coupled")
    whole = part.compared_rows == source.n_nodes
    compared = "all pairs" if whole else f"{part.compared_rows} random rows of the matrix"
    question = (
        f"How alike are two nodes of a graph? The kernel {part.kernel} says so for every pair of the "
        f"{source.n_nodes:,} nodes of {source.name!r} ({source.n_edges:,} edges). Here it is estimated from "
        f"{part.n_walks} random walks from each node, and compared with the exact kernel ({compared}; computed "
        f"in {_seconds(part.exact_seconds)})."
    )
    error = (
        "How far the estimated matrix is from the exact one, relative to its size: 0.1 is 10 % off. Lower at "
        "equal walks is better; four times as many independent walks halve it."
    )
    lengths = (
        f"'independent' walks each end with probability {part.p_halt:g} before every step; 'antithetic', "
        "'sigma-coupled' (the paper) and 'stratified' make the lengths of one node's walks differ; 'truncated' "
        "walks all have the same length. 'compressed powers', the default sampler, has no walks: it follows whole "
        "distributions, of as many entries as there are walks in the other rows."
    )
    directions = "'stratified' sends the walks of a node that stand together to different neighbours."
    cost = (
        "For each node: the cost in time and in memory; of powers the edges read, in place of steps. Seconds are "
        "for all nodes."
    )
    who = f"With the same {part.n_walks} walks a node, {best.lengths} lengths and {best.directions} directions"
    if best.lengths == COMPRESSED:
        who = f"With {part.n_walks} entries in place of as many walks, compressed powers"
    finding = (
        f"{who} have {baseline.error / best.error:.1f} times less error than independent walks, with "
        f"{best.steps:.0f} steps a node instead of {baseline.steps:.0f}."
    )
    coupled = _compared(baseline, sigma)
    if part.p_halt < 0.3:
        coupled += " Couplings of lengths matter more where walks end early (--p-halt 0.3)."
    return Section(
        title=f"A graph kernel from random walks: {source.name}",
        question=question,
        reading=(("error", error), ("lengths", lengths), ("directions", directions), ("steps, non-zeros", cost)),
        columns=("lengths", "directions", "error (± std. error)", "better by", "steps", "non-zeros", "seconds"),
        rows=tuple(
            (
                row.lengths,
                row.directions,
                _error(row),
                f"{baseline.error / row.error:.2f} x",
                f"{row.steps:.0f}",
                f"{row.nonzeros:.1f}",
                f"{row.seconds:.4f}",
            )
            for row in part.rows
        ),
        n_words=2,
        best=part.rows.index(best),
        findings=(finding, coupled, *([_TOO_SHORT.format(part.p_halt)] if part.too_short else [])),
    )


def _interpolation(part: InterpolationPart) -> Section:
    unit = f" ({part.unit})" if part.unit else ""
    noisy = f", with noise of deviation {part.noise:g} added" if part.noise else ""
    best = min(part.rows, key=lambda row: row.rmse)
    constant, default, diffusion, sampled = part.rows
    question = (
        f"What is the {part.signal} where nobody looked? {part.n_observed:,} of the {part.source.n_nodes:,} "
        f"nodes of {part.source.name!r} are observed{noisy}; a Gaussian process on the graph predicts "
        f"{part.n_predicted:,} others, and says how sure it is."
    )
    coverage = (
        "How often the truth lies within the stated 95 % interval: 0.95 is honest, less is overconfident, more "
        "is overcautious."
    )
    deviation = "The error that the method itself expects: near the RMSE is honest, small is useful."
    finding = (
        f"By default kernels are compared by their evidence; here the best is the {part.kernel}. It predicts "
        f"{constant.rmse / default.rmse:.1f} times better than the mean of the observations, the diffusion kernel "
        f"with the normalized Laplacian {constant.rmse / diffusion.rmse:.1f} times, and sampled rows of that "
        f"({part.sampler}), which are for graphs beyond exact methods, {constant.rmse / sampled.rmse:.1f} times."
    )
    return Section(
        title=f"A signal with uncertainty: {part.source.name}",
        question=question,
        reading=(
            ("RMSE", "The typical error of a prediction; lower is better."),
            ("coverage", coverage),
            ("deviation", deviation),
        ),
        columns=("method", f"RMSE{unit}", "95 % coverage", f"deviation{unit}", "seconds"),
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
        best=part.rows.index(best),
        findings=(
            finding,
            *(sentence for row in part.rows[1:] for sentence in _narrow(part, row)),
            *part.notes,
        ),
    )


def _narrow(part: InterpolationPart, row: InterpolationRow) -> list[str]:
    """Why a row's intervals are too narrow."""
    if row.coverage >= _HONEST:
        return []
    held = (
        f"The intervals of '{row.method}' are too narrow: they hold {row.coverage:.3f} of the true values, not "
        "0.95."
    )
    if not part.noise:
        return [
            (
                f"{held} With {part.n_predicted} values the standard error is "
                f"{math.sqrt(0.95 * 0.05 / part.n_predicted):.3f}, more where they go together; measured values "
                "also have larger errors, now and then, than normal noise has."
            )
        ]
    if row.fitted_noise is None or row.fitted_noise <= part.noise:
        return [f"{held} The signal is less smooth in some places than the one kernel that serves all of them."]
    taken = row.fitted_noise**2 - part.noise**2
    return [
        (
            f"{held} Training found noise of standard deviation {row.fitted_noise:.3g}, more than the "
            f"{part.noise:g} that was added: what varies from node to node faster than the kernel can follow is "
            "noise to it, and the deviations, those of the function without noise, leave it out. With it the "
            f"expected error is {math.hypot(row.deviation, math.sqrt(taken)):.3g}, beside an RMSE of "
            f"{row.rmse:.3g}."
        )
    ]


def _through_time(part: TimePart) -> Section:
    usual, process, _, ahead = part.rows
    finding = (
        f"At hidden sensors the process has an error of {process.rmse:.3g} mph, the mean of the time of day one "
        f"of {usual.rmse:.3g}; three hours ahead at the others it is {ahead.rmse:.3g}. The graph kernel that was "
        f"chosen is the {part.kernel}. Training and predictions took {_seconds(part.seconds)}."
    )
    return Section(
        title=f"Traffic through time: {part.source.name}",
        question=(
            f"How fast was the traffic where no sensor stands, and how fast will it be? {part.n_hidden} of the "
            f"{part.source.n_nodes} sensors of {part.source.name!r} are hidden for all of {part.n_times} times, "
            "and the last three hours at all of them; a Gaussian process on graph and time predicts both."
        ),
        reading=(
            ("RMSE", "The typical error of a prediction in miles an hour; lower is better."),
            ("coverage", "How often the reading lies within the stated 95 % interval: 0.95 is honest."),
        ),
        columns=("method", "where", "RMSE (mph)", "95 % coverage"),
        rows=tuple(
            (row.method, row.where, f"{row.rmse:#.4g}", "-" if row.coverage is None else f"{row.coverage:.3f}")
            for row in part.rows
        ),
        n_words=2,
        best=part.rows.index(min(part.rows, key=lambda row: row.rmse)),
        findings=(finding,),
    )


def _pagerank(part: PageRankPart) -> Section:
    baseline = part.rows[0]
    best = min(part.rows, key=lambda row: row.error)
    question = (
        f"Which nodes of {part.source.name!r} matter? PageRank: the chance that a walk which begins anywhere, "
        f"follows random edges, and ends with probability {part.p_halt:g} before every step, ends at a node. "
        f"Estimated from {part.n_walks} walks from each node, and compared with the exact scores."
    )
    error = (
        "The sum over all nodes of |estimated - exact|. Scores sum to 1, so 0.05 means that 2.5 % of the score "
        "sits on wrong nodes."
    )
    estimator = "'endpoints' counts where walks end (the paper), 'visits' every node that they pass."
    coupling = (
        "How the lengths of one node's walks depend on each other; 'pooled' moves all walkers that stand on a "
        "node together."
    )
    exact = (
        f"Power iteration took {_seconds(part.exact_seconds)} ({part.exact_iterations} products with the graph's "
        "matrix): for one vector of a graph that fits into memory, use that."
    )
    comparison = (
        f"From {part.n_walks} walks a node, {best.estimator} of {best.coupling} walks have "
        f"{baseline.error / best.error:.1f} times less error than end points of independent walks."
    )
    leaders = ", ".join(f"{name} ({score:.4f})" for name, score in part.top[:3])
    return Section(
        title=f"PageRank from random walks: {part.source.name}",
        question=question,
        reading=(("L1 error", error), ("estimator", estimator), ("coupling", coupling), ("the exact way", exact)),
        columns=("estimator", "coupling", "L1 error (± std. error)", "better by", "steps", "seconds"),
        rows=tuple(
            (
                row.estimator,
                row.coupling,
                _error(row),
                f"{baseline.error / row.error:.2f} x",
                f"{row.steps:.0f}",
                f"{row.seconds:.4f}",
            )
            for row in part.rows
        ),
        n_words=2,
        best=part.rows.index(best),
        findings=(comparison, f"The highest exact scores: nodes {leaders}."),
    )


def _error(row: GramRow | PageRankRow) -> str:
    return f"{row.error:.4f} ± {row.stderr:.4f}"


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else f"{float(f'{1000 * value:.2g}'):g} ms"
