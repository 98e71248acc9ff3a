"""`graphrf gram`: a kernel matrix, or a block of it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphrf.cli.options.kernels import KernelChoice
from graphrf.cli.options.nodes import NodeNames
from graphrf.cli.options.output import OutputPath, Result, check_output, deliver
from graphrf.cli.options.reading import Loaded, Reading, load
from graphrf.cli.options.refusals import given_options, refuse_unused
from graphrf.cli.options.running import Seeding, Talking, Threads
from graphrf.cli.options.samplers import Sampling

if TYPE_CHECKING:
    import numpy as np

    from graphrf.kernels.kernel import Kernel

EXAMPLES = (
    "graphrf gram karate --kernel diffusion --lengthscale 2 -o K.csv",
    "graphrf gram facebook-pages --kernel diffusion --rows 0,1,2 --error 0.1 --seed 0",
    "graphrf gram generated-grid --kernel matern --rows 0,1,2 --exact -o K.npz",
    "graphrf gram roads.npz --kernel regularized-laplacian --rows 0,1 --cols 0,1,2",
)

# Graphs of at most so many nodes have their kernel computed exactly where no sampler is named.
_EXACT_NODES = 5_000


def gram(
    source: Annotated[
        str,
        typer.Argument(
            metavar="GRAPH", help="A graph, as for other commands, or features "
            "from `graphrf features`.", show_default=False
        ),
    ],
    reading: Reading,
    choice: KernelChoice,
    sampling: Sampling,
    seeding: Seeding,
    threads: Threads,
    talking: Talking,
    rows: Annotated[
        str | None,
        typer.Option(metavar="NODES", help="A file of nodes, or A,B,C. Default: all.", rich_help_panel="Block"),
    ] = None,
    cols: Annotated[
        str | None,
        typer.Option(
            metavar="NODES", help="A file of nodes, or A,B,C. Default: the rows.", rich_help_panel="Block"
        ),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Compute exactly, by products with the series; the default up to 5,000 nodes.",
            rich_help_panel="Block",
        ),
    ] = False,
    output: OutputPath = None,
) -> None:  # fmt: skip
    """Compute a kernel matrix of a graph: exactly, or from features with an error estimate."""
    check_output(output, [source])
    kernel = choice.optional()
    if kernel is None:
        raise ValueError(
            "`--kernel` is needed: diffusion, matern, regularized-laplacian, p-step or inverse-cosine"
        )
    if is_features(source):
        matrix, names, at, facts = _of_features(source, reading, sampling, seeding, kernel, rows, cols, exact)
    else:
        loaded = load(source, reading, talking)
        names = NodeNames.of_graph(loaded.graph)
        at = _block(names, rows, cols)
        matrix, facts = _of_graph(loaded, kernel, at, exact, sampling, seeding, threads, talking)
    left, right = (names.of(positions) for positions in at)
    deliver(
        Result(
            "gram",
            [("node", left), *((str(node), column) for node, column in zip(right, matrix.T, strict=True))],
            {"kernel": repr(kernel), "exact": exact, **facts},
            {"K": matrix, "rows": left, "cols": right},
        ),
        output,
        talking,
    )


def _of_graph(
    loaded: Loaded,
    kernel: Kernel,
    at: tuple[np.ndarray, np.ndarray],
    exact: bool,
    sampling: Sampling,
    seeding: Seeding,
    threads: Threads,
    talking: Talking,
) -> tuple[np.ndarray, dict[str, Any]]:
    """The block of a graph's kernel, exact or from rows that are sampled for it."""
    import numpy as np

    from graphrf._base.memory import require_memory

    rows, cols = at
    require_memory(
        8.0 * rows.size * cols.size,
        f"a kernel matrix of {rows.size} x {cols.size}",
        "ask for fewer --rows and --cols",
    )
    if exact:
        _refuse_sampling(sampling, seeding, "`--exact`")
    elif loaded.graph.n_nodes <= _EXACT_NODES and _is_empty(sampling):
        exact = True
        talking.remark(
            f"exact, as for any graph of at most {_EXACT_NODES:,} nodes"
            + ("; the seed is not used" if seeding.seed is not None else "")
            + "; `--sampler compressed` samples"
        )
    if exact:
        from graphrf.operators.series.apply import kernel_block

        block = kernel_block(loaded.graph, kernel, rows, cols, n_threads=threads.threads)
        return block, {"graph": loaded.facts, "exact": True}
    from graphrf._base.warn import warn
    from graphrf.features.error import MUCH, FeatureErrorWarning
    from graphrf.sampling.sample import sample_features

    features = sample_features(
        loaded.graph,
        **sampling.chosen(loaded.graph, kernel, kernel.laplacian),
        nodes=loaded.graph.positions(np.unique(np.concatenate([rows, cols]))),
        seed=seeding.settled(talking),
        n_threads=threads.threads,
        progress=talking.progress,
    )
    block = features.gram(kernel, rows=rows, cols=None if cols is rows and _all(features, rows) else cols)
    error = features.relative_error(kernel)
    if error > MUCH:
        warn(
            f"the error of the matrix is about {error:.0%} of the kernel's norm over these nodes; `--error 0.1` "
            "chooses a sampler that suits the kernel, and `--exact` avoids the error",
            FeatureErrorWarning,
        )
    else:
        talking.remark(f"the error of the matrix is about {error:.1%} of the kernel's norm over these nodes")
    facts = {"seed": features.seed, "settings": features.description, "relative_error": error}
    return block, {"graph": loaded.facts, **facts}


def _is_empty(sampling: Sampling) -> bool:
    return all(value is None for value in given_options(sampling).values())


def _all(features: Any, rows: np.ndarray) -> bool:
    return bool(features.nodes.size == rows.size and (features.nodes == rows).all())


def _of_features(
    source: str,
    reading: Reading,
    sampling: Sampling,
    seeding: Seeding,
    kernel: Kernel,
    rows: str | None,
    cols: str | None,
    exact: bool,
) -> tuple[np.ndarray, NodeNames, tuple[np.ndarray, np.ndarray], dict[str, Any]]:
    """The block of features that were sampled before; their nodes are positions."""
    from graphrf.features.features import load_features

    what = f"the features {source}"
    if exact:
        raise ValueError(f"`--exact` needs a graph, got {what}")
    refuse_unused(given_options(reading), (), what)
    _refuse_sampling(sampling, seeding, what)
    features = load_features(source)
    names = NodeNames(None, features.n_nodes)
    if rows is None and cols is None:
        at = features.nodes, features.nodes
        return features.gram(kernel), names, at, {"features": source, "seed": features.seed}
    at = _block(names, rows, cols, features.nodes)
    matrix = features.gram(kernel, rows=at[0], cols=at[1])
    return matrix, names, at, {"features": source, "seed": features.seed, "settings": features.description}


def _block(
    names: NodeNames, rows: str | None, cols: str | None, everything: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the rows and columns that are asked for."""
    every = names.everything if everything is None else everything
    left = every if rows is None else names.chosen(rows, "--rows")
    return left, left if cols is None else names.chosen(cols, "--cols")


def _refuse_sampling(sampling: Sampling, seeding: Seeding, what: str) -> None:
    refuse_unused(given_options(sampling) | given_options(seeding), (), what)


def is_features(source: str) -> bool:
    """True if a path is a file or folder of features rather than a graph, judging by its contents."""
    path = Path(source)
    if path.is_dir():
        return (path / "features.json").exists()
    if path.suffix.lower() != ".npz" or not path.is_file():
        return False
    from graphrf._base.files.npz import array_names

    with path.open("rb") as file, suppress(ValueError):
        return "visit_ptr" in array_names(file)
    return False  # the reader of graphs says what is wrong with it
