"""What do features of points cost, and from which dimension do HD products pay?

    python benchmarks/euclidean.py                # 100,000 points of 64 columns: 7 GiB of memory
    python benchmarks/euclidean.py --points 20000

The first table has the time of `transform` and the error of the kernel that the features give (root
mean square over pairs of 500 points at a lengthscale where the kernel is neither 0 nor 1), at the
same number of columns, in double and in single precision. Ratios are of rounds, which are
interleaved: median, smallest and largest.

The second has the time of x W^T alone, dense and by HD products, for one block of d simplex
frequencies. Dense products are BLAS on all cores; HD products run on as many threads, blocks of
rows each.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
from _machine import header
from sklearn.kernel_approximation import RBFSampler

from graphrf._base.threads import thread_count
from graphrf.euclidean.feature_map import in_blocks
from graphrf.euclidean.features import FourierFeatures, LaplaceFeatures
from graphrf.euclidean.frequencies.draw import draw_frequencies
from graphrf.euclidean.kernels import stationary_kernel


def rounds(functions: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each function in `repeats` interleaved rounds, after one that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for number in range(repeats + 1):
        for name, function in functions.items():
            started = time.perf_counter()
            function()
            if number:
                seconds[name].append(time.perf_counter() - started)
    return seconds


def ratio(numerator: list[float], denominator: list[float]) -> str:
    """Median of the ratios of the rounds, with the smallest and the largest."""
    each = [a / b for a, b in zip(numerator, denominator, strict=True)]
    return f"{statistics.median(each):6.2f} [{min(each):.2f}, {max(each):.2f}]"


def transforms(n_points: int, dimension: int, columns: int, repeats: int) -> None:
    print(f"\ntransform of {n_points:,} x {dimension} into {columns:,} columns")
    print(f"{'':34}{'dtype':>9}{'seconds':>10}{'times as fast':>22}{'rms error':>12}")
    lengthscale = float(np.sqrt(dimension))
    for dtype in (np.float64, np.float32):
        x = np.random.default_rng(0).normal(size=(n_points, dimension)).astype(dtype)
        maps = {
            "RBFSampler": RBFSampler(gamma=0.5 / dimension, n_components=columns, random_state=0),
            "FourierFeatures, paired": FourierFeatures(columns // 2, lengthscale=lengthscale),
            "FourierFeatures, phased": FourierFeatures(
                columns, readout="phased", lengthscale=lengthscale
            ),
            "FourierFeatures, simplex-hd": FourierFeatures(
                columns // 2, directions="simplex-hd", lengthscale=lengthscale
            ),
            # At half the size of the points, where positive
            # features have a variance worth the name.
            "LaplaceFeatures": LaplaceFeatures(columns, lengthscale=2 * lengthscale),
        }
        for features in maps.values():
            features.fit(x)
        sample = x[:500].astype(np.float64)
        for name, features in maps.items():
            phi = features.transform(sample)
            scale = 2 * lengthscale if name == "LaplaceFeatures" else lengthscale
            exact = stationary_kernel("gaussian").gram(sample, lengthscale=scale)
            error = np.sqrt(np.mean((phi @ phi.T - exact) ** 2))
            # In turn with the rival alone: a round of all
            # maps would spread the two over half a minute.
            pair = {each: lambda f=maps[each], x=x: f.transform(x) for each in ("RBFSampler", name)}
            seconds = rounds(pair, repeats)
            faster = ratio(seconds["RBFSampler"], seconds[name])
            print(
                f"{name:34}{np.dtype(dtype).name:>9}{statistics.median(seconds[name]):>10.3f}{faster:>22}{error:>12.4f}"
            )


def projections(dimensions: list[int], n_points: int, repeats: int) -> None:
    print(f"\nx W^T of {n_points:,} points with one block of d simplex frequencies")
    print(f"{'d':>6}{'dtype':>9}{'dense, ms':>12}{'HD, ms':>10}{'HD times as fast':>24}")
    threads = thread_count(None)
    for dimension in dimensions:
        for dtype in (np.float64, np.float32):
            x = np.random.default_rng(0).normal(size=(n_points, dimension)).astype(dtype)
            dense, fast = (
                draw_frequencies(dimension, dimension, directions=name, norms="iid", seed=0)
                for name in ("simplex", "simplex-hd")
            )
            out = np.empty((n_points, dimension), dtype)

            def by_products(x=x, fast=fast, out=out) -> None:
                in_blocks(fast.project, x, out, threads)

            seconds = rounds(
                {"dense": lambda x=x, dense=dense: dense.project(x), "HD": by_products}, repeats
            )
            medians = [1e3 * statistics.median(seconds[name]) for name in ("dense", "HD")]
            faster = ratio(seconds["dense"], seconds["HD"])
            print(
                f"{dimension:>6}{np.dtype(dtype).name:>9}{medians[0]:>12.1f}{medians[1]:>10.1f}{faster:>24}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=64)
    parser.add_argument("--columns", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(header("scipy", "scikit-learn"))
    transforms(options.points, options.dimension, options.columns, options.repeats)
    projections([64, 128, 256, 512, 1024, 2048, 4096], 4096, options.repeats)


if __name__ == "__main__":
    main()
