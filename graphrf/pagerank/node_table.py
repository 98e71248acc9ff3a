"""The table of the nodes touched by a local query.

A hash table gives every touched node a row, in the order of first contact, so that results do not
depend on the size of the table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import uint64

from graphrf._base.compiled import njit

FEWEST_ROWS = 1024

_U0 = np.uint64(0)
_U32 = np.uint64(32)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class Table(NamedTuple):
    """The touched nodes of one source; row 0 is the source.

    `slots` holds words (node, row + 1), 0 if empty. Columns of `mass`: residual, reserve, edges (at
    least 1), 1 if queued. Columns of `visits`: in the current batch, its number, in all batches,
    sum of their squares.
    """

    slots: np.ndarray
    places: np.ndarray
    nodes: np.ndarray
    mass: np.ndarray
    visits: np.ndarray
    queues: np.ndarray


@njit(nogil=True)
def new_table(rows):  # type: ignore[no-untyped-def]
    """An empty table for `rows` nodes, a power of two; half of the slots stay empty."""
    return Table(
        np.zeros(2 * rows, np.uint64),
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
        np.empty((rows, 4), np.float64),
        np.empty((rows, 4), np.float64),
        np.empty((2, rows), np.int64),
    )


@njit(nogil=True)
def enlarged_table(table, used, room):  # type: ignore[no-untyped-def]
    """A copy of the table with room for at least `room` nodes."""
    rows = table.nodes.size
    while rows < room:
        rows *= 4
    larger = new_table(rows)
    # Loops, since slices take long to compile.
    for row in range(used):
        for column in range(4):
            larger.mass[row, column] = table.mass[row, column]
            larger.visits[row, column] = table.visits[row, column]
        for side in range(2):
            larger.queues[side, row] = table.queues[side, row]
        larger.nodes[row] = table.nodes[row]
        node = uint64(table.nodes[row])
        place = place_of(larger.slots, node)
        larger.slots[place] = (node << _U32) | uint64(row + 1)
        larger.places[row] = place
    return larger


@njit(nogil=True)
def place_of(slots, node):  # type: ignore[no-untyped-def]
    """The slot of `node`, or the empty slot for it."""
    last = uint64(slots.size - 1)
    place = (uint64(node * _MULTIPLIER) >> _U32) & last
    while slots[place] != _U0 and slots[place] >> _U32 != node:
        place = (place + uint64(1)) & last
    return place


@njit(nogil=True)
def append(slots, places, nodes, mass, used, place, node, indptr):  # type: ignore[no-untyped-def]
    """Add a row for `node`, without setting visits; returns the number of rows."""
    slots[place] = (node << _U32) | uint64(used + 1)
    places[used] = place
    nodes[used] = node
    mass[used, 0] = 0.0
    mass[used, 1] = 0.0
    mass[used, 2] = max(1, indptr[node + uint64(1)] - indptr[node])
    mass[used, 3] = 0.0
    return used + 1


@njit(nogil=True)
def unvisited(table, row):  # type: ignore[no-untyped-def]
    """Set the visits of a row to none."""
    for column in range(4):
        table.visits[row, column] = 0.0


@njit(nogil=True)
def begin(table, source, indptr):  # type: ignore[no-untyped-def]
    """Put all mass as residual on the source of an empty table."""
    node = uint64(source)
    place = place_of(table.slots, node)
    used = append(table.slots, table.places, table.nodes, table.mass, 0, place, node, indptr)
    table.mass[0, 0] = 1.0
    return table, used


@njit(nogil=True)
def clear(table, used):  # type: ignore[no-untyped-def]
    """Empty the table."""
    for row in range(used):
        table.slots[table.places[row]] = _U0
