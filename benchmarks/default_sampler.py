"""Which sampler that knows no kernel should be the default, and which law of lengths that of
RandomWalks?

    python benchmarks/default_sampler.py [graph ...]

The laws were seen on other graphs (`auto_lengths.py`; the last one, a mixture, was picked among 19
on football, karate, cora and mesh-idler-riser); they are judged here on nine, each with six
kernels, at about 288 and about 96 steps a node, with stratified lengths and directions. Error:
relative Frobenius norm of Phi Phi^T less the exact kernel, on the rows of 300 random nodes against
all columns. Directions are stratified, so that a number of walks which the degrees divide does far
better than its neighbours: every error is the mean over m - 1, m and m + 1 walks, m times the mean
length being nearest to the steps, and over 5 seeds each (2 on graphs of more than 2,000 nodes).

Answer: compressed powers, whose budgets fall like (1 - .1)^k and end after 48 steps, are the
default sampler. Among walks Stratified(0.1) stays; no law is clearly better for all kernels. Errors
over its own in the same case, geometric means over the nine graphs, and the largest of all 54 cases
(RL3 is RegularizedLaplacian(3, 2); RL1, D1, D3, D6, M the others in the order of KERNELS):

                      RL1   RL3    D1    D3    D6     M   all   largest   96 steps: all   largest
    Stratified(0.2)   .64  9.97   .52   .68  1.25   .82  1.15    233               1.07     11.0
    3 free, then .15  .80  1.56   .81   .77  1.01   .85   .94      2.32            1.01      3.16
    4 free, then .15  .86  1.40   .91   .79   .95   .84   .94      1.84            1.01      2.94
    4 free, then .2   .70  4.88   .71   .67  1.06   .78  1.05     49               1.19     12.3
    6 free, then .2   .86  3.07   .92   .79   .88   .81  1.05      6.10            1.22     14.1
    2 free, .09, .25  .83  1.06   .81   .84  1.09   .92   .92      1.11             .98      1.20
    compressed        .29   .85   .01   .29   .79   .58   .25      1.11             .50       .96

The compressed powers took 1.05 times the operations at 288 steps and 1.34 times at 96 (every step
of the table keeps an entry at least), with 1.13 and 1.25 times the non-zeros.

Free steps gain 5 to 33 % where a kernel's modulation ends early (RL1, D1, D3, M), with 4 to 15 %
fewer non-zeros. But what pays for them is a larger p_halt afterwards, and RL3's modulation falls by
.9 a step, so that sum f_k^2 / S(k) diverges at p_halt = .2 (.81 > .8) and nearly does at .15:
`Features.matrix` warns of RegularizedLaplacian(l, 2) from l = 3.9 on with Stratified(0.1), from 3.3
on with .15 and from 2.7 to 2.9 on with .2. The mixture keeps a long tail and gains little.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import defaultdict

import numpy as np
from _machine import header
from auto_lengths import flat_then_geometric

import graphrf as grf
from graphrf.operators.series.apply import kernel_block

GRAPHS = (
    "polbooks",
    "newsgroup-sparse-1",
    "arenas-email",
    "facebook-pages",
    "mesh-torus",
    "mesh-fandisk",
    "generated-icosphere",
    "grid 60 x 60",
    "california-roads",
)
KERNELS: tuple[grf.kernels.Kernel, ...] = (
    grf.RegularizedLaplacian(1.0, 2.0),
    grf.RegularizedLaplacian(3.0, 2.0),
    grf.Diffusion(1.0),
    grf.Diffusion(3.0),
    grf.Diffusion(6.0),
    grf.Matern(1.5, 3.0),
)


def half_and_half(p_long: float, p_short: float, free_steps: int) -> grf.sampling.Survival:
    """Each walk follows one of two geometric laws: most steps early, and a long tail."""
    k = np.maximum(np.arange(380) - free_steps, 0)
    return grf.sampling.Survival((1 - p_long) ** k / 2 + (1 - p_short) ** k / 2)


REFERENCE = "Stratified(0.1)"
# Powers with budgets that fall like this law, in place of walks.
COMPRESSED = "compressed powers"
LAWS = {
    REFERENCE: grf.sampling.Survival.geometric(0.1),
    "Stratified(0.2)": grf.sampling.Survival.geometric(0.2),
    "3 free, then 0.15": flat_then_geometric(3, 0.85).survival,
    "4 free, then 0.15": flat_then_geometric(4, 0.85).survival,
    "4 free, then 0.2": flat_then_geometric(4, 0.8).survival,
    "6 free, then 0.2": flat_then_geometric(6, 0.8).survival,
    "2 free, .09 or .25": half_and_half(0.09, 0.25, free_steps=2),
    COMPRESSED: grf.sampling.Survival.geometric(0.1).cut(48),
}
STEPS = (288, 96)
ROWS = 300
Results = dict[str, dict[grf.kernels.Kernel, float]]


def load(name: str) -> grf.Graph:
    """A graph by name."""
    if name != "grid 60 x 60":
        return grf.datasets.load(name).graph
    number = np.arange(3600).reshape(60, 60)
    source = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()])
    return grf.from_edges(source, np.concatenate([number[:, 1:].ravel(), number[1:].ravel()]))


def measure(
    graph: grf.Graph, exact: dict[grf.kernels.Kernel, np.ndarray], rows: np.ndarray, steps: int
) -> tuple[Results, dict[str, tuple[float, float]]]:
    """The mean error of every law and kernel, and the steps and non-zeros of every law,
    per node.
    """
    errors: Results = {}
    sizes = {}
    seeds = range(5 if graph.n_nodes <= 2000 else 2)
    for law, survival in LAWS.items():
        m = round(steps / survival.mean_length)
        found: dict[grf.kernels.Kernel, list[float]] = {kernel: [] for kernel in exact}
        size = []
        for n_walks in (m - 1, m, m + 1):
            for seed in seeds:
                sampler = grf.RandomWalks(n_walks, grf.sampling.Stratified(survival))
                if law == COMPRESSED:
                    sampler = grf.CompressedPowers(n_walks, lengths=survival)
                features = grf.sample_features(graph, sampler, seed=seed)
                size.append((features.n_steps / graph.n_nodes, features.nnz / graph.n_nodes))
                for kernel, block in exact.items():
                    phi = features.matrix_from_modulation(
                        kernel.modulation(features.max_length + 1)
                    )
                    error = (phi @ phi[rows].T).toarray() - block
                    found[kernel].append(float(np.linalg.norm(error) / np.linalg.norm(block)))
        errors[law] = {kernel: float(np.mean(values)) for kernel, values in found.items()}
        sizes[law] = (float(np.mean([s for s, _ in size])), float(np.mean([z for _, z in size])))
    return errors, sizes


def print_heavy_tails() -> None:
    """Where `Features.matrix` would warn: the largest lengthscale at which each law is
    still quiet.
    """
    families = {
        "RegularizedLaplacian(l, 2)": lambda lengthscale: grf.RegularizedLaplacian(
            lengthscale, 2.0
        ),
        "RegularizedLaplacian(l, 1)": lambda lengthscale: grf.RegularizedLaplacian(
            lengthscale, 1.0
        ),
        "Matern(1.5, l)": lambda lengthscale: grf.Matern(1.5, lengthscale),
        "Diffusion(l)": grf.Diffusion,
    }
    edge = grf.from_edges([0], [1])
    print("\nlargest lengthscale (in steps of 0.1) before HeavyTailWarning")
    print(f"{'':<20}" + "".join(f"{family:>28}" for family in families))
    for law, survival in LAWS.items():
        if law == COMPRESSED:  # their values are not divided by S
            continue
        features = grf.sample_features(
            edge, grf.RandomWalks(2, grf.sampling.Stratified(survival)), seed=0
        )
        line = f"{law:<20}"
        for family in families.values():
            lengthscale = 0.1
            while not _warns(features, family(lengthscale + 0.1)) and lengthscale < 20:
                lengthscale = round(lengthscale + 0.1, 1)
            line += f"{lengthscale:>28.1f}"
        print(line)


def _warns(features: grf.features.Features, kernel: grf.kernels.Kernel) -> bool:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        features.matrix(kernel)
    return any(issubclass(warning.category, grf.features.HeavyTailWarning) for warning in caught)


def _mean(values: list[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def main(names: list[str]) -> None:
    ratios: dict[tuple[int, str], list[tuple[float, grf.kernels.Kernel, str]]] = defaultdict(list)
    relative: dict[tuple[int, str], list[tuple[float, float]]] = defaultdict(list)
    for name in names:
        graph = load(name)
        rows = np.sort(np.random.default_rng(0).permutation(graph.n_nodes)[:ROWS])
        exact = {
            kernel: kernel_block(graph, kernel, cols=rows, tol=1e-6).astype(np.float32)
            for kernel in KERNELS
        }
        for steps in STEPS:
            started = time.perf_counter()
            errors, sizes = measure(graph, exact, rows, steps)
            seconds = time.perf_counter() - started
            print(
                "\n"
                f"{name}, {steps} steps a node ({seconds:.0f} s): error of {REFERENCE}, then ratios"
            )
            print(f"{'':<28}" + "".join(f"{law:>19}" for law in LAWS))
            for k, word in enumerate(("steps", "non-zeros")):
                print(f"{word:<28}" + "".join(f"{sizes[law][k]:>19.1f}" for law in LAWS))
            for kernel in KERNELS:
                first = errors[REFERENCE][kernel]
                line = f"{kernel!r:<28.28}{first:>19.4f}"
                for law in list(LAWS)[1:]:
                    ratio = errors[law][kernel] / first
                    ratios[steps, law].append((ratio, kernel, name))
                    line += f"{ratio:>19.2f}"
                print(line, flush=True)
            for law in list(LAWS)[1:]:
                relative[steps, law].append(
                    tuple(sizes[law][k] / sizes[REFERENCE][k] for k in (0, 1))
                )
    print(
        "\n"
        f"over {REFERENCE}, geometric means: steps, non-zeros, error; then the smallest and the "
        "largest error; then the error for each kernel"
    )
    for (steps, law), values in ratios.items():
        sizes = [_mean([pair[k] for pair in relative[steps, law]]) for k in (0, 1)]
        every = [ratio for ratio, _, _ in values]
        of_kernels = [
            _mean([ratio for ratio, known, _ in values if known is kernel]) for kernel in KERNELS
        ]
        figures = [*sizes, _mean(every), min(every), max(every), *of_kernels]
        worst = max(values, key=lambda value: value[0])
        line = f"{steps:>4} {law:<20}" + "".join(f"{figure:>7.2f}" for figure in figures)
        print(f"{line}   largest: {worst[2]}, {worst[1]!r}")
    print_heavy_tails()


if __name__ == "__main__":
    print(header("scipy"))
    main(sys.argv[1:] or list(GRAPHS))
