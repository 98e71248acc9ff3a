"""`graphrf fit` and `graphrf predict`: regression of a signal on a graph, also through time."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any

from graphrf.cli.options.commands import refuse_unused, require_known
from graphrf.cli.options.graphs import Reading, load
from graphrf.cli.options.kernels import KernelChoice
from graphrf.cli.options.messages import Talking, shortened
from graphrf.cli.options.nodes import NodeNames
from graphrf.cli.options.observations import Covariates, ObservedColumns, read_covariates
from graphrf.cli.options.output import Result, aligned, check_output, deliver, facts_table
from graphrf.cli.options.table import LIKELIHOOD_NAMES
from graphrf.cli.space_time import fit_through_time, predict_through_time

if TYPE_CHECKING:
    from graphrf.gp.regression import GraphGPRegressor

FIT_EXAMPLES = (
    "graphrf fit roads.csv observed.csv -o model.npz --seed 0",
    "graphrf fit roads.csv observed.csv --kernel matern --laplacian combinatorial -o m.npz",
    (
        "graphrf fit districts.csv cases.csv --kernel bym2 --likelihood poisson --exposure "
        "expected -o risk.npz"
    ),
    "graphrf fit generated-grid heat.csv --target-column celsius --covariates height -o m.npz",
    "graphrf fit roads.csv speeds.csv --time date -o traffic.npz --seed 0",
)
PREDICT_EXAMPLES = (
    "graphrf predict model.npz -o predictions.csv",
    "graphrf predict model.npz --nodes a,b --observation",
    "graphrf predict risk.npz --above 1.5",
    "graphrf predict model.npz --samples 5 --seed 0 -o draws.csv",
    "graphrf predict traffic.npz --nodes a,b --times '2024-05-06 07:30,2024-05-06 08:00'",
)


def fit(
    graph: str,
    observations: str,
    output: str,
    observed: ObservedColumns,
    reading: Reading,
    choice: KernelChoice,
    talking: Talking,
    time: str | None = None,
    covariates: str | None = None,
    exposure: str | None = None,
    trials: str | None = None,
    likelihood: str = "gaussian",
    method: str = "auto",
    noise: float | None = None,
    output_scale: float | None = None,
    optimize: bool = True,
    max_train: int | None = None,
    seed: int | None = None,
    threads: int | None = None,
) -> None:
    """Fit a Gaussian process to values observed at nodes, once or through time, and save it."""
    check_output(output, [graph, observations], [".npz"])
    if time is not None:
        single = {
            "--method": None if method == "auto" else method,
            "--likelihood": None if likelihood == "gaussian" else likelihood,
            "--noise": noise,
            "--output-scale": output_scale,
            "--no-optimize": None if optimize else True,
            "--covariates": covariates,
            "--exposure": exposure,
            "--trials": trials,
        }
        refuse_unused(single, (), "`--time`: hyperparameters through time are trained")
        fit_through_time(
            graph,
            observations,
            output,
            time,
            observed,
            reading,
            choice,
            talking,
            max_train,
            seed,
            threads,
        )
        return

    require_known("--likelihood", likelihood, LIKELIHOOD_NAMES)
    if choice.kernel is None and choice.laplacian is not None:
        raise ValueError(
            "`--laplacian` needs `--kernel`: without a kernel, both Laplacians are compared"
        )
    if choice.kernel is None and not optimize:
        raise ValueError(
            "`--no-optimize` needs `--kernel`: without a kernel, several are trained and compared"
        )

    kernel = choice.made() or "auto"
    loaded = load(graph, reading, talking)
    found = observed.read(observations, NodeNames.of_graph(loaded.graph))
    x = None if covariates is None else Covariates.of(found.table, covariates.split(","))
    factors = {
        "exposure": found.factors(exposure, "exposure"),
        "trials": found.factors(trials, "trials"),
    }
    seed = talking.settled(seed)

    from graphrf.gp import GraphGPRegressor, Numerics

    numerics = Numerics(n_threads=threads)
    if max_train is not None:
        numerics = dataclasses.replace(numerics, max_train=max_train)
    gp = GraphGPRegressor(
        loaded.graph,
        kernel=kernel,
        likelihood=likelihood,
        method=method,
        noise=noise,
        output_scale=output_scale,
        optimize=optimize,
        seed=seed,
        numerics=numerics,
        progress=talking.progress,
    ).fit(found.positions, found.targets, x=x, **factors)
    # Progress bars and threads are not the next run's.
    gp.set_params(progress=False, numerics__n_threads=None).save(output)
    talking.remark(f"written to {output}")

    facts = {"graph": loaded.facts, "observations": observations, "seed": seed, "output": output}
    facts["candidates"] = [
        {"kernel": repr(kernel), "log_evidence": evidence, "probability": probability}
        for kernel, evidence, probability in gp.candidates_
    ]
    fitted = _fitted(gp)
    deliver(Result("fit", (), facts, fitted, lambda: _summary(gp, fitted)), None, talking)


def _fitted(gp: GraphGPRegressor) -> dict[str, Any]:
    """The fitted hyperparameters and how they were determined."""
    counts = hasattr(gp, "likelihood_")
    variance = {"likelihood": repr(gp.likelihood_)} if counts else {"noise": float(gp.noise_)}
    coefficients = {
        f"coefficient of {name}": float(value)
        for name, value in zip(gp._coefficients.names, gp._coefficients.mean, strict=True)
        if name != "constant"
    }

    return {
        "kernel": repr(gp.kernel_),
        "output_scale": float(gp.output_scale_),
        **variance,
        "mean": float(gp.mean_),
        **coefficients,
        "log_marginal_likelihood": float(gp.log_marginal_likelihood_),
        "observations": gp.n_observations_,
        "observed_nodes": gp.n_observed_nodes_,
        "method": gp.method_,
        "solver": gp.solver_,
        "points": gp.n_points_,
        "converged": bool(gp.converged_),
    }


def _summary(gp: GraphGPRegressor, fitted: dict[str, Any]) -> str:
    """The fitted hyperparameters for people, and the kernels if several were compared."""
    table = facts_table("fitted", fitted)
    if len(gp.candidates_) == 1:
        return table
    compared = [
        (shortened(repr(kernel)), f"{evidence:.2f}", f"{probability:.3f}")
        for kernel, evidence, probability in gp.candidates_
    ]
    return f"{table}\n{aligned(('kernels compared', 'log evidence', 'probability'), compared)}"


def _check_samples(samples: int | None, seed: int | None) -> None:
    if seed is not None and samples is None:
        raise ValueError(
            "`--seed` is not used without `--samples`: means and standard deviations are not random"
        )
    if samples is not None and samples < 1:
        raise ValueError(f"`--samples` must be at least 1, got {samples}")


def _chosen(
    gp: GraphGPRegressor, names: NodeNames, nodes: str | None, covariates: str | None
) -> tuple[Any, Any]:
    """The nodes to predict at, None for all, and their covariates, None for those of `fit`."""
    if covariates is not None:
        titles = [name for name in gp._coefficients.names if name != "constant"]
        return read_covariates(covariates, titles, names)
    return None if nodes is None else names.chosen(nodes, "--nodes"), None


def predict(
    model: str,
    talking: Talking,
    nodes: str | None = None,
    times: str | None = None,
    covariates: str | None = None,
    above: float | None = None,
    observation: bool = False,
    samples: int | None = None,
    seed: int | None = None,
    threads: int | None = None,
    output: str | None = None,
) -> None:
    """Predict means and standard deviations at nodes of a fitted model's graph, at any times."""
    check_output(output, [model])
    _check_samples(samples, seed)
    from graphrf._base.files.arrays import record_format

    if (record_format(model) or "").startswith("graphrf graph-time"):
        refuse_unused({"--covariates": covariates, "--above": above}, (), "a model through time")
        predict_through_time(
            model, talking, nodes, times, observation, samples, seed, threads, output
        )
        return

    if times is not None and os.path.isfile(model):
        raise ValueError(
            f"`--times` cannot be used with {model}, which is not a model through time (`fit "
            "--time`)"
        )
    if covariates is not None and nodes is not None:
        raise ValueError(
            "`--nodes` and `--covariates` exclude each other: the file of covariates has the nodes"
        )
    from graphrf.gp import GraphGPRegressor

    gp: GraphGPRegressor = GraphGPRegressor.load(model)
    gp.set_params(numerics__n_threads=threads, progress=talking.progress)
    names = NodeNames.of_graph(gp.graph)
    chosen, x = _chosen(gp, names, nodes, covariates)
    mean, std = gp.predict(chosen, return_std="observation" if observation else True, x=x)
    columns: dict[str, Any] = {"node": names.of(chosen), "mean": mean, "std": std}

    facts: dict[str, Any] = {
        "model": model,
        "kernel": repr(gp.kernel_),
        "std_of": "observation" if observation else "function",
    }
    if above is not None:
        columns["probability"] = gp.probability(chosen, above=above, x=x)
        facts["above"] = above
    if samples is not None:
        facts["seed"] = seed = talking.settled(seed)
        draws = gp.sample(chosen, n_samples=samples, seed=seed, x=x)
        columns |= {f"sample_{number}": draw for number, draw in enumerate(draws, start=1)}

    deliver(Result("predict", list(columns.items()), facts), output, talking)
