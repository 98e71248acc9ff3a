"""Graph random features: the step-resolved record of walks or powers, its matrices and Gram matrices."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks, html
from graphrf._base.cached import cached_property
from graphrf._base.devices import torch_device
from graphrf._base.memory import require_memory
from graphrf._base.warn import called_from_outside
from graphrf.features import bounds, error
from graphrf.features.bounds import CutRows
from graphrf.features.factor import FeatureFactor
from graphrf.features.files import read_features, write_features
from graphrf.features.folder import read_folder
from graphrf.features.frame import FeatureKernel, Frame
from graphrf.features.matrix import feature_matrix
from graphrf.features.record import Record
from graphrf.features.rows import dense_product, row_numbers, squared_norms

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from graphrf.features.device_record import DeviceRecord
    from graphrf.features.tensor import DeviceRows
    from graphrf.graph.graph import Graph


class Features:
    r"""Sparse features of graph nodes, kept step by step so that any kernel can be applied later.

    Row i of the feature matrix is

    .. math:: \phi(i)_v = \frac{1}{m} \sqrt{\frac{d_i}{d_v}} \sum_k \frac{f_k}{S(k)} \, c_{ivk},

    where f is the kernel's modulation and d the degrees (all equal for the combinatorial Laplacian). For random
    walks, c_ivk is the number of the m walks from node i that stand on v after k steps, in uint16, and S(k) the
    probability that a walk gets that far. For powers (`ExactPowers`, `CutPowers`, `CompressedPowers`) it is the
    probability of a walk from i to stand on v after k steps, or an estimate of it, in float32, and m = S(k) = 1.
    Only c is stored; f, S and d enter when used. E[phi(i) . phi(j)] = K_ij for i != j (`CutPowers`: but for
    `truncation_error`).

    Made by `graphrf.sample_features` and `graphrf.features.load_features`; not meant to be constructed by hand.

    The record lies on the host, or on a torch device (`device`, `to`). Of features on a device `torch`, `take`,
    `to`, `gp.GRFKernel` and the sizes work there. Whatever returns numpy or scipy objects copies the record to the
    host when it is first needed, and keeps the copy; `to("cpu")` does so explicitly and, like `save`, keeps none.
    Pickles and copies by the module `copy`, shallow ones too, hold the host's record.

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
    device : str
        Where the record lies: "cpu", or a torch device such as "cuda:0".
    seed : int
        Seed of the samples.
    laplacian : str
        The Laplacian whose walk matrix was used: "normalized" or "combinatorial".
    description : dict
        The sampler's settings, for the record.
    frame : graphrf.features.frame.Frame
        These settings, and what the rows need of the graph.
    record : graphrf.features.record.Record
        The arrays of c, on the host.
    sampler : Sampler or None
        The sampler that drew the features; None if they come from a file or from another process.
    choice : graphrf.sampling.by_error.ErrorChoice or None
        If `sample_features` was given an error: the sampler chosen, and the predicted and measured error.
    """

    def __init__(
        self,
        frame: Frame,
        nodes: np.ndarray,
        record: Record | DeviceRecord,
        origin: error.Origin | None = None,
    ) -> None:
        nodes.setflags(write=False)  # loops are compiled for read-only arrays alone
        self.frame = frame
        self.nodes = nodes
        self._record = record
        self.origin = origin
        self._watch = error.Watch()

    def __getstate__(self) -> dict[str, Any]:
        return {"frame": self.frame, "nodes": self.nodes, "record": self._fetched()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Features.__init__(self, **(state if "frame" in state else _of_old_pickle(state)))

    @cached_property
    def record(self) -> Record:
        """The record on the host; from a device it is copied when it is first asked for."""
        return self._fetched()

    def _fetched(self) -> Record:
        """The record on the host; a copy that is not kept of what lies on a device and has not been fetched."""
        if isinstance(self._record, Record):
            return self._record
        known: Record | None = vars(self).get("record")
        return self._record.to_host() if known is None else known

    # -- devices ---------------------------------------------------------------------------------

    @property
    def device(self) -> str:
        """Device of the record: "cpu", or a torch device such as "cuda:0"."""
        return "cpu" if isinstance(self._record, Record) else str(self._record.device)

    @property
    def on_device(self) -> bool:
        """True if the record is of torch tensors, not of arrays."""
        return not isinstance(self._record, Record)

    def to(self, device: str | torch.device) -> Features:
        """The same features with their record on a device; the features themselves if it lies there.

        Parameters
        ----------
        device : str or torch.device
            "cpu" stands for the host: arrays of numpy.

        Raises
        ------
        ImportError, ValueError
            If torch is missing, or knows no such device.

        Notes
        -----
        Cost: `nbytes` are copied, and take as much memory there. 16-bit integers are kept as their bits in int16.

        Examples
        --------
        >>> import graphrf as grf
        >>> features = grf.sample_features(grf.from_edges([0, 1], [1, 2]), grf.RandomWalks(n_walks=4), seed=0)
        >>> features.to("cpu") is features  # to("cuda") copies them
        True
        """
        if str(device) == "cpu" and not self.on_device:
            return self
        place = torch_device(device, "Features.to")
        if place.type == "cpu":
            return Features(self.frame, self.nodes, self._fetched(), self.origin) if self.on_device else self
        moved = self._moved(place)
        return self if moved is self._record else Features(self.frame, self.nodes, moved, self.origin)

    def _moved(self, device: torch.device) -> DeviceRecord:
        """The record as tensors on a device, the host's CPU too, where they share the arrays' memory."""
        if not isinstance(self._record, Record):
            return self._record.to(device)
        from graphrf.features.device_record import device_record

        return device_record(self._record, device)

    def device_rows(self, device: torch.device) -> DeviceRows:
        """The rows as tensors on a device; kept where the record lies there."""
        moved = self._moved(device)
        if moved is self._record:
            return self._own_device_rows
        from graphrf.features.tensor import device_rows

        return device_rows(self.frame, self.nodes, moved)

    @cached_property
    def _own_device_rows(self) -> DeviceRows:
        """The rows on the device where the record lies."""
        from graphrf.features.tensor import device_rows

        assert not isinstance(self._record, Record)
        return device_rows(self.frame, self.nodes, self._record)

    # -- sizes -----------------------------------------------------------------------------------

    @property
    def n_nodes(self) -> int:
        """Number of nodes of the graph."""
        return self.frame.n_nodes

    @property
    def n_walks(self) -> int:
        """Walks from each node; 1 for powers."""
        return self.frame.n_walks

    @property
    def laplacian(self) -> str:
        """The Laplacian whose walk matrix was used."""
        return self.frame.laplacian

    @property
    def seed(self) -> int:
        """Seed of the samples."""
        return self.frame.seed

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the feature matrices."""
        return self.frame.dtype

    @property
    def description(self) -> dict[str, Any]:
        """The sampler's settings."""
        return self.frame.description

    @property
    def sampler(self) -> Any:
        """The sampler that drew the features, if known."""
        return None if self.origin is None else self.origin.sampler

    @property
    def choice(self) -> Any:
        """Record of how the sampler was chosen, if an error was given; else None."""
        return None if self.origin is None else self.origin.choice

    @property
    def nnz(self) -> int:
        """Number of (node, visited node) pairs."""
        return self._record.n_entries

    @cached_property
    def n_steps(self) -> int:
        """Steps of these rows' walks; multiply-adds of powers."""
        return self.frame.n_steps(self._record)

    @property
    def nbytes(self) -> int:
        """Memory of the stored arrays in bytes (degrees, which belong to the graph, not counted)."""
        return self._record.nbytes + self.nodes.nbytes

    @property
    def shape(self) -> tuple[int, int]:
        """(n, N), the shape of every feature matrix."""
        return self.nodes.size, self.n_nodes

    @property
    def max_length(self) -> int:
        """The longest possible walk, or the highest power."""
        return self.frame.max_length

    def __repr__(self) -> str:
        how = f"{self.n_walks} walks per node, {self.n_steps} steps"
        if self.frame.of_powers:
            how = f"powers up to {self.max_length}, {self.n_steps} multiply-adds"
        return (
            f"Features({self.shape[0]} nodes of {self.n_nodes}, {how}, {self.nnz} non-zeros, "
            f"{self.nbytes / 2**20:.3g} MiB{'' if self.device == 'cpu' else ' on ' + self.device})"
        )

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        rows = [
            ("nodes", f"{self.shape[0]:,} of {self.n_nodes:,}"),
            *self.frame.settings_shown(),
            ("multiply-adds" if self.frame.of_powers else "steps", self.n_steps),
            ("non-zeros", self.nnz),
            ("memory", html.memory(self.nbytes)),
            ("device", self.device),
        ]
        return html.table("Features", rows)

    # -- matrices --------------------------------------------------------------------------------

    def matrix(self, kernel: FeatureKernel, *, n_threads: int | None = None) -> sp.csr_array:
        r"""The feature matrix Phi of a kernel, K being about Phi Phi^T.

        Parameters
        ----------
        kernel : Kernel
            Any kernel of the features' Laplacian.
        n_threads : int, optional
            Number of threads. Default: the cores that the process may use. The result does not depend on it.

        Returns
        -------
        scipy.sparse.csr_array, shape (n, N), of the features' dtype. Its index arrays are shared by all
        kernels and read-only. In float32 an entry is that of float64 to half a unit in the last place, 2^-24 of
        itself. Powers are stored in float32, so that float64 matrices of them are as accurate as
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
            When the series ends so early that `truncation_error(kernel)` exceeds 2 % of the kernel's bound
            (sum_k |f_k|)^2; for rows that are cut, whose bound is loose, 10 %.
        FeatureErrorWarning
            Once for each kernel, when the error of Phi Phi^T is estimated to exceed a quarter of K's norm (see
            Notes, and `relative_error`, which measures it), or its diagonal is more than twice K's at the node
            where it is largest, as at hubs with far more neighbours than a row has entries.

        Notes
        -----
        Cost: O(visits) time, nnz floats of memory; of cut powers once more for their bound.

        The error is estimated by exact products with two or twelve vectors, when a kernel is first asked for. That
        takes at most some 30 ms, or about as long as the call itself. It is left out where more would be needed
        (long kernels, graphs of some 100,000 edges or more), for features that come from a file or from another
        process, which do not hold their graph, and where graphrf itself asks for the matrix. A diagonal above
        twice (sum_k |f_k|)^2, the most that an entry of K can be, is always told, and by Gaussian processes on
        features too: one pass over the non-zeros.
        """
        f = self.checked_modulation(kernel)
        phi = self.matrix_from_modulation(f, n_threads=n_threads)
        if called_from_outside():
            work = 2.0 * self.record.steps.size
            self._watch.check(self._rows(phi), kernel, f, self.frame.scale, self.origin, work)
        return phi

    def relative_error(
        self, kernel: FeatureKernel, *, seed: int = 0, apply: Callable[..., np.ndarray] | None = None
    ) -> float:
        r"""An estimate of the relative error of the Gram matrix, over the nodes of these features.

        .. math:: \frac{\| \Phi \Phi^\top - K_{SS} \|_F}{\| K_{SS} \|_F},

        S being `nodes`, and K the kernel itself: variance and whatever the length or a cut leaves out both count.
        Phi is these features' matrix as it was drawn, not an average over draws. For at most 32 nodes the value is
        exact; for more it is estimated from products of both matrices with 32 vectors, 16 of them random.

        Parameters
        ----------
        kernel : Kernel
            See `matrix`.
        seed : int in [0, 2^63)
            Seed of the random vectors. The same seed gives the same estimate.
        apply : callable, optional
            apply(kernel, v, tol=...) = K v for v of shape (N, p). Default: `graphrf.apply_kernel` on the graph
            that the features were drawn on, which they hold as long as they stay in the process. Features from a
            file need `functools.partial(graphrf.apply_kernel, graph)`.

        Returns
        -------
        float, at least 0. For 28 pairs of a graph (with hubs or not) and a kernel (short to very long) it was
        within 11 % of the true error with each of five seeds; a test holds it to 25 %.

        Raises
        ------
        TypeError, ValueError
            See `matrix`; also if the features do not contain their graph and `apply` is not given.

        Notes
        -----
        Cost: 32 products with K by the series (`apply_kernel`, tolerance 1e-6), 64 with Phi, and its matrix;
        memory for some 100 N numbers.

        Source of the estimate: Meyer, Musco, Musco and Woodruff, "Hutch++: Optimal stochastic trace estimation",
        SOSA 2021, for the trace of the squared error.

        Examples
        --------
        >>> import networkx as nx, graphrf as grf
        >>> graph = grf.load_graph(nx.karate_club_graph(), weight=False)
        >>> few, many = (grf.sample_features(graph, grf.CompressedPowers(b), seed=0) for b in (2, 32))
        >>> kernel = grf.Diffusion(lengthscale=2.0)
        >>> few.relative_error(kernel) > many.relative_error(kernel)
        True
        """
        f = self.frame.modulation(kernel)
        seed = checks.seed(seed)
        if apply is None:
            if self.origin is None:
                raise error.no_graph()
            apply = self.origin.apply
        return error.measured(self._rows(self.matrix_from_modulation(f)), kernel, apply, seed=seed)

    def matrix_from_modulation(self, modulation: np.ndarray, *, n_threads: int | None = None) -> sp.csr_array:
        """The feature matrix of a modulation given as a vector; what is missing at its end counts as zero."""
        return feature_matrix(self.frame, self.nodes, self.record, modulation, n_threads=n_threads)

    def checked_modulation(self, kernel: FeatureKernel) -> np.ndarray:
        """f_0 .. f_L of a kernel, L the largest length, with the errors and warnings of `matrix`."""
        if self.choice is not None and repr(self.choice.kernel) == repr(kernel):
            return self.frame.modulation(kernel)  # its error was asked for, and measured
        return bounds.checked_modulation(self.frame, kernel, self._cut)

    def torch(self, kernel: FeatureKernel, *, device: str | torch.device | None = None) -> torch.Tensor:
        """The feature matrix as a torch sparse CSR tensor on a device; needs the extra `gp`.

        Parameters
        ----------
        kernel : Kernel
            See `matrix`, which raises the same errors and warnings.
        device : str or torch.device, optional
            Default: where the features are.

        Returns
        -------
        Tensor, shape (n, N), of the features' dtype
            The numbers of `matrix`. Features on a device make it there; its index tensors are then those of the
            record, and must not be written to. With `CutPowers`, the bound that decides on a warning needs the
            host's copy of the record.
        """
        place = torch_device(self.device if device is None else device, "Features.torch")
        f = self.checked_modulation(kernel)
        from graphrf.features.tensor import row_squares, tensor_from_host, tensor_on_device

        if self.on_device:
            phi = tensor_on_device(self.frame, self._own_device_rows, f, place)
        else:
            phi = tensor_from_host(self.frame, self.nodes, self.record, f, place)

        def diagonal() -> np.ndarray:
            return np.asarray(row_squares(phi.values(), phi.crow_indices()).cpu().numpy())

        self._watch.check_diagonal(self.nodes, diagonal, kernel, f, self.frame.scale)
        return phi

    def gram(
        self,
        kernel: FeatureKernel,
        *,
        rows: Any = None,
        cols: Any = None,
        other: Features | None = None,
    ) -> np.ndarray:
        r"""An estimate of the Gram matrix K[rows, cols], dense.

        Without `other` it is Phi Phi^T: symmetric, positive semi-definite, and unbiased off the diagonal but for
        `truncation_error`. Its diagonal is too large by the features' variance, a hidden nugget: 14 to 20 % of
        K_ii with 8 walks and short kernels, many times K_ii for kernels much too long for the rows; 0 for exact
        and cut powers. With an independent set of features `other` it is Phi Phi'^T: unbiased everywhere, but
        neither
        symmetric nor positive: for estimates and for measuring errors, never as a Gaussian process's covariance.

        Parameters
        ----------
        kernel : Kernel
        rows, cols : array_like of int, optional
            Node positions among `nodes`. Default: all.
        other : Features, optional
            Features of the same graph, drawn with another seed unless one of the two is of `ExactPowers` or
            `CutPowers`, which draw nothing.

        Returns
        -------
        ndarray, shape (len(rows), len(cols)), of the features' dtype.

        Raises
        ------
        MemoryError
            If the dense result does not fit; nothing of it is made by then.

        Warns
        -----
        HeavyTailWarning, TruncationWarning, FeatureErrorWarning
            As `matrix`; with `other`, not of the error. What is judged are all rows, whichever were asked for.

        Notes
        -----
        Cost: the matrices of the rows asked for, their sparse product (in memory only a few rows of it at a time),
        and the dense result.
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
            "ask for fewer `rows` and `cols`, or multiply by Phi and its transpose in turn (Features.matrix)",
        )
        left = left_set.matrix_from_modulation(f)
        if other is None and called_from_outside():
            if rows is not None:
                self._watch.check_diagonal(
                    left_set.nodes, lambda: squared_norms(left), kernel, f, self.frame.scale
                )
            self._watch_gram(kernel, f, left if rows is None else None, shape)
        if right_set is left_set:
            return dense_product(left, left)
        right = right_set.matrix_from_modulation(f if other is None else other.checked_modulation(kernel))
        return dense_product(left, right)

    def take(self, nodes: Any) -> Features:
        """The features of some of the nodes (positions), in the order given; repeats are allowed.

        They lie where these lie.
        """
        return self._take_rows(row_numbers("nodes", nodes, self.nodes))

    def updated(self, graph: Graph, *, n_threads: int | None = None) -> Features:
        r"""The features of these nodes on an edited graph, bit for bit as if they were sampled there anew.

        Random numbers belong to (seed, source, step, walk or node), so a walk changes only if it met a node whose
        edges changed. Only the rows of the walks that did are drawn again, with the same sampler and seed.

        Parameters
        ----------
        graph : Graph
            The edited graph, with the same nodes in the same order: edges added or removed, weights changed.
        n_threads : int, optional
            Number of threads. Default: the cores that the process may use. The result does not depend on it.

        Returns
        -------
        Features
            On the new graph, whose degrees they use; they can be updated in turn. These features stay as they are.

        Raises
        ------
        TypeError, ValueError
            If the features do not hold their graph, since they come from a file or from another process; if
            anything but `RandomWalks` drew them (see Notes); if they lie on a device, or the nodes differ.
        MemoryError
            If a second record does not fit.

        Notes
        -----
        Time: the walks of the rows that met the edit; to find them, one pass over the entries and over the edges
        of both graphs; and a copy of the record, whose memory the result takes once more.

        *Every row is drawn again* where the edit is not local: if it makes weights unequal that were all equal at
        each node, or the reverse (walks then read their random bits in another way); if `AutoLengths` chooses
        other lengths for the new graph; and, for the combinatorial Laplacian, if the largest degree changes, and
        with it every node's probability of staying. The result is the same, only not quicker than sampling.

        *Powers are refused.* `CompressedPowers`, `CutPowers` and `ExactPowers` go through the nodes in reverse
        Cuthill-McKee order, which an edge anywhere may change: with it the order of the sums, and what is drawn.
        For them to follow an edit, that order would have to be kept from the first graph.

        Examples
        --------
        >>> import numpy as np, graphrf as grf
        >>> ring = np.arange(1000)
        >>> before = grf.from_edges(ring, (ring + 1) % 1000)
        >>> after = grf.from_edges(ring[1:], (ring[1:] + 1) % 1000)  # without the edge from 0 to 1
        >>> features = grf.sample_features(before, grf.RandomWalks(n_walks=8), seed=0)
        >>> updated = features.updated(after)
        >>> anew = grf.sample_features(after, grf.RandomWalks(n_walks=8), seed=0)
        >>> kernel = grf.Diffusion(lengthscale=1.0)
        >>> bool((updated.matrix(kernel) != anew.matrix(kernel)).nnz == 0)
        True
        """
        if self.origin is None or self.origin.follow is None:
            raise error.cannot_follow()
        followed: Features = self.origin.follow(self, graph, n_threads)
        return followed

    def factor(self, *, n_threads: int | None = None) -> FeatureFactor:
        """The `Factor` of these features, for inference: F(f) with P_k from the counts at step k."""
        return FeatureFactor(self.frame, self.nodes, self.record, n_threads=n_threads)

    def truncation_error(self, kernel: FeatureKernel) -> float:
        r"""A bound on the error of E[Phi] E[Phi]^T in operator norm: of the largest length, and of what was cut.

        With A = sum_k |f_k| and tau = sum_{k > L} |f_k|, F is off by at most tau beyond the largest length L, and
        K = F F^T by tau (2 A - tau), with equality for f >= 0 on a normalised Laplacian. `CutPowers` drop a part
        Delta of F_L = Phi + Delta. Neither F_L nor Phi has a norm above A_L = A - tau, so that
        F_L F_L^T - Phi Phi^T = F_L Delta^T + Delta Phi^T adds 2 A_L |Delta|_2 at most, where

        .. math:: \|\Delta\|_2 \le \min\Big(
                  \big(\sum_i \delta_i^2\big)^{1/2}, \; \big(\max_i r_i \, \max_v c_v\big)^{1/2} \Big).

        The first is the Frobenius norm, delta_i = sum_k |f_k| dropped_ik: the smaller one for few rows. The second
        is Schur's test with the weights sqrt(d), which W leaves as they are (combinatorial: 1); it does not grow
        with the graph. Entries of W are >= 0, and sum_{k <= L} |f_k| W^k has the weighted mass A_L in every row
        and every column, of which what was cut has

        .. math:: r_i = A_L - \sum_{v, k} |f_k| \, c_{ivk}, \qquad
                  c_v = A_L - \sum_{i, k} |f_k| \, c_{ivk} \frac{d_i}{d_v}.

        Where not all nodes are rows, c_v counts what the others would have in column v as cut, too: it still
        bounds, but then the test falls only like the root of r. Of a repeated node one row counts. Rounding to
        float32 is included where rows are cut, and not elsewhere.

        Notes
        -----
        Cost: O(n + L); of cut powers that of `matrix`.

        Source of the test: J. Schur, "Bemerkungen zur Theorie der beschränkten Bilinearformen mit unendlich vielen
        Veränderlichen", Journal für die reine und angewandte Mathematik 140 (1911).

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
        return bounds.truncation_error(self.frame, kernel, self._cut)

    def row_errors(self, kernel: FeatureKernel) -> np.ndarray:
        r"""Bounds on the Euclidean distance of each row of E[Phi] from that of F, shape (n,), float64.

        .. math:: \sum_{k > L} |f_k| + \sum_{k \le L} |f_k| \, \text{dropped}_{ik},

        where dropped_ik is the norm of what `CutPowers` dropped of W^k e_i, and 0 for all other samplers. Rounding
        to float32 is not included.
        """
        return bounds.row_errors(self.frame, kernel, self.nodes.size, self._cut)

    # -- files -----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the features as an uncompressed .npz file without pickle; it appears whole or not at all.

        The degrees go along, so the file can be used without the graph.
        """
        write_features(path, self.frame, self.nodes, self._fetched())

    # -- inside ----------------------------------------------------------------------------------

    def _rows(self, phi: sp.csr_array) -> error.Rows:
        """The rows of a feature matrix, by products with their Gram matrix."""
        turned = phi.T
        return error.Rows(self.nodes, self.n_nodes, lambda x: phi @ (turned @ x), lambda: squared_norms(phi))

    def _watch_gram(
        self, kernel: FeatureKernel, f: np.ndarray, phi: sp.csr_array | None, shape: tuple[int, int]
    ) -> None:
        """Warn of the error of all rows, whichever `gram` was asked for; phi is their matrix, if it is there."""
        work = shape[0] * shape[1] * max(self.nnz / self.nodes.size, 1.0)
        visits = self._record.steps.shape[0]
        if phi is None and self.origin is not None and 2.0 * visits <= max(work, error.FREE):
            phi = self.matrix_from_modulation(f)
        if phi is not None:
            self._watch.check(self._rows(phi), kernel, f, self.frame.scale, self.origin, work)

    @property
    def _cut(self) -> CutRows | None:
        """The rows, on the host, where a part of them was cut."""
        return None if self._record.dropped is None else CutRows(self.nodes, self.record)

    def _check_other(self, other: Features) -> None:
        if not isinstance(other, Features):
            raise checks.type_error("other", f"must be Features, got {checks.describe(other)}")
        if not self.frame.is_of_same_matrix(other.frame):
            raise checks.value_error("other", "must be features of the same graph and Laplacian")
        if other.seed == self.seed and self.frame.is_random and other.frame.is_random:
            raise checks.value_error(
                "other",
                f"must be drawn with another seed, both have {self.seed}: equal seeds give dependent "
                "samples and a biased estimate",
            )

    def _take_rows(self, rows: np.ndarray) -> Features:
        return Features(self.frame, self.nodes[rows], self._record.take(rows), self.origin)


def _of_old_pickle(state: dict[str, Any]) -> dict[str, Any]:
    """State of `Features` from a pickle of version 0.1, which stores every array and setting separately."""
    known = {name.removeprefix("_"): value for name, value in state.items()}
    known["of_powers"] = known["work"] is not None
    frame, record = (kind(**{part.name: known[part.name] for part in fields(kind)}) for kind in (Frame, Record))
    return {"frame": frame, "nodes": known["nodes"], "record": record}


def load_features(path: str | os.PathLike[str]) -> Features:
    """Features from a file that `Features.save` wrote, or a folder of `sample_features(path=...)`.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file or folder, it is not one of whole features, or blocks are missing in a folder:
        `sample_features` with the same arguments makes these.
    OSError
        If it cannot be read.
    MemoryError
        If the features do not fit; none of their arrays is read by then.

    Notes
    -----
    Time and memory: those of reading the file, or of reading a folder block by block.

    Examples
    --------
    >>> import os, tempfile, graphrf as grf
    >>> features = grf.sample_features(grf.from_edges([0, 1], [1, 2]), grf.RandomWalks(n_walks=4), seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     features.save(os.path.join(folder, "features.npz"))
    ...     again = grf.features.load_features(os.path.join(folder, "features.npz"))
    >>> again.n_steps == features.n_steps
    True
    """
    path = checks.path("path", path)
    return Features(*(read_folder(path) if os.path.isdir(path) else read_features(path)))
