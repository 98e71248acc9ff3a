"""The checks of GeometricKernels' tests on `MaternSeriesKernel`, and a comparison.

    python checks/neighbours/geometric.py

Needs the extra `geometric`, and so numpy < 2.4: `make test-neighbours` makes an environment for it.
The library's wheel holds no tests. The cases below are those of its tests of kernels, feature maps,
products and samples, with their tolerances, for numpy and torch, both Laplacians, normalised or
not. Cases of numbered eigenvalues are left out, which the kernel does not have, and so are
TensorFlow and JAX. Prints a table; the exit status is 1 where something failed or a test of graphrf
was skipped.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

import graphrf as grf

ROOT = Path(__file__).parents[2]
GRAPH = grf.load_graph(nx.karate_club_graph(), weight="weight")
OTHER = grf.load_graph(nx.random_geometric_graph(20, 0.4, seed=0))
NODES = np.array([[3], [0], [3], [12], [19], [7]])
FEW = np.array([[1], [19], [3]])
# The parameters that their tests use: those that a kernel begins with, and those of their products.
PARAMETERS = [(np.inf, 1.0), (0.5, 2.0), (2.5, 1.0), (np.inf, 0.1)]


def params(backend: str, nu: float = np.inf, lengthscale: float = 1.0) -> dict[str, Any]:
    """In the arrays of the back end."""
    return {
        "nu": tensor(backend, np.array([nu])),
        "lengthscale": tensor(backend, np.array([lengthscale])),
    }


def tensor(backend: str, value: np.ndarray) -> Any:
    """The array of the back end."""
    if backend == "numpy":
        return value
    import torch

    return torch.tensor(value)


def equal(found: Any, want: Any, backend: str, atol: float) -> None:
    """The same type, shape and numbers."""
    assert type(found).__module__.split(".")[0] == backend, f"the output is of type {type(found)}"
    np.testing.assert_allclose(np.asarray(found), np.asarray(want), atol=atol)
    assert np.shape(found) == np.shape(want)


def case_params(kernel: Any, backend: str) -> None:
    begin = kernel.init_params()
    assert all(begin[name].shape == (1,) for name in ("lengthscale", "nu"))


def case_K(kernel: Any, backend: str) -> None:
    want = kernel.K(kernel.init_params(), NODES, FEW)
    assert want.shape == (6, 3)
    equal(
        kernel.K(params(backend), tensor(backend, NODES), tensor(backend, FEW)), want, backend, 1e-5
    )


def case_K_one_param(kernel: Any, backend: str) -> None:
    x = tensor(backend, NODES)
    equal(kernel.K(params(backend), x), kernel.K(params(backend), x, x), backend, 1e-5)


def case_K_diag(kernel: Any, backend: str) -> None:
    want = kernel.K(kernel.init_params(), NODES).diagonal()
    equal(kernel.K_diag(params(backend), tensor(backend, NODES)), want, backend, 1e-5)


def case_normalize(kernel: Any, backend: str) -> None:
    _, x = kernel.space.random(np.random.RandomState(0), 1000)
    mean = kernel.K_diag(params(backend), tensor(backend, x)).mean()
    np.testing.assert_allclose(float(mean), 1.0, atol=0.2)


def case_feature_map_approximates_kernel(kernel: Any, backend: str) -> None:
    x = tensor(backend, NODES)
    for nu, lengthscale in PARAMETERS:
        given = params(backend, nu, lengthscale)
        _, features = kernel.feature_map()(x, given, normalize=None)
        equal(features @ features.T, kernel.K(given, x, x), backend, 0.1)


def case_kernel_is_product(kernel: Any, backend: str) -> None:
    from geometric_kernels.kernels import ProductGeometricKernel
    from geometric_kernels.utils.product import make_product

    other = type(kernel)(OTHER, normalize=kernel.normalize)
    x, x2 = tensor(backend, NODES), tensor(backend, NODES[::-1].copy())
    for nu, lengthscale in PARAMETERS[1:]:
        given = params(backend, nu, lengthscale)
        product = ProductGeometricKernel(kernel, other).K(given, *2 * [make_product([x, x2])])
        equal(product, kernel.K(given, x, x) * other.K(given, x2, x2), backend, 1e-4)


def case_samples_have_the_shape(kernel: Any, backend: str) -> None:
    from geometric_kernels.sampling import sampler
    from lab import create_random_state

    x = tensor(backend, NODES)
    key = create_random_state(params(backend)["nu"].dtype, seed=0)
    _, draws = sampler(kernel.feature_map(), s=2)(x, params(backend), key=key)
    equal(draws, np.asarray(draws), backend, 0)
    assert draws.shape == (6, 2)


CASES: list[Callable[[Any, str], None]] = [
    case_params,
    case_K,
    case_K_one_param,
    case_K_diag,
    case_normalize,
    case_feature_map_approximates_kernel,
    case_kernel_is_product,
    case_samples_have_the_shape,
]


def main() -> int:
    warnings.simplefilter("ignore")
    importlib.import_module("geometric_kernels.torch")
    from graphrf.bridges.geometric import MaternSeriesKernel

    print("| case | passed | failed |\n|---|---|---|")
    wrong = 0
    for case in CASES:
        failed = runs = 0
        for backend in ("numpy", "torch"):
            for laplacian in ("combinatorial", "normalized"):
                for normalize in (True, False):
                    if case is case_normalize and not normalize:
                        continue
                    runs += 1
                    try:
                        case(
                            MaternSeriesKernel(
                                GRAPH, laplacian=laplacian, normalize=normalize, seed=0
                            ),
                            backend,
                        )
                    except Exception:
                        failed += 1
                        print(
                            f"{case.__name__}, {backend}, {laplacian}, {normalize}", file=sys.stderr
                        )
                        traceback.print_exc()
        print(f"| {case.__name__.removeprefix('case_')} | {runs - failed} | {failed} |", flush=True)
        wrong += failed
    options = ["-q", "-rs", "-p", "no:cacheprovider", "tests/bridges/test_geometric.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = {
        outcome: int(n) for n, outcome in re.findall(r"(\d+) (passed|failed|skipped)", done.stdout)
    }
    if done.returncode or found.get("skipped"):
        print(done.stdout[-4000:], done.stderr[-2000:], file=sys.stderr)
    print(
        f"| tests/bridges/test_geometric.py | {found.get('passed', 0)} | {found.get('failed', 0)} |"
    )
    return int(wrong > 0 or done.returncode != 0 or "skipped" in found or "passed" not in found)


if __name__ == "__main__":
    sys.exit(main())
