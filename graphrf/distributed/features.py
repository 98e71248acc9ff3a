"""Features whose rows lie on the workers of a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import scipy.sparse as sp
from distributed import Client

from graphrf._base import checks, html
from graphrf._base.cached import cached_property
from graphrf._base.memory import NoRoomError, available_memory, limit_words
from graphrf.distributed import blocks
from graphrf.distributed.block_store import Blocks, MadeBlocks
from graphrf.distributed.blocks import Facts, File
from graphrf.distributed.client import arrays_folder, require_client, seen_by_all, workers
from graphrf.distributed.factor import DistributedFactor
from graphrf.distributed.shared_object import SharedObject
from graphrf.features import bounds
from graphrf.features.error import warn_of_diagonal
from graphrf.features.factor import checked_columns
from graphrf.features.features import Features
from graphrf.features.folder import BlockNodes, FeatureFolder
from graphrf.features.rows import squared_norms
from graphrf.features.sample_info import FeatureKernel, SampleInfo, SampleProperties


class WorkerMemory(NamedTuple):
    """The memory of a worker in bytes; see `DistributedFeatures.memory`.

    Attributes
    ----------
    n_blocks : int
    blocks : int
        Blocks of these features, with the values of one modulation each.
    private : int
        Its process, without the pages of mapped files, which are shared and can be dropped.
    peak : int
        Peak of its process with such pages; on systems other than Linux, the present value.
    limit : int or None
        Limit set by Dask.
    """

    n_blocks: int
    blocks: int
    private: int
    peak: int
    limit: int | None


class DistributedFeatures(SampleProperties):
    """Features of graph nodes, in blocks of rows on the workers of a Dask cluster.

    The counterpart of `graphrf.features.Features`, made by `sample_features` and `load_features`.
    Blocks stay on the workers that drew them, and only vectors and panels of columns are sent. A
    block that is lost with its worker is drawn again, identically. The attributes are those of
    `Features`, over all blocks, and `n_blocks`.
    """

    def __init__(
        self,
        info: SampleInfo,
        nodes: np.ndarray | None,
        parts: Sequence[BlockNodes],
        held: Blocks,
        identity: Callable[[], Mapping[str, str]],
    ) -> None:
        self.info = info
        self._chosen = nodes
        self._sizes = np.array([len(part) for part in parts])
        self._held = held
        self._identity = identity  # distinguishes these features from others; a pass over the graph

    # -- settings and sizes ------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """(n, N), the shape of every feature matrix."""
        return int(self._sizes.sum()), self.n_nodes

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return int(self._sizes.size)

    @cached_property
    def nodes(self) -> np.ndarray:
        """Positions of the rows' nodes, int64, shape (n,)."""
        nodes = np.arange(self.shape[0]) if self._chosen is None else self._chosen
        nodes.setflags(write=False)
        return nodes

    @property
    def nnz(self) -> int:
        """Non-zeros of every feature matrix."""
        return sum(facts.n_entries for facts in self._facts)

    @property
    def n_steps(self) -> int:
        """Total number of steps; for powers, multiply-adds."""
        return sum(facts.n_steps for facts in self._facts)

    @property
    def nbytes(self) -> int:
        """Memory of the record on all workers, in bytes."""
        return sum(facts.nbytes for facts in self._facts)

    @cached_property
    def _facts(self) -> list[Facts]:
        return self._held.gathered(blocks.facts)

    def __repr__(self) -> str:
        if self.info.of_powers:
            how = f"powers up to {self.max_length}"
        else:
            how = f"{self.n_walks} walks per node"
        nodes = f"{self.shape[0]} nodes of {self.n_nodes}"
        return f"DistributedFeatures({nodes}, {how}, {self.n_blocks} blocks)"

    def _repr_html_(self) -> str:
        """A table for notebooks; sizes that only workers know are shown once asked for."""
        known = "_facts" in vars(self)
        rows = [
            ("nodes", f"{self.shape[0]:,} of {self.n_nodes:,}"),
            ("blocks", self.n_blocks),
            *self.info.settings_shown(),
            ("multiply-adds" if self.info.of_powers else "steps", self.n_steps if known else None),
            ("non-zeros", self.nnz if known else None),
            ("memory on all workers", html.memory(self.nbytes) if known else None),
        ]
        return html.table("DistributedFeatures", rows)

    def __copy__(self) -> DistributedFeatures:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> DistributedFeatures:
        return self

    def memory(self) -> dict[str, WorkerMemory]:
        """The memory of each worker, by its address.

        Examples
        --------
        >>> from dask.distributed import Client
        >>> import graphrf as grf
        >>> line = grf.from_edges(range(9), range(1, 10))
        >>> with Client(
        ...     n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
        ... ) as client:
        ...     features = grf.distributed.sample_features(
        ...         line, grf.RandomWalks(4), client=client, seed=0
        ...     )
        ...     held = features.memory()
        >>> [worker.n_blocks for worker in held.values()]
        [1]
        """
        return self._held.repeated(self._memory)

    def _memory(self) -> dict[str, WorkerMemory]:
        client, futures, facts = self._held.client, self._held.futures, self._facts
        where = client.who_has(futures)
        processes = client.run(_process_memory)
        result = {}
        for worker in workers(client):
            if worker.address in processes:
                at = [worker.address in where.get(future.key, ()) for future in futures]
                own = [known for known, here in zip(facts, at, strict=True) if here]
                held = sum(known.nbytes + self.dtype.itemsize * known.n_entries for known in own)
                private, peak = processes[worker.address]
                result[worker.address] = WorkerMemory(
                    len(own), held, private, peak, worker.memory_limit
                )
        return result

    # -- matrices and products ---------------------------------------------------------------------

    def matrix(self, kernel: FeatureKernel, *, memory_limit: int | None = None) -> sp.csr_array:
        """The feature matrix Phi of a kernel, in this process: `Features.matrix`, bit for bit.

        Parameters
        ----------
        kernel : Kernel
            A kernel of the features' Laplacian.
        memory_limit : int, optional
            Maximum number of bytes in this process. Default: the available memory.

        Raises
        ------
        ValueError
            If the kernel belongs to the other Laplacian.
        MemoryError
            If it does not fit; `gram_matvec` and `factor` need no matrix.

        Warns
        -----
        HeavyTailWarning, TruncationWarning, FeatureErrorWarning
            See `graphrf.features.Features.matrix`; entries dropped by `CutPowers` are not
            considered; the error is not estimated, except for a diagonal that no kernel has.
        """
        f = bounds.checked_modulation(self.info, kernel)
        wide = self.nnz >= 2**31
        self._check_fits(
            "the matrix", 2 * self.nnz * (self.dtype.itemsize + (8 if wide else 4)), memory_limit
        )
        parts = self._held.gathered(blocks.values, f=f)
        if wide:
            parts = [
                sp.csr_array(
                    (part.data, part.indices.astype(np.int64), part.indptr.astype(np.int64)),
                    part.shape,
                )
                for part in parts
            ]
        phi = sp.csr_array(sp.vstack(parts, format="csr"))
        warn_of_diagonal(self.nodes, squared_norms(phi), kernel, self.info.scale)
        return phi

    def gather(self, *, memory_limit: int | None = None) -> Features:
        """The features of `graphrf.sample_features`, bit for bit; MemoryError if too large."""
        self._check_fits("the features", 2 * self.nbytes, memory_limit)
        return self.factor().gather()

    def gram_matvec(self, kernel: FeatureKernel, v: np.ndarray) -> np.ndarray:
        """Phi Phi^T v on the workers, for a vector or columns; costs as `DistributedFactor`.

        Parameters
        ----------
        kernel : Kernel
            A kernel with the Laplacian of the features.
        v : array_like, shape (n,) or (n, p)

        Returns
        -------
        ndarray of the shape of v
            float32 if features and v have at most that precision, else float64.

        Raises
        ------
        ValueError
            If the kernel belongs to the other Laplacian, or v has another shape.

        Warns
        -----
        HeavyTailWarning, TruncationWarning
            See `matrix`.
        """
        f = bounds.checked_modulation(self.info, kernel)
        checked_columns("v", v, self.shape[0], self.dtype)
        return self.factor().gram_apply(f, v)

    def factor(self, *, n_threads: int | None = None) -> DistributedFactor:
        """The `Factor` of these features; `n_threads` is ignored, since Dask's threads are used."""
        return DistributedFactor(
            self.info, self._held, self._sizes, self.nbytes / max(self.shape[0], 1)
        )

    def step_squares(self) -> np.ndarray:
        """<P_k, P_l> / n for all steps, (L + 1, L + 1), which gives the mean prior variance."""
        return np.asarray(sum(self._held.gathered(blocks.step_products)) / self.shape[0])

    # -- files -------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the features to a folder that all workers see, a file for each block.

        A block's file appears whole or not at all. Existing blocks are not written again, so an
        interrupted call can be repeated. `load_features` reads the folder.

        Raises
        ------
        ValueError
            If the folder holds other features or files, or is not seen by all workers.
        """
        folder = FeatureFolder(path)
        rows = int(self._sizes[0])
        known, key = begin_folder(
            self._held.client, folder, self.info, self._chosen, rows, self._identity()
        )
        if known != rows:
            raise checks.value_error(
                "path",
                f"must be a new folder, or one whose blocks have {rows} rows like these, got "
                f"{str(folder.path)!r}",
            )
        missing = folder.missing(self.n_blocks)
        self._held.some(missing).gathered(
            blocks.write, [File(folder.file(number), key) for number in missing]
        )

    def _check_fits(self, what: str, needed: int, limit: int | None) -> None:
        given = None if limit is None else checks.integer("memory_limit", limit, low=1)
        limit = available_memory() if given is None else given
        if limit is not None and needed > limit:
            raise NoRoomError(
                f"{what} of {self.shape[0]} nodes would take about {needed / 2**30:.3g} GiB in "
                f"this process, but {limit_words(given, limit)}; gram_matvec and factor() leave "
                "them on the workers"
            )


def load_features(
    path: str | os.PathLike[str],
    *,
    client: Client | None = None,
    shared_folder: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> DistributedFeatures:
    """Features on workers from a folder of `sample_features` or `DistributedFeatures.save`.

    Keep the folder while the features are used: blocks that are lost with a worker are read again.

    Parameters
    ----------
    path : path of a folder
        Seen by all workers.
    client : dask.distributed.Client, optional
        Default: the current one.
    shared_folder : path, optional
        See `sample_features`; for the arrays that all blocks share.
    progress : bool
        Show a progress bar on standard error.

    Raises
    ------
    FileNotFoundError, ValueError
        If there are no features, if they are damaged, or if blocks are missing: `sample_features`
        with the same arguments draws those.

    Examples
    --------
    >>> import tempfile
    >>> from dask.distributed import Client
    >>> import graphrf as grf
    >>> line = grf.from_edges(range(9), range(1, 10))
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Client(
    ...     n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
    ... ) as client:
    ...     features = grf.distributed.sample_features(
    ...         line, client=client, seed=0, path=folder.name
    ...     )
    ...     again = grf.distributed.load_features(folder.name, client=client)
    ...     again.n_steps == features.n_steps
    True
    >>> folder.cleanup()
    """
    client = require_client(client)
    checks.flag("progress", progress)
    folder = FeatureFolder(path)
    info, nodes, rows, key = folder.info()
    parts = folder.whole(nodes, info.n_nodes if nodes is None else int(nodes.size), rows)
    mapped = arrays_folder(client, shared_folder)
    files = [File(folder.file(number), key) for number in range(len(parts))]
    held = MadeBlocks(client, blocks.read, parts, files, info=SharedObject(info, mapped))
    identity = folder.identity()
    held.wait([len(part) for part in parts], progress=progress, what="features", unit="nodes")
    return DistributedFeatures(info, nodes, parts, held, lambda: identity)


def begin_folder(
    client: Client,
    folder: FeatureFolder,
    info: SampleInfo,
    nodes: np.ndarray | None,
    rows: int,
    identity: Mapping[str, str],
) -> tuple[int, str]:
    """`FeatureFolder.begin`; ValueError also if not all workers see the folder."""
    folder.make()
    if not seen_by_all(client, folder.path):
        raise checks.value_error(
            "path",
            "must be a folder that this process can write to and all workers see, got "
            f"{str(folder.path)!r}",
        )
    return folder.begin(info, nodes, rows, identity)


def _process_memory() -> tuple[int, int]:
    """Present bytes of this process without pages of mapped files, and its peak with them."""
    now = psutil.Process().memory_info().rss
    known = {"RssAnon": now, "VmHWM": now}
    try:
        # `getrusage` gives the peak of the parent process.
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name in known:
            known[name] = int(value.split()[0]) * 1024
    return known["RssAnon"], known["VmHWM"]
