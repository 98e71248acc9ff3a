"""Meshes and point data of other programs, which are not in the repository."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from graphrf.gp import TriangleMesh

FOLDER = Path(os.environ.get("GRAPHRF_DATA_DIR", "none")) / "spatial"
needs_spatial_data = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="needs the folder `spatial` of GRAPHRF_DATA_DIR"
)


def spatial(name: str) -> dict[str, np.ndarray]:
    """The arrays of a file."""
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as file:
        return dict(file)


def matrix(
    data: dict[str, np.ndarray], name: str, n: int, columns: int | None = None
) -> sp.csr_array:
    """A sparse matrix of a file."""
    shape = (n, columns or n)
    return sp.csr_array((data[f"{name}_x"], tuple(data[f"{name}_ij"].T)), shape=shape)


def mesh_of(data: dict[str, np.ndarray]) -> TriangleMesh:
    """The planar mesh of a file."""
    return TriangleMesh(data["loc"][:, :2], data["tv"])


def border_of_parana():
    """The border of the state as a polygon, in kilometres of a local projection."""
    import pandas
    import shapely

    degrees = pandas.read_csv(FOLDER / "parana_border.csv.gz").to_numpy()
    middle = np.radians(degrees[:, 1].mean())
    return shapely.Polygon(degrees * [111.3 * np.cos(middle), 111.3]).buffer(0)
