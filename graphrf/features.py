"""Graph random features: the step-resolved record of walks or powers, its matrices and Gram matrices."""

from __future__ import annotations

import json
import os
import warnings
import zipfile
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.sparse as sp

from graphrf import _checks
from graphrf._feature_factor import FeatureFactor
from graphrf._feature_loops import fill_values
from graphrf._files import atomic_write
from graphrf._threads import ordered_map, thread_count

if TYPE_CHECKING:
    import torch

_FORMAT = "graphrf features 1"
# Features of a kernel are warned about when their bound on the variance is this many times that without
# termination; 5 separates harmless laws (below 2 in practice) from those that ruin a Gaussian process (9, 1e4).
_HEAVY = 5.0


class HeavyTailWarning(UserWarning):
    """The law of lengths ends walks too early for the kernel: estimates have a huge or infinite variance."""


class TruncationWarning(UserWarning):
    """Walks or powers end before the kernel's series, or rows are cut: a bias of a stated size."""


class _Kernel(Protocol):
    """What features need of a kernel (`graphrf.kernels.Kernel`)."""

    @property
    def laplacian(self) -> str: ...
    def modulation(self, n: int, scale: float | None = None) -> np.ndarray: ...
    def modulation_tail(self, length: int, scale: float | None = None) -> float: ...


class Features:
    r"""Sparse features of graph nodes, kept step by step so that any kernel can be applied later.

    Row i of the feature matrix is, of random walks,

    .. math:: \phi(i)_v = \frac{1}{m} \sqrt{\frac{d_i}{d_v}} \sum_k \frac{f_k}{S(k)} \, c_{ivk},

    where c_ivk is the number of the m walks from node i that stand on v after k steps, S(k) the probability
    that a walk gets that far, f the kernel's modulation, and d the degrees (all equal for the combinatorial
    Laplacian). E[phi(i) . phi(j)] = K_ij for i != j. Only the counts are stored; f, S and d enter when used.

    Of powers (`ExactPowers`, `CutPowers`, `CompressedPowers`) it is phi(i) = sum_k f_k x_k, x_k being W^k e_i or
    an estimate of it, and the values of x_k are stored in the place of counts, in float32.

    Made by `graphrf.sample_features` and `graphrf.load_features`; not meant to be constructed by hand.

    Source: the paper (Reid et al. 2024), Eq. 9 and Eq. 50, with the importance weights of simple random walks
    on the normalised Laplacian in closed form.

    Attributes
    ----------
    nodes : ndarray of int64, shape (n,)
        Positions of the nodes that the rows belong to.
    n_nodes : int
        N, the number of nodes of the graph, and of columns.
    n_walks : int
        m, walks from each node; 1 for powers.
    n_steps : int
        Steps walked in all; for powers, multiply-adds: edges read.
    nnz : int
        Stored (node, reached node) pairs: the non-zeros of every feature matrix.
    nbytes : int
        Memory of the record in bytes.
    seed : int
        What the samples were drawn with.
    laplacian : str
        Whose walk matrix was used: "normalized" or "combinatorial".
    description : dict
        What made these features (the sampler's settings), for the record.
    """

    def __init__(
        self,
        *,
        nodes: np.ndarray,
        n_nodes: int,
        indptr: np.ndarray,
        indices: np.ndarray,
        visit_ptr: np.ndarray,
        visits_per_entry: np.ndarray,
        steps: np.ndarray,
        counts: np.ndarray,
        survival: np.ndarray,
        degrees: np.ndarray | None,
        n_walks: int,
        laplacian: str,
        scale: float,
        complete: bool,
        seed: int,
        dtype: np.dtype[Any],
        description: Mapping[str, Any],
        work: np.ndarray | None = None,
        dropped: np.ndarray | None = None,
    ) -> None:
        self.nodes = nodes
        self.n_nodes = n_nodes
        self.n_walks = n_walks
        self.laplacian = laplacian
        self.seed = seed
        self.dtype = dtype
        self.description = dict(description)
        self._indptr = indptr
        self._indices = indices
        self._visit_ptr = visit_ptr
        self._visits_per_entry = visits_per_entry
        self._steps = steps
        self._counts = counts
        self._survival = survival
        self._degrees = degrees
        self._scale = scale
        # Whether the law of lengths reaches every step that matters (no fixed end, as Truncated has).
        self._complete = complete
        # Of powers: multiply-adds of each row, shape (n,); of cut ones, norms of what was dropped of each x_k.
        self._work = work
        self._dropped = dropped
        self._freeze()

    def _freeze(self) -> None:
        """Make the record read-only; loops are compiled for read-only arrays alone."""
        for array in (self.nodes, *self._stored()):
            array.setflags(write=False)

    def _stored(self) -> list[np.ndarray]:
        """The arrays of the record, besides the nodes."""
        arrays = (getattr(self, f"_{name}") for name in (*_RECORD, *_OF_POWERS))
        return [array for array in arrays if array is not None]

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._freeze()  # pickle forgets it

    # -- sizes -----------------------------------------------------------------------------------

    @property
    def nnz(self) -> int:
        """Number of (node, visited node) pairs."""
        return int(self._indices.size)

    @cached_property
    def n_steps(self) -> int:
        """Steps of these rows' walks, where every step and every start left one visit; multiply-adds of powers."""
        if self._work is not None:
            return int(self._work.sum())
        return int(self._counts.sum()) - self.n_walks * self.nodes.size

    @property
    def nbytes(self) -> int:
        """Memory of the stored arrays in bytes (degrees, which belong to the graph, not counted)."""
        return int(sum(array.nbytes for array in self._stored()) + self.nodes.nbytes)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, N), the shape of every feature matrix."""
        return self.nodes.size, self.n_nodes

    @property
    def max_length(self) -> int:
        """The longest step that the law of lengths allows, or the highest power."""
        return int(self._survival.size - 1)

    def __repr__(self) -> str:
        how = f"{self.n_walks} walks a node, {self.n_steps:.4g} steps"
        if self._of_powers:
            how = f"powers up to {self.max_length}, {self.n_steps:.4g} multiply-adds"
        return (
            f"Features({self.shape[0]} nodes of {self.n_nodes}, {how}, {self.nnz:.4g} non-zeros, "
            f"{self.nbytes / 2**20:.3g} MiB)"
        )

    @property
    def _of_powers(self) -> bool:
        """Whether these are values of powers, not visits of walks."""
        return self._work is not None

    # -- matrices --------------------------------------------------------------------------------

    def matrix(self, kernel: _Kernel, *, n_threads: int | None = None) -> sp.csr_array:
        r"""The feature matrix Phi of a kernel, K being about Phi Phi^T.

        Parameters
        ----------
        kernel : Kernel
            Any kernel of the features' Laplacian.
        n_threads : int, optional
            Default: the cores at hand. The result does not depend on it.

        Returns
        -------
        scipy.sparse.csr_array, shape (n, N), of the features' dtype. Its index arrays are shared by all
        kernels and read-only. Powers are stored in float32, so that float64 matrices of them are as accurate as
        float32.

        Raises
        ------
        ValueError
            If the kernel belongs to the other Laplacian.

        Warns
        -----
        HeavyTailWarning
            When sum_k f_k^2 / S(k), which bounds the variance up to constants, dwarfs its value for walks
            that do not terminate: take a smaller p_halt, `Truncated`, or the series (`apply_kernel`).
        TruncationWarning
            When `truncation_error(kernel)` exceeds a tenth of the kernel's bound (sum_k |f_k|)^2.

        Notes
        -----
        Cost: O(visits) time, nnz floats of memory.
        """
        return self.matrix_from_modulation(self._coefficients(kernel), n_threads=n_threads)

    def matrix_from_modulation(self, modulation: np.ndarray, *, n_threads: int | None = None) -> sp.csr_array:
        """The feature matrix of a modulation given as a vector; what is missing at its end counts as zero."""
        modulation = np.asarray(modulation, dtype=np.float64)
        load = np.zeros(self._survival.size)
        used = min(load.size, modulation.size)
        load[:used] = modulation[:used] / (self._survival[:used] * self.n_walks)
        root = self._degree_roots()
        data = np.empty(self.nnz, dtype=self.dtype)

        def fill(rows: tuple[int, int]) -> None:
            fill_values(
                rows[0], rows[1], self._indptr, self._indices, self._visit_ptr, self._visits_per_entry,
                self._steps, self._counts, load, self.nodes, root, data,
            )  # fmt: skip

        for _ in ordered_map(fill, _row_blocks(self._indptr), thread_count(n_threads)):
            pass
        return sp.csr_array((data, self._indices, self._indptr), shape=self.shape)

    def torch(self, kernel: _Kernel, *, device: str = "cpu") -> torch.Tensor:
        """The feature matrix as a torch sparse CSR tensor on a device; needs the extra `gp`."""
        try:
            import torch
        except ImportError as error:
            raise ImportError("Features.torch needs torch: pip install 'graphrf[gp]'") from error
        try:
            torch.device(device)
        except (RuntimeError, TypeError) as error:
            raise ValueError(f"`device` must be a torch device such as 'cpu' or 'cuda', got {device!r}") from error
        matrix = self.matrix_from_modulation(self._coefficients(kernel))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            return torch.sparse_csr_tensor(
                torch.from_numpy(np.array(matrix.indptr)),
                torch.from_numpy(np.array(matrix.indices)),
                torch.from_numpy(matrix.data),
                size=matrix.shape,
                check_invariants=False,
                device=device,
            )

    def gram(
        self,
        kernel: _Kernel,
        *,
        rows: Any = None,
        cols: Any = None,
        other: Features | None = None,
    ) -> np.ndarray:
        r"""An estimate of the Gram matrix K[rows, cols], dense.

        Without `other` it is Phi Phi^T: symmetric, positive semi-definite, unbiased off the diagonal; its
        diagonal is too large by the features' variance (14 to 20 % of K_ii with 8 walks; 0 for exact and cut
        powers), a hidden nugget. With
        an independent set of features `other` it is Phi Phi'^T: unbiased everywhere, but neither symmetric nor
        positive: for estimates and for measuring errors, never as a Gaussian process's covariance.

        Parameters
        ----------
        kernel : Kernel
        rows, cols : array_like of int, optional
            Node positions among `nodes`. Default: all.
        other : Features, optional
            Features of the same graph, drawn with another seed.

        Returns
        -------
        ndarray, shape (len(rows), len(cols)), of the features' dtype.

        Notes
        -----
        Cost: the matrices of the rows asked for, their sparse product, and the dense result.
        """
        right_features = self if other is None else other
        if other is not None:
            self._check_other(other)
        left_set = self if rows is None else self._take_rows(self._row_numbers("rows", rows))
        right_set = right_features
        if cols is not None:
            right_set = right_features._take_rows(right_features._row_numbers("cols", cols))
        f = self._coefficients(kernel)
        left = left_set.matrix_from_modulation(f)
        if right_set is left_set:
            return np.asarray((left @ left.T).toarray())
        right = right_set.matrix_from_modulation(f if other is None else other._coefficients(kernel))
        return np.asarray((left @ right.T).toarray())

    def take(self, nodes: Any) -> Features:
        """The features of some of the nodes (positions), in the order given; repeats are allowed."""
        return self._take_rows(self._row_numbers("nodes", nodes))

    def factor(self, *, n_threads: int | None = None) -> FeatureFactor:
        """The `Factor` of these features, for inference: F(f) with P_k from the counts at step k."""
        return FeatureFactor(self, n_threads=n_threads)

    def truncation_error(self, kernel: _Kernel) -> float:
        r"""A bound on the error of E[Phi] E[Phi]^T in operator norm: of the largest length, and of what was cut.

        With A = sum_k |f_k| and tau = sum_{k > L} |f_k|, F is off by at most tau beyond the largest length L, and
        K = F F^T by tau (2 A - tau), with equality for f >= 0 on a normalised Laplacian. `CutPowers` drop a part
        Delta of F_L, whose rows have norms of at most delta_i = sum_k |f_k| `dropped`_ik; since
        F_L F_L^T - Phi Phi^T = F_L Delta^T + Delta F_L^T - Delta Delta^T, they add

        .. math:: \delta (2 (A - \tau) + \delta), \qquad \delta^2 = \sum_i \delta_i^2 \ge \|\Delta\|_2^2.

        Rounding of the powers to float32 is not counted.
        """
        self._check_kernel(kernel)
        tail = kernel.modulation_tail(self.max_length, scale=self._scale)
        total = kernel.modulation_tail(-1, scale=self._scale)
        cut = float(np.linalg.norm(self._cut_errors(kernel)))
        return float(tail * (2 * total - tail) + cut * (2 * (total - tail) + cut))

    def row_errors(self, kernel: _Kernel) -> np.ndarray:
        r"""Bounds on the Euclidean distance of each row of E[Phi] from that of F, shape (n,), float64.

        .. math:: \sum_{k > L} |f_k| + \sum_{k \le L} |f_k| \, \text{dropped}_{ik},

        where dropped_ik is the norm of what `CutPowers` dropped of W^k e_i, and 0 for all other samplers.
        """
        self._check_kernel(kernel)
        return self._cut_errors(kernel) + kernel.modulation_tail(self.max_length, scale=self._scale)

    def _cut_errors(self, kernel: _Kernel) -> np.ndarray:
        """Bounds on the norm of what was cut from each row of F_L."""
        if self._dropped is None:
            return np.zeros(self.nodes.size)
        f = kernel.modulation(self._survival.size, scale=self._scale)
        return np.asarray(self._dropped @ np.abs(f))

    # -- files -----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the features as an uncompressed .npz file without pickle; it appears whole or not at all.

        The degrees go along, so the file can be used without the graph.
        """
        record = {
            "format": _FORMAT,
            "n_nodes": self.n_nodes,
            "n_walks": self.n_walks,
            "laplacian": self.laplacian,
            "scale": self._scale,
            "complete": self._complete,
            "seed": self.seed,
            "dtype": self.dtype.name,
            "description": self.description,
        }
        arrays = {name: getattr(self, f"_{name}") for name in _ARRAYS}
        arrays = {name: array for name, array in arrays.items() if array is not None}
        with atomic_write(_checks.path("path", path)) as file:
            np.savez(file, record=np.frombuffer(json.dumps(record).encode(), np.uint8), nodes=self.nodes, **arrays)

    # -- inside ----------------------------------------------------------------------------------

    def _coefficients(self, kernel: _Kernel) -> np.ndarray:
        """The kernel's modulation up to the longest step, once kernel and law are known to fit.

        Warnings point at the caller of the public method that calls this.
        """
        self._check_kernel(kernel)
        f = kernel.modulation(self._survival.size, scale=self._scale)
        plain = float(np.sum(f * f))
        heavy = float(np.sum(f * f / self._survival))
        if heavy > _HEAVY * plain:
            warnings.warn(
                f"these walks end too early for {kernel!r}: sum f_k^2 / S(k) = {heavy:.3g} against "
                f"{plain:.3g} without termination, so that estimates have a huge variance; use a smaller "
                "p_halt, Truncated(max_length), or the exact series (graphrf.apply_kernel, method='series')",
                HeavyTailWarning,
                stacklevel=3,
            )
        if not self._complete or plain == 0:  # all of f may lie beyond the longest walk that ever happens
            bound = kernel.modulation_tail(-1, scale=self._scale) ** 2
            error = self.truncation_error(kernel)
            if error > 0.1 * bound:
                warnings.warn(self._truncation_words(kernel, error, bound), TruncationWarning, stacklevel=3)
        return f

    def _truncation_words(self, kernel: _Kernel, error: float, bound: float) -> str:
        what = f"powers up to {self.max_length}" if self._of_powers else f"walks of {self.max_length} steps"
        way_out = "kernel.truncation_length(tol) gives a sufficient length for Truncated(max_length)"
        if self._of_powers:
            way_out = "kernel.truncation_length(tol) gives a sufficient max_length"
        if self._dropped is not None:
            what += " and rows cut to a budget"
            way_out += ", and features.row_errors(kernel) what a larger budget would save"
        return (
            f"{what} cut the series of {kernel!r}: the Gram matrix is off by up to {error:.3g} (its bound is "
            f"{bound:.3g}); {way_out}"
        )

    def _check_kernel(self, kernel: _Kernel) -> None:
        for needed in ("laplacian", "modulation", "modulation_tail"):
            if not hasattr(kernel, needed):
                raise TypeError(f"`kernel` must be a graphrf kernel, got {_checks.describe(kernel)}")
        if kernel.laplacian != self.laplacian:
            raise ValueError(
                f"`kernel` must be of the {self.laplacian} Laplacian, whose "
                f"{'powers' if self._of_powers else 'walks'} these are, got one of the {kernel.laplacian} "
                f"Laplacian; sample with laplacian={kernel.laplacian!r}"
            )

    def _check_other(self, other: Features) -> None:
        if not isinstance(other, Features):
            raise TypeError(f"`other` must be Features, got {_checks.describe(other)}")
        if other.n_nodes != self.n_nodes or other.laplacian != self.laplacian or other._scale != self._scale:
            raise ValueError("`other` must be features of the same graph and Laplacian")
        if other.seed == self.seed:
            raise ValueError(
                f"`other` must be drawn with another seed, both have {self.seed}: equal seeds give dependent "
                "samples and a biased estimate"
            )

    def _row_numbers(self, argument: str, nodes: Any) -> np.ndarray:
        """Row numbers of nodes given by position."""
        if nodes is None:
            return np.arange(self.nodes.size)
        wanted = np.asarray(nodes)
        if wanted.dtype.kind not in "iu" or wanted.ndim > 1:
            raise TypeError(
                f"`{argument}` must be integer node positions of shape (n,), got {_checks.describe(wanted)}; "
                "graph.index(...) turns names into positions"
            )
        wanted = np.atleast_1d(wanted).astype(np.int64)
        order = np.argsort(self.nodes, kind="stable")
        found = np.searchsorted(self.nodes, wanted, sorter=order)
        found = order[np.minimum(found, self.nodes.size - 1)]
        missing = self.nodes[found] != wanted
        if missing.any():
            raise ValueError(f"`{argument}` must be among the sampled nodes, got {int(wanted[missing][0])}")
        return found

    def _take_rows(self, rows: np.ndarray) -> Features:
        entries, indptr = _gather(self._indptr, rows)
        visits, visit_ptr = _gather(self._visit_ptr, rows)
        return self._replaced(
            nodes=self.nodes[rows],
            indptr=indptr,
            indices=self._indices[entries],
            visit_ptr=visit_ptr,
            visits_per_entry=self._visits_per_entry[entries],
            steps=self._steps[visits],
            counts=self._counts[visits],
            work=None if self._work is None else self._work[rows],
            dropped=None if self._dropped is None else self._dropped[rows],
        )

    def _replaced(self, **changes: Any) -> Features:
        state = {name: getattr(self, f"_{name}") for name in (*_ARRAYS, "scale", "complete")}
        for name in ("nodes", "n_nodes", "n_walks", "laplacian", "seed", "dtype", "description"):
            state[name] = getattr(self, name)
        return Features(**{**state, **changes})

    def _degree_roots(self) -> np.ndarray:
        """sqrt(d) of every node, or an empty array where all loads are 1."""
        return np.zeros(0) if self._degrees is None else np.sqrt(self._degrees)


_RECORD = ("indptr", "indices", "visit_ptr", "visits_per_entry", "steps", "counts")
_OF_POWERS = ("work", "dropped")
_ARRAYS = (*_RECORD, "survival", "degrees", *_OF_POWERS)


def load_features(path: str | os.PathLike[str]) -> Features:
    """Features from a file that `Features.save` wrote.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, or it is not a whole file of features.

    Examples
    --------
    >>> import os, tempfile, graphrf as grf
    >>> features = grf.sample_features(grf.from_edges([0, 1], [1, 2]), grf.RandomWalks(n_walks=4), seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     features.save(os.path.join(folder, "features.npz"))
    ...     again = grf.load_features(os.path.join(folder, "features.npz"))
    >>> again.n_steps == features.n_steps
    True
    """
    path = _checks.path("path", path)
    try:
        # Opened here, because np.load leaves a broken file open.
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):
                raise ValueError("it is no .npz archive, or not a whole one")
            file.seek(0)
            archive = np.load(file, allow_pickle=False)
            record = json.loads(bytes(archive["record"]).decode())
            if record.pop("format") != _FORMAT:
                raise ValueError("another format")
            arrays = {name: archive[name] for name in (*_ARRAYS, "nodes") if name in archive}
        record["dtype"] = np.dtype(record["dtype"])
        features = Features(**{"degrees": None, **record, **arrays})
        _check_record(features)
        return features
    except FileNotFoundError:
        raise FileNotFoundError(f"`path` must be a file written by Features.save, got none at {path}") from None
    except (ValueError, KeyError, TypeError, EOFError, OSError, AttributeError, zipfile.BadZipFile) as error:
        raise ValueError(f"`path` must be a whole file written by Features.save, got {path!r}: {error}") from error


def _check_record(features: Features) -> None:
    """Raise ValueError unless the arrays of a file fit each other, so that no loop reads beyond them."""
    n, visits = features.nodes.size, features._steps.size
    consistent = (
        features.n_walks >= 1
        and features._indptr.shape == features._visit_ptr.shape == (n + 1,)
        and features._indices.shape == features._visits_per_entry.shape
        and features._counts.shape == (visits,)
        and all(
            bool((np.diff(ptr) >= 0).all()) and int(ptr[0]) == 0 and int(ptr[-1]) == size
            for ptr, size in ((features._indptr, features.nnz), (features._visit_ptr, visits))
        )
        and _within(features._indices, features.n_nodes)
        and _within(features.nodes, features.n_nodes)
        and _within(features._steps, features._survival.size)
        and (features._degrees is None or features._degrees.shape == (features.n_nodes,))
        and features._counts.dtype == (np.uint16 if features._work is None else np.float32)
        and (features._work is None or features._work.shape == (n,))
        and (features._dropped is None or features._dropped.shape == (n, features._survival.size))
    )
    if consistent:
        per_entry = features._visits_per_entry.astype(np.int64)
        starts = np.concatenate([[0], np.cumsum(per_entry)])
        consistent = np.array_equal(starts[features._indptr], features._visit_ptr)
    if not consistent:
        raise ValueError("its arrays contradict each other")


def _within(array: np.ndarray, end: int) -> bool:
    return array.ndim == 1 and (array.size == 0 or (int(array.min()) >= 0 and int(array.max()) < end))


def _gather(pointer: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Entries of CSR rows in the order given, and the row pointer of the result."""
    sizes = np.diff(pointer)[rows].astype(np.int64)
    ends = np.cumsum(sizes)
    within = np.arange(int(ends[-1]) if ends.size else 0) - np.repeat(ends - sizes, sizes)
    entries = np.repeat(pointer[rows].astype(np.int64), sizes) + within
    return entries, np.concatenate([[0], ends]).astype(pointer.dtype)


def _row_blocks(indptr: np.ndarray) -> list[tuple[int, int]]:
    """Ranges of rows with about a million entries each."""
    n = indptr.size - 1
    size = max(1, int(n * 1_000_000 / max(int(indptr[-1]), 1)))
    return [(start, min(start + size, n)) for start in range(0, n, size)]
