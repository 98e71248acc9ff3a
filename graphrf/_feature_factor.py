"""The `Factor` of sampled features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from graphrf._feature_loops import step_products

if TYPE_CHECKING:
    from graphrf.features import Features


class FeatureFactor:
    r"""The `Factor` of sampled features: F(f) = sum_k f_k P_k, P_k from the visits (or powers) at step k.

    Products use the sparse matrix of the last modulation, which is kept. Cost: O(visits) for a new modulation,
    O(nnz) a column for `apply` and `apply_t`, O(nnz p + visits) for `grad_f`.
    """

    device = "cpu"

    def __init__(self, features: Features, *, n_threads: int | None = None) -> None:
        self._features = features
        self._n_threads = n_threads
        self._last: tuple[np.ndarray, sp.csr_array] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(n, N)."""
        return self._features.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the features."""
        return self._features.dtype

    @property
    def max_length(self) -> int:
        """The longest step."""
        return self._features.max_length

    def matrix(self, f: np.ndarray) -> sp.csr_array:
        """F(f) itself, sparse, shape (n, N)."""
        f = np.asarray(f, dtype=np.float64)
        last = self._last  # read once and replaced whole: another thread may be doing the same
        if last is None or not np.array_equal(last[0], f):
            last = f.copy(), self._features.matrix_from_modulation(f, n_threads=self._n_threads)
            self._last = last
        return last[1]

    def apply(self, f: np.ndarray, x: np.ndarray) -> np.ndarray:
        """F x."""
        return np.asarray(self.matrix(f) @ x)

    def apply_t(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        """F^T y."""
        return np.asarray(self.matrix(f).T @ y)

    def grad_f(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """<y, P_k x> for every k, shape (max_length + 1,), float64."""
        features = self._features
        x = np.ascontiguousarray(np.asarray(x).reshape(features.n_nodes, -1))
        y = np.ascontiguousarray(np.asarray(y).reshape(features.shape[0], -1))
        load = 1.0 / (features._survival * features.n_walks)
        sums = step_products(
            features._indptr, features._indices, features._visit_ptr, features._visits_per_entry,
            features._steps, features._counts, features.nodes, features._degree_roots(), x, y, load.size,
        )  # fmt: skip
        return np.asarray(sums * load)

    def diagonal(self, f: np.ndarray) -> np.ndarray:
        """Row sums of squares of F."""
        return np.asarray(self.matrix(f).power(2).sum(axis=1)).ravel()

    def take(self, rows: np.ndarray) -> FeatureFactor:
        """The factor of some of the rows."""
        return FeatureFactor(self._features._take_rows(np.asarray(rows)), n_threads=self._n_threads)
