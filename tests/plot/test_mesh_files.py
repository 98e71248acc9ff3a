"""Meshes with values in PLY and VTK files."""

from __future__ import annotations

import numpy as np
import pytest

from graphrf.plot import write_mesh

VERTICES = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1 / 3]])
FACES = np.array([[0, 1, 2], [0, 2, 3], [0, 3, 1]])
MEAN, STD = np.array([0.1, np.pi, -1e-300]), np.array([0.1, 2.0, 1 / 3, np.nan])


def test_a_ply_file_has_the_mesh_and_the_values_of_vertices_and_faces(tmp_path):
    trimesh = pytest.importorskip("trimesh", reason="the extra `mesh` is not installed")
    write_mesh(tmp_path / "part.ply", VERTICES, FACES, {"mean": MEAN, "std": STD})
    mesh = trimesh.load(tmp_path / "part.ply", process=False)
    np.testing.assert_array_equal(mesh.vertices, VERTICES)
    np.testing.assert_array_equal(mesh.faces, FACES)
    raw = mesh.metadata["_ply_raw"]
    np.testing.assert_array_equal(np.ravel(raw["vertex"]["data"]["std"]), STD)
    np.testing.assert_array_equal(np.ravel(raw["face"]["data"]["mean"]), MEAN)


def test_a_vtk_file_has_points_polygons_and_their_data(tmp_path):
    write_mesh(tmp_path / "part.vtk", VERTICES, FACES, {"mean": MEAN, "std": STD})
    lines = (tmp_path / "part.vtk").read_text().split("\n")
    assert lines[0] == "# vtk DataFile Version 3.0"
    assert lines[2:5] == ["ASCII", "DATASET POLYDATA", "POINTS 4 double"]
    np.testing.assert_array_equal(np.array([line.split() for line in lines[5:9]], float), VERTICES)
    assert lines[9:11] == ["POLYGONS 3 12", "3 0 1 2"]
    assert lines[13:16] == ["POINT_DATA 4", "SCALARS std double 1", "LOOKUP_TABLE default"]
    np.testing.assert_array_equal(np.array(lines[16:20], float), STD)
    assert lines[20:22] == ["CELL_DATA 3", "SCALARS mean double 1"]
    np.testing.assert_array_equal(np.array(lines[23:26], float), MEAN)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("part.stl", {"mean": MEAN}, r"`path` must end in \.ply or \.vtk, got .*part\.stl"),
        (
            "part.ply",
            {"a mean": MEAN},
            "`values` must have names without white space, got 'a mean'",
        ),
        (
            "part.ply",
            {"mean": MEAN[:2]},
            r"for each vertex \(4\) or face \(3\), got shape \(2,\) for 'mean'",
        ),
    ],
)
def test_what_no_file_can_have_is_refused_before_it_is_written(tmp_path, name, values, message):
    with pytest.raises(ValueError, match=message):
        write_mesh(tmp_path / name, VERTICES, FACES, values)
    assert not list(tmp_path.iterdir())
