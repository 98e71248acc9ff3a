"""From which length on is attention by positive random features faster than exact attention?

Exact is `torch.nn.functional.scaled_dot_product_attention`, ours `PerformerAttention` with its
default of 256 orthogonal frequencies. Batch 1, 8 heads of dimension 64, float32, on the CPU. Both
are timed in turn in every repetition; ratios, exact over ours, are of one repetition: median,
smallest and largest. The crossing is where the line through the logarithms of the two ratios about
1 reaches it, if they do.

    python benchmarks/attention.py [--threads 1] [--repeats 5] [--longest 16384]
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable

import torch
from _machine import header, peak_gib
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from graphrf.euclidean.attention import PerformerAttention

HEADS, DIMENSION = 8, 64


def seconds(
    attention: Callable[..., Tensor], given: list[Tensor], causal: bool, backward: bool
) -> float:
    """One pass."""
    started = time.perf_counter()
    with torch.set_grad_enabled(backward):
        out = attention(*given, is_causal=causal)
        if backward:
            torch.autograd.grad(out.sum(), given)
    return time.perf_counter() - started


def compare(
    ours: PerformerAttention, length: int, causal: bool, backward: bool, repeats: int
) -> float:
    """Print one line; the median ratio."""
    given = [torch.randn(1, HEADS, length, DIMENSION, requires_grad=backward) for _ in range(3)]
    times: tuple[list[float], list[float]] = ([], [])
    for repeat in range(repeats + 1):
        pair = [
            seconds(call, given, causal, backward) for call in (scaled_dot_product_attention, ours)
        ]
        if repeat:  # the first is a warm-up
            for spent, found in zip(times, pair, strict=True):
                spent.append(found)
    ratios = [exact / fast for exact, fast in zip(*times, strict=True)]
    ratio = statistics.median(ratios)
    print(
        f"{length:>7} {statistics.median(times[0]):>9.4f} {statistics.median(times[1]):>9.4f} "
        f"{ratio:>7.2f} [{min(ratios):.2f}, {max(ratios):.2f}]",
        flush=True,
    )
    return ratio


def crossing(lengths: list[int], ratios: list[float]) -> str:
    """The length from which on ours is faster."""
    above = [ratio > 1 for ratio in ratios]
    if all(above):
        return f"faster at every length from {lengths[0]} on"
    if not above[-1]:
        return f"not reached by {lengths[-1]}"
    last = max(i for i, faster in enumerate(above) if not faster)
    low, high = math.log(ratios[last]), math.log(ratios[last + 1])
    share = -low / (high - low)
    return f"about {lengths[last] ** (1 - share) * lengths[last + 1] ** share:.0f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--longest", type=int, default=16_384)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    ours = PerformerAttention(DIMENSION, seed=0)
    print(header("torch") + f"; {arguments.threads} threads")
    print(
        f"{HEADS} heads of dimension {DIMENSION}, {ours.n_frequencies} frequencies, "
        f"{arguments.repeats} repeats"
    )
    lengths = [256 << i for i in range(20) if 256 << i <= arguments.longest]
    for causal in (False, True):
        for backward in (False, True):
            name = ("causal" if causal else "full") + (
                ", forward and backward" if backward else ", forward"
            )
            print(
                f"{name}\n"
                f"{'length':>7} {'exact s':>9} {'ours s':>9} {'ratio':>7} [smallest, largest]"
            )
            ratios = [
                compare(ours, length, causal, backward, arguments.repeats) for length in lengths
            ]
            print(f"crossing: {crossing(lengths, ratios)}; {peak_gib():.1f} GiB at most so far")
