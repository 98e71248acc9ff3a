"""Which compression of the powers of W gives the least error for its operations and non-zeros?

    python benchmarks/compression.py [graph ...]

`CompressedPowers(budget, L)` as shipped, with L = kernel.truncation_length(1e-3), beside the same
with one thing changed at a time:

    size 0, size .5   what compression takes for the size of an entry is (W^k)_iv (d_v / d_i)^size;
                      shipped: .25
    2 picks, whole    edges that a product samples for each place of the budget; shipped: 1;
                      "whole" reads all
    degrees, random   the order of the systematic sampling: degrees by factors of 2 and within
                      these as shipped, or none; shipped: reverse Cuthill-McKee
    falling           budgets that fall with the step, by AutoLengths(kernel)
    walks             RandomWalks with AutoLengths(kernel) and as many steps as the shipped
                      powers' operations

Error: relative Frobenius error of Phi Phi^T against the exact kernel, on the rows of 300 random
nodes, mean of 3 seeds; the bias of ending at L is in it, and is nearly all of it on san-jose for
short kernels at budget 64 (.0012 and .0009). The lines give the shipped error, and each other one
as a share of it at equal budget. Then geometric means, at equal budget and at equal cost: shares of
what the shipped choice would reach with as many operations, or non-zeros, by a power law through
its three budgets.

Measured over the 36 cases (geometric mean of errors at equal budget, smallest, largest; two and a
half minutes):

    size 0 1.08, .94, 1.85; size .5 1.06, .83, 1.41. At 0 short kernels gain up to 6 % on the social
    graph, and Diffusion(8) loses 62 to 85 %; at .5 Diffusion(8) gains 9 to 17 % there, and short
    kernels lose 21 to 41 %.

    2 picks .67, .05, 1.11, with 1.8 times the operations: 1.44 at equal operations, but .81 at
    equal non-zeros. On the road graph it pays (.77 at equal operations), on the others not (1.53,
    1.69, 2.16). Whole products 3.62 at equal operations.

    Orders hardly matter: by degrees 1.01, .99, 1.13; none 1.01, .83, 1.06.

    Falling budgets take .52 of the operations and .63 of the non-zeros: error .65 at equal
    non-zeros, .57 at equal operations, where it is below 1 on every graph (.44 to .69) and for
    every kernel (.44 to .74).

    Walks with the same lengths have 1.3 to 67 times the error of falling budgets at equal
    operations for the two short kernels. For Diffusion(8), where the budget is far smaller than the
    reach, they win: .61 of that error on eu-core, .93 on cora, .85 on the mesh; not on the road
    graph (2.5).
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from _machine import header
from scipy.sparse.csgraph import reverse_cuthill_mckee

import graphrf as grf
from graphrf.operators.series.apply import kernel_block
from graphrf.sampling.powers import powers, prepared

GRAPHS = ("eu-core", "cora", "mesh-idler-riser", "san-jose")
KERNELS = {
    "Regularized": grf.RegularizedLaplacian(1.0, 2),
    "Diffusion(3)": grf.Diffusion(3.0),
    "Diffusion(8)": grf.Diffusion(8.0),
}
BUDGETS = (16, 32, 64)
ROWS, SEEDS, TOLERANCE = 300, 3, 1e-3
SHIPPED = "shipped"


def by_degree(walk: sp.csr_matrix, symmetric_mode: bool) -> np.ndarray:
    """Degrees by factors of 2, and within these reverse Cuthill-McKee."""
    order = np.asarray(reverse_cuthill_mckee(walk, symmetric_mode=symmetric_mode))
    return order[np.argsort(np.floor(np.log2(np.diff(walk.indptr)[order])), kind="stable")]


def random(walk: sp.csr_matrix, symmetric_mode: bool) -> np.ndarray:
    """No order."""
    return np.random.default_rng(0).permutation(walk.shape[0])


# What is changed: a module, the name in it, and its other value.
CHANGES: dict[str, tuple[Any, str, Any]] = {
    "size 0": (prepared, "LEVEL", 0.0),
    "size .5": (prepared, "LEVEL", 0.5),
    "2 picks": (powers, "PICKS", 2),
    "whole": (powers, "PICKS", 0),
    "degrees": (prepared, "reverse_cuthill_mckee", by_degree),
    "random": (prepared, "reverse_cuthill_mckee", random),
}
NAMES = (*CHANGES, "falling", "walks")


@contextmanager
def changed(name: str) -> Iterator[None]:
    """One of the CHANGES in force."""
    module, attribute, value = CHANGES[name]
    shipped = getattr(module, attribute)
    setattr(module, attribute, value)
    prepared._relabelled.clear()
    try:
        yield
    finally:
        setattr(module, attribute, shipped)
        prepared._relabelled.clear()


class Measured(NamedTuple):
    """Mean error of a sampler, and its operations and non-zeros for each node."""

    error: float
    operations: float
    nonzeros: float


class Case:
    """A graph and a kernel, with exact rows to compare with."""

    def __init__(self, graph: grf.Graph, kernel: grf.kernels.Kernel) -> None:
        self.graph, self.kernel = graph, kernel
        self.length = kernel.truncation_length(TOLERANCE)
        self.rows = np.sort(np.random.default_rng(0).permutation(graph.n_nodes)[:ROWS])
        self.exact = kernel_block(graph, kernel, rows=self.rows)

    def measure(self, sampler: Any) -> Measured:
        """Mean over the seeds."""
        errors, operations, nonzeros = [], 0, 0
        for seed in range(SEEDS):
            features = grf.sample_features(self.graph, sampler, seed=seed)
            phi = features.matrix(self.kernel)
            difference = (phi @ phi[self.rows].toarray().T).T - self.exact
            errors.append(np.linalg.norm(difference) / np.linalg.norm(self.exact))
            operations += features.n_steps
            nonzeros += features.nnz
        nodes = SEEDS * self.graph.n_nodes
        return Measured(float(np.mean(errors)), operations / nodes, nonzeros / nodes)

    def measured(self, budget: int) -> dict[str, Measured]:
        """The shipped choice and all others at one budget."""
        constant = grf.CompressedPowers(budget, self.length)
        found = {SHIPPED: self.measure(constant)}
        for name in CHANGES:
            with changed(name):
                found[name] = self.measure(constant)
        lengths = grf.sampling.AutoLengths(self.kernel)
        found["falling"] = self.measure(
            grf.CompressedPowers(budget, lengths=lengths).resolved(self.graph)
        )
        n_walks = budget
        for _ in range(3):  # the table depends a little on the number of walks
            walks = grf.RandomWalks(n_walks, lengths).resolved(self.graph)
            n_walks = max(1, round(found[SHIPPED].operations / walks.survival.mean_length))
        found["walks"] = self.measure(grf.RandomWalks(n_walks, walks.lengths))
        return found


def at_equal(shipped: list[Measured], own: Measured, other: Measured, axis: str) -> float:
    """An error as a share of that of the shipped choice, had its budget been such that both cost
    the same.
    """
    x, y = (np.log([getattr(at, name) for at in shipped]) for name in (axis, "error"))
    slope = np.polyfit(x, y, 1)[0]
    return float(other.error / own.error * (getattr(own, axis) / getattr(other, axis)) ** slope)


def geometric(values: Sequence[float]) -> float:
    """Geometric mean."""
    return float(np.exp(np.mean(np.log(values))))


def ratios(found: list[dict[str, Measured]], name: str) -> list[tuple[float, ...]]:
    """For each budget: error, operations and non-zeros of a change as shares, then its error at
    equal costs.
    """
    shipped = [at[SHIPPED] for at in found]
    result = []
    for at, own in zip(found, shipped, strict=True):
        same = [value / value_of_own for value, value_of_own in zip(at[name], own, strict=True)]
        result.append(
            (
                *same,
                *(at_equal(shipped, own, at[name], axis) for axis in ("operations", "nonzeros")),
            )
        )
    return result


def main(names: list[str]) -> None:
    """Measure and print."""
    heads = "".join(f"{name:>9}" for name in NAMES)
    print(f"{'graph':<17} {'kernel':<12} {'budget':>6} {SHIPPED:>8}{heads}")
    # By change, graph and kernel.
    shares: dict[str, dict[tuple[str, str], list[tuple[float, ...]]]] = {name: {} for name in NAMES}
    for graph_name in names:
        graph = grf.datasets.load(graph_name).graph
        for label, kernel in KERNELS.items():
            case = Case(graph, kernel)
            found = []
            for budget in BUDGETS:
                found.append(case.measured(budget))
                own = found[-1][SHIPPED].error
                row = "".join(f"{found[-1][name].error / own:>9.2f}" for name in NAMES)
                print(f"{graph_name:<17} {label:<12} {budget:>6} {own:>8.4f}{row}", flush=True)
            for name in NAMES:
                shares[name][graph_name, label] = ratios(found, name)
    print(
        "\n"
        "error at equal non-zeros; and at equal operations, in all cases, on each graph, for each "
        "kernel"
    )
    groups = [*names, *KERNELS]
    heads = "".join(f"{group[:12]:>13}" for group in ["non-zeros", "operations", *groups])
    print(f"{'changed':<9}{heads}")
    for name, by_case in shares.items():
        columns = [[share[axis] for own in by_case.values() for share in own] for axis in (4, 3)]
        columns += [
            [share[3] for case, own in by_case.items() if group in case for share in own]
            for group in groups
        ]
        print(f"{name:<9}" + "".join(f"{geometric(column):>13.2f}" for column in columns))
    print("\nerror of walks over that of falling budgets, at equal operations")
    print(f"{'':<17}" + "".join(f"{label:>13}" for label in KERNELS))
    for graph_name in names:
        cells = []
        for label in KERNELS:
            walks, falling = (
                geometric([share[3] for share in shares[name][graph_name, label]])
                for name in ("walks", "falling")
            )
            cells.append(f"{walks / falling:>13.2f}")
        print(f"{graph_name:<17}{''.join(cells)}")
    print("\nat equal budget")
    print(
        f"{'changed':<9} {'error':>6} {'smallest':>9} {'largest':>8} {'operations':>11} "
        f"{'non-zeros':>10}"
    )
    for name, by_case in shares.items():
        error, operations, nonzeros = zip(
            *(share[:3] for own in by_case.values() for share in own), strict=True
        )
        print(
            f"{name:<9} {geometric(error):>6.2f} {min(error):>9.2f} {max(error):>8.2f} "
            f"{geometric(operations):>11.2f} {geometric(nonzeros):>10.2f}"
        )


if __name__ == "__main__":
    # Long kernels with walks that do not suit them.
    warnings.simplefilter("ignore", grf.features.HeavyTailWarning)
    warnings.simplefilter("ignore", grf.features.TruncationWarning)
    print(header("scipy"))
    main(sys.argv[1:] or list(GRAPHS))
