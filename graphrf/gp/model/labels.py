"""Labels of nodes, checked, and counted by node and class."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from graphrf._base import checks


class Labels(NamedTuple):
    """n labels of C classes at m distinct nodes."""

    nodes: np.ndarray  # increasing, int64
    counts: np.ndarray  # (m, C): labels of each class at each node, or their sum of weights
    bias: np.ndarray  # (C,): logarithms of the classes' shares among all labels, of sum 0

    @classmethod
    def of(cls, nodes: np.ndarray, codes: np.ndarray, n_classes: int, weights: np.ndarray | None = None) -> Labels:
        """Labels by node position and class number, with positive weights, shape (n,) each; every class occurs."""
        distinct, where = np.unique(nodes, return_inverse=True)
        counts = np.zeros((distinct.size, n_classes))
        np.add.at(counts, (where, codes), 1.0 if weights is None else weights)
        return cls.of_counts(distinct, counts)

    @classmethod
    def of_counts(cls, nodes: np.ndarray, counts: np.ndarray) -> Labels:
        """Labels by their counts at distinct nodes; every class occurs."""
        shares = np.log(counts.sum(axis=0))
        return cls(nodes, counts, shares - shares.mean())

    def subset(self, chosen: np.ndarray) -> Labels:
        """Labels of some of the nodes, given by their place; the bias stays that of all."""
        return Labels(self.nodes[chosen], self.counts[chosen], self.bias)


def checked_labels(labels: Any, n: int, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The classes that occur among the labels of `n` nodes, sorted, and the place of each label among them.

    Of labels with weights only those are left whose weights are positive.
    """
    array = checks.array("labels", labels)
    if array.ndim and array.dtype.kind in "US" and any(isinstance(label, float) for label in labels):
        array = np.array(labels, dtype=object)  # among words numpy makes the word "nan" of what is missing
    if n == 0:
        raise checks.value_error("nodes", "must hold at least one node, got none")
    if array.shape == (n, 1):
        array = array[:, 0]
    if array.shape != (n,):
        raise checks.value_error(
            "labels", f"must have shape ({n},), one label for each node of `nodes`, got {array.shape}"
        )
    array = _words_or_integers(array)
    classes, codes = np.unique(array if weights is None else array[weights > 0], return_inverse=True)
    if classes.size < 2:
        raise checks.value_error(
            "labels",
            f"must hold at least two classes, got one class only, {classes.tolist()[0]!r}: there is nothing to "
            "learn",
        )
    return classes, codes


def _words_or_integers(labels: np.ndarray) -> np.ndarray:
    """Labels, objects as strings, once none is missing and all are of a kind that names classes."""
    kind = labels.dtype.kind
    if kind == "O":
        others = sorted({type(label).__name__ for label in labels if not isinstance(label, str)})
        if others:
            way_out = "; leave nodes without a label out" if {"float", "NoneType"} & set(others) else ""
            raise checks.type_error(
                "labels",
                "must be strings or integers (Unknown label type), got objects of type "
                f"{', '.join(others)}{way_out}",
            )
        return labels.astype(str)
    if kind not in "biufUS":
        raise checks.type_error("labels", f"must be strings or integers, got {checks.describe(labels)}")
    if kind == "f":
        missing = np.flatnonzero(~np.isfinite(labels))
        if missing.size:
            raise checks.value_error(
                "labels",
                f"must be finite, got {labels[missing[0]]} at position {missing[0]}; leave nodes without a label "
                "out",
            )
        if not np.array_equal(labels, np.floor(labels)):
            raise checks.value_error(
                "labels", "must be strings or integers, got continuous values: GraphGPRegressor is for these"
            )
    return labels
