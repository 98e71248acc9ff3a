"""Does the law that AutoLengths makes for a kernel beat kernel-free laws of lengths at equal steps?

    python benchmarks/auto_lengths.py [graph ...]

Every law walks about 288 steps a node, with stratified lengths and directions: n_walks is 288 over
its mean length. Error: relative Frobenius norm of Phi Phi^T less the exact kernel, mean and
standard error of 10 seeds. At the end, the geometric mean over all graphs and kernels of each law's
error over that of Stratified(0.1), with the smallest and the largest ratio. (For which of the laws
that know no kernel may be a default see `default_sampler.py`, whose kernels reach further.)

Measured over the 16 cases (geometric mean, smallest, largest): AutoLengths .42, .17, .70;
Truncated(tol 1e-3) .56, .07, .95; Stratified(0.2) .72, .42, 1.30; "1 to 6, then x 0.8" .88, .75,
.98; "1 to 4, then x 0.8" .60, .02, 1.07; "1 to 4, then x 0.85" .79, .22, .97; min(1, (6/k)^2) 1.02,
.87, 1.12. The mesh's degrees are nearly all 3: 96 walks (Truncated, Diffusion(1): .07) or 36 do far
better there than 109 or 32, because directions are stratified and 3 divides them.
"""

from __future__ import annotations

import math
import sys
import time

import numpy as np
from _machine import header

import graphrf as grf

GRAPHS = ("cora", "football", "mesh-idler-riser", "san-jose")
KERNELS = (
    grf.RegularizedLaplacian(1.0, 2.0),
    grf.Diffusion(1.0),
    grf.Diffusion(3.0),
    grf.Diffusion(6.0),
)
STEPS = 288
REPEATS = 10
_K = np.arange(301)


def flat_then_geometric(head: int, ratio: float) -> grf.sampling.Stratified:
    """S = 1 for `head` steps, then falling by `ratio` a step."""
    return grf.sampling.Stratified(grf.sampling.Survival(ratio ** np.maximum(_K - head, 0.0)))


# Laws that know no kernel: candidates for a default.
KERNEL_FREE = {
    "Stratified(0.1)": grf.sampling.Stratified(0.1),
    "Stratified(0.2)": grf.sampling.Stratified(0.2),
    "min(1, (6/k)^2)": grf.sampling.Stratified(
        grf.sampling.Survival(np.minimum(1.0, (6.0 / np.maximum(_K, 1)) ** 2))
    ),
    "1 to 6, then x 0.8": flat_then_geometric(6, 0.8),
    "1 to 4, then x 0.8": flat_then_geometric(4, 0.8),
    "1 to 4, then x 0.85": flat_then_geometric(4, 0.85),
}


def samplers(graph: grf.Graph, kernel: grf.kernels.Kernel) -> dict[str, grf.RandomWalks]:
    """The samplers to compare, each of about STEPS steps a node."""
    laws: dict[str, grf.sampling.LengthLaw] = dict(KERNEL_FREE)
    laws["Truncated(tol 1e-3)"] = grf.sampling.Truncated(kernel.truncation_length(1e-3))
    walks = {
        name: grf.RandomWalks(round(STEPS / law.survival.mean_length), law)
        for name, law in laws.items()
    }
    choice = grf.sampling.AutoLengths(kernel)
    n_walks = 32
    for _ in range(4):  # the table depends a little on the number of walks
        table = choice.survival(graph, n_walks=n_walks)
        auto = grf.RandomWalks(n_walks, grf.sampling.Stratified(table))
        n_walks = round(STEPS / table.mean_length)
    walks["AutoLengths"] = grf.RandomWalks(n_walks, auto.lengths)
    return walks


def main(names: list[str]) -> None:
    laws = [*KERNEL_FREE, "Truncated(tol 1e-3)", "AutoLengths"]
    ratios: dict[str, list[float]] = {law: [] for law in laws}
    for name in names:
        graph = grf.datasets.load(name).graph
        for kernel in KERNELS:
            exact = kernel.dense(graph)
            started = time.perf_counter()
            grf.sampling.AutoLengths(kernel).survival(graph)
            seconds = time.perf_counter() - started
            print(f"\n{name}, {kernel!r} (AutoLengths in {seconds:.2f} s)", flush=True)
            print(
                f"{'law':<22} {'walks':>5} {'steps':>6} {'non-zeros':>9} {'error':>18} "
                f"{'of 0.1':>7}"
            )
            reference = math.nan
            for law, sampler in samplers(graph, kernel).items():
                errors, steps, nnz = np.empty(REPEATS), 0.0, 0.0
                for seed in range(REPEATS):
                    features = grf.sample_features(graph, sampler, seed=seed)
                    phi = features.matrix_from_modulation(
                        kernel.modulation(features.max_length + 1)
                    )
                    errors[seed] = np.linalg.norm((phi @ phi.T).toarray() - exact) / np.linalg.norm(
                        exact
                    )
                    steps += features.n_steps / graph.n_nodes / REPEATS
                    nnz += features.nnz / graph.n_nodes / REPEATS
                mean = errors.mean()
                reference = mean if math.isnan(reference) else reference
                ratios[law].append(mean / reference)
                print(
                    f"{law:<22} {sampler.n_walks:>5} {steps:>6.0f} {nnz:>9.1f} {mean:>9.5f} +- "
                    f"{errors.std(ddof=1) / REPEATS**0.5:.5f} {mean / reference:>7.2f}",
                    flush=True,
                )
    print(
        "\n"
        f"{'error over that of Stratified(0.1)':<36} {'geometric mean':>14} {'smallest':>9} "
        f"{'largest':>8}"
    )
    for law, values in ratios.items():
        print(
            f"{law:<36} {np.exp(np.mean(np.log(values))):>14.2f} {min(values):>9.2f} "
            f"{max(values):>8.2f}"
        )


if __name__ == "__main__":
    print(header("scipy"))
    main(sys.argv[1:] or list(GRAPHS))
