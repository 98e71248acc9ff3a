"""Labels of nodes, checked, and counted by node and class."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from graphrf._base import checks
from graphrf._base.warn import warn
from graphrf.graph.labels import is_missing

# Prior variance of the constant of each class: shares of two classes differ by factors of some e^3.
CONSTANT = 4.0
# Words that mark a missing label.
_PLACEHOLDERS = frozenset(
    "? - -- -1 na n/a nan none null nil unknown missing unlabelled unlabeled".split()  # noqa: SIM905
)


class Labels(NamedTuple):
    """n labels of C classes at m distinct nodes."""

    nodes: np.ndarray  # increasing, int64
    counts: np.ndarray  # (m, C): labels of each class at each node, or their sum of weights

    @classmethod
    def of(
        cls, nodes: np.ndarray, codes: np.ndarray, n_classes: int, weights: np.ndarray | None = None
    ) -> Labels:
        """Labels by node position and class number, with positive weights, shape (n,) each; every
        class occurs.
        """
        distinct, where = np.unique(nodes, return_inverse=True)
        counts = np.zeros((distinct.size, n_classes))
        np.add.at(counts, (where, codes), 1.0 if weights is None else weights)
        return cls(distinct, counts)

    def subset(self, chosen: np.ndarray) -> Labels:
        """Labels of some of the nodes, given by their place."""
        return Labels(self.nodes[chosen], self.counts[chosen])


def checked_labels(
    labels: Any, n: int, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The sorted classes of `n` labels, which nodes have a label, and the class number of each of
    these.

    Missing labels, -1 (scikit-learn's mark) and a weight of 0 mean that there is none.
    """
    if n == 0:
        raise checks.value_error("nodes", "must hold at least one node, got none")

    array = checks.array("labels", labels)
    if (
        array.ndim
        and array.dtype.kind in "US"
        and any(isinstance(label, float) for label in labels)
    ):
        # among words numpy makes the word "nan" of what is missing
        array = np.array(labels, dtype=object)

    if array.shape == (n, 1):
        array = array[:, 0]
    if array.shape != (n,):
        raise checks.value_error(
            "labels",
            f"must have shape ({n},), one label for each node of `nodes`, got {array.shape}",
        )

    labelled = _are_labels(array)
    array = _words_or_integers(array[labelled])
    if weights is not None:
        array, labelled = array[weights[labelled] > 0], labelled & (weights > 0)

    classes, codes = np.unique(array, return_inverse=True)
    if classes.size < 2:
        got = f"one class only, {classes.tolist()[0]!r}" if classes.size else "none"
        raise checks.value_error(
            "labels", f"must hold at least two classes, got {got}: there is nothing to learn"
        )

    named = [name for name in classes.tolist() if str(name).strip().casefold() in _PLACEHOLDERS]
    if named:
        warn(
            f"{', '.join(map(repr, named))} is taken for a class: if it stands for nodes without a "
            "label, leave them out, or give them the label -1 or None"
        )
    return classes, labelled, codes


def _are_labels(labels: np.ndarray) -> np.ndarray:
    """True for entries that are neither missing nor -1; with a warning if some are."""
    missing = np.array([is_missing(label) or label == "" for label in labels.tolist()], dtype=bool)
    unlabelled = np.array([_is_minus_one(label) for label in labels.tolist()], dtype=bool)
    others = {
        label for label, no in zip(labels.tolist(), missing | unlabelled, strict=True) if not no
    }

    if unlabelled.any() and len(others) < 2:  # then -1 can only be one of two classes
        warn(
            "-1 is taken for a class, because there is no other pair of classes, and not for nodes "
            "without a label"
        )
        unlabelled[:] = False
    elif unlabelled.any() or missing.any():
        warn(
            f"{int((unlabelled | missing).sum())} of {labels.size} labels are -1 or missing, which "
            "means that these nodes have none, as in scikit-learn: leave them out to end this "
            "warning"
        )
    return ~(missing | unlabelled)


def _is_minus_one(label: Any) -> bool:
    return isinstance(label, int | float) and not isinstance(label, bool) and label == -1


def _words_or_integers(labels: np.ndarray) -> np.ndarray:
    """Labels, objects as strings; errors for missing ones and other types."""
    kind = labels.dtype.kind

    if kind == "O":
        others = sorted({type(label).__name__ for label in labels if not isinstance(label, str)})
        if others:
            way_out = (
                "; leave nodes without a label out" if {"float", "NoneType"} & set(others) else ""
            )
            raise checks.type_error(
                "labels",
                "must be strings or integers (Unknown label type), got objects of type "
                f"{', '.join(others)}{way_out}",
            )
        return labels.astype(str)

    if kind not in "biufUS":
        raise checks.type_error(
            "labels", f"must be strings or integers, got {checks.describe(labels)}"
        )

    if kind == "f":
        missing = np.flatnonzero(~np.isfinite(labels))
        if missing.size:
            raise checks.value_error(
                "labels",
                f"must be finite, got {labels[missing[0]]} at position {missing[0]}; leave nodes "
                "without a label out",
            )
        if not np.array_equal(labels, np.floor(labels)):
            raise checks.value_error(
                "labels",
                "must be strings or integers, got continuous values: GraphGPRegressor is for these",
            )
    return labels
