"""Does `LatentGaussianModel` have the printed answers of the examples that everyone knows?

    python benchmarks/published/classics.py [--only Seeds Rats]

Examples of BUGS, lme4, glmmTMB, and of Durbin and Koopman; `_classics.py` says where their figures
are printed. The priors of BUGS are stated here: uniform ones of a deviation or a shape, and in
place of a precision's gamma(0.001, 0.001) a log-normal one that is as flat. The others are maximum
likelihood, for which `hyperparameters="mode"` takes the best coefficients; the diffuse likelihood
of state space models integrates over the level, as it does here if the level is a group of its own
with a wide prior.

Differences are over the printed standard deviations, over ours where none is printed; numbers
without any (variances, likelihoods) are compared as ratios.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import _classics as printed
import numpy as np
import pandas as pd
from _classics import BUGS, STATE_SPACE, Figures, R
from _table import Spent, loaded, start
from scipy.optimize import minimize

from graphrf.gp import Covariate, Groups, LatentGaussianModel, Steps
from graphrf.gp.terms import PenalisedDeviation

COLUMNS = ("example", "published", "here", "largest difference", "CPU s")
UNIFORM, LOG_FLAT = PenalisedDeviation(1e4, 0.5), (1.0, 1e6)
# A prior with density r^4 near r = 3: its logarithm has the slope log(median / r) / 2 - 1 in log r.
FOURTH_POWER = (3.0 * math.exp(10.0), math.exp(math.sqrt(2.0)))
AT_MODE: dict[str, Any] = {"hyperparameters": "mode", "prior": None, "seed": 0}


class Example(NamedTuple):
    """The title of a row, printed figures, ours, and which of them the row shows."""

    title: str
    published: Figures
    answers: Callable[[], Figures]
    shown: tuple[str, ...] = ()
    digits: int = 4


def summary(fitted: LatentGaussianModel, *names: str) -> dict[str, tuple[float, float | None]]:
    """The rows of a fit's summary by the names of the source; a deviation that is NaN is none."""
    rows = fitted.summary()[["mean", "sd"]].to_numpy().tolist()
    return {
        name: (mean, None if np.isnan(sd) else sd)
        for name, (mean, sd) in zip(names, rows, strict=True)
    }


def table(name: str) -> pd.DataFrame:
    """A data set of the registry as a frame, with its row numbers."""
    data = loaded(name)
    frame = pd.DataFrame(data.features, columns=list(data.extra["columns"]))
    for column, labels in data.extra["categories"].items():
        frame[column] = np.array(labels)[frame[column].astype(int)]
    return frame.assign(y=data.targets, row=np.arange(len(frame)), all=0)


# -- BUGS, volume 1 --------------------------------------------------------------------------------


def seeds() -> Figures:
    fitted = LatentGaussianModel(
        "r ~ 1 + x1 + x2 + x1:x2", Groups("plate", {"sd": UNIFORM}), "binomial", trials="n", seed=0
    ).fit(printed.seeds())
    return summary(fitted, "alpha0", "alpha1", "alpha2", "alpha12", "sigma")


def epil() -> Figures:
    frame = table("epil")
    frame.loc[(frame["subject"] == 8) & (frame["period"] == 3), "y"] = 21  # as BUGS has it
    frame["treated"] = (frame["trt"] == "progabide").astype(int)
    frame["log_base"] = np.log(frame["base"] / 4)
    fitted = LatentGaussianModel(
        "y ~ 1 + log_base + treated + log_base:treated + log(age) + V4",
        [Groups("row", {"sd": LOG_FLAT}), Groups("subject", {"sd": LOG_FLAT})],
        "poisson",
        seed=0,
    ).fit(frame)
    return summary(fitted, "alpha0", "Base", "Trt", "Age", "V4", "BT", "sigma.b", "sigma.b1")


def salm() -> Figures:
    fitted = LatentGaussianModel(
        "y ~ 1 + log(dose + 10) + I(dose / 1000)",
        Groups("plate", {"sd": LOG_FLAT}),
        "poisson",
        seed=0,
    ).fit(printed.salm())
    return summary(fitted, "alpha", "beta", "gamma", "sigma")


def surgical() -> Figures:
    frame = printed.surgical()
    fitted = LatentGaussianModel(
        "r ~ 1", Groups("hospital", {"sd": LOG_FLAT}), "binomial", trials="n", seed=0
    ).fit(frame)
    pairs = zip(*fitted.predict(frame, return_std=True), strict=True)
    return {f"p{number}": pair for number, pair in enumerate(pairs, start=1)}


def rats() -> Figures:
    rat = Groups("rat", {"sd": LOG_FLAT})
    fitted = LatentGaussianModel(
        "weight ~ 1 + age", [rat, Covariate("centred") * rat], prior={"scale": LOG_FLAT}, seed=0
    ).fit(printed.rats())
    return summary(fitted, "alpha0", "beta.c", "sd", "sd of slopes", "sigma")


def mice() -> Figures:
    """BUGS has exp(-exp(b) t^r) where graphrf has exp(-(t / exp(f))^r): b is -r f.

    Contrasts of b are products of posterior means here. A flat prior of the four b and a uniform
    one of r are r^4 in r where the f have flat priors.
    """
    fitted = LatentGaussianModel(
        "t ~ 1 + C(group)", (), "weibull", event="died", prior={"shape": FOURTH_POWER}, seed=0
    ).fit(printed.mice())
    found = summary(fitted, "irradiated", "pos.control", "test.sub", "veh.control", "r")
    r = found["r"][0]
    contrasts = {name: (-r * mean, r * float(sd or 0)) for name, (mean, sd) in found.items()}
    return contrasts | {"r": found["r"]}


# -- lme4 and glmmTMB ------------------------------------------------------------------------------


def deviance(fitted: LatentGaussianModel) -> Figures:
    return {"-2 log L": (-2 * fitted.log_marginal_likelihood_, None)}


def cbpp() -> Figures:
    fitted = LatentGaussianModel(
        "y ~ 1 + C(period)", Groups("herd"), "binomial", trials="size", **AT_MODE
    ).fit(table("cbpp"))
    found = summary(fitted, "intercept", "period 2", "period 3", "period 4", "sd")
    return found | deviance(fitted)


def grouseticks() -> Figures:
    fitted = LatentGaussianModel(
        "y ~ 1 + C(YEAR) + HEIGHT",
        [Groups("INDEX"), Groups("BROOD"), Groups("LOCATION")],
        "poisson",
        **AT_MODE,
    ).fit(table("grouseticks"))
    found = summary(fitted, "intercept", "1996", "1997", "height", "sds", "brood", "place")
    return found | deviance(fitted)


def sleepstudy() -> Figures:
    person = Groups("Subject")
    fitted = LatentGaussianModel(
        "y ~ 1 + Days", [person, Covariate("Days") * person], **AT_MODE
    ).fit(table("sleepstudy"))
    found = summary(fitted, "intercept", "slope", "variances", "slopes", "scale")
    return found | {name: (found[name][0] ** 2, None) for name in ("variances", "slopes")}


def owls() -> Figures:
    frame = table("owls")
    frame["arrival"] = frame["ArrivalTime"] - frame["ArrivalTime"].mean()
    fitted = LatentGaussianModel(
        "y ~ (C(FoodTreatment) + arrival) * C(SexParent)",
        Groups("Nest"),
        "zero_inflated_poisson",
        exposure="BroodSize",
        **AT_MODE,
    ).fit(frame)
    nest = fitted.effects("Nest").loc["AutavauxTV"]
    return {"AutavauxTV": (nest["mean"], nest["sd"])}


# -- Durbin and Koopman ----------------------------------------------------------------------------


def walk_scale(n: int) -> float:
    """The geometric mean of the variances of a random walk around its mean, by which `Steps` is
    scaled."""
    root = np.tril(np.ones((n, n - 1)), -1)
    root -= root.mean(axis=0)
    return float(np.exp(np.log((root**2).sum(axis=1)).mean()))


def best_level(response: str, terms: list[Any], frame: pd.DataFrame) -> Figures:
    """Maximum likelihood, of the level too."""
    fitted = LatentGaussianModel(f"{response} ~ 1", terms, **AT_MODE).fit(frame)
    return variances(fitted, frame)


def integrated_level(response: str, terms: list[Any], frame: pd.DataFrame) -> tuple[Figures, float]:
    """Maximum diffuse likelihood, and its logarithm, which leaves out the level's own density."""
    level = Groups("all", {"sd": (500.0, 1.5)})  # in standard deviations of the response
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the term of", UserWarning)  # no intercept: a term has it
        fitted = LatentGaussianModel(
            f"{response} ~ 0",
            [level, *terms],
            hyperparameters="mode",
            prior={"scale": None},
            seed=0,
        ).fit(frame)
    deviation = fitted.summary().loc["sd(all)", "mean"]
    log_likelihood = fitted.log_marginal_likelihood_ + math.log(deviation * math.sqrt(2 * math.pi))
    return variances(fitted, frame), log_likelihood


def variances(fitted: LatentGaussianModel, frame: pd.DataFrame) -> Figures:
    """The variances of noise, a step of the level, and the season, if there is one."""
    _, walk, *season, noise = np.square(fitted.summary()["mean"].to_numpy()).tolist()
    values = [noise, walk / walk_scale(len(frame)), *season]
    return {
        name: (value, None)
        for name, value in zip(("noise", "level", "season"), values, strict=False)
    }


def nile(integrated: bool) -> Figures:
    walk, frame = Steps("time", "rw1", prior={"sd": None}), table("nile")
    if not integrated:
        return best_level("y", [walk], frame)
    found, log_likelihood = integrated_level("y", [walk], frame)
    return {**found, "log L": (log_likelihood, None)}


def drivers() -> Figures:
    walk = Steps("row", "rw1", prior={"sd": None})
    season = Steps("row", "seasonal", period=12, prior={"sd": None})
    return integrated_level("log(y)", [walk, season], table("seatbelts"))[0]


def seat_belts() -> Figures:
    fitted = LatentGaussianModel(
        "log(y) ~ 1 + log(PetrolPrice) + law",
        [Steps("row", "rw1"), Steps("row", "seasonal", period=12)],
        **AT_MODE,
    ).fit(table("seatbelts"))
    return summary(fitted, "intercept", "petrol", "law", "walk", "season", "noise")


def trigonometric() -> Figures:
    """Both by dense algebra with a trigonometric season, as Durbin and Koopman have it."""
    frame = table("seatbelts")
    y, months = np.log(frame["y"].to_numpy()), frame["row"].to_numpy()
    walk = np.minimum.outer(months, months).astype(float)
    lags = np.subtract.outer(months, months) * (2 * np.pi / 12)
    parts = [np.eye(y.size), walk, walk * sum(np.cos(k * lags) for k in range(1, 7))]
    means = np.eye(12)[months % 12]  # of the months, flat
    effects = np.column_stack([np.log(frame["PetrolPrice"]), frame["law"]])

    def fit(logs: np.ndarray, x: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Minus the log of the diffuse likelihood, coefficients, and their covariance."""
        covariance = sum(v * part for v, part in zip(np.exp(logs), parts, strict=True))
        root = np.linalg.cholesky(covariance)
        a, b = np.linalg.solve(root, x), np.linalg.solve(root, y)
        inverse = np.linalg.inv(a.T @ a)
        beta = inverse @ (a.T @ b)
        value = 2 * np.log(np.diag(root)).sum() + np.sum((b - a @ beta) ** 2)
        return 0.5 * (value - np.linalg.slogdet(inverse)[1]), beta, inverse

    def best(x: np.ndarray) -> np.ndarray:
        settings = {"xatol": 1e-6, "fatol": 1e-9, "maxiter": 2000}
        first = np.log([3e-3, 1e-3, 1e-6])
        return minimize(lambda v: fit(v, x)[0], first, method="Nelder-Mead", options=settings).x

    names = ("noise", "level", "season")
    found: Figures = {name: (v, None) for name, v in zip(names, np.exp(best(means)), strict=True)}
    x = np.hstack([means, effects])
    _, beta, inverse = fit(best(x), x)
    pairs = zip(beta[-2:], np.sqrt(np.diag(inverse))[-2:], strict=True)
    return {**found, **dict(zip(("petrol", "law"), pairs, strict=True))}


NILE, DRIVERS, EFFECTS = STATE_SPACE["Nile"], STATE_SPACE["drivers"], STATE_SPACE["effects"]
EXAMPLES = (
    Example("Seeds", BUGS["Seeds"], seeds, ("alpha2", "sigma")),
    Example("Epil", BUGS["Epil"], epil, ("Trt", "sigma.b1")),
    Example("Salm", BUGS["Salm"], salm, ("gamma", "sigma")),
    Example("Surgical", BUGS["Surgical"], surgical, ("p1", "p8")),
    Example("Rats", BUGS["Rats"], rats, ("beta.c", "sigma")),
    Example("Mice", BUGS["Mice"], mice, ("veh.control", "r")),
    Example("cbpp", R["cbpp"], cbpp, ("period 4", "sd", "-2 log L"), 6),
    Example("grouseticks", R["grouseticks"], grouseticks, ("sds", "brood", "place", "-2 log L"), 8),
    Example("sleepstudy", R["sleepstudy"], sleepstudy, ("slope", "variances", "slopes"), 6),
    Example("Owls", R["Owls"], owls, (), 3),
    Example("Nile", NILE, lambda: nile(False), (), 5),
    Example("Nile, level integrated", NILE | STATE_SPACE["log L"], lambda: nile(True), (), 7),
    Example("UK drivers, level integrated", DRIVERS, drivers),
    Example("petrol and law", EFFECTS, seat_belts),
    Example("both, their season, dense", DRIVERS | EFFECTS, trigonometric, ("season", "petrol")),
)


def largest(published: Figures, here: Figures) -> str:
    """The largest difference in deviations, and the largest ratio of what has none."""
    sds, ratios = [], []
    for name, (value, deviation) in published.items():
        mean, own = here[name]
        if scale := deviation or own:
            sds.append(abs(mean - value) / scale)
        else:
            ratios.append(abs(mean / value - 1))
    cells = [f"{max(sds):.2f} sd"] if sds else []
    if ratios:
        percent = 100 * max(ratios)
        cells.append(f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %")
    return "; ".join(cells)


def written(figures: Figures, names: tuple[str, ...], digits: int) -> str:
    """Names with their figures; a deviation in brackets."""
    cells = ((name, *figures[name]) for name in names)
    return ", ".join(
        f"{name} {mean:.{digits}g}" + (f" ({sd:.3g})" if sd else "") for name, mean, sd in cells
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=[], help="the first words of rows")
    only = parser.parse_args().only
    start("Classics: means or estimates (standard deviations)", "pandas", columns=COLUMNS)
    surgical()  # compiles, if nothing has
    for example in EXAMPLES:
        if only and not example.title.startswith(tuple(only)):
            continue
        with Spent() as spent:
            here = example.answers()
        names = example.shown or tuple(example.published)
        cells = (
            example.title,
            written(example.published, names, example.digits),
            written(here, names, example.digits),
            largest(example.published, here),
            f"{spent.cpu:.1f}",
        )
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
