"""Steps: effects along time, age, or any other ordered column, as a term."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf._base.memory import require_memory
from graphrf.gp.search.coordinates import Parameter
from graphrf.gp.terms.covariate import require_column
from graphrf.gp.terms.levels import Extension, LevelAxis, labels_in, nothing_new
from graphrf.gp.terms.parameters import BetaPrior, PositiveCorrelation, checked_prior
from graphrf.gp.terms.places import NEAR, SAME, Ruler, Spacing
from graphrf.gp.terms.step_structures import Autoregression, MaternSteps, RandomWalk, Seasonal
from graphrf.gp.terms.structure import Independent, Structure, Values
from graphrf.gp.terms.term import Term

KINDS = ("iid", "ar1", "rw1", "rw2", "seasonal", "matern")
# Bytes of an entry of the dense precision of new levels, with the copies that a solve takes.
_ENTRY = 24.0
# Levels, of which the scale of a random walk takes dense algebra.
_MOST = {"rw1": 2_000, "rw2": 2_000, "seasonal": 1_000_000}
# The longest lengthscale in units of the shortest increment: beyond it, the precision of a
# differentiable process has too few digits.
_LONGEST = 3e4


@dataclass(frozen=True)
class Steps(Term):
    r"""Effects of the ordered levels of a column.

    Parameters
    ----------
    by : str
        The column: numbers or dates.
    kind : {"iid", "ar1", "rw1", "rw2", "seasonal", "matern"}
        Independent effects; a stationary autoregression; random walks of first and second order,
        which sum to zero and are scaled so that the geometric mean of their variances is 1; a
        pattern of `period` levels that may change; a Matern process. ar1, rw1 and matern take
        unequal steps; rw2 and seasonal take whole multiples of the smallest one, and levels that
        are missing between others are added.
    period : int, optional
        Levels of a season.
    nu : {0.5, 1.5}
        The smoothness of the Matern process.
    prior : mapping, optional
        Priors by name: `sd`; of "ar1" `correlation`, a `BetaPrior` of (1 + correlation) / 2, which
        is that of neighbours a usual step apart, and positive where steps are unequal; of "matern"
        `lengthscale`, in units of the column. Default: `PenalisedDeviation()`, `BetaPrior(5, 2)`,
        and a log-normal with median a tenth of the range and factor 4.

    Notes
    -----
    rw2 leaves a linear trend unpenalised (a flat prior). A product with another term has no mean,
    and with rw2 no trend, at each of its levels, as types II to IV of Knorr-Held 2000 demand: other
    terms or fixed effects must have them, or `fit` warns. New levels in `predict` are forecasts.

    The usual step is the lower quartile of the differences of neighbours. Levels that are within a
    thousandth of it from a grid with this step are read as on the grid, and as one where they are
    on one place of it. Dates count in days: in UTC, or on their own clock where all show the same
    time of day on it.

    Examples
    --------
    >>> from graphrf.gp import Steps
    >>> Steps("year", "rw1").label
    'year'

    Sources: Rue and Held 2005, Ch. 3; Sorbye and Rue 2014.
    """

    by: str
    kind: str = "rw1"
    period: int | None = None
    nu: float = 1.5
    prior: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        require_column(self.by)
        checks.choice("kind", self.kind, KINDS)
        if (self.kind == "seasonal") != (self.period is not None):
            raise checks.value_error(
                "period",
                "is the number of levels of a season, for kind='seasonal' alone, got "
                f"{self.period!r}",
            )

        if self.period is not None:
            checks.integer("period", self.period, low=2)
        if self.nu not in (0.5, 1.5):
            raise checks.value_error("nu", f"must be 0.5 or 1.5, got {checks.describe(self.nu)}")

        hyperparameter = {"ar1": "correlation", "matern": "lengthscale"}.get(self.kind)
        for name in self.prior or ():
            if name not in ("sd", hyperparameter):
                known = "sd" if hyperparameter is None else f"sd and {hyperparameter}"
                raise checks.value_error(
                    "prior", f"must be of {known} for kind={self.kind!r}, got one of {name!r}"
                )

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.by,)

    def axes(self, frame: Any) -> tuple[LevelAxis, ...]:
        return (StepAxis(self, labels_in(self.by, frame[self.by])),)


class StepAxis(LevelAxis):
    """Ordered levels: those of the data, and those missing where steps must be equal."""

    def __init__(self, term: Steps, labels: list[Hashable]) -> None:
        self.column, self._term = term.by, term
        self._ruler = Ruler.of(term.by, labels)
        places = self._ruler.places(labels)
        order = np.argsort(places, kind="stable")

        filled = term.kind in ("rw2", "seasonal")
        # Differentiable fields take more digits.
        same = NEAR if term.kind == "matern" and term.nu > 1 else SAME
        self._at = at = Spacing.of(self._ruler, places[order], finest=filled, same=same)

        firsts = np.concatenate([[0], np.flatnonzero(np.diff(at.level)) + 1])
        self.levels = [labels[k] for k in order[firsts]]
        self._require_levels(np.diff(places[order[firsts]]))

        if filled:
            present = dict(zip(at.places.tolist(), self.levels, strict=True))
            every = np.arange(at.places[-1] + 1)
            self._at = at._replace(places=every, level=at.places[at.level].astype(int))
            self.levels = [present.get(float(k), self._filled(int(k))) for k in every]

        self._known = {
            labels[k]: int(level) for k, level in zip(order, self._at.level, strict=True)
        }
        self._known.update({label: place for place, label in enumerate(self.levels)})

        self._parameter = self._trained()
        self.structure = self._structure(self._at.places)

    @property
    def lookup(self) -> Mapping[Hashable, int]:
        """The level of each label, of which several may be one level."""
        return self._known

    @property
    def factor(self) -> Structure:
        if self._term.kind == "seasonal":
            raise checks.value_error(
                "terms", f"of kind 'seasonal', such as {self._term!r}, take no part in products"
            )
        if self._term.kind == "rw2":
            return RandomWalk(np.diff(self._at.places), 2, closed=True)
        return self.structure

    def sums(self, structure: Structure) -> np.ndarray:
        """The sum of all levels; of rw2 in a product also that of levels times their places."""
        return np.asarray(structure.constraints.toarray())

    def way_out(self, other: str) -> str:
        if self._term.kind != "rw2":
            return super().way_out(other)
        return (
            f"add {self.column} * C({other}) to the formula, or take kind='ar1' or 'matern', which "
            "leave out neither"
        )

    def extension(self, values: Any, hyperparameters: Values) -> Extension:
        lookup = self.lookup
        labels = [label for label in labels_in(self.column, values) if label not in lookup]
        if not labels:
            return super().extension(values, hyperparameters)

        at = self._at
        places, level = at.on(self._ruler.places(labels))
        aliases = {label: int(k) for label, k in zip(labels, level, strict=True) if k >= 0}
        new = [
            (float(x), label) for x, label, k in zip(places, labels, level, strict=True) if k < 0
        ]

        self._require_forecasts(new)
        if not new:
            return Extension(self._read(values, {}, aliases=aliases)[0], *nothing_new(len(values)))

        states, more = self.structure.size // at.places.size, np.unique([x for x, _ in new])
        filled = self._term.kind in ("rw2", "seasonal")
        ahead = float(more[-1] - at.places[-1]) if filled else more.size
        require_memory(
            _ENTRY * (states * ahead) ** 2,
            f"forecasts of {ahead:,.0f} levels of `{self.column}`",
            "predict nearer levels, or fewer at a time",
        )

        if filled:
            more = np.arange(at.places[-1] + 1, more[-1] + 1)

        index = {label: int(np.searchsorted(more, x)) for x, label in new}
        every = np.concatenate([at.places, more])
        by_time = np.argsort(every, kind="stable")
        joint = self._structure(every[by_time], template=self.structure).precision(hyperparameters)
        position = np.empty(every.size, dtype=int)
        position[by_time] = np.arange(every.size)

        n, k = at.places.size, more.size
        shift = np.arange(states)[:, None] * every.size
        old_at = (shift + position[:n]).ravel()
        new_at = (shift + position[n:]).ravel()

        precision = sp.csr_array(joint[new_at][:, new_at])
        mean = -np.linalg.solve(precision.toarray(), joint[new_at][:, old_at].toarray())

        old, later, _ = self._read(values, index, k * states, aliases)
        return Extension(
            sp.csr_array(old + later @ mean), later, precision, sp.csr_array((0, k * states))
        )

    def _require_levels(self, gaps: np.ndarray) -> None:
        """ValueError for levels that this kind cannot have; `gaps` are those between levels."""
        term, at = self._term, self._at
        name, n = (
            term.by,
            int(at.places[-1] + 1 if term.kind in ("rw2", "seasonal") else at.places.size),
        )

        if at.places.size < 3:
            raise checks.value_error(
                name, f"must have at least 3 levels for Steps, got {at.places.size}"
            )

        if term.kind in ("rw2", "seasonal") and not at.equal:
            raise checks.value_error(
                name,
                f"must have equal steps for kind={term.kind!r}, got steps from {gaps.min():g} to "
                f"{gaps.max():g}: number them (12 * year + month for months), or use 'rw1', 'ar1' "
                "or 'matern'",
            )

        if n < (term.period or 0):
            raise checks.value_error(
                name,
                f"must have all {term.period} levels of a season, got {n}; use 'rw1' or 'ar1' for "
                "so few",
            )

        if n > (most := _MOST.get(term.kind, n)):
            raise checks.value_error(
                name,
                f"must have at most {most:,} levels for kind={term.kind!r}, got {n:,}: round "
                "them, or use 'ar1' or 'matern'",
            )

    def _require_forecasts(self, new: list[tuple[float, Hashable]]) -> None:
        """ValueError for new levels of which this kind says nothing."""
        filled = self._term.kind in ("rw2", "seasonal")
        if filled and (early := [label for x, label in new if x < self._at.places[-1]]):
            raise self.unknown(early)

        whole = filled or (self._term.kind == "ar1" and self._at.equal)
        between = [label for x, label in new if x != round(x)]
        if whole and between:
            raise checks.value_error(
                self.column,
                f"must be a whole number of steps of {self._at.step:g} from the levels of the fit "
                f"for kind={self._term.kind!r}, got {between[0]!r}: use 'rw1' or 'matern' for "
                "levels between steps",
            )

    def _filled(self, step: int) -> Hashable:
        """The label of a level that the data lack."""
        if self._ruler.dates:
            return f"step {step}"
        place = self._ruler.origin + self._at.first + self._at.step * step
        return int(place) if float(place).is_integer() else float(place)

    def _trained(self) -> Parameter | None:
        term, prior = self._term, self._term.prior or {}
        if term.kind == "ar1":
            # Neighbours are alike rather than opposite: the prior mean of a correlation is 3/7, and
            # its probability of values below 0 is 0.11.
            law = checked_prior(
                "correlation", "proportion", prior.get("correlation", BetaPrior(5.0, 2.0))
            )
            name, key = f"correlation({term.by})", ("rho", id(term))
            if self._at.equal:
                return Parameter(name, "correlation", 0.5, -0.999, 0.9999, law, key)
            law = None if law is None else PositiveCorrelation(law.a, law.b)  # type: ignore[union-attr]
            return Parameter(name, "proportion", 0.5, 1e-3, 0.9999, law, key)

        if term.kind == "matern":
            span = self._at.step * float(self._at.places[-1])
            # By the range, since the unit of the column, such as seconds, is arbitrary.
            law = (0.1 * span, 4.0)
            if "lengthscale" in prior:
                law = checked_prior("lengthscale", "positive", prior["lengthscale"])

            # At 100 ranges the ends have a correlation of 0.99 and more.
            shortest = self._at.step * float(np.diff(self._at.places).min())
            longest = min(100 * span, _LONGEST * shortest) if term.nu > 1 else 100 * span
            low, start = 0.1 * self._at.step, min(0.1 * span, 0.5 * longest)
            return Parameter(
                f"lengthscale({term.by})",
                "positive",
                start,
                low,
                longest,
                law,
                ("length", id(term)),
            )

        return None

    def _structure(self, places: np.ndarray, template: Structure | None = None) -> Structure:
        """The prior at some places, in steps; `template` is a walk with the scale to take."""
        kind, increments = self._term.kind, np.diff(places)
        if kind == "iid":
            return Independent(places.size)
        if kind == "ar1":
            assert self._parameter is not None
            return Autoregression(increments, self._parameter)
        if kind == "matern":
            assert self._parameter is not None
            return MaternSteps(self._at.step * places, self._parameter, self._term.nu)
        if kind == "seasonal":
            assert self._term.period is not None
            return Seasonal(places.size, self._term.period)
        return RandomWalk(
            increments,
            int(kind[-1]),
            template=template if isinstance(template, RandomWalk) else None,
        )
