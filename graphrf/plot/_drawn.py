"""The contents of interactive pictures: nodes with their edges, streets or areas, and their
signals.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from graphrf.graph.graph import Graph
from graphrf.graph.other_graphs import in_degrees as crs_in_degrees
from graphrf.plot._areas import are_areas, areas_of
from graphrf.plot._edges import are_lines, lines_of
from graphrf.plot._given import deviations, finite_range, in_order, links, node_values, places
from graphrf.plot._style import DEVIATIONS, VALUES, in_scale, log_ticks


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

    def named(self, names: Any) -> Sequence[Any]:
        """Names in the order of the marks: those of a Series by its index, None without one."""
        index = getattr(names, "index", None)
        if self.labels is None or index is None or callable(index):
            return list(names)
        rows = type(names)(np.arange(len(names)), index=index)
        places = in_order(rows, self.n, self.labels, self.noun, "names")
        content = list(names)
        return [None if np.isnan(place) else content[int(place)] for place in places]


class Layer(NamedTuple):
    """One signal of a picture: its label, values, colours, and the values at their ends."""

    label: str
    values: np.ndarray
    cmap: str
    limits: tuple[float, float]
    logarithmic: bool = False

    def scaled(self, values: np.ndarray) -> np.ndarray:
        """Values as colours count them; on a logarithmic scale those up to 0 are below all
        others.
        """
        return np.log10(np.maximum(values, self.limits[0] / 2)) if self.logarithmic else values

    @property
    def colours(self) -> dict[str, Any]:
        """The colours in plotly's form."""
        bar: dict[str, Any] = {
            "title": {"text": self.label, "side": "right"},
            "outlinewidth": 0,
            "thickness": 14,
            "len": 0.8,
        }
        if self.logarithmic:
            ticks = log_ticks(*self.limits)
            bar |= {"tickvals": np.log10(ticks), "ticktext": [f"{tick:g}" for tick in ticks]}
        low, high = self.scaled(np.array(self.limits)).tolist()
        return {"colorscale": self.cmap, "cmin": low, "cmax": high, "colorbar": bar}


def layers_of(
    values: ArrayLike,
    deviation: ArrayLike | None,
    observed: ArrayLike | None,
    label: str,
    limits: tuple[float, float] | None,
    norm: str = "linear",
) -> list[Layer]:
    """Layers of a picture; observations have the colours of the values."""
    array = np.asarray(values, dtype=np.float64)
    _, own = in_scale(array, limits, norm)
    found = [Layer(label, array, VALUES, own, norm == "log")]
    if observed is not None:
        seen = np.asarray(observed, dtype=np.float64)
        found.append(found[0]._replace(label="observed", values=seen))
    if deviation is not None:
        spread = deviations(deviation, array.shape, "`values`")
        ends = finite_range(spread)
        logarithmic = norm == "log" and 0 < ends[0] < ends[1]
        found.append(Layer("standard deviation", spread, DEVIATIONS, ends, logarithmic))
    return found


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
