"""The data of the demo: named data sets, and a mesh that it makes itself."""

from __future__ import annotations

import numpy as np

from graphrf import datasets
from graphrf._base import checks
from graphrf.cli.demo.parts import Settings, Source
from graphrf.datasets.sets import Dataset
from graphrf.graph.builders import from_mesh
from graphrf.graph.graph import Graph

TWISTED_TORUS = Settings().mesh


def graph_data(name: str) -> Dataset:
    """The data set of a name, which must have an undirected graph."""
    if name in datasets.names("table"):
        raise checks.value_error("dataset", f"must have a graph, got {name!r}, which is a table")
    data = datasets.load(name)
    assert data.graph is not None
    if data.graph.directed:
        raise checks.value_error(
            "dataset", f"must be undirected for the kernel, got {name!r}, whose edges have directions"
        )
    return data


def mesh_data(name: str) -> Dataset:
    """The triangle mesh of a name, with a signal on its faces."""
    if name == TWISTED_TORUS:
        return twisted_torus()
    known = datasets.names()
    data = datasets.load(f"mesh-{name}" if name not in known and f"mesh-{name}" in known else name)
    if "faces" not in data.extra:
        raise checks.value_error("mesh", f"must be a triangle mesh, got {name!r}; see graphrf datasets")
    return data


def twisted_torus(around: int = 48, across: int = 24) -> Dataset:
    """A torus whose tube is wavy along a spiral, with the height components of its normals as the signal.

    A plain torus or ball has normals so smooth that the best lengthscale is far longer than walks are good for;
    the waves give the signal the detail of a real surface. No library and no file is needed to make it.
    """
    u, v = np.meshgrid(np.arange(around), np.arange(across), indexing="ij")
    along, about = 2 * np.pi * u / around, 2 * np.pi * v / across
    tube = 0.9 * (1 + 0.25 * np.sin(5 * along + 3 * about))
    reach = 2 + tube * np.cos(about)
    vertices = np.stack([reach * np.cos(along), reach * np.sin(along), tube * np.sin(about)], axis=-1).reshape(
        -1, 3
    )

    def number(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return ((i % around) * across + j % across).ravel()

    here, right, up, beyond = number(u, v), number(u + 1, v), number(u, v + 1), number(u + 1, v + 1)
    # The diagonal runs along the waves; across them it would crumple the surface.
    faces = np.concatenate([np.column_stack([here, right, up]), np.column_stack([right, beyond, up])])
    corners = vertices[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    return Dataset(
        name=TWISTED_TORUS,
        kind="generated",
        description="A torus with a wavy, twisted tube, from a formula. Targets: z component of the face normals.",
        licence="none needed (generated)",
        graph=from_mesh((vertices, faces)),
        targets=normals[:, 2].copy(),
        coordinates=corners.mean(axis=1),
        extra={"vertices": vertices, "faces": faces, "normals": normals},
    )


def source_of(data: Dataset) -> Source:
    """Description of a data set for the report: name, text, licence, and size of the graph."""
    graph = graph_of(data)
    return Source(data.name, data.description, data.licence, graph.n_nodes, graph.n_edges)


def graph_of(data: Dataset) -> Graph:
    """The graph of a data set that has one."""
    assert data.graph is not None
    return data.graph
