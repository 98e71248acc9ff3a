"""`graphrf features`: sample the features of a graph into a file or a folder."""

from __future__ import annotations

import os
import re
from pathlib import Path

from graphrf.cli.options.graphs import Reading, load
from graphrf.cli.options.kernels import KernelChoice
from graphrf.cli.options.messages import Talking
from graphrf.cli.options.nodes import NodeNames
from graphrf.cli.options.output import Result, check_output, deliver
from graphrf.cli.options.samplers import Sampling

EXAMPLES = (
    "graphrf features roads.csv -o roads.npz --seed 0",
    "graphrf features karate --sampler walks --walks 64 -o walks.npz",
    "graphrf features roads.csv --kernel diffusion --lengthscale 3 --error 0.05 -o roads.npz",
    "graphrf features roads.csv -o features/ --kernel diffusion --lengths auto",
)
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def features(
    graph: str,
    output: str,
    reading: Reading,
    sampling: Sampling,
    choice: KernelChoice,
    talking: Talking,
    seed: int | None = None,
    threads: int | None = None,
    memory_limit: str | None = None,
    nodes: str | None = None,
) -> None:
    """Sample graph random features, which can be used with every kernel."""
    folder = _folder(output)
    if folder is None:
        check_output(output, [graph], [".npz"])
    limit = None if memory_limit is None else _size(memory_limit)

    loaded = load(graph, reading, talking)
    chosen = sampling.chosen(loaded.graph, choice.made(), choice.laplacian or "normalized")
    if sampling.error is not None and folder is not None:
        raise ValueError(
            "`-o` must be an .npz file with `--error`: a folder is written with one sampler"
        )

    names = NodeNames.of_graph(loaded.graph)
    positions = None if nodes is None else names.chosen(nodes, "--nodes")
    # An existing folder records its seed.
    known = folder is not None and (folder / "features.json").exists()

    from graphrf.sampling.sample import sample_features

    made = sample_features(
        loaded.graph,
        **chosen,
        nodes=positions,
        seed=None if known and seed is None else talking.settled(seed),
        n_threads=threads,
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
            "graph": loaded.facts,
            "seed": made.seed,
            "settings": made.description,
            "laplacian": made.laplacian,
            "output": output,
        }
        sizes = {
            "nodes": made.shape[0],
            "max_length": made.max_length,
            "steps": made.n_steps,
            "nonzeros": made.nnz,
            "bytes": made.nbytes,
        }
        deliver(Result("features", (), facts, sizes), None, talking)


def _folder(output: str) -> Path | None:
    """The folder of the output; None for a file: a path with an ending and no slash behind it."""
    path = Path(output)
    is_folder = path.is_dir() or output.endswith(("/", os.sep)) or not path.suffix
    if not is_folder or path.is_file():
        return None
    from graphrf._base.files.atomic import require_writable

    if output == "-":
        raise ValueError("`-o` must be a file or a folder: features cannot be written as text")
    require_writable(path, "-o")
    return path


def _size(text: str) -> int:
    """Bytes of a size such as 4GiB, 500M or 1000000."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if found is None or len(found[1]) > 20:
        raise ValueError(f"`--memory-limit` must be a size such as 4GiB or 500M, got {text[:60]!r}")
    return int(float(found[1]) * _UNITS[found[2]])
