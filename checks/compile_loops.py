"""Compiles the loops, so that tests need not, by some settings of checks/digests.py.

python checks/compile_loops.py

numba keeps what it has compiled in files beside the modules, until these change. What the settings
leave out is compiled at its first use, as all of it would be without this script. The parts take
equally long.
"""

from __future__ import annotations

import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

PARTS = (
    (
        "features walks iid",
        "features with float64",
        "products of walks",
        "products of powers",
        "pagerank pooled",
        "pagerank local walks",
        "pagerank personal",
        "regression blocks precision",
        "transform diffusion",
        "transform returns",
    ),
    (
        "features default",
        "features cut",
        "pagerank tolerance",
        "regression walks",
        "regression walks sampler",
        "gpytorch walks",
        "Fourier features iid",
        "Fourier features orthogonal-hd",
        "graph and time complete",
        "graph and time gaps",
    ),
)


def compute(part: tuple[str, ...]) -> None:
    """Computes these settings, whose results are not looked at."""
    from digests import SETTINGS  # imports graphrf, which a parent that only waits needs not

    warnings.simplefilter("ignore")
    for name in part:
        SETTINGS[name]()


def main() -> None:
    with ProcessPoolExecutor(len(PARTS), mp_context=get_context("spawn")) as pool:
        list(pool.map(compute, PARTS))


if __name__ == "__main__":
    main()
