"""Edges subdivided at places along them: each place becomes a vertex of two pieces."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Places so near one another, or so near an end, relative to the edge's length, are one.
_ONE = 1e-8


class Places(NamedTuple):
    """Places of a metric graph: vertices, or points of edges; three arrays of shape (n,)."""

    node: np.ndarray  # the vertex, or -1 inside an edge
    edge: np.ndarray  # the edge, or -1 at a vertex
    distance: np.ndarray  # from the first end of the edge

    @property
    def size(self) -> int:
        """n."""
        return int(self.node.size)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The three arrays."""
        return self._asdict()

    def at(self, chosen: np.ndarray) -> Places:
        """Some of them."""
        return Places(self.node[chosen], self.edge[chosen], self.distance[chosen])

    def followed_by(self, others: Places) -> Places:
        """These and then the others."""
        return Places(*(np.concatenate(pair) for pair in zip(self, others, strict=True)))


class Subdivision(NamedTuple):
    """The edges of a metric graph subdivided at n places: m pieces."""

    n_nodes: int  # vertices: those of the graph come first
    src: np.ndarray  # the ends of every piece, (m,)
    dst: np.ndarray
    length: np.ndarray
    where: np.ndarray  # the vertex that each of the places is, (n,)


def rounded(places: Places, length: np.ndarray, step: float) -> Places:
    """Places inside edges of some lengths at the nearest of points that are `step` apart."""
    inside = places.edge >= 0
    whole = np.where(inside, length[places.edge], 0.0)
    distance = np.round(places.distance / step) * step
    distance = np.where(whole - distance < 0.75 * step, whole, distance)
    return places._replace(distance=np.where(inside, distance, places.distance))


def subdivide(
    n_nodes: int, src: np.ndarray, dst: np.ndarray, length: np.ndarray, places: Places
) -> Subdivision:
    """Cut edges at places, in O((m + n) log(m + n))."""
    where = places.node.copy()
    inside = np.flatnonzero(where < 0)
    edge, distance = places.edge[inside], places.distance[inside]

    near = _ONE * length[edge]
    at_first, at_last = distance <= near, length[edge] - distance <= near
    where[inside[at_last]] = dst[edge[at_last]]
    where[inside[at_first]] = src[edge[at_first]]
    between = ~(at_first | at_last)
    inside, edge, distance = inside[between], edge[between], distance[between]

    order = np.lexsort((distance, edge))
    inside, edge, distance = inside[order], edge[order], distance[order]
    apart = np.ones(edge.size, dtype=bool)
    apart[1:] = (np.diff(edge) > 0) | (np.diff(distance) > _ONE * length[edge[1:]])

    where[inside] = n_nodes + np.cumsum(apart) - 1
    edge, distance = edge[apart], distance[apart]

    # the stops of each edge: its first end, the places, its last end
    every, new = np.arange(src.size), n_nodes + np.arange(edge.size)
    edges = np.concatenate([every, edge, every])
    stops = np.concatenate([np.zeros(src.size), distance, length])
    vertices = np.concatenate([src, new, dst])

    order = np.lexsort((stops, edges))
    edges, stops, vertices = edges[order], stops[order], vertices[order]
    same = np.flatnonzero(np.diff(edges) == 0)

    return Subdivision(
        n_nodes + edge.size,
        vertices[same],
        vertices[same + 1],
        (stops[same + 1] - stops[same]),
        where,
    )
