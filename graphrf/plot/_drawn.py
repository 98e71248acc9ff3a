"""The parts of an interactive map: nodes with their edges, streets or areas."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from graphrf.graph.graph import Graph
from graphrf.graph.other_graphs import in_degrees as crs_in_degrees
from graphrf.plot._areas import are_areas, areas_of
from graphrf.plot._edges import are_lines, lines_of
from graphrf.plot._given import in_order, links, node_values, places


class Drawn(NamedTuple):
    """The contents of a map: lines or outlines, the places of its marks, and the names of these."""

    parts: list[np.ndarray]  # (n, 2) each
    owners: np.ndarray  # of each part: two nodes, whose mean it has, or twice one street or area
    spots: np.ndarray  # (N, 2), where the pointer finds a name
    names: Sequence[Hashable]
    labels: Sequence[Hashable] | None  # by which a Series is matched
    noun: str
    degrees: bool | None

    @property
    def n(self) -> int:
        return len(self.spots)

    @property
    def filled(self) -> bool:
        """True for areas."""
        return self.noun == "area"

    def ordered(self, name: str, values: ArrayLike) -> np.ndarray:
        """Values in the order of the marks."""
        if self.noun == "node":
            return node_values(values, self.n, name)
        return in_order(values, self.n, self.labels, self.noun, name)


def drawn_of(source: Any, edges: Any) -> Drawn:
    """Nodes with their edges, streets, or areas."""
    if edges is None and are_areas(source):
        areas = areas_of(source)
        rings = [
            (number, ring)
            for number, region in enumerate(areas.regions)
            if region is not None
            for ring in region.rings()
        ]
        parts, owner = [ring for _, ring in rings], np.array([number for number, _ in rings])
        n, labels, noun, crs = len(areas.regions), areas.names, "area", areas.crs
    elif edges is None and are_lines(source):
        lines = lines_of(source)
        parts, owner = lines.parts, lines.edge
        n, labels, noun, crs = lines.n, lines.names, "edge", lines.crs
    else:
        return _nodes(source, edges)
    spots = np.full((n, 2), np.nan)
    for number, part in zip(owner[::-1].tolist(), parts[::-1], strict=True):
        spots[number] = _middle(part, noun)
    owners = np.column_stack([owner, owner]).astype(np.int64)
    names = range(n) if labels is None else labels
    return Drawn(parts, owners, spots, names, labels, noun, crs_in_degrees(crs))


def _nodes(source: Any, edges: Any) -> Drawn:
    """Places of nodes, edges between them, and the names of a graph."""
    spots = places(source)
    roads = links([] if edges is None else edges, len(spots))
    named = isinstance(edges, Graph) and edges.has_names
    names: Sequence[Hashable] = edges.nodes if named else range(len(spots))
    return Drawn(list(spots[roads]), roads, spots, names, None, "node", None)


def _middle(part: np.ndarray, noun: str) -> np.ndarray:
    """The middle of a line by its length, or of the corners of an area."""
    if noun == "area":
        return np.asarray((part.min(axis=0) + part.max(axis=0)) / 2)
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(part, axis=0).T))])
    return np.array([np.interp(along[-1] / 2, along, axis) for axis in part.T])
