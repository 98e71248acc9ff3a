"""Faces of meshes as other programs hold them, and faces that are none."""

from types import SimpleNamespace

import numpy as np
import pytest

from graphrf.graph.builders import from_mesh

CORNERS = np.array([(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0.5, 0.5, 1.0)])
SLOPES = np.array([(0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 0, 4)])
PYRAMID = [*SLOPES.tolist(), [0, 2, 1], [0, 3, 2]]
COUNTED = np.c_[np.full(4, 3), SLOPES]
X, Y = np.meshgrid(range(4), range(4))
GRID = np.c_[X.ravel(), Y.ravel(), 0 * X.ravel()].astype(float)
QUADS = np.array(
    [(k, k + 1, k + 5, k + 4) for row in range(3) for k in range(4 * row, 4 * row + 3)]
)


def _dense(mesh, on="faces"):
    return from_mesh(mesh, on=on).adjacency.toarray()


@pytest.mark.parametrize("on", ["faces", "vertices"])
@pytest.mark.parametrize(
    ("corners", "counted", "faces"),
    [
        (CORNERS, COUNTED, SLOPES),
        (CORNERS, COUNTED.astype(np.int32), SLOPES),
        (CORNERS, COUNTED.tolist(), SLOPES),
        (CORNERS, COUNTED.ravel(), SLOPES),
        (CORNERS, COUNTED.ravel().astype(np.uint8), SLOPES),
        (CORNERS, COUNTED.ravel().tolist(), SLOPES),
        (CORNERS, [*COUNTED.tolist(), [4, 0, 1, 2, 3]], [*SLOPES.tolist(), [0, 1, 2, 3]]),
        (CORNERS, np.r_[COUNTED.ravel(), 4, 0, 1, 2, 3], [*SLOPES.tolist(), [0, 1, 2, 3]]),
        (CORNERS, np.r_[4, 0, 1, 2, 3, COUNTED.ravel()], [[0, 1, 2, 3], *SLOPES.tolist()]),
        (GRID, np.c_[np.full(9, 4), QUADS], QUADS),
        (GRID, np.c_[np.full(9, 4), QUADS].ravel(), QUADS),
    ],
)
def test_numbers_of_corners_before_those_of_each_face_are_no_corners(
    corners, counted, faces, on, recwarn
):
    expected = _dense((corners, faces), on)
    np.testing.assert_array_equal(_dense((corners, counted), on), expected)
    if isinstance(counted, np.ndarray):
        held = SimpleNamespace(vertices=corners, faces=counted)
        np.testing.assert_array_equal(_dense(held, on), expected)
    assert not recwarn


def test_quadrilaterals_stay_quadrilaterals(recwarn):
    assert from_mesh((GRID, QUADS)).n_edges == 12
    assert from_mesh((GRID, QUADS), on="vertices").n_edges == 24
    assert not recwarn


@pytest.mark.parametrize("faces", [[(3, 2, 1, 0)], [(3, 0, 1, 2), (3, 2, 5, 6), (3, 6, 9, 8)]])
def test_polygons_that_could_begin_with_their_number_of_corners_are_warned_of(faces):
    with pytest.warns(UserWarning, match=r"are read as corners.*pass faces\[:, 1:\]"):
        assert from_mesh((GRID, faces)).n_nodes == len(faces)


@pytest.mark.parametrize(
    ("faces", "reason"),
    [
        (COUNTED.ravel()[:-1], "without such a number at 15"),
        (SLOPES.ravel(), "without such a number at 0"),
        (np.r_[2, 0, 1, COUNTED.ravel()], "without such a number at 0"),
        (COUNTED.ravel().astype(float), "integers of shape"),
        (SLOPES + 1, "are yours counted from 1"),
        ([(0, 1, 4, -1), (0, 1, 2, 3)], "without it"),
    ],
)
def test_other_numbers_are_refused_with_the_way_out(faces, reason):
    with pytest.raises(ValueError, match=reason):
        from_mesh((CORNERS, faces))


def test_faces_that_use_all_vertices_but_the_first_are_warned_of():
    with pytest.warns(UserWarning, match="are they counted from 1"):
        from_mesh((np.vstack([CORNERS, [9, 9, 9]]), SLOPES + 1))


@pytest.mark.parametrize("face", [[0, 0, 1], [0, 1, 0], [1, 0, 0], [2, 2, 2], [0, 5, 1]])
def test_a_face_without_three_corners_does_not_part_its_neighbours(face):
    corners = np.vstack([CORNERS, CORNERS[:1]])  # the last is at the place of the first
    joined = _dense((corners, [*PYRAMID, face]))
    np.testing.assert_array_equal(joined[:6, :6], _dense((CORNERS, PYRAMID)))
    assert not joined[6].any()


def test_tetrahedra_that_are_taken_for_quadrilaterals_are_warned_of():
    spatial = pytest.importorskip("scipy.spatial")
    points = np.random.default_rng(0).random((30, 3))
    cells = spatial.Delaunay(points).simplices
    for on in ("faces", "vertices"):
        with pytest.warns(UserWarning, match="sides belong to three faces or more.*tetrahedra"):
            from_mesh((points, cells), on=on)
