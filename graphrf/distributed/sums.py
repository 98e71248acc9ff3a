"""Sums of one array for each block, with the same bits whichever workers add them up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from distributed import Client, Future

Node = tuple[int, int]
"""A part of a sum: level l and index i stand for the blocks i 2^l .. (i + 1) 2^l - 1."""

# Parts that are combined in one task.
_FAN_IN = 8


class Sums:
    """The sum over blocks 0 .. n - 1 along a fixed binary tree, whose order fixes its digits.

    Each part is the sum of the two below it, in any order of arrival and on any worker; `nodes`
    holds the parts known so far, one at the end. With `in_place`, arrays that are added may be
    overwritten.
    """

    def __init__(self, n_blocks: int, *, in_place: bool) -> None:
        self.nodes: dict[Node, np.ndarray] = {}
        self._n_blocks = n_blocks
        self._in_place = in_place

    def add(self, node: Node, array: np.ndarray) -> None:
        """Add a part, and combine it with its neighbours as far as these are known."""
        level, index = node
        while 2**level < self._n_blocks:
            neighbour = index ^ 1
            if neighbour * 2**level < self._n_blocks:  # else it has no neighbour
                if (level, neighbour) not in self.nodes:
                    break
                other = self.nodes.pop((level, neighbour))
                left, right = (array, other) if index < neighbour else (other, array)
                array = np.add(left, right, out=left if self._in_place else None)
            level, index = level + 1, index // 2
        self.nodes[level, index] = array


def joined(parts: list[dict[Node, np.ndarray]], *, n_blocks: int) -> dict[Node, np.ndarray]:
    """Parts from several workers, combined as far as they are neighbours."""
    sums = Sums(n_blocks, in_place=False)
    for part in parts:
        for node, array in part.items():
            sums.add(node, array)
    return sums.nodes


def whole(parts: list[dict[Node, np.ndarray]], *, n_blocks: int) -> np.ndarray:
    """The sum over all blocks, from parts that cover them."""
    (array,) = joined(parts, n_blocks=n_blocks).values()
    return array


def summed(client: Client, parts: Sequence[Future[Any]], n_blocks: int) -> Future[Any]:
    """A future of the sum over all blocks, from futures of parts that cover them."""
    parts = list(parts)
    while len(parts) > _FAN_IN:
        parts = [
            client.submit(joined, parts[first : first + _FAN_IN], n_blocks=n_blocks, pure=False)
            for first in range(0, len(parts), _FAN_IN)
        ]
    return client.submit(whole, parts, n_blocks=n_blocks, pure=False)
