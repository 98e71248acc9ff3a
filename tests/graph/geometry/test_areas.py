"""Borders of polygons: exact ones, those within a tolerance, corners, overlaps and gaps."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from graphrf.graph.geometry.areas import _length_near, borders, n_beside

shapely = pytest.importorskip("shapely")

ROOK = {(a, b) for a in range(16) for b in (a + 1, a + 4) if b < 16 and (b == a + 4 or b % 4)}


def grid(moved=0.0, size=1000.0, seed=0, n=4):
    """Squares, row by row, each corner of each moved by itself."""
    rng = np.random.default_rng(seed)
    corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
    squares = [
        size * (corners + [x, y]) + moved * rng.uniform(-1, 1, (4, 2))
        for y in range(n)
        for x in range(n)
    ]
    return np.array([shapely.Polygon(square) for square in squares])


def pairs(areas, tolerance=0.4, rounding=None):
    found = borders(
        np.asarray(areas), tolerance, min(tolerance, 0.4) if rounding is None else rounding
    )
    return set(zip(found.first.tolist(), found.second.tolist(), strict=True))


@pytest.mark.parametrize("moved", [0.0, 1e-9, 1e-6, 1e-3, 0.05])
def test_squares_have_the_neighbours_of_a_rook(moved):
    """24 of 4 x 4 squares; those that meet at a corner are none."""
    for seed in range(3):
        assert pairs(grid(moved, seed=seed)) == ROOK
    assert (pairs(grid(moved), 0.0) == ROOK) == (moved == 0)


@pytest.mark.parametrize("moved", [1e-9, 1e-6, 1e-2])
def test_rows_that_are_shifted_by_rounding_meet_at_corners(moved):
    """Their borders overlap there exactly, by next to nothing: bricks without a bond."""
    rng = np.random.default_rng(0)
    left = moved * rng.uniform(-1, 1, 16)
    boxes = [
        shapely.box(1000 * x + left[4 * y + x], 1000 * y, 1000 * (x + 1), 1000 * (y + 1))
        for y in range(4)
        for x in range(4)
    ]
    assert pairs(boxes) == ROOK


def test_a_large_tolerance_keeps_short_borders():
    areas = [shapely.box(0, 0, 1000, 1000), shapely.box(1000, 970, 2000, 2000)]  # 30 m in common
    assert pairs(areas, 50.0) == {(0, 1)}
    assert pairs(areas, 50.0, rounding=50.0) == set()


def test_vertices_may_be_on_one_of_the_sides_only():
    line = np.linspace(0, 1000, 23)[1:-1]
    notched = [
        (0, 0),
        (1000, 0),
        *((1000 + 0.01 * np.sin(y), y) for y in line),
        (1000, 1000),
        (0, 1000),
    ]
    assert pairs([shapely.Polygon(notched), shapely.box(1000, 0, 2000, 1000)]) == {(0, 1)}


@pytest.mark.parametrize("angle", [0.0, 0.3, 1.1, 2.5])
def test_a_border_may_end_at_the_middle_of_another(angle):
    """One area above two others, turned: the corner lies beside the border by rounding."""
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    boxes = [shapely.box(0, 0, 3, 1), shapely.box(0, 1, 1, 2), shapely.box(1, 1, 3, 2)]
    turned = [shapely.transform(box, lambda places: places @ turn.T) for box in boxes]
    assert pairs(turned, 1e-4) == {(0, 1), (0, 2), (1, 2)}


def test_an_area_within_another_is_its_neighbour_with_a_hole_and_without():
    whole, inner = shapely.box(0, 0, 10, 10), shapely.box(3, 3, 5, 5)
    for tolerance in (0.0, 1e-3):
        assert pairs([whole, inner], tolerance) == {(0, 1)}
        assert pairs([whole.difference(inner), inner], tolerance) == {(0, 1)}
        assert not borders(np.array([inner, whole]), tolerance).overlap.any()
    nearly = shapely.box(3.0005, 3, 5, 5.0005)
    assert pairs([whole.difference(inner), nearly], 1e-3) == {(0, 1)}
    assert pairs([whole.difference(shapely.box(2, 2, 6, 6)), inner], 1e-3) == set()


def test_areas_that_meet_at_a_corner_or_by_an_angle_are_no_neighbours():
    slices = [0, *np.linspace(0.1, 2 * np.pi, 8)]
    pie = [
        shapely.Polygon([(0, 0), (np.cos(a), np.sin(a)), (np.cos(b), np.sin(b))])
        for a, b in pairwise(slices)
    ]
    rim = {(at, at + 1) for at in range(7)} | {(0, 7)}
    assert pairs(pie, 1e-4) == rim
    spike = shapely.Polygon([(1, 0.5), (2, 0.4), (2, 0.6)])
    assert pairs([shapely.box(0, 0, 1, 1), spike], 1e-3) == set()


def test_areas_of_several_parts_and_islands():
    two = shapely.MultiPolygon([shapely.box(0, 0, 1, 1), shapely.box(5, 5, 6, 6)])
    areas = [two, shapely.box(6, 5, 7, 6), shapely.box(1, 0, 2, 1), shapely.box(8, 8, 9, 9)]
    assert pairs(areas, 1e-3) == {(0, 1), (0, 2)}


def test_gaps_wider_than_the_tolerance_are_counted_and_bridged_by_a_larger_one():
    shrunk = shapely.buffer(grid(), -20, join_style="mitre")
    found = borders(shrunk, 0.4)
    assert len(found.first) == 0
    assert n_beside(shrunk, found, 50.0) == 24
    assert n_beside(shrunk, found, 30.0) == 0
    assert pairs(shrunk, 50.0) == ROOK
    assert n_beside(grid(), borders(grid(), 0.4), 40.0) == 0


def test_overlaps_are_borders_and_those_of_corners_are_too_unless_the_tolerance_is_as_wide():
    grown = shapely.buffer(grid(), 20, join_style="mitre")
    found = borders(grown, 0.4)
    at_corners = {
        (a, a + step) for a in range(12) for step in (3, 5) if abs(a % 4 - (a + step) % 4) == 1
    }
    assert pairs(grown) == ROOK | at_corners
    assert found.overlap.sum() == 18  # others have the lines of their rows in common
    assert pairs(grown, 50.0) == ROOK
    assert not borders(grid(0.05), 0.4).overlap.any()


def test_polygons_that_cross_themselves_are_compared_too():
    crossed = shapely.Polygon([(0, 0), (2, 2), (2, 0), (0, 2)])
    assert pairs([crossed, shapely.box(2, 0, 3, 2), shapely.box(0.1, 0.9, 0.3, 1.1)], 1e-3) == {
        (0, 1),
        (0, 2),
    }


def test_lengths_near_are_those_of_buffers():
    rng = np.random.default_rng(1)
    edges = np.array([shapely.LineString(rng.uniform(0, 10, (12, 2))) for _ in range(8)])
    first, second = np.triu_indices(8, 1)
    for radius in (0.05, 0.5):
        expected = shapely.length(
            shapely.intersection(edges[first], shapely.buffer(edges[second], radius, quad_segs=500))
        )
        np.testing.assert_allclose(
            _length_near(edges, first, second, radius), expected, rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize(
    ("name", "n_borders"), [("sids2", 231), ("columbus", 100), ("virginia", 287)]
)
def test_neighbours_of_real_maps_are_those_of_libpysal_also_once_every_vertex_is_moved(
    name, n_borders
):
    geopandas, libpysal = pytest.importorskip("geopandas"), pytest.importorskip("libpysal")
    frame = geopandas.read_file(libpysal.examples.get_path(f"{name}.shp"))
    areas = np.asarray(frame.geometry)
    rook = libpysal.weights.Rook.from_dataframe(
        frame, use_index=False, silence_warnings=True
    ).neighbors
    expected = {(a, b) for a, others in rook.items() for b in others if a < b}
    tolerance = 1e-4 * float(np.median(shapely.length(areas)))
    assert len(expected) == n_borders
    assert pairs(areas, 0.0) == pairs(areas, tolerance) == expected
    rng = np.random.default_rng(0)

    def ring(line):
        corners = shapely.get_coordinates(line)[:-1]
        return corners + rng.uniform(-1, 1, corners.shape) * tolerance / 100

    moved = [
        shapely.MultiPolygon(
            [
                shapely.Polygon(ring(part.exterior), [ring(hole) for hole in part.interiors])
                for part in parts
            ]
        )
        for parts in map(shapely.get_parts, areas)
    ]
    assert pairs(moved, tolerance) == expected
