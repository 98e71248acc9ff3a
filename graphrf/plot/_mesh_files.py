"""Meshes with values at vertices or faces, in files of other programs: PLY and VTK."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks
from graphrf._base.files.atomic import atomic_write
from graphrf.plot._given import mesh


def write_mesh(
    path: str | os.PathLike[str],
    vertices: ArrayLike,
    faces: ArrayLike,
    values: Mapping[str, ArrayLike],
) -> None:
    """Write a triangle mesh with values, such as posterior means, to a PLY or VTK file.

    Examples
    --------
    >>> import pathlib, tempfile, numpy as np, graphrf as grf
    >>> data = grf.datasets.load("generated-torus")
    >>> file = pathlib.Path(tempfile.mkdtemp(), "torus.ply")
    >>> grf.plot.write_mesh(
    ...     file, data.extra["vertices"], data.extra["faces"], {"mean": data.targets}
    ... )
    >>> file.read_bytes().split()[:2]
    [b'ply', b'format']

    Parameters
    ----------
    path : path
        `.ply` (ascii) is for MeshLab, Blender and trimesh, `.vtk` (legacy ascii) for ParaView and
        PyVista.
    vertices : array_like, shape (V, 3)
    faces : array_like of int, shape (F, 3)
    values : mapping of str to array_like, shape (V,) or (F,)
        Values of vertices or of faces, by name; of faces where there are as many of both. Numbers
        are written with 17 digits. NaN is allowed.

    Raises
    ------
    ValueError
        For another suffix, a name that is empty or has white space, or values of another length.
    OSError
        If the file cannot be written; the file that was there is then unchanged.

    Notes
    -----
    Cost: O(V + F) time; some 100 bytes on disk for each vertex and face.
    """
    corners, triangles = mesh(vertices, faces)
    writers = {".ply": _ply, ".vtk": _vtk}
    suffix = Path(checks.path("path", path)).suffix.lower()
    if suffix not in writers:
        raise checks.value_error("path", f"must end in .ply or .vtk, got {os.fspath(path)!r}")

    of_vertices: dict[str, np.ndarray] = {}
    of_faces: dict[str, np.ndarray] = {}
    for name, given in values.items():
        if not isinstance(name, str) or not name or name.split() != [name]:
            raise checks.value_error("values", f"must have names without white space, got {name!r}")
        array = checks.array(f"values[{name!r}]", given, np.float64)
        if array.shape not in ((len(corners),), (len(triangles),)):
            raise checks.value_error(
                "values",
                f"must have one number for each vertex ({len(corners)}) or face "
                f"({len(triangles)}), got shape {array.shape} for {name!r}",
            )
        (of_faces if array.size == len(triangles) else of_vertices)[name] = array

    with atomic_write(path) as file:
        file.writelines(
            f"{line}\n".encode()
            for line in writers[suffix](corners, triangles, of_vertices, of_faces)
        )


Columns = Mapping[str, np.ndarray]


def _ply(
    vertices: np.ndarray, faces: np.ndarray, of_vertices: Columns, of_faces: Columns
) -> Iterator[str]:
    """The lines of a PLY file: values are further properties of vertices and faces."""
    yield from (
        "ply",
        "format ascii 1.0",
        "comment written by graphrf",
        f"element vertex {len(vertices)}",
    )
    yield from (f"property double {name}" for name in ("x", "y", "z", *of_vertices))
    yield from (f"element face {len(faces)}", "property list uchar int vertex_indices")
    yield from (f"property double {name}" for name in of_faces)
    yield "end_header"
    yield from _rows(np.column_stack([vertices, *of_vertices.values()]))
    numbers = _rows(np.column_stack(list(of_faces.values()))) if of_faces else [""] * len(faces)
    for (a, b, c), more in zip(faces.tolist(), numbers, strict=True):
        yield f"3 {a} {b} {c} {more}".rstrip()


def _vtk(
    vertices: np.ndarray, faces: np.ndarray, of_vertices: Columns, of_faces: Columns
) -> Iterator[str]:
    """The lines of a legacy VTK file of polygons, with point and cell data."""
    yield from ("# vtk DataFile Version 3.0", "written by graphrf", "ASCII", "DATASET POLYDATA")
    yield f"POINTS {len(vertices)} double"
    yield from _rows(vertices)
    yield f"POLYGONS {len(faces)} {4 * len(faces)}"
    yield from (f"3 {a} {b} {c}" for a, b, c in faces.tolist())
    for kind, size, columns in (
        ("POINT", len(vertices), of_vertices),
        ("CELL", len(faces), of_faces),
    ):
        if columns:
            yield f"{kind}_DATA {size}"
        for name, column in columns.items():
            yield from (f"SCALARS {name} double 1", "LOOKUP_TABLE default")
            yield from _rows(column[:, None])


def _rows(numbers: np.ndarray) -> Iterator[str]:
    return (" ".join(f"{number:.17g}" for number in row) for row in numbers.tolist())
