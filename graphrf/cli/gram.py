"""`graphrf gram`: a kernel matrix, or a block of it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrf.cli.options.commands import given_options, refuse_unused
from graphrf.cli.options.graphs import Loaded, Reading, load
from graphrf.cli.options.kernels import KernelChoice
from graphrf.cli.options.messages import Talking
from graphrf.cli.options.nodes import NodeNames
from graphrf.cli.options.output import Result, check_output, deliver
from graphrf.cli.options.samplers import Sampling
from graphrf.cli.options.table import KERNEL_NAMES

if TYPE_CHECKING:
    import numpy as np

    from graphrf.kernels.kernel import Kernel

EXAMPLES = (
    "graphrf gram karate --kernel diffusion --lengthscale 2 -o K.csv",
    "graphrf gram facebook-pages --kernel diffusion --rows 0,1,2 --error 0.1 --seed 0",
    "graphrf gram generated-grid --kernel matern --rows 0,1,2 --exact -o K.npz",
    "graphrf gram roads.npz --kernel regularized_laplacian --rows 0,1 --cols 0,1,2",
)
# The kernel of a graph with at most so many nodes is computed exactly where no sampler is named.
_EXACT_NODES = 5_000


class Block(NamedTuple):
    """A block of a kernel matrix: its entries, the nodes of its rows and columns, and metadata."""

    matrix: np.ndarray
    rows: list[Any]
    cols: list[Any]
    facts: dict[str, Any]


def gram(
    graph: str,
    reading: Reading,
    choice: KernelChoice,
    sampling: Sampling,
    talking: Talking,
    seed: int | None = None,
    threads: int | None = None,
    rows: str | None = None,
    cols: str | None = None,
    exact: bool = False,
    output: str | None = None,
) -> None:
    """Compute a kernel matrix of a graph: exactly, or from features with an error estimate."""
    check_output(output, [graph])
    kernel = choice.made()
    if kernel is None:
        raise ValueError(f"`--kernel` is needed: {', '.join(KERNEL_NAMES)}")
    unused = given_options(sampling) | {"--seed": seed}
    if _is_features(graph):
        if exact:
            raise ValueError(f"`--exact` needs a graph, got the features {graph}")
        refuse_unused(given_options(reading) | unused, (), f"the features {graph}")
        block = _of_features(graph, kernel, rows, cols)
    else:
        if exact:
            refuse_unused(unused, (), "`--exact`")
        loaded = load(graph, reading, talking)
        names = NodeNames.of_graph(loaded.graph)
        at = _chosen(names, names.everything, rows, cols)
        _require_room(*at)
        if (
            not exact
            and loaded.graph.n_nodes <= _EXACT_NODES
            and not any(value is not None for value in given_options(sampling).values())
        ):
            exact = True
            talking.remark(
                f"exact, as for any graph of at most {_EXACT_NODES:,} nodes"
                + ("; the seed is not used" if seed is not None else "")
                + "; `--sampler compressed` samples"
            )
        if exact:
            from graphrf.operators.series.apply import kernel_block

            matrix = kernel_block(loaded.graph, kernel, *at, n_threads=threads)
            facts: dict[str, Any] = {}
        else:
            matrix, facts = _sampled(
                loaded, kernel, *at, sampling, talking.settled(seed), threads, talking
            )
        block = Block(matrix, names.of(at[0]), names.of(at[1]), {"graph": loaded.facts, **facts})
    columns = [(str(node), column) for node, column in zip(block.cols, block.matrix.T, strict=True)]
    deliver(
        Result(
            "gram",
            [("node", block.rows), *columns],
            {"kernel": repr(kernel), "exact": exact, **block.facts},
            {"K": block.matrix, "rows": block.rows, "cols": block.cols},
        ),
        output,
        talking,
    )


def _chosen(
    names: NodeNames, every: np.ndarray, rows: str | None, cols: str | None
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the chosen rows and columns."""
    left = every if rows is None else names.chosen(rows, "--rows")
    return left, left if cols is None else names.chosen(cols, "--cols")


def _require_room(rows: np.ndarray, cols: np.ndarray) -> None:
    from graphrf._base.memory import require_memory

    require_memory(
        8.0 * rows.size * cols.size,
        f"a kernel matrix of {rows.size} x {cols.size}",
        "choose fewer --rows and --cols",
    )


def _sampled(
    loaded: Loaded,
    kernel: Kernel,
    rows: np.ndarray,
    cols: np.ndarray,
    sampling: Sampling,
    seed: int,
    threads: int | None,
    talking: Talking,
) -> tuple[np.ndarray, dict[str, Any]]:
    """The block from features of its nodes, with the error that these have."""
    import numpy as np

    from graphrf._base.warn import warn
    from graphrf.features.error import MUCH, FeatureErrorWarning
    from graphrf.sampling.sample import sample_features

    features = sample_features(
        loaded.graph,
        **sampling.chosen(loaded.graph, kernel, kernel.laplacian),
        nodes=loaded.graph.positions(np.unique(np.concatenate([rows, cols]))),
        seed=seed,
        n_threads=threads,
        progress=talking.progress,
    )
    whole = cols is rows and np.array_equal(features.nodes, rows)
    block = features.gram(kernel, rows=rows, cols=None if whole else cols)
    error = features.relative_error(kernel)
    about = "the error of the matrix is about {} of the kernel's norm over these nodes"
    if error > MUCH:
        warn(
            f"{about.format(f'{error:.0%}')}; `--error 0.1` chooses a sampler that suits the "
            "kernel, and `--exact` avoids the error",
            FeatureErrorWarning,
        )
    else:
        talking.remark(about.format(f"{error:.1%}"))
    return block, {"seed": features.seed, "settings": features.description, "relative_error": error}


def _of_features(source: str, kernel: Kernel, rows: str | None, cols: str | None) -> Block:
    """The block of features that were sampled before; their nodes are positions."""
    from graphrf.features.features import load_features

    features = load_features(source)
    names = NodeNames(None, features.n_nodes)
    at = _chosen(names, features.nodes, rows, cols)
    matrix = (
        features.gram(kernel)
        if rows is cols is None
        else features.gram(kernel, rows=at[0], cols=at[1])
    )
    facts = {"features": source, "seed": features.seed, "settings": features.description}
    return Block(matrix, names.of(at[0]), names.of(at[1]), facts)


def _is_features(source: str) -> bool:
    """True if a path is a file or folder of features rather than a graph, judging by
    its contents.
    """
    path = Path(source)
    if path.is_dir():
        return (path / "features.json").exists()
    if path.suffix.lower() != ".npz" or not path.is_file():
        return False
    from graphrf._base.files.npz import array_names

    with path.open("rb") as file, suppress(ValueError):
        return "visit_ptr" in array_names(file)
    return False  # the reader of graphs names the fault
