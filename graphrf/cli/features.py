"""`graphrf features`: sample the features of a graph into a file or a folder."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from graphrf.cli.options.kernels import KernelChoice
from graphrf.cli.options.nodes import ChosenNodes, NodeNames
from graphrf.cli.options.output import Result, check_output, deliver
from graphrf.cli.options.reading import GraphSource, Reading, load
from graphrf.cli.options.running import PANEL, Seeding, Talking, Threads
from graphrf.cli.options.samplers import Sampling

EXAMPLES = (
    "graphrf features roads.csv -o roads.npz --seed 0",
    "graphrf features karate --sampler walks --walks 64 -o walks.npz",
    "graphrf features roads.csv --kernel diffusion --lengthscale 3 --error 0.05 -o roads.npz",
    "graphrf features roads.csv -o features/ --kernel diffusion --lengths auto",
)
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}

MemoryLimit = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Limit such as 4GiB. Default: the free memory.", rich_help_panel=PANEL),
]


def features(
    graph: GraphSource,
    output: Annotated[
        str,
        typer.Option(
            "-o", "--output", metavar="PLACE", rich_help_panel="Output", show_default=False,
            help="An .npz file, or a folder (a name without an extension); an "
            "interrupted run into a folder resumes.",
        ),
    ],
    reading: Reading,
    sampling: Sampling,
    choice: KernelChoice,
    seeding: Seeding,
    threads: Threads,
    talking: Talking,
    nodes: ChosenNodes = None,
    memory_limit: MemoryLimit = None,
) -> None:  # fmt: skip
    """Sample graph random features, which can be used with every kernel."""
    folder = _folder(output)
    if folder is None:
        check_output(output, [graph], [".npz"])
    limit = None if memory_limit is None else size(memory_limit)
    loaded = load(graph, reading, talking)
    kernel = choice.optional()
    chosen = sampling.chosen(loaded.graph, kernel, choice.laplacian or "normalized")
    if sampling.error is not None and folder is not None:
        raise ValueError("`-o` must be an .npz file with `--error`: a folder is written with one sampler")
    names = NodeNames.of_graph(loaded.graph)
    positions = None if nodes is None else names.chosen(nodes, "--nodes")
    # A folder that is there knows its seed.
    known = folder is not None and (folder / "features.json").exists()
    seed = None if known and seeding.seed is None else seeding.settled(talking)

    from graphrf.sampling.sample import sample_features

    made = sample_features(
        loaded.graph,
        **chosen,
        nodes=positions,
        seed=seed,
        n_threads=threads.threads,
        path=folder,
        memory_limit=limit,
        progress=talking.progress,
    )
    if folder is None:
        made.save(output)
    talking.remark(f"{made!r} in {output}")
    if made.choice is not None:
        talking.remark(f"{made.sampler!r}, with a measured error of {made.choice.measured:.3g}")
    if talking.json:
        facts = {
            "graph": loaded.facts, "seed": made.seed, "settings": made.description, "laplacian": made.laplacian,
            "output": output,
        }  # fmt: skip
        sizes = {
            "nodes": made.shape[0], "max_length": made.max_length, "steps": made.n_steps, "nonzeros": made.nnz,
            "bytes": made.nbytes,
        }  # fmt: skip
        deliver(Result("features", (), facts, sizes), None, talking)


def _folder(output: str) -> Path | None:
    """The folder that the output is, if it is one: it is there, ends in a slash, or has no ending."""
    path = Path(output)
    is_folder = path.is_dir() or output.endswith(("/", os.sep)) or not path.suffix
    if not is_folder or path.is_file():
        return None
    from graphrf._base.files.atomic import require_writable

    if output == "-":
        raise ValueError("`-o` must be a file or a folder: features cannot be written as text")
    require_writable(path, "-o")
    return path


def size(text: str) -> int:
    """Bytes of a size such as 4GiB, 500M or 1000000."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if found is None or len(found[1]) > 20:
        raise ValueError(f"`--memory-limit` must be a size such as 4GiB or 500M, got {text[:60]!r}")
    return int(float(found[1]) * _UNITS[found[2]])
