"""Warnings about edges that are valid, but often not what was meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from graphrf._base.files.untrusted import listed, short
from graphrf._base.warn import warn
from graphrf.graph.edges import Weights

# What networkx, tables and PyG call the weights of edges. Lengths and times are none: road graphs
# always have them, and hops are what is often wanted there.
_WEIGHTS = frozenset(("weight", "weights", "edge_weight"))
_DISTANCES = frozenset(
    (
        "length",
        "lengths",
        "distance",
        "distances",
        "dist",
        "cost",
        "costs",
        "time",
        "duration",
        "km",
    )
    + (
        "kilometres",
        "kilometers",
        "mile",
        "miles",
        "metre",
        "metres",
        "meter",
        "meters",
        "minutes",
        "seconds",
    )
)
# A graph of positions may have so many nodes, and so
# many for each edge, before they look like identifiers.
_FEW_NODES = 1000
_NODES_PER_EDGE = 100


# The way to names of nodes.
NAMED_BY = "load_graph(frame.set_index('name')) names those of a map by a column"


def of_numbered_nodes(unknown: Any, n_nodes: int) -> str:
    """The account of a graph without names, where a node was asked for by one."""
    way_out = f"; {NAMED_BY}" if isinstance(unknown, str) and not unknown.isdecimal() else ""
    return f"it has no names, so that its nodes are the positions 0 to {n_nodes - 1}{way_out}"


def warn_together(notices: Iterable[str]) -> None:
    """One warning for all notices of a call, if there are any; empty ones are none."""
    text = ". ".join(filter(None, notices))
    if text:
        warn(text)


def of_weights(name: Any, attributes: Mapping[str, Iterable[Any]], weights: Weights) -> list[str]:
    """Warnings about weights, of the attribute `name`, and among attributes of edges."""
    return [
        _of_distances(name, weights.stated),
        _of_unused_weight(attributes) if weights.given is None else "",
    ]


def _of_unused_weight(attributes: Mapping[str, Iterable[Any]]) -> str:
    """Warning if edges have a weight among their attributes that is not used, unless all are 1."""
    for name, values in attributes.items():
        if is_weight(name) and not all(_is_one(value) for value in values):
            return (
                f"the graph is unweighted, but its edges have {short(name)} (attributes: "
                f"{listed(attributes)}): pass weight={name!r} to use it, or weight=False for an "
                "unweighted graph without this warning"
            )
    return ""


def is_weight(name: Any) -> bool:
    """True if an attribute or column is called a weight."""
    return str(name).lower() in _WEIGHTS


def _is_one(value: Any) -> bool:
    try:
        return float(value) == 1.0
    except (TypeError, ValueError):
        return False


def _of_distances(name: Any, weight_is: str | None) -> str:
    """Warning about an attribute whose name suggests distances, unless `weight_is` is given."""
    if weight_is is not None or not isinstance(name, str) or not sounds_like_distance(name):
        return ""
    return (
        f"the weights in {short(name)} are taken as similarities: nodes joined by a large weight "
        "are near each other. For lengths, times and costs pass weight_is='distance'; "
        "weight_is='similarity' ends this warning"
    )


def sounds_like_distance(title: str) -> bool:
    """True if a word of a title suggests that large weights mean far apart."""
    words = re.findall("[A-Z]?[a-z]+|[A-Z]+", title)
    return not _DISTANCES.isdisjoint(word.lower() for word in words)


def of_parallel_edges(n_repeated: int, n_edges: int) -> str:
    """Warning about edges without weights, `n_repeated` of them with an earlier one's ends."""
    if not n_repeated:
        return ""
    return (
        f"parallel edges count once in an unweighted graph, and {n_repeated} of the {n_edges} "
        "edges listed repeat an earlier one: give every edge the weight 1 to have parallel ones "
        "added, as networkx does, or pass weight=False to count them once without this warning"
    )


def of_two_directions(src: np.ndarray, dst: np.ndarray, length: np.ndarray) -> str:
    """Warning about a list of roads that seems to hold both directions of most."""
    apart = src != dst
    there = set(zip(src[apart].tolist(), dst[apart].tolist(), length[apart].tolist(), strict=True))
    n_back = sum((v, u, long) in there for u, v, long in there)
    if len(there) <= 2 or 2 * n_back <= len(there):
        return ""
    return (
        f"{n_back:,} of the {src.size:,} edges lead back along another of the same length, and "
        "both count as roads: are they the two directions of one? Then leave one out, as "
        "MetricGraph.from_networkx does"
    )


def nodes_without_edges(graph: Any) -> np.ndarray:
    """Positions of the nodes that no edge joins to another."""
    loops, entries = graph.adjacency.diagonal() != 0, np.diff(graph.adjacency.indptr)
    if graph.directed:
        entries = entries + np.bincount(graph.adjacency.indices, minlength=graph.n_nodes) - loops
    return np.flatnonzero(entries == loops)


def of_few_edges(
    what: str, graph: Any, way_out: str = "", *, alone: float = 0.5, together: float = 0.0
) -> str:
    """Warning about a graph whose nodes, called `what`, have no edge, or that falls apart.

    There is none if at most a share `alone` of the nodes has no edge (self-loops aside), and the
    largest part has at least a share `together`. `way_out` says what to do.
    """
    n, n_alone = graph.n_nodes, nodes_without_edges(graph).size
    if n < 2 or not (together or n_alone > alone * n):
        return ""
    sizes = np.bincount(graph.components())
    if n_alone <= alone * n and sizes.max() >= together * n:
        return ""
    alone_ones = f"{n_alone:,} of the {n:,} {what} have no edge, and " if n_alone else ""
    return (
        f"{alone_ones}the largest of the {sizes.size:,} parts of the graph has "
        f"{int(sizes.max()):,} of the {n:,} {what}; values in one part carry no information on the "
        f"others{': ' if way_out else ''}{way_out}"
    )


def of_crowded_sides(n_crowded: int, n_sides: int, on: str) -> str:
    """Warning about a mesh of which many sides belong to three faces or more."""
    if n_crowded <= (0.01 if on == "faces" else 0.5) * n_sides:
        return ""
    lost = ", and join none" if on == "faces" else ""
    return (
        f"{n_crowded:,} of the {n_sides:,} sides belong to three faces or more{lost}: are the "
        "faces tetrahedra, which are read as quadrilaterals, or surfaces with walls between them? "
        "Pass the triangles of the outer surface"
    )


def of_repeated_faces(n_repeated: int) -> str:
    """Warning about faces of a mesh that are there more than once."""
    if not n_repeated:
        return ""
    return (
        f"{n_repeated:,} faces repeat others, and both and their neighbours lose edges, since a "
        "side of three faces joins none: remove the copies first, in trimesh by "
        "`mesh.update_faces(mesh.unique_faces())`"
    )


def look_like_degrees(places: np.ndarray) -> bool:
    """True if coordinates, (n, 2), may be longitudes and latitudes of a place far from 0, 0."""
    if not len(places) or not (np.abs(places) <= (180.0, 90.0)).all():
        return False
    low, high = places.min(axis=0), places.max(axis=0)
    return bool(0 < np.linalg.norm(high - low) < np.linalg.norm(low + high) / 2)


def of_degrees(what: str, way_out: str) -> str:
    """Warning about distances in degrees."""
    return (
        f"{what} seems to be in degrees, because the coordinates look like longitudes and "
        f"latitudes; a degree of longitude is shorter than one of latitude: {way_out}"
    )


def of_first_position(n_nodes: int, ends: Iterable[np.ndarray]) -> str:
    """Warning about ends of edges, below `n_nodes`, that are all positions but 0."""
    ends = list(ends)
    if n_nodes < 2 or n_nodes - 1 > sum(map(len, ends)):
        return ""
    seen = np.zeros(n_nodes, dtype=bool)
    for own in ends:
        seen[own] = True
    if seen[0] or not seen[1:].all():
        return ""
    return (
        f"integers are positions from 0, and there are edges at 1 to {n_nodes - 1}, and none at 0: "
        "are the nodes numbered from 1? Then subtract 1, or name the nodes by them, nodes=range(1, "
        f"{n_nodes}); if a node 0 without edges is meant, pass n_nodes={n_nodes}"
    )


def of_identifiers(n_nodes: int, n_edges: int, way_out: str) -> str:
    """Warning about positions that imply many more nodes than edges have ends."""
    if n_nodes <= _FEW_NODES + _NODES_PER_EDGE * n_edges:
        return ""
    return (
        f"integers are positions from 0, so that {n_edges:,} edges make a graph of {n_nodes:,} "
        f"nodes, nearly all of them without edges. If the integers are identifiers, {way_out}; if "
        "so many nodes are meant, pass n_nodes"
    )
