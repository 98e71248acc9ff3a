"""Features of graph nodes and their matrices, Gram matrices and errors for any kernel."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf._base.devices import torch_device
from graphrf._base.memory import require_memory
from graphrf._base.types import NodesLike
from graphrf._base.warn import called_from_outside
from graphrf.features import bounds, error
from graphrf.features.bounds import CutRows
from graphrf.features.factor import FeatureFactor
from graphrf.features.files import read_features
from graphrf.features.folder import read_folder
from graphrf.features.matrix import feature_matrix
from graphrf.features.rows import dense_product, row_numbers, squared_norms
from graphrf.features.sample_info import FeatureKernel
from graphrf.features.sampled_rows import SampledRows

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from graphrf.graph.graph import Graph


class Features(SampledRows):
    r"""Sparse features of graph nodes, kept step by step so that any kernel can be applied later.

    Row i of the feature matrix is

    .. math:: \phi(i)_v = \frac{1}{m} \sqrt{\frac{d_i}{d_v}} \sum_k \frac{f_k}{S(k)} \, c_{ivk},

    where f is the kernel's modulation and d the degrees (all equal for the combinatorial
    Laplacian). For random walks, c_ivk is the number of the m walks from node i that stand on v
    after k steps, in uint16, and S(k) the probability that a walk has at least k steps. For powers
    it is the probability that a walk from i stands on v after k steps, or an estimate of it, in
    float32, and m = S(k) = 1. Only c is stored. E[phi(i) . phi(j)] = K_ij for i != j (up to
    `truncation_error`).

    Made by `graphrf.sample_features` and `graphrf.features.load_features`. The record is on the
    host, or on a torch device (`device`, `to`), where `torch`, `take` and `gp.GRFKernel` work.
    Methods that return numpy or scipy objects copy it to the host once and keep the copy. Pickles
    and copies by the module `copy` hold the host's record.

    Source: the paper (Reid et al. 2024), Eq. 9 and Eq. 50, with the importance weights of simple
    random walks on the normalised Laplacian in closed form.

    Attributes
    ----------
    nodes : ndarray of int64, shape (n,)
        Positions of the nodes that the rows belong to.
    n_steps : int
        Steps walked in all; for powers, multiply-adds: edges read.
    nnz : int
        Stored (node, reached node) pairs: the non-zeros of every feature matrix.
    info : graphrf.features.sample_info.SampleInfo
        The sampler's settings, and what the rows need of the graph.
    record : graphrf.features.record.Record
        The arrays of c, on the host.
    sampler : Sampler or None
        The sampler that drew the features; None if they come from a file or from another process.
    choice : graphrf.sampling.by_error.ErrorChoice or None
        If `sample_features` was given an error: the sampler chosen, and the predicted and measured
        error.
    """

    def matrix(self, kernel: FeatureKernel, *, n_threads: int | None = None) -> sp.csr_array:
        """The feature matrix Phi of a kernel, shape (n, N), of their dtype; Phi Phi^T estimates K.

        Its index arrays are shared by all kernels and read-only. An entry in float32 is the rounded
        entry of float64; powers are stored in float32, so their float64 matrices are no more
        accurate.

        Parameters
        ----------
        kernel : Kernel
            Any kernel of the features' Laplacian; ValueError for one of the other.
        n_threads : int, optional
            Number of threads. Default: the cores that the process may use. The result does not
            depend on it.

        Warns
        -----
        HeavyTailWarning
            When sum_k f_k^2 / S(k), which bounds the variance up to constants, is more than 5 times
            its value for walks that do not terminate: take a smaller p_halt, `Truncated`, or the
            series (`apply_kernel`).
        TruncationWarning
            When the series ends so early that `truncation_error(kernel)` exceeds 2 % of the
            kernel's bound (sum_k |f_k|)^2; for rows that are cut, whose bound is loose, 10 %.
        FeatureErrorWarning
            Once for each kernel, when the error of Phi Phi^T is estimated to exceed a quarter of
            K's norm (`relative_error` measures it), or its largest diagonal entry is more than
            twice that of K, as at hubs with far more neighbours than a row has entries.

        Notes
        -----
        Cost: O(visits) time, nnz floats of memory; of cut powers once more for their bound.

        The error is estimated by exact products with two or twelve vectors in some 30 ms, or about
        as long as the call itself; not if that would take longer (long kernels, some 100,000 edges
        or more), if the features do not hold their graph (from a file or another process), or if
        graphrf itself calls. A diagonal above twice (sum_k |f_k|)^2, the most that an entry of K
        can be, always warns.
        """
        f = self.checked_modulation(kernel)
        phi = self.matrix_from_modulation(f, n_threads=n_threads)
        if called_from_outside():
            work = 2.0 * self.record.steps.size
            self._watch.check(self._rows(phi), kernel, f, self.info.scale, self.origin, work)
        return phi

    def relative_error(
        self,
        kernel: FeatureKernel,
        *,
        seed: int = 0,
        apply: Callable[..., np.ndarray] | None = None,
    ) -> float:
        r"""An estimate of the relative error of the Gram matrix, over the nodes of these features.

        .. math:: \frac{\| \Phi \Phi^\top - K_{SS} \|_F}{\| K_{SS} \|_F},

        where S is `nodes` and K the kernel itself, so that variance and truncation both count. Up
        to 32 nodes the value is exact; for more it is estimated from products of both matrices with
        32 vectors, 16 of them random: for 28 pairs of a graph and a kernel within 11 % of the true
        error with each of five seeds; a test allows 25 %.

        Source: Meyer, Musco, Musco and Woodruff, "Hutch++: Optimal stochastic trace estimation",
        SOSA 2021.

        Parameters
        ----------
        kernel : Kernel
            See `matrix`, also for errors.
        seed : int in [0, 2^63)
            Seed of the random vectors. The same seed gives the same estimate.
        apply : callable, optional
            apply(kernel, v, tol=...) = K v for v of shape (N, p). Default: `graphrf.apply_kernel`
            on the graph of the features. Features from a file or another process need
            `functools.partial(graphrf.apply_kernel, graph)`.

        Notes
        -----
        Cost: 32 products with K by the series (`apply_kernel`, tolerance 1e-6), 64 with Phi, and
        its matrix; memory for some 100 N numbers.

        Examples
        --------
        >>> import networkx as nx, graphrf as grf
        >>> graph = grf.load_graph(nx.karate_club_graph(), weight=False)
        >>> few, many = (
        ...     grf.sample_features(graph, grf.CompressedPowers(b), seed=0) for b in (2, 32)
        ... )
        >>> kernel = grf.Diffusion(lengthscale=2.0)
        >>> few.relative_error(kernel) > many.relative_error(kernel)
        True
        """
        seed = checks.seed(seed)
        phi = self.matrix_from_modulation(self.info.modulation(kernel))
        return error.measured(self._rows(phi), kernel, apply, self.origin, seed)

    def matrix_from_modulation(
        self, modulation: np.ndarray, *, n_threads: int | None = None
    ) -> sp.csr_array:
        """The feature matrix of a modulation as a vector; missing entries at its end are zero."""
        return feature_matrix(self.info, self.nodes, self.record, modulation, n_threads=n_threads)

    def checked_modulation(self, kernel: FeatureKernel) -> np.ndarray:
        """f_0 .. f_L of a kernel, L the largest length, with errors and warnings of `matrix`."""
        if self.choice is not None and repr(self.choice.kernel) == repr(kernel):
            # The sampler was chosen for this kernel, and its error was measured.
            return self.info.modulation(kernel)
        return bounds.checked_modulation(self.info, kernel, self._cut)

    def torch(
        self, kernel: FeatureKernel, *, device: str | torch.device | None = None
    ) -> torch.Tensor:
        """The feature matrix as a torch sparse CSR tensor on a device; needs the extra `gp`.

        It has the numbers, errors and warnings of `matrix`. Features on a device compute it there;
        its index tensors are then those of the record, and must not be written to. With
        `CutPowers`, the bound that decides on a warning needs the host's copy of the record.

        Parameters
        ----------
        kernel : Kernel
        device : str or torch.device, optional
            Default: the device of the features.

        Returns
        -------
        Tensor, shape (n, N), of the features' dtype
        """
        place = torch_device(self.device if device is None else device, "Features.torch")
        f = self.checked_modulation(kernel)
        from graphrf.features.tensor import row_squares, tensor_from_host, tensor_on_device

        if self.on_device:
            phi = tensor_on_device(self.info, self._own_device_rows, f, place)
        else:
            phi = tensor_from_host(self.info, self.nodes, self.record, f, place)

        def diagonal() -> np.ndarray:
            return np.asarray(row_squares(phi.values(), phi.crow_indices()).cpu().numpy())

        self._watch.check_diagonal(self.nodes, diagonal, kernel, f, self.info.scale)
        return phi

    def gram(
        self,
        kernel: FeatureKernel,
        *,
        rows: NodesLike | None = None,
        cols: NodesLike | None = None,
        other: Features | None = None,
    ) -> np.ndarray:
        """An estimate of the Gram matrix K[rows, cols], dense, of the features' dtype.

        Without `other` it is Phi Phi^T: symmetric, positive semi-definite, and unbiased off the
        diagonal up to `truncation_error`. Its diagonal is too large by the features' variance: 14
        to 20 % of K_ii with 8 walks and short kernels, many times K_ii for kernels much too long
        for the rows; 0 for exact and cut powers. With an independent set of features `other` it is
        Phi Phi'^T: unbiased everywhere, but neither symmetric nor positive, so it serves to measure
        errors and not as the covariance of a Gaussian process.

        It warns as `matrix` does, of the error of all rows, or with `other` of none.

        Parameters
        ----------
        kernel : Kernel
        rows, cols : array_like of int, optional
            Node positions among `nodes`. Default: all.
        other : Features, optional
            Features of the same graph, drawn with another seed unless one of the two is of
            `ExactPowers` or `CutPowers`, which draw nothing.

        Raises
        ------
        MemoryError
            If the dense result does not fit; it is raised before anything is allocated.
        """
        right_features = self if other is None else other
        if other is not None:
            self._check_other(other)
        left_set = self if rows is None else self._take_rows(row_numbers("rows", rows, self.nodes))
        right_set = right_features
        if cols is not None:
            right_set = right_features._take_rows(row_numbers("cols", cols, right_features.nodes))
        f = self.checked_modulation(kernel)
        shape = left_set.nodes.size, right_set.nodes.size
        require_memory(
            shape[0] * shape[1] * self.dtype.itemsize,
            f"a dense Gram matrix of shape {shape}",
            "ask for fewer `rows` and `cols`, or multiply by Phi and its transpose in turn "
            "(Features.matrix)",
        )
        left = left_set.matrix_from_modulation(f)
        if other is None and called_from_outside():
            if rows is not None:
                self._watch.check_diagonal(
                    left_set.nodes, lambda: squared_norms(left), kernel, f, self.info.scale
                )
            self._watch_gram(kernel, f, left if rows is None else None, shape)
        if right_set is left_set:
            return dense_product(left, left)
        right = right_set.matrix_from_modulation(
            f if other is None else other.checked_modulation(kernel)
        )
        return dense_product(left, right)

    def updated(self, graph: Graph, *, n_threads: int | None = None) -> Features:
        """The features of these nodes on an edited graph, bit for bit those of sampling there.

        Random numbers belong to (seed, source, step, walk or node), so a walk changes only if it
        met a node whose edges changed. Only the rows of these walks are drawn again, with the same
        sampler and seed.

        Parameters
        ----------
        graph : Graph
            The edited graph, with the same nodes in the same order: edges added or removed, weights
            changed.
        n_threads : int, optional
            As for `matrix`.

        Raises
        ------
        TypeError, ValueError
            If the features come from a file or another process and do not hold their graph; if they
            are on a device, or the nodes differ; if powers drew them, whose order of sums and draws
            may change by an edge anywhere.
        MemoryError
            If a second record does not fit.

        Notes
        -----
        Time: the walks of the rows that met the edit, one pass over the entries and over the edges
        of both graphs to find them, and a copy of the record. Every row is drawn again if equal
        weights become unequal or the reverse (walks then use their random bits differently); if
        `AutoLengths` chooses other lengths for the new graph; and, for the combinatorial Laplacian,
        if the largest degree changes, and with it every probability of staying.

        Examples
        --------
        >>> import numpy as np, graphrf as grf
        >>> ring = np.arange(1000)
        >>> before = grf.from_edges(ring, (ring + 1) % 1000)
        >>> after = grf.from_edges(ring[1:], (ring[1:] + 1) % 1000)  # without the edge from 0 to 1
        >>> updated = grf.sample_features(before, grf.RandomWalks(n_walks=8), seed=0).updated(after)
        >>> resampled = grf.sample_features(after, grf.RandomWalks(n_walks=8), seed=0)
        >>> kernel = grf.Diffusion(lengthscale=1.0)
        >>> bool((updated.matrix(kernel) != resampled.matrix(kernel)).nnz == 0)
        True
        """
        if self.origin is None or self.origin.follow is None:
            raise ValueError(
                "features that come from a file or from another process do not hold their graph, "
                "so they cannot follow an edit of it: sample them again, graphrf.sample_features"
            )
        updated: Features = self.origin.follow(self, graph, n_threads)
        return updated

    def factor(self, *, n_threads: int | None = None) -> FeatureFactor:
        """The `Factor` of these features: F(f) with P_k from the counts at step k."""
        return FeatureFactor(self.info, self.nodes, self.record, n_threads=n_threads)

    def truncation_error(self, kernel: FeatureKernel) -> float:
        r"""A bound on the error of E[Phi] E[Phi]^T in operator norm: of the end and the cut.

        With A = sum_k |f_k| and tau = sum_{k > L} |f_k|, K = F F^T is off by at most tau (2 A -
        tau) above the largest length L. `CutPowers` also drop a part Delta of F_L = Phi + Delta,
        which adds at most 2 A_L
        |Delta|_2, where A_L = A - tau and

        .. math:: \|\Delta\|_2 \le \min\Big(
                  \big(\sum_i \delta_i^2\big)^{1/2}, \; \big(\max_i r_i \, \max_v c_v\big)^{1/2}
                  \Big).

        The first is the Frobenius norm, with delta_i = sum_k |f_k| dropped_ik. The second is
        Schur's test with the weights sqrt(d), which W preserves (combinatorial: 1); it does not
        grow with the graph. r and c are the weighted masses that were cut from each row and column,

        .. math:: r_i = A_L - \sum_{v, k} |f_k| \, c_{ivk}, \qquad
                  c_v = A_L - \sum_{i, k} |f_k| \, c_{ivk} \frac{d_i}{d_v}.

        If not all nodes are rows, the missing rows count as cut in c_v. Rounding to float32 is
        included only for rows that are cut. Cost: O(n + L); of cut powers that of `matrix`.

        Source of the test: J. Schur, Journal für die reine und angewandte Mathematik 140 (1911).

        Examples
        --------
        >>> import networkx as nx, numpy as np, graphrf as grf
        >>> graph = grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(8, 8)))
        >>> kernel = grf.RegularizedLaplacian(1.0, 2)
        >>> features = grf.sample_features(graph, grf.sampling.CutPowers(budget=24, max_length=8))
        >>> error = np.linalg.norm(features.gram(kernel) - kernel.dense(graph), 2)
        >>> bool(error <= features.truncation_error(kernel))
        True
        """
        return bounds.truncation_error(self.info, kernel, self._cut)

    def row_errors(self, kernel: FeatureKernel) -> np.ndarray:
        r"""Bounds on the Euclidean distance of rows of E[Phi] from those of F, (n,), float64.

        .. math:: \sum_{k > L} |f_k| + \sum_{k \le L} |f_k| \, \text{dropped}_{ik},

        where dropped_ik is the norm of the part that `CutPowers` dropped of W^k e_i, before
        rounding to float32.
        """
        return bounds.row_errors(self.info, kernel, self.nodes.size, self._cut)

    def _rows(self, phi: sp.csr_array) -> error.MeasuredRows:
        """The rows of a feature matrix, by products with their Gram matrix."""
        turned = phi.T
        return error.MeasuredRows(
            self.nodes, self.n_nodes, lambda x: phi @ (turned @ x), lambda: squared_norms(phi)
        )

    def _watch_gram(
        self, kernel: FeatureKernel, f: np.ndarray, phi: sp.csr_array | None, shape: tuple[int, int]
    ) -> None:
        """Warn of the error of all rows, also if `gram` has some; phi is their matrix, if made."""
        work = shape[0] * shape[1] * max(self.nnz / self.nodes.size, 1.0)
        visits = self._record.steps.shape[0]
        if phi is None and self.origin is not None and 2.0 * visits <= max(work, error.FREE):
            phi = self.matrix_from_modulation(f)
        if phi is not None:
            self._watch.check(self._rows(phi), kernel, f, self.info.scale, self.origin, work)

    @property
    def _cut(self) -> CutRows | None:
        """The rows, on the host, where a part of them was cut."""
        return None if self._record.dropped is None else CutRows(self.nodes, self.record)

    def _check_other(self, other: Features) -> None:
        if not isinstance(other, Features):
            raise checks.type_error("other", f"must be Features, got {checks.describe(other)}")
        if not self.info.is_of_same_matrix(other.info):
            raise checks.value_error("other", "must be features of the same graph and Laplacian")
        if other.seed == self.seed and self.info.is_random and other.info.is_random:
            raise checks.value_error(
                "other",
                f"must be drawn with another seed, both have {self.seed}: equal seeds give "
                "dependent samples and a biased estimate",
            )


def load_features(path: str | os.PathLike[str]) -> Features:
    """Features from a file that `Features.save` wrote, or a folder of `sample_features(path=...)`.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file or folder, if it is damaged or holds anything else, or if a folder
        lacks blocks: `sample_features` with the same arguments makes these.
    OSError
        If it cannot be read.
    MemoryError
        If the features do not fit; it is raised before their arrays are read.

    Examples
    --------
    >>> import os, tempfile, graphrf as grf
    >>> features = grf.sample_features(
    ...     grf.from_edges([0, 1], [1, 2]), grf.RandomWalks(n_walks=4), seed=0
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     features.save(os.path.join(folder, "features.npz"))
    ...     again = grf.features.load_features(os.path.join(folder, "features.npz"))
    >>> again.n_steps == features.n_steps
    True
    """
    path = checks.path("path", path)
    return Features(*(read_folder(path) if os.path.isdir(path) else read_features(path)))
