"""What do a mesh around points, and the weights of a million points in it, cost?

CPU seconds of `TriangleMesh.from_points`, after loops are compiled, and of `mesh.weights`, where
points are those of a lattice of 500 x 300, random ones in a square, or where the boundary is ragged
and has holes. "Corner" is the sharpest corner of the boundary, which limits the smallest angle.

    python benchmarks/meshes.py

On two cores of an Intel Xeon that much other work shared, with numpy 2.4.6, shapely 2.2.0:

| region | max_edge | vertices | smallest angle | mesh | weights |
|---|---|---|---|---|---|
| lattice | 5.18 | 12,398 | 26.1 | 0.5 s | 1.6 s |
| lattice | 2.59 | 43,639 | 26.0 | 1.1 s | 2.1 s |
| lattice | 1.34 | 153,306 | 26.0 | 3.8 s | 2.5 s |
| lattice | 0.819 | 398,711 | 26.0 | 9.0 s | 4.1 s |
| random points | 0.0134 | 12,337 | 26.0 | 0.4 s | 1.9 s |
| random points | 0.00671 | 42,992 | 26.0 | 0.9 s | 2.0 s |
| random points | 0.00346 | 152,071 | 26.0 | 3.7 s | 2.5 s |
| random points | 0.00212 | 394,635 | 26.0 | 10.7 s | 4.1 s |
| ragged | 0.0237 | 12,119 | 26.1 | 0.2 s | 1.5 s |
| ragged | 0.0118 | 43,772 | 26.0 | 0.8 s | 2.0 s |
| ragged | 0.00611 | 153,758 | 26.0 | 3.6 s | 2.1 s |
| ragged | 0.00374 | 400,499 | 26.0 | 9.2 s | 3.3 s |

Both grow about in proportion to the number of vertices, however many corners the boundary has.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import shapely
from _machine import header

from graphrf.gp import TriangleMesh

N_WEIGHTS = 1_000_000
# Vertices aimed at.
SIZES = (10_000, 40_000, 150_000, 400_000)


def regions() -> dict[str, tuple[np.ndarray | None, Any]]:
    """Points and boundary by name."""
    rng = np.random.default_rng(0)
    lattice = np.stack(np.meshgrid(np.arange(500.0), np.arange(300.0)), axis=-1).reshape(-1, 2)
    return {
        "lattice": (lattice, None),
        "random points": (rng.random((100_000, 2)), None),
        "ragged": (None, ragged(rng)),
    }


def ragged(rng: np.random.Generator) -> Any:
    """A disc with 2,000 corners at random distances from the middle, and 20 holes."""
    turn = 2 * np.pi * np.arange(2_000) / 2_000
    steps = rng.standard_normal((2, 30)) / np.arange(1, 31)
    waves = np.cos(np.outer(turn, np.arange(1, 31))) @ steps[0]
    waves += np.sin(np.outer(turn, np.arange(1, 31))) @ steps[1]
    radius = 1 + 0.1 * waves + 0.001 * rng.standard_normal(turn.size)
    disc = shapely.Polygon(radius[:, None] * np.column_stack([np.cos(turn), np.sin(turn)]))
    holes = [shapely.Point(*x).buffer(0.03) for x in rng.uniform(-0.5, 0.5, (20, 2))]
    return disc.difference(shapely.union_all(holes))


def main() -> None:
    print(header("shapely"))
    print("| region | max_edge | vertices | smallest angle | mesh | weights |")
    print("|---|---|---|---|---|---|")
    TriangleMesh.from_points(np.random.default_rng(0).random((100, 2))).weights([[0.5, 0.5]])
    for name, (points, boundary) in regions().items():
        region = shapely.MultiPoint(points).convex_hull if boundary is None else boundary
        places = np.random.default_rng(1).uniform(
            region.bounds[:2], region.bounds[2:], (2 * N_WEIGHTS, 2)
        )
        # Details of borders are left out of meshes.
        inner = region.buffer(-0.01 * np.sqrt(region.area))
        places = places[shapely.contains_xy(inner, places)][:N_WEIGHTS]
        for size in SIZES:
            edge = float(f"{np.sqrt(1.8 * region.area / size):.3g}")
            start = time.process_time()
            mesh = TriangleMesh.from_points(points, max_edge=edge, boundary=boundary)
            middle = time.process_time()
            mesh.weights(places)
            end = time.process_time()
            print(
                f"| {name} | {edge:g} | {mesh.n_vertices:,} | {mesh.smallest_angle:.1f} "
                f"| {middle - start:.1f} s | {end - middle:.1f} s |",
                flush=True,
            )


if __name__ == "__main__":
    main()
