r"""Products with Hadamard matrices in O(d log d): a loop for arrays, small products for tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from graphrf._base.compiled import njit


def next_power_of_two(n: int) -> int:
    """The least power of two that is not below n."""
    return 1 << max(0, n - 1).bit_length()


LANES = 16
"""Rows that are transformed side by side, entry by entry: the inner loops then run over contiguous
memory.
"""


@njit(nogil=True, cache=True)
def project_rows(x, signs, norms, simplex, out):  # type: ignore[no-untyped-def]
    """out[i] = D S H D_1 H D_2 H D_3 x[i] for each block: signs (blocks, 3, size), norms.

    x has at most `size` columns, the rest are zeros; out has at most blocks * size columns, the
    rest are not computed. S is the simplex matrix, or the identity.
    """
    n, d = x.shape
    n_blocks, size = norms.shape
    lanes = np.zeros((size, LANES), out.dtype)
    total = np.empty(LANES, out.dtype)
    # Of the three transforms, taken into the norms.
    scale = size**-1.5
    own = out.dtype.type(np.sqrt(size / (size - 1.0)) if simplex else 1.0)
    shared = out.dtype.type((np.sqrt(size) + 1.0) / (size - 1.0) ** 1.5 if simplex else 0.0)
    last = out.dtype.type(1.0 / np.sqrt(size - 1.0) if simplex else 0.0)

    for first in range(0, n, LANES):
        count = min(LANES, n - first)
        for block in range(n_blocks):
            lanes[d:] = 0
            # In tiles, which stay in the first cache on both sides.
            for tile in range(0, d, LANES):
                for k in range(count):
                    for j in range(tile, min(tile + LANES, d)):
                        lanes[j, k] = x[first + k, j] * signs[block, 2, j]
            _hadamard_lanes(lanes)
            for factor in (1, 0):
                for j in range(size):
                    lanes[j] *= signs[block, factor, j]
                _hadamard_lanes(lanes)

            if simplex:
                total[:] = 0
                for j in range(size - 1):
                    total += lanes[j]
                for j in range(size - 1):
                    for k in range(LANES):
                        lanes[j, k] = own * lanes[j, k] - shared * total[k]
                lanes[size - 1] = last * total

            begin = block * size
            width = min(size, out.shape[1] - begin)
            for j in range(width):
                lanes[j] *= out.dtype.type(scale * norms[block, j])
            for tile in range(0, width, LANES):
                for k in range(count):
                    for j in range(tile, min(tile + LANES, width)):
                        out[first + k, begin + j] = lanes[j, k]


@njit(nogil=True, cache=True)
def _hadamard_lanes(lanes):  # type: ignore[no-untyped-def]
    """sqrt(d) H of the columns of a (d, LANES) array in place, two levels in each pass."""
    flat = lanes.reshape(-1)
    size, half = flat.shape[0], lanes.shape[1]
    while 2 * half < size:
        for start in range(0, size, 4 * half):
            _two_levels(
                flat[start : start + half],
                flat[start + half : start + 2 * half],
                flat[start + 2 * half : start + 3 * half],
                flat[start + 3 * half : start + 4 * half],
            )
        half *= 4
    if half < size:
        _one_level(flat[:half], flat[half:])


@njit(nogil=True, cache=True)
def _two_levels(a, b, c, e):  # type: ignore[no-untyped-def]
    for j in range(a.shape[0]):
        p, q, r, s = a[j], b[j], c[j], e[j]
        w, x, y, z = p + q, p - q, r + s, r - s
        a[j], b[j], c[j], e[j] = w + y, x + z, w - y, x - z


@njit(nogil=True, cache=True)
def _one_level(a, b):  # type: ignore[no-untyped-def]
    for j in range(a.shape[0]):
        p, q = a[j], b[j]
        a[j], b[j] = p + q, p - q


def hadamard(x: Any) -> Any:
    r"""H x along the last axis of a tensor, H orthonormal Walsh-Hadamard in Sylvester's order.

    .. math:: H_1 = 1, \quad H_{2d} = \tfrac{1}{\sqrt 2} \begin{pmatrix} H_d & H_d \\ H_d & -H_d
        \end{pmatrix},

    d a power of two. H is a Kronecker product: log2(d) / 4 products with a Hadamard matrix of order
    16.

    Source: Choromanski, Rowland and Weller 2017, "The unreasonable effectiveness of structured
    random orthogonal embeddings", Sec. 2.

    Examples
    --------
    >>> import torch
    >>> hadamard(torch.tensor([1.0, 0.0, 0.0, 0.0]))
    tensor([0.5000, 0.5000, 0.5000, 0.5000])
    """
    import torch

    d = x.shape[-1]
    y, left = x.reshape(-1, 1, d), 1
    while left < d:
        order = min(16, d // left)
        small = torch.tensor(linalg.hadamard(order), dtype=x.dtype, device=x.device)
        y = torch.einsum("ab,nlbr->nlar", small, y.reshape(-1, left, order, d // (left * order)))
        left *= order
    return y.reshape(x.shape) / d**0.5
