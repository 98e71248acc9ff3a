"""Steps: effects along time, age, or any other ordered column, as a term."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf.gp.terms.axis import Extension, LevelAxis, labels_in
from graphrf.gp.terms.parameters import BetaPrior, Parameter, checked_prior
from graphrf.gp.terms.step_structures import Autoregression, MaternSteps, RandomWalk, Seasonal
from graphrf.gp.terms.structure import Independent, Structure, Values
from graphrf.gp.terms.term import Term

KINDS = ("iid", "ar1", "rw1", "rw2", "seasonal", "matern")
# Levels of a random walk, whose scale takes a spectrum.
_MOST = 2_000
# How near increments must be to multiples of the smallest one.
_WHOLE = 1e-6


@dataclass(frozen=True)
class Steps(Term):
    r"""Effects of the ordered levels of a column.

    Parameters
    ----------
    by : str
        The column: numbers or dates.
    kind : {"iid", "ar1", "rw1", "rw2", "seasonal", "matern"}
        Independent effects; a stationary autoregression; random walks of first and second order, which sum to zero
        and are scaled so that the geometric mean of their variances is 1; a pattern of `period` levels that may
        change; a Matern process. ar1, rw1 and matern take unequal steps; rw2 and seasonal take whole multiples of
        the smallest one, and levels that are missing between others are added.
    period : int, optional
        Levels of a season.
    nu : {0.5, 1.5}
        The smoothness of the Matern process.
    prior : mapping, optional
        Priors by name: `sd`; of "ar1" `correlation`, a `BetaPrior` of (1 + correlation) / 2; of "matern"
        `lengthscale`, in units of the column. Default: `PenalisedDeviation()`, `BetaPrior(5, 2)`, and a log-normal
        with median a tenth of the range and factor 4.

    Notes
    -----
    rw2 says nothing of a linear trend, which has a flat prior; in a product with another term the trend is left
    out, as types II to IV of Knorr-Held 2000 demand. New levels in `predict` are forecasts.

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
        checks.choice("kind", self.kind, KINDS)
        if (self.kind == "seasonal") != (self.period is not None):
            raise checks.value_error(
                "period", f"is the number of levels of a season, for kind='seasonal' alone, got {self.period!r}"
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
        return (StepAxis(self, labels_in(frame[self.by])),)


class StepAxis(LevelAxis):
    """Ordered levels: those of the data, and those missing between them where steps must be equal."""

    def __init__(self, term: Steps, labels: list[Hashable]) -> None:
        self.column, self._term = term.by, term
        places = _numbers(term.by, labels)
        order = np.argsort(places)
        places, labels = places[order], [labels[k] for k in order]
        if places.size < 3:
            raise checks.value_error(term.by, f"must have at least 3 levels for Steps, got {places.size}")
        increments = np.diff(places)
        self._step = float(increments.min())
        whole = np.round(increments / self._step)
        self._equal = bool((np.abs(increments / self._step - whole) < _WHOLE).all())
        if term.kind in ("rw2", "seasonal"):
            if not self._equal:
                raise checks.value_error(
                    term.by,
                    f"must have equal steps for kind={term.kind!r}, got steps from {increments.min():g} to "
                    f"{increments.max():g}; use 'rw1', 'ar1' or 'matern'",
                )
            every = np.concatenate([[0], np.cumsum(whole)]).astype(int)
            filled = dict(zip(every.tolist(), labels, strict=True))
            numbers = isinstance(labels[0], int | float)
            places = places[0] + self._step * np.arange(int(every[-1]) + 1)
            labels = [filled.get(k, each if numbers else f"step {k}") for k, each in enumerate(places.tolist())]
        if term.kind in ("rw1", "rw2") and places.size > _MOST:
            raise checks.value_error(
                term.by, f"must have at most {_MOST:,} levels for kind={term.kind!r}, got {places.size:,}: round "
                "them, or use 'ar1' or 'matern'"
            )  # fmt: skip
        self.levels, self._places = labels, places
        self._parameter = self._trained()
        self.structure = self._structure(places)

    @property
    def factor(self) -> Structure:
        if self._term.kind == "seasonal":
            raise checks.value_error(
                "terms", f"of kind 'seasonal', such as {self._term!r}, take no part in products"
            )
        if self._term.kind == "rw2":
            return RandomWalk(np.diff(self._places) / self._step, 2, closed=True)
        return self.structure

    def extension(self, values: Any, hyperparameters: Values) -> Extension:
        known = self.lookup
        labels = [label for label in labels_in(values) if label not in known]
        if not labels:
            return super().extension(values, hyperparameters)
        places = _numbers(self.column, labels)
        order = np.argsort(places)
        labels, places = [labels[k] for k in order], places[order]
        forward = places > self._places[-1]
        if not forward.all() and self._term.kind in ("rw2", "seasonal"):
            raise self.unknown([labels[k] for k in np.flatnonzero(~forward)])
        if self._term.kind in ("rw2", "seasonal"):
            ahead = (places - self._places[-1]) / self._step
            if (np.abs(ahead - np.round(ahead)) > _WHOLE).any():
                raise self.unknown(labels)
            more = np.arange(1, int(np.round(ahead.max())) + 1)
            new_places = self._places[-1] + self._step * more
            index = {label: int(np.round(each)) - 1 for label, each in zip(labels, ahead, strict=True)}
        else:
            new_places, index = places, {label: place for place, label in enumerate(labels)}
        every = np.concatenate([self._places, new_places])
        by_time = np.argsort(every, kind="stable")
        whole = self._structure(every[by_time], like=self.structure).precision(hyperparameters)
        position = np.empty(every.size, dtype=int)
        position[by_time] = np.arange(every.size)
        states = self.structure.size // self._places.size
        n, k = self._places.size, new_places.size
        shift = np.arange(states)[:, None] * every.size
        old_at = (shift + position[:n]).ravel()
        new_at = (shift + position[n:]).ravel()
        precision = sp.csr_array(whole[new_at][:, new_at])
        mean = -np.linalg.solve(precision.toarray(), whole[new_at][:, old_at].toarray())
        old, new, _ = self._read(values, index, k * states)
        return Extension(sp.csr_array(old + new @ mean), new, precision, sp.csr_array((0, k * states)))

    def _trained(self) -> Parameter | None:
        term, prior = self._term, self._term.prior or {}
        if term.kind == "ar1":
            law = checked_prior("correlation", "proportion", prior.get("correlation", BetaPrior(5.0, 2.0)))
            if self._equal:
                return Parameter(
                    f"correlation({term.by})", "correlation", 0.5, -0.999, 0.9999, law, ("rho", id(term))
                )
            return Parameter(f"correlation({term.by})", "proportion", 0.5, 1e-3, 0.9999, law, ("rho", id(term)))
        if term.kind == "matern":
            span = float(np.ptp(self._places))
            law = checked_prior("lengthscale", "positive", prior.get("lengthscale", (0.1 * span, 4.0)))
            ends = 0.1 * self._step, 100 * span
            return Parameter(f"lengthscale({term.by})", "positive", 0.1 * span, *ends, law, ("length", id(term)))
        return None

    def _structure(self, places: np.ndarray, like: Structure | None = None) -> Structure:
        """The prior at some places; `like` another one, with its scale."""
        kind, increments = self._term.kind, np.diff(places) / self._step
        if kind == "iid":
            return Independent(places.size)
        if kind == "ar1":
            assert self._parameter is not None
            return Autoregression(increments, self._parameter)
        if kind == "matern":
            assert self._parameter is not None
            return MaternSteps(places, self._parameter, self._term.nu)
        if kind == "seasonal":
            assert self._term.period is not None
            return Seasonal(places.size, self._term.period)
        return RandomWalk(increments, int(kind[-1]), like=like if isinstance(like, RandomWalk) else None)


def _numbers(column: str, labels: list[Hashable]) -> np.ndarray:
    """Numbers of ordered labels: dates are counted in days."""
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    if all(isinstance(label, int | float | np.number) for label in labels):
        array = np.asarray(labels)
    if array.dtype.kind == "O" and all(hasattr(label, "timestamp") for label in labels):
        array = np.array([np.datetime64(label) for label in labels])
    if array.dtype.kind == "M":
        return np.asarray(array.astype("datetime64[us]").astype(np.int64) / 86_400e6)
    if array.dtype.kind not in "iuf":
        raise checks.type_error(column, f"must hold numbers or dates for Steps, got {labels[0]!r}")
    return checks.finite(column, array.astype(np.float64))
