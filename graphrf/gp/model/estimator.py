"""The common part of estimators on the nodes of a graph: parameters and tags of scikit-learn."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.metadata_routing import UNUSED

from graphrf._base import checks
from graphrf.gp.model.answers import Titles
from graphrf.graph.graph import Graph, given_nodes

without_alpha = checks.without(
    "alpha",
    "is scikit-learn's name of the noise variance: pass `noise`, one for all observations or an "
    "array with one for each",
)
without_offset = checks.without(
    "offset",
    "is not an argument of fit; that of a generalised linear model is the logarithm of the "
    "exposure: pass exposure=np.exp(offset) with likelihood='poisson' or another one of rates, and "
    "a known part of other means as `mean`",
)
without_exposure = checks.without(
    ("exposure", "trials"),
    "is an argument of `fit`: predictions are per unit of exposure and of one trial, to be "
    "multiplied by those of new observations",
)
without_rates = checks.without(
    ("exposure", "trials"), "is an argument of `fit`, as it belongs to the observations"
)


class NodeEstimator(BaseEstimator):
    """Nested parameters, tags and the names of columns; the only feature is the node."""

    graph: Graph
    _titles: Titles

    # Otherwise scikit-learn would treat `nodes`, which it calls X, as metadata that may be
    # requested.
    __metadata_request__fit = {"nodes": UNUSED}  # noqa: RUF012
    __metadata_request__predict = {"nodes": UNUSED}  # noqa: RUF012

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings, and with `deep` those of kernel, numerics, likelihood and prior:
        `kernel__lengthscale`.
        """
        params: dict[str, Any] = super().get_params(deep=deep)
        return params | _nested(params) if deep else params

    def set_params(self, **params: Any) -> Self:
        """Change settings; `kernel__lengthscale=2.0` replaces the kernel. ValueError for unknown
        names.
        """
        refuse_names(self, params)
        super().set_params(**{name: value for name, value in params.items() if "__" not in name})
        for outer, changes in _grouped(params).items():
            whole = self.get_params(deep=False).get(outer)
            setattr(self, outer, _changed(whole, outer, changes, type(self).__name__))
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.input_tags.string = True
        tags.target_tags.multi_output = isinstance(self, RegressorMixin)
        return tags

    @property
    def n_features_in_(self) -> int:
        """1, once fitted: the node."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError(
                f"{type(self).__name__} has no `n_features_in_` before it is fitted"
            )
        return 1

    def __sklearn_is_fitted__(self) -> bool:
        raise NotImplementedError

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first")

    def _keep_titles(self, nodes: Any, y: Any, mean: Any = None) -> None:
        """Keep the titles of data frames: of the nodes' column beside `y`, of their index, and of
        outputs.
        """
        names = _columns(nodes)
        if y is not None and names is not None:
            self.feature_names_in_ = names
        rows = () if y is not None and hasattr(nodes, "iloc") else (nodes, y)  # else it is of rows
        self._titles = Titles.of(nodes if y is None else y, *rows, mean)

    def _queried(self, nodes: Any) -> np.ndarray:
        """Positions of queried nodes; a data frame's column must have the name that it had in
        `fit`.
        """
        refuse_features(self.graph, nodes)
        names, known = _columns(nodes), getattr(self, "feature_names_in_", None)
        if names is not None and known is not None and list(names) != list(known):
            raise ValueError(
                "The feature names should match those that were passed during fit: "
                f"`nodes` has the columns {list(names)}, and had {list(known)}"
            )
        return given_nodes(self.graph, nodes)

    def _frame(self, nodes: Any, columns: Mapping[Any, np.ndarray]) -> Any:
        """A data frame with a row for each of the nodes."""
        names = [
            self.graph.nodes[position] for position in NodeEstimator._queried(self, nodes).tolist()
        ]
        # The index of a Series of nodes is of its rows.
        return self._titles.frame(names, columns, None if hasattr(nodes, "iloc") else nodes)


def refuse_names(estimator: BaseEstimator, params: Mapping[str, Any]) -> None:
    """ValueError for parameters that are none, where scikit-learn's has the estimator's repr."""
    known = list(estimator.get_params(deep=False))
    for name in params:
        if name.partition("__")[0] not in known:
            near = checks.did_you_mean(name, known)
            raise ValueError(
                f"Invalid parameter {name!r} for estimator {type(estimator).__name__}: "
                f"{f'{near} ' * bool(near)}it has {', '.join(known)}"
            )


def refuse_features(graph: Graph, nodes: Any) -> None:
    """TypeError for features, coordinates or averages of nodes in the place of nodes."""
    first = nodes[0] if isinstance(nodes, list | tuple) and nodes else None
    if isinstance(first, Mapping):
        raise checks.type_error(
            "nodes",
            f"must be one node for each observation, got {checks.describe(first)}: a cell of the "
            "column that Nodes(graph, kernel, by=...) of LatentGaussianModel reads may be an "
            "average of nodes, a dictionary of their weights",
        )
    shape = tuple(getattr(nodes, "shape", ()))
    named = hasattr(nodes, "columns")
    is_real = named or getattr(getattr(nodes, "dtype", None), "kind", "O") == "f"
    if len(shape) != 2 or shape[1] < 2 or not is_real:
        return
    if not (named and any(isinstance(name, tuple) for name in graph.nodes[:1])):
        columns = f", columns {', '.join(map(repr, list(nodes.columns)[:3]))}" if named else ""
        raise checks.type_error(
            "nodes",
            f"must have shape (n,) or (n, 1), got {shape}{columns}: the inputs of the model, X of "
            "scikit-learn, are nodes. Features of these are covariates, mean=X of GraphGPRegressor "
            "or x=X of its `fit`, or the formula of LatentGaussianModel, which may end a Pipeline "
            "that prepares them; of coordinates, scipy.spatial.cKDTree(xyz).query(...)[1] gives "
            "the positions of the nearest of all nodes, and FieldGPRegressor takes points",
        )


def _nested(params: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of dataclasses among some parameters, and of those in these:
    `numerics__sampler__n_walks`.
    """
    own = {
        f"{name}__{inner}": getattr(value, inner)
        for name, value in params.items()
        for inner in _fields(value)
    }
    return own | _nested(own) if own else own


def _grouped(params: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Changes of nested parameters, by the outer one."""
    groups: dict[str, dict[str, Any]] = {}
    for name, value in params.items():
        outer, delimiter, inner = name.partition("__")
        if delimiter:
            groups.setdefault(outer, {})[inner] = value
    return groups


def _changed(whole: Any, outer: str, changes: Mapping[str, Any], estimator: str) -> Any:
    """A dataclass with other arguments, all at once."""
    known = _fields(whole)
    for inner in (name.partition("__")[0] for name in changes):
        if inner not in known:
            whose = (
                f"{whole!r} has {', '.join(known)}"
                if known
                else f"{checks.describe(whole)} has none"
            )
            raise ValueError(
                f"Invalid parameter {f'{outer}__{inner}'!r} for estimator {estimator}: "
                f"`{outer}` must be an object with the parameter {inner!r}, but {whose}"
            )

    flat = {name: value for name, value in changes.items() if "__" not in name}
    flat |= {
        name: _changed(getattr(whole, name), f"{outer}__{name}", inner, estimator)
        for name, inner in _grouped(changes).items()
    }
    return dataclasses.replace(whole, **flat)


def _fields(value: Any) -> list[str]:
    """The arguments that a dataclass was made with; none of another object."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return []
    return [own.name for own in dataclasses.fields(value) if own.init]


def _columns(nodes: Any) -> np.ndarray | None:
    """The names of a data frame's columns, if they are strings."""
    names = list(getattr(nodes, "columns", ()))
    return (
        np.array(names, dtype=object)
        if names and all(isinstance(name, str) for name in names)
        else None
    )


def checked_weights(weights: Any, n: int, noun: str = "node") -> np.ndarray | None:
    """`sample_weight` of n observations, shape (n,), float64; None for none."""
    if weights is None:
        return None

    values = checks.finite("sample_weight", checks.array("sample_weight", weights, np.float64))
    if values.ndim == 0:
        values = np.full(n, float(values))
    if values.shape != (n,):
        raise checks.value_error(
            "sample_weight",
            f"must be a number or have shape ({n},), one weight for each {noun} of `{noun}s`, got "
            f"{values.shape}",
        )

    if (values < 0).any() or not values.any():
        raise checks.value_error(
            "sample_weight",
            "must not be negative, nor all zero: an observation of weight 0 is left out",
        )
    return values


def forget(estimator: Any, private: tuple[str, ...]) -> None:
    """Make an estimator unfitted, so that a fit that fails leaves nothing of the one before."""
    for name in [name for name in vars(estimator) if name.endswith("_") or name in private]:
        delattr(estimator, name)
