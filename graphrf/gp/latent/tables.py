"""Tables of a fitted latent Gaussian model: a summary, ranks, and what is printed."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import rankdata

from graphrf._base import checks
from graphrf._base.memory import needs_memory
from graphrf.gp.latent.columns import as_pandas_frame
from graphrf.gp.latent.exploration import Sample
from graphrf.gp.latent.predictor import LESS_MEMORY, QUANTILES, LatentPredictor, law_rows
from graphrf.gp.model.mean_function import TABLE
from graphrf.gp.posterior.marginals import MarginalMixture
from graphrf.gp.search.coordinates import Parameter
from graphrf.gp.terms.covariate import Covariate
from graphrf.gp.terms.steps import StepAxis
from graphrf.gp.terms.term import ProductTerm, Term, VaryingCoefficient

# The width of what is printed.
_WIDTH = 80


class WithTables(LatentPredictor):
    """The tables of a fitted latent Gaussian model."""

    formula: str
    likelihood: Any
    hyperparameters: str
    log_marginal_likelihood_: float
    converged_: bool
    warnings_: list[str]
    _sample: Sample
    _coefficient_rows: Callable[[], sp.csr_array]
    _given_terms: Callable[[], list[Term]]

    def summary(self, transform: str | None = None) -> Any:
        """A data frame of the coefficients and hyperparameters: mean, sd, and the 2.5, 50 and 97.5
        % quantiles.

        Those of hyperparameters are of the weighted points; with "mode" mean and 50 % quantile are
        the mode, and the others NaN. Beside the lengthscale of `Nodes` is
        `kernels.correlation_range`, as of a graph that fills the plane. `.round(2)`,
        `.to_latex(escape=True)` (with jinja2) and `.to_markdown()` (with tabulate) make the table
        of a paper.

        Parameters
        ----------
        transform : {None, "exp"}
            "exp" gives the coefficients alone as ratios, exp(beta): of rates under a log link, of
            odds for proportions, events and ordered levels. Quantiles are transformed; mean and sd
            are those of exp(beta), by its moments under the posterior.

        Examples
        --------
        >>> import numpy as np, pandas as pd
        >>> from graphrf.gp import LatentGaussianModel
        >>> rng = np.random.default_rng(0)
        >>> frame = pd.DataFrame({"share": rng.uniform(size=200)})
        >>> frame["cases"] = rng.poisson(3 * 2 ** frame["share"])  # a rate ratio of 2
        >>> model = LatentGaussianModel("cases ~ share", likelihood="poisson").fit(frame)
        >>> model.summary(transform="exp").loc["share", ["0.025", "0.5", "0.975"]].round(1).tolist()
        [1.8, 2.3, 2.9]
        """
        self._check_fitted()
        if transform is not None:
            checks.choice("transform", transform, ("exp",))
        import pandas

        law = self._law(self._coefficient_rows())
        rows = law_rows(law) if transform is None else _exponential_rows(law)
        table: dict[str, Any] = dict(zip(self._design.names, rows, strict=True))
        if transform is None:
            table |= self._hyperparameter_rows()
        return pandas.DataFrame.from_dict(table, orient="index", columns=list(TABLE))

    @needs_memory(LESS_MEMORY)
    def ranks(
        self, frame: Any = None, *, top: int = 5, n_samples: int = 4_000, seed: int | None = None
    ) -> Any:
        """The posterior of ranks among the rows of a frame, by their expected observations.

        Rank 1 has the largest. Rows of a league table are those of one year, say, with covariates
        as they are or alike: `model.ranks(frame[frame["year"] == 2022].set_index("district",
        drop=False))`. `graphrf.plot.plot_ranking` draws it.

        Examples
        --------
        >>> import pandas as pd
        >>> from graphrf.gp import Groups, LatentGaussianModel
        >>> frame = pd.DataFrame({"ward": list("abcdef") * 10, "cases": [9, 2, 3, 1, 2, 4] * 10})
        >>> model = LatentGaussianModel("cases ~ 1", Groups("ward"), "poisson", seed=0).fit(frame)
        >>> wards = frame.head(6).set_index("ward", drop=False)
        >>> model.ranks(wards, top=1, seed=0)["0.5"].to_dict()
        {'a': 1, 'b': 4, 'c': 3, 'd': 6, 'e': 4, 'f': 2}

        Parameters
        ----------
        frame : DataFrame, optional
            As in `predict`; of the fit by default.
        top : int
            A number of first ranks.
        n_samples : int
            Joint draws of all rows.
        seed : int, optional

        Returns
        -------
        DataFrame
            With the index of the frame: the 2.5, 50 and 97.5 % quantiles of the rank, and the
            probability that it is at most `top`.
        """
        top = checks.integer("top", top, low=1)
        draws, index = self._draws_of_rows(frame, n_samples, seed)
        ranks = rankdata(-draws, method="min", axis=1)
        import pandas

        # Quantiles of ranks are ranks.
        ends = np.quantile(ranks, QUANTILES, axis=0, method="inverted_cdf")
        table: dict[str, Any] = dict(zip(TABLE[2:], ends, strict=True))
        table[f"P(rank <= {top})"] = (ranks <= top).mean(axis=0)
        return pandas.DataFrame(table, index=index)

    def __str__(self) -> str:
        """The constructor; once fitted, at most ten lines on data, model and posterior."""
        if not hasattr(self, "_points"):
            return repr(self)
        parts = {
            "LatentGaussianModel": (f"fitted to {self._described_data()}", 2),
            "formula": (f"{self.formula}, {self._described_likelihood()}", 1),
            "terms": (" + ".join(map(_described, self._given_terms())) or "none", 2),
            "hyperparameters": (self._described_hyperparameters(), 3),
            "posterior": (self._described_posterior(), 1),
            "warnings": ("; ".join(self.warnings_) or "none", 1),
        }
        lines = []
        for name, (text, most) in parts.items():
            wrapped = textwrap.wrap(text, _WIDTH, max_lines=most, placeholder=" ...")
            lines += [
                f"{title:<20}{line}" for title, line in zip_longest([name], wrapped, fillvalue="")
            ]
        return "\n".join(lines)

    # -- inside ------------------------------------------------------------------------------------

    def _draws_of_rows(
        self, frame: Any, n_samples: int, seed: int | None
    ) -> tuple[np.ndarray, Any]:
        """Joint draws of the expected observations, shape (n_samples, rows), and their labels."""
        draws = self.sample(frame, n_samples, seed=seed)
        return draws, (self._frame if frame is None else as_pandas_frame(frame)).index

    def _hyperparameter_rows(self) -> dict[str, Any]:
        """Rows of the summary for hyperparameters and what is derived from them."""
        vectors, weights = self._sample
        table = {}
        for k, (name, parameter) in enumerate(self._named_parameters()):
            table[name] = _weighted_row(
                np.array([parameter.value(x) for x in vectors[:, k]]), weights
            )
        for name, values in self._derived(vectors):
            table[name] = _weighted_row(values, weights)
        return table

    def _named_parameters(self) -> list[tuple[str, Parameter]]:
        """All hyperparameters by unique names: several terms may read the same columns."""
        parameters = (*self._joint.parameters, *self._data.parameters())
        counts = Counter(each.name for each in parameters)
        result = []
        for each in parameters:
            terms = [number for number, term in enumerate(self._bound) if each in term.parameters]
            result.append(
                (f"{each.name}, term {terms[0]}" if counts[each.name] > 1 else each.name, each)
            )
        return result

    def _derived(self, vectors: np.ndarray) -> list[tuple[str, np.ndarray]]:
        """Names and values of what terms derive from hyperparameters, at vectors of these."""
        result: dict[str, tuple[tuple[Parameter, ...], np.ndarray]] = {}
        for number, term in enumerate(self._bound):
            points = [self._joint.values(vector, term) for vector in vectors]
            values = {name: np.array([point[name] for point in points]) for name in points[0]}
            for name, numbers in term.structure.derived(values).items():
                if name in result and result[name][0] != term.structure.parameters:
                    name = f"{name}, term {number}"
                result.setdefault(name, (term.structure.parameters, numbers))
        return [(name, numbers) for name, (_, numbers) in result.items()]

    def _described_data(self) -> str:
        """Rows, and the levels of each column that terms read."""
        counts: dict[str, str] = {}
        for axis in (axis for term in self._bound for axis in term.axes):
            noun = "levels" if axis.graph is None else "nodes"
            ends = f" ({axis.levels[0]} to {axis.levels[-1]})" if isinstance(axis, StepAxis) else ""
            counts.setdefault(axis.column, f"{len(axis.levels)} {noun} of {axis.column}{ends}")
        return "; ".join([f"{self._data.offset.size} rows", *counts.values()])

    def _described_likelihood(self) -> str:
        beside = [
            f"{name}={value}" if isinstance(value := getattr(self, name), str) else f"{name} given"
            for name in ("exposure", "trials", "event")
            if getattr(self, name) is not None
        ]
        name = self.likelihood if isinstance(self.likelihood, str) else repr(self.likelihood)
        return ", ".join([str(name), *beside])

    def _described_hyperparameters(self) -> str:
        """Medians and 95 % intervals, or modes."""
        rows = self._hyperparameter_rows()
        if self.hyperparameters == "mode":
            return ", ".join(f"{name} {row[0]:.3g}" for name, row in rows.items()) or "none"
        texts = (f"{name} {row[3]:.3g} [{row[2]:.3g}, {row[4]:.3g}]" for name, row in rows.items())
        return ", ".join(texts) or "none"

    def _described_posterior(self) -> str:
        n = len(self._points)
        points = (
            "at the mode of the hyperparameters"
            if self.hyperparameters == "mode"
            else f"averaged over {n} {'sets' if n > 1 else 'set'} of hyperparameters"
        )
        return points if self.converged_ else f"{points}, not converged"


def _exponential_rows(law: MarginalMixture) -> np.ndarray:
    """A row of exp(x) for each of the marginals of x, whose parts are log-normal, shape (q, 5)."""
    with np.errstate(over="ignore", invalid="ignore"):
        means = np.exp([part.mean + part.variance / 2 for part in law.parts])
        within = np.square(means) * np.expm1([part.variance for part in law.parts])
        mean = law.probabilities @ means
        sd = np.sqrt(law.probabilities @ (within + np.square(means - mean)))
        return np.column_stack([mean, sd, np.exp(law.quantiles(np.array(QUANTILES)))])


def _weighted_row(values: np.ndarray, weights: np.ndarray) -> list[Any]:
    """The row of weighted values, whose quantiles are interpolated between them; NaN where one
    value says nothing of a spread.
    """
    mean = float(weights @ values)
    if values.size == 1:
        return [mean, math.nan, *(mean if level == 0.5 else math.nan for level in QUANTILES)]
    sd = float(np.sqrt(weights @ np.square(values - mean)))
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(weights[order])
    return [mean, sd, *np.interp(QUANTILES, ends - 0.5 * weights[order], values[order]).tolist()]


def _described(term: Term | Covariate) -> str:
    """A term by its class, columns, and kernel or kind."""
    if isinstance(term, ProductTerm):
        return f"{_described(term.first)} * {_described(term.second)}"
    if isinstance(term, VaryingCoefficient):
        return f"{_described(term.column)} * {_described(term.term)}"
    if isinstance(term, Covariate):
        return f"Covariate({term.by})"
    kernel = getattr(term, "kernel", None)
    kind = getattr(term, "kind", None) if kernel is None else type(kernel).__name__
    words = [*term.columns, *([kind] if kind else [])]
    return f"{type(term).__name__}({', '.join(words)})"
