"""The files of triangle meshes."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from graphrf._base import checks
from graphrf.gp.fields.geometries import from_wkt
from graphrf.gp.fields.triangle_mesh import TriangleMesh
from graphrf.gp.files.graphs import GraphFile


class MeshFile(GraphFile):
    """The file of a `TriangleMesh`."""

    fields: ClassVar[tuple[str, ...]] = ("vertices", "triangles")

    @classmethod
    def holds(cls, graph: Any) -> bool:
        return isinstance(graph, TriangleMesh)

    @classmethod
    def require(cls, graph: Any) -> None:
        if not isinstance(graph, TriangleMesh):
            raise checks.type_error(
                "graph", f"must be a TriangleMesh, got {checks.describe(graph)}"
            )

    @classmethod
    def digest(cls, graph: Any) -> str:
        result = hashlib.sha256(str(graph.is_sphere).encode())
        for array in cls.arrays(graph).values():
            result.update(str(array.shape).encode())
            result.update(np.ascontiguousarray(array).tobytes())
        return result.hexdigest()

    @classmethod
    def arrays(cls, graph: Any) -> dict[str, np.ndarray]:
        return {name: getattr(graph, name) for name in cls.fields}

    @classmethod
    def names(cls, graph: Any) -> Any:
        crs = None if graph.crs is None else graph.crs.to_wkt()
        return {"is_sphere": graph.is_sphere, "crs": crs}

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray], names: Any) -> Any:
        vertices, triangles = (arrays[name] for name in cls.fields)
        if (vertices.dtype, triangles.dtype) != (np.float64, np.int64):
            raise ValueError("its mesh has arrays of other types than are written")
        with warnings.catch_warnings():  # of slivers and degrees, which were known when it was made
            warnings.simplefilter("ignore", UserWarning)
            mesh = TriangleMesh(vertices, triangles)
        mesh.is_sphere = checks.flag("is_sphere", names["is_sphere"])
        mesh.crs = from_wkt(names["crs"])
        return mesh
