"""A stand-in for features whose rows live elsewhere, and a record of what travels."""

from __future__ import annotations

import numpy as np

import graphrf as grf
from graphrf.features.matrix import step_squares
from graphrf.operators.factor import FactorBase
from tests.support.same_features import taken_rows


class Travels(list):
    """What was asked, in order: (name, columns, numbers that went and came)."""

    def note(self, name, *arrays):
        columns = max((array.shape[1] for array in arrays if array.ndim > 1), default=1)
        self.append((name, columns, sum(array.size for array in arrays)))

    def count(self, name):
        return sum(one == name for one, *_ in self)

    def widest(self, *names):
        return max(columns for name, columns, _ in self if name in names)


class PlainFactor(FactorBase):
    """A `Factor` in three blocks of rows, products alone; `error` multiplies all of them."""

    def __init__(self, features, travels, *, few=32, error=1.0):
        self._features, self._travels, self._few, self._error = features, travels, few, error
        self._parts = [
            part for part in np.array_split(np.arange(features.shape[0]), 3) if part.size
        ]
        self._blocks = [features.factor(n_threads=1).take(part) for part in self._parts]
        self.shape, self.dtype, self.max_length = (
            features.shape,
            features.dtype,
            features.max_length,
        )

    def apply(self, f, x):
        result = self._error * np.concatenate([block.apply(f, x) for block in self._blocks])
        self._travels.note("apply", x, result)
        return result

    def apply_t(self, f, y):
        result = self._error * sum(
            block.apply_t(f, y[part]) for block, part in zip(self._blocks, self._parts, strict=True)
        )
        self._travels.note("apply_t", y, result)
        return result

    def grad_f(self, x, y):
        self._travels.note("grad_f", x, y)
        return self._error * sum(
            block.grad_f(x, y[part]) for block, part in zip(self._blocks, self._parts, strict=True)
        )

    def diagonal(self, f):
        self._travels.note("diagonal", np.empty(self.shape[0]))
        return self._error**2 * np.concatenate([block.diagonal(f) for block in self._blocks])

    def take(self, rows):
        rows = np.asarray(rows)
        self._travels.note("take", rows)
        taken = taken_rows(self._features, rows)
        if rows.size <= self._few:
            return taken.factor(n_threads=1)
        return type(self)(taken, self._travels, few=self._few, error=self._error)


class RemoteFactor(PlainFactor):
    """The same with F F^T x in one go."""

    def gram_apply(self, f, x, weight=1.0):
        spread = sum(
            block.apply_t(f, x[part]) for block, part in zip(self._blocks, self._parts, strict=True)
        )
        result = (
            weight
            * self._error**2
            * np.concatenate([block.apply(f, spread) for block in self._blocks])
        )
        self._travels.note("gram_apply", x, result)
        return result


class RemoteFeatures:
    """Features for `GRFKernel` and `GraphGPRegressor`: `factor` and `step_squares` only."""

    def __init__(self, features, travels, *, factor=RemoteFactor, **options):
        self._features, self._travels, self._factor, self._options = (
            features,
            travels,
            factor,
            options,
        )
        self.info = features.info
        self.nodes = features.nodes

    def factor(self, *, n_threads=None):
        return self._factor(self._features, self._travels, **self._options)

    def step_squares(self):
        self._travels.note("step_squares")
        n = self._features.shape[0]
        parts = np.array_split(np.arange(n), 3)
        return sum(part.size / n * _squares(self._features, part) for part in parts)


def _squares(features, rows):
    return step_squares(features.info, features.nodes[rows], features.record.take(rows))


class Elsewhere:
    """`graphrf.sample_features` with the rows elsewhere; shared, not copied, as by a client."""

    def __init__(self, **options):
        self.travels = Travels()
        self.drawn = []
        self._options = options

    def __deepcopy__(self, memo):
        return self

    def __call__(self, graph, sampler, *, nodes, seed, n_threads, dtype):
        self.drawn.append(np.asarray(nodes))
        features = grf.sample_features(
            graph, sampler, nodes=nodes, seed=seed, n_threads=n_threads, dtype=dtype
        )
        return RemoteFeatures(features, self.travels, **self._options)
