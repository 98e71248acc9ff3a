"""Refinement of a triangle mesh by bisection of longest edges.

Edges that are too long are marked, and then the longest edge of each triangle with a marked edge,
until nothing changes. Marked edges are bisected for both of their triangles, so that no vertex lies
inside an edge. Each triangle is cut through the middle of its longest edge, and its parts through
those of the others. In the plane no angle is below half the smallest one before.

Source: Rivara 1984, "Algorithms for refining triangular grids suitable for adaptive and multigrid
techniques".
"""

from __future__ import annotations

import numpy as np

from graphrf.gp.fields.elements import edges_of, triangle_areas
from graphrf.gp.fields.sources import require_room


def refined(
    vertices: np.ndarray, triangles: np.ndarray, max_edge: float, on_sphere: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Vertices, those given first, and triangles with edges of at most `max_edge`."""
    # No triangle with such edges is larger than the equilateral one, and two have one vertex.
    least = triangle_areas(vertices[triangles]).sum() / (np.sqrt(0.75) * max_edge**2)
    while True:
        edges, number = edges_of(triangles)
        ends = vertices[edges]
        lengths = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)
        marked = lengths > max_edge
        if not marked.any():
            return vertices.copy(), triangles.copy()
        first = np.argmax(lengths[number], axis=1)
        _propagate(marked, number, number[np.arange(len(number)), first])
        require_room(max(least, len(vertices) + marked.sum()), max_edge)
        middle = ends[marked].mean(axis=1)
        if on_sphere:
            radius = np.linalg.norm(vertices[0])
            middle *= radius / np.linalg.norm(middle, axis=1, keepdims=True)
        inner = np.full(len(edges), -1)
        inner[marked] = np.arange(len(vertices), len(vertices) + len(middle))
        triangles = _cut(triangles, inner[number], first)
        vertices = np.vstack([vertices, middle])


def _propagate(marked: np.ndarray, number: np.ndarray, longest: np.ndarray) -> None:
    """Mark the longest edge of every triangle with a marked one; numbers of edges per triangle."""
    left = np.arange(len(number))
    while True:
        left = left[~marked[longest[left]]]
        reached = longest[left[marked[number[left]].any(axis=1)]]
        if not reached.size:
            return
        marked[reached] = True


def _cut(triangles: np.ndarray, middles: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The parts of all triangles, given the vertex in the middle of each edge, -1 for none, and
    which of the edges ab, bc and ca is the longest.
    """
    order = (first[:, None] + np.arange(3)) % 3  # the longest one becomes ab
    a, b, c = np.take_along_axis(triangles, order, axis=1).T
    ab, bc, ca = np.take_along_axis(middles, order, axis=1).T
    one, two, three = ab >= 0, bc >= 0, ca >= 0
    parts = [
        (~one, (a, b, c)),
        (one & ~three, (a, ab, c)),
        (three, (a, ab, ca)),
        (three, (ca, ab, c)),
        (one & ~two, (ab, b, c)),
        (two, (ab, b, bc)),
        (two, (ab, bc, c)),
    ]
    return np.vstack([np.column_stack(corners)[chosen] for chosen, corners in parts])
