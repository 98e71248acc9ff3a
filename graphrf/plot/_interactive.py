"""Maps to zoom and meshes to turn, each a page of its own that needs no network."""

from __future__ import annotations

import math
import os
from collections.abc import Hashable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks, lazy
from graphrf._base.files.atomic import atomic_write
from graphrf.graph.geometry.location import TriangleTree
from graphrf.graph.graph import Graph
from graphrf.graph.labels import is_missing
from graphrf.plot._drawn import Drawn, Layer, drawn_of, layers_of
from graphrf.plot._given import finite_range, in_degrees, marked, mesh, mesh_values, turn
from graphrf.plot._meshes import direction
from graphrf.plot._style import stretch_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


# Lines of a map have one colour each, of so many.
_COLOURS = 32
# Nodes from which a map is drawn by the graphics card.
_MANY = 5_000
_PALE = "#dcdcdc"
# Between areas.
_BORDER = "#6b6b6b"
# The radius of a mesh, where a page is 2 units high.
_FILLED = 0.97
# The height of marks above a mesh, in its diameters.
_LIFT = 3e-3


def interactive_map(
    places: Any,
    values: ArrayLike,
    deviation: ArrayLike | None = None,
    *,
    edges: Graph | ArrayLike | None = None,
    observed: ArrayLike | None = None,
    names: Sequence[Hashable] | None = None,
    label: str = "value",
    limits: tuple[float, float] | None = None,
    norm: str = "linear",
    geographic: bool | None = None,
    title: str = "",
    path: str | os.PathLike[str] | None = None,
) -> Figure:
    """A map to zoom, with the name, value and standard deviation of what is under the pointer.

    Parameters
    ----------
    places : GeoDataFrame, GeoSeries, networkx graph, sequence of shapely, or array_like
        Streets with their own geometry, as `plot_edges` takes them; areas, as `plot_areas` does; or
        horizontal and vertical places of N nodes, shape (N, 2): (longitude, latitude) for maps.
    values : array_like of float, shape (N,)
        Such as the mean of `predict`. Of streets and areas, a Series is matched by its index. NaN
        draws no mark; streets and areas without a value are pale.
    edges : Graph, or array_like of int of shape (E, 2), optional
        Between nodes, as pairs of positions; of a graph its own edges, and its names.
    deviation : array_like of float, shape (N,), optional
        Standard deviations: buttons change between them and the values.
    observed : array_like of float, shape (N,), optional
        NaN where not observed: a third button.
    names : sequence, optional
        Default: those of the graph or map, or positions. Of streets and areas, a Series is matched
        by its index.
    label : str
        Name of the signal, with its unit.
    limits : (low, high), optional
        Values at the ends of the colour bar. Default: the finite range.
    norm : {"linear", "log"}
        The scale of the colours, as in `plot_edges`; that of deviations where all are positive.
    geographic : bool, optional
        Whether coordinates are degrees. Default: as the coordinate system has them, or guessed, as
        by `plot_graph_signal`.
    title : str
    path : str or path, optional
        Where the page is written as well: an .html file that works without a network, on which the
        wheel of the mouse zooms: 5 MB, and about 0.3 kB for each node or face.

    Returns
    -------
    plotly.graph_objects.Figure
        It shows itself in notebooks; `update_layout` and the like change it.

    Raises
    ------
    ImportError
        Without the extra `interactive`.
    ValueError
        For shapes that do not match, and a path that does not end in .html.

    Examples
    --------
    >>> import graphrf as grf
    >>> from graphrf.plot import interactive_map
    >>> town = grf.from_edges(["harbour", "market"], ["market", "station"])
    >>> places, speed, std = [[0, 0], [1, 0], [1, 1]], [30.0, 35.0, 40.0], [0.1, 2.0, 4.0]
    >>> figure = interactive_map(places, speed, std, edges=town, label="speed (km/h)")
    >>> [button.label for button in figure.layout.updatemenus[0].buttons]
    ['speed (km/h)', 'standard deviation']

    Streets, by their geometry:

    >>> import networkx as nx
    >>> streets = nx.MultiDiGraph([("harbour", "market"), ("market", "station")])
    >>> for node, (x, y) in zip(streets, places):
    ...     streets.nodes[node].update(x=x, y=y)
    >>> figure = interactive_map(streets, [310.0, 95.0], label="cars per hour")
    >>> len(figure.data[-1].text)
    2
    """
    objects = _plotly("a map to zoom")
    drawn = drawn_of(places, edges)
    layers = layers_of(
        drawn.ordered("values", values),
        None if deviation is None else drawn.ordered("deviation", deviation),
        None if observed is None else drawn.ordered("observed", observed),
        label,
        limits,
        norm,
    )
    text = _hover(
        _checked_names(drawn.names if names is None else drawn.named(names), drawn.n, drawn.noun),
        layers,
    )
    scatter = objects.Scattergl if drawn.n > _MANY and not drawn.filled else objects.Scatter
    groups = [_map_traces(scatter, drawn, layer, text) for layer in layers]
    figure = _with_buttons(objects, groups, layers, title)

    at_nodes = drawn.noun == "node" or not drawn.parts
    corners = drawn.spots if at_nodes else np.concatenate(drawn.parts)
    degrees = in_degrees(corners, drawn.degrees if geographic is None else geographic)
    stretch = stretch_of(corners, degrees)
    hidden = {"showgrid": False, "zeroline": False, "showticklabels": degrees}
    figure.update_layout(
        dragmode="pan",
        hovermode="closest",
        plot_bgcolor="white",
        xaxis={**hidden, "title": "longitude (°)" if degrees else ""},
        yaxis={
            **hidden,
            "title": "latitude (°)" if degrees else "",
            "scaleanchor": "x",
            "scaleratio": stretch,
        },
    )
    return _written(figure, path, title or label)


def interactive_mesh(
    vertices: ArrayLike,
    faces: ArrayLike,
    values: ArrayLike,
    deviation: ArrayLike | None = None,
    *,
    observed: Any = None,
    names: Sequence[Hashable] | None = None,
    label: str = "value",
    limits: tuple[float, float] | None = None,
    view: tuple[float, float] = (28.0, -60.0),
    up: str = "z",
    on: str | None = None,
    title: str = "",
    path: str | os.PathLike[str] | None = None,
) -> Figure:
    """A mesh to turn and zoom; values and standard deviations appear under the pointer.

    Parameters
    ----------
    vertices : array_like, shape (V, 3)
    faces : array_like of int, shape (F, 3)
    values : array_like of float, shape (F,) or (V,)
        Values of the faces, or of the vertices, which are interpolated. NaN is drawn in pale grey.
    deviation, observed : array_like of float, of the same shape, optional
        See `interactive_map`. `observed` may also be a pair of places and values, as
        `plot_mesh_posterior` takes it: marks on the surface.
    names : sequence, optional
        Names of the faces or vertices. Default: positions.
    label, limits, title, path
        See `interactive_map`.
    view : (elevation, azimuth) in degrees
        From where it is seen at first.
    up, on
        See `plot_mesh`.

    Returns
    -------
    plotly.graph_objects.Figure

    Raises
    ------
    ImportError, ValueError
        See `interactive_map`.

    Examples
    --------
    >>> import graphrf as grf
    >>> from graphrf.plot import interactive_mesh
    >>> data = grf.datasets.load("generated-icosphere")
    >>> vertices, faces = data.extra["vertices"], data.extra["faces"]
    >>> figure = interactive_mesh(vertices, faces, data.targets, label="z of the normal")
    >>> figure.data[0].intensitymode, len(figure.data[0].intensity) == data.graph.n_nodes
    ('cell', True)
    """
    objects = _plotly("a mesh to turn")
    corners, triangles = mesh(vertices, faces)
    _, on_vertices = mesh_values(values, len(corners), len(triangles), on)
    kind, count = ("vertex", len(corners)) if on_vertices else ("face", len(triangles))
    marks = marked(observed)
    if marks is not None:
        observed = None
        limits = limits or finite_range(np.append(np.asarray(values, dtype=np.float64), marks[1]))
    for name, some in (("deviation", deviation), ("observed", observed)):
        if some is not None and np.shape(some) != (count,):
            raise checks.value_error(
                name, f"must have one entry per {kind}, as `values` has, got {np.shape(some)}"
            )

    layers = layers_of(values, deviation, observed, label, limits)
    text = _hover(_checked_names(range(count) if names is None else names, count, kind), layers)
    groups = [
        _mesh_traces(objects, corners, triangles, layer, text, on_vertices) for layer in layers
    ]
    if marks is not None:
        groups[0].append(_marks_trace(objects, corners[triangles], *marks, layers[0]))
    figure = _with_buttons(objects, groups, layers, title)

    # The eye and what is up to it, in the coordinates of the file.
    back = turn(up).T
    eye, above = 1.8 * back @ direction(*view), back @ [0.0, 0.0, 1.0]
    figure.update_layout(
        scene={
            **_filling(corners),
            "dragmode": "orbit",
            "camera": {
                "eye": dict(zip("xyz", eye.tolist(), strict=True)),
                "up": dict(zip("xyz", above.tolist(), strict=True)),
                "projection": {"type": "orthographic"},
            },
        }
    )

    return _written(figure, path, title or label)


def _marks_trace(
    objects: Any, corners: np.ndarray, places: np.ndarray, values: np.ndarray, layer: Layer
) -> Any:
    """Marks at the nearest points of triangles to places, with values in the colours of a layer."""
    nearest = TriangleTree(corners).nearest(places)
    chosen = corners[nearest.triangle]
    spots = np.einsum("nk,nkd->nd", nearest.weights, chosen)
    # In the surface marks would be half hidden; above which side they are seen, few files say.
    normal = np.cross(chosen[:, 1] - chosen[:, 0], chosen[:, 2] - chosen[:, 0])
    size = np.linalg.norm(np.ptp(corners, axis=(0, 1)))
    normal *= _LIFT * size / np.linalg.norm(normal, axis=1, keepdims=True)
    both = np.concatenate([spots + normal, spots - normal])
    colours = {**layer.colours, "showscale": False}
    del colours["colorbar"]
    return objects.Scatter3d(
        **dict(zip("xyz", both.T, strict=True)),
        mode="markers",
        text=2 * [f"observed: {value:.4g}" for value in values.tolist()],
        hoverinfo="text",
        showlegend=False,
        marker={
            "size": 5,
            "color": np.tile(values, 2),
            "line": {"color": "black", "width": 1},
            **colours,
        },
    )


def _filling(corners: np.ndarray) -> dict[str, Any]:
    """Hidden axes with one unit, so that the mesh fills the page however it is turned."""
    low, high = corners.min(axis=0), corners.max(axis=0)
    radius = float(np.linalg.norm(corners - (low + high) / 2, axis=1).max()) or 1.0
    half = np.maximum(1.001 * (high - low) / 2, 0.01 * radius)  # of a flat mesh too
    ends = zip((low + high) / 2 - half, (low + high) / 2 + half, strict=True)
    shown = {"visible": False, "showspikes": False}
    axes = {
        f"{name}axis": {**shown, "range": list(map(float, some))}
        for name, some in zip("xyz", ends, strict=True)
    }
    ratio = dict(zip("xyz", (_FILLED * 2 * half / radius).tolist(), strict=True))
    return {**axes, "aspectmode": "manual", "aspectratio": ratio}


def _plotly(what: str) -> Any:
    return lazy.need("plotly.graph_objects", what)


def _checked_names(names: Sequence[Hashable], count: int, kind: str) -> list[str]:
    if len(names) != count:
        raise checks.value_error("names", f"must have one per {kind}, {count}, got {len(names)}")
    return ["" if is_missing(name) else escape(str(name)) for name in names]


def _hover(names: list[str], layers: list[Layer]) -> list[str]:
    """Hover text of each node: its name and its values."""
    return [
        "<br>".join(
            [
                f"<b>{name}</b>",
                *(
                    f"{escape(layer.label)}: {layer.values[number]:.4g}"
                    for layer in layers
                    if math.isfinite(layer.values[number])
                ),
            ]
        )
        for number, name in enumerate(names)
    ]


def _map_traces(scatter: Any, drawn: Drawn, layer: Layer, text: list[str]) -> list[Any]:
    """Lines in the colours of the mean of their ends, streets or areas in their own, and marks."""
    from plotly.colors import sample_colorscale

    low, high = layer.scaled(np.array(layer.limits)).tolist()
    means = layer.values[drawn.owners].mean(axis=1) if len(drawn.owners) else np.empty(0)
    known = np.isfinite(means)
    share = np.clip((layer.scaled(means[known]) - low) / ((high - low) or 1.0), 0.0, 1.0)
    bins = np.full(len(means), -1)
    bins[known] = np.minimum((share * _COLOURS).astype(int), _COLOURS - 1)

    traces = [_lines(scatter, drawn, bins == -1, _PALE, 1.5)]
    for number in np.unique(bins[known]):
        (colour,) = sample_colorscale(layer.cmap, [(number + 0.5) / _COLOURS])
        traces.append(_lines(scatter, drawn, bins == number, colour, 3.0))

    shown = np.flatnonzero(np.isfinite(layer.values))
    look: dict[str, Any] = {"color": layer.scaled(layer.values[shown]), **layer.colours}
    if drawn.noun != "node":
        # Streets and areas have colours of their own: their marks carry the text alone, and the
        # colour bar is that of a mark that is nowhere.
        bar = {"color": [low], **layer.colours}
        traces.append(scatter(x=[None], y=[None], mode="markers", marker=bar, showlegend=False))
        look = {"opacity": 0.0}
    traces.append(
        scatter(
            x=drawn.spots[shown, 0],
            y=drawn.spots[shown, 1],
            mode="markers",
            text=[text[node] for node in shown],
            hoverinfo="text",
            showlegend=False,
            marker={"size": 7 if shown.size < 2_000 else 5, **look},
        )
    )
    return traces


def _lines(scatter: Any, drawn: Drawn, chosen: np.ndarray, colour: str, width: float) -> Any:
    gap = np.full((1, 2), np.nan)  # behind every line
    pieces = [
        piece
        for part, some in zip(drawn.parts, chosen.tolist(), strict=True)
        if some
        for piece in (part, gap)
    ]
    corners = np.concatenate(pieces) if pieces else np.empty((0, 2))
    fill = {"fill": "toself", "fillcolor": colour} if drawn.filled else {}
    line = {"color": _BORDER, "width": 0.6} if drawn.filled else {"color": colour, "width": width}
    return scatter(
        x=corners[:, 0],
        y=corners[:, 1],
        mode="lines",
        line=line,
        hoverinfo="skip",
        showlegend=False,
        connectgaps=False,
        **fill,
    )


def _mesh_traces(
    objects: Any,
    corners: np.ndarray,
    faces: np.ndarray,
    layer: Layer,
    text: list[str],
    on_vertices: bool,
) -> list[Any]:
    """The faces with values, and those without in grey."""
    known = np.isfinite(layer.values)
    valued = known[faces].all(axis=1) if on_vertices else known
    light = {"ambient": 0.75, "diffuse": 0.35, "specular": 0.03, "roughness": 0.9, "fresnel": 0.0}
    places = dict(zip("xyz", corners.T, strict=True))
    # Flat shading would light neighbouring faces differently, which looks like data.
    shared = {"flatshading": False, "hoverinfo": "text", "lighting": light, **places}

    def words(chosen: np.ndarray) -> list[str]:
        return text if on_vertices else [text[face] for face in np.flatnonzero(chosen)]

    colours = np.where(known, layer.values, layer.limits[0])
    traces = [
        objects.Mesh3d(
            **dict(zip("ijk", faces[valued].T, strict=True)),
            **shared,
            **layer.colours,
            text=words(valued),
            intensity=colours if on_vertices else colours[valued],
            intensitymode="vertex" if on_vertices else "cell",
        )
    ]

    if not valued.all():
        # Of a mesh with one colour the pointer would name vertices, and not faces.
        traces.append(
            objects.Mesh3d(
                **dict(zip("ijk", faces[~valued].T, strict=True)),
                **shared,
                text=words(~valued),
                intensity=np.zeros(len(corners) if on_vertices else np.count_nonzero(~valued)),
                intensitymode="vertex" if on_vertices else "cell",
                colorscale=[[0, _PALE], [1, _PALE]],
                showscale=False,
            )
        )
    return traces


def _with_buttons(objects: Any, groups: list[list[Any]], layers: list[Layer], title: str) -> Any:
    """A figure of all traces, of which the first group is seen until a button is pressed."""
    owner = [number for number, group in enumerate(groups) for _ in group]
    figure = objects.Figure([trace for group in groups for trace in group])
    for trace, number in zip(figure.data, owner, strict=True):
        trace.visible = number == 0

    buttons = [
        {
            "label": layer.label,
            "method": "restyle",
            "args": [{"visible": [own == number for own in owner]}],
        }
        for number, layer in enumerate(layers)
    ]

    if len(buttons) > 1:
        place = {"x": 0.0, "xanchor": "left", "y": 1.0, "yanchor": "bottom"}
        menu = {
            "type": "buttons",
            "direction": "right",
            "buttons": buttons,
            "showactive": True,
            **place,
        }
        figure.update_layout(updatemenus=[menu])

    figure.update_layout(
        title=escape(title),
        paper_bgcolor="white",
        margin={"l": 20, "r": 20, "t": 90 if title else 50, "b": 20},
    )
    return figure


def _written(figure: Any, path: str | os.PathLike[str] | None, title: str) -> Any:
    if path is not None:
        target = checks.path("path", path)
        if not target.lower().endswith((".html", ".htm")):
            raise checks.value_error("path", f"must end in .html, got {target!r}")
        page = figure.to_html(
            include_plotlyjs=True, full_html=True, config={"scrollZoom": True, "responsive": True}
        )
        # The figure fills the window, but is hardly higher than wide: its height sets the scale of
        # a mesh, which a narrow window would otherwise cut off.
        head = (
            f'<!DOCTYPE html>\n<html lang="en">\n<head><title>{escape(title)}</title>'
            "<style>html, body, body > div { height: 100%; margin: 0; } body > div { max-height: "
            "90vw; }</style>"
        )
        before, _, after = page.partition("<head>")
        assert after, before
        with atomic_write(target) as file:
            file.write((head + after).encode())
    return figure
