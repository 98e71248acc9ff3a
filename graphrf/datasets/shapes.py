"""Triangle meshes made from formulas, which need no library and no file."""

from __future__ import annotations

import numpy as np

# The distances of an icosahedron's corners from two
# of the three planes of symmetry, on the unit ball.
_SHORT, _LONG = 0.5257311121191336, 0.85065080835204
_CORNERS = (
    (-_SHORT, _LONG, 0.0),
    (_SHORT, _LONG, 0.0),
    (-_SHORT, -_LONG, 0.0),
    (_SHORT, -_LONG, 0.0),
    (0.0, -_SHORT, _LONG),
    (0.0, _SHORT, _LONG),
    (0.0, -_SHORT, -_LONG),
    (0.0, _SHORT, -_LONG),
    (_LONG, 0.0, -_SHORT),
    (_LONG, 0.0, _SHORT),
    (-_LONG, 0.0, -_SHORT),
    (-_LONG, 0.0, _SHORT),
)
_TRIANGLES = (
    (0, 11, 5),
    (0, 5, 1),
    (0, 1, 7),
    (0, 7, 10),
    (0, 10, 11),
    (1, 5, 9),
    (5, 11, 4),
    (11, 10, 2),
    (10, 7, 6),
    (7, 1, 8),
    (3, 9, 4),
    (3, 4, 2),
    (3, 2, 6),
    (3, 6, 8),
    (3, 8, 9),
    (4, 9, 5),
    (2, 4, 11),
    (6, 2, 10),
    (8, 6, 7),
    (9, 8, 1),
)


def torus(around: int, across: int, radius: float, tube: float) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and faces of a torus about the z-axis: `around` rings with `across` corners each."""
    along = np.linspace(0, 2 * np.pi, around + 1)[:-1, None]
    about = np.linspace(0, 2 * np.pi, across + 1)[:-1]
    reach = tube * np.cos(about) + radius
    corners = (
        np.cos(along) * reach,
        np.sin(along) * reach,
        np.broadcast_to(tube * np.sin(about), (around, across)),
    )
    here = np.arange(around * across).reshape(around, across)
    next_ring, next_corner = np.roll(here, -1, axis=0), np.roll(here, -1, axis=1)
    next_both = np.roll(next_ring, -1, axis=1)
    faces = np.stack([here, next_ring, next_corner, next_corner, next_ring, next_both], axis=-1)
    return np.stack(corners, axis=-1).reshape(-1, 3), faces.reshape(-1, 3)


def icosphere(subdivisions: int) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and faces of the unit ball: an icosahedron, its faces divided repeatedly."""
    vertices, faces = np.array(_CORNERS), np.array(_TRIANGLES)
    for _ in range(subdivisions):
        sides = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
        sides, number = np.unique(sides, axis=0, return_inverse=True)
        middles = number.reshape(-1, 3) + len(vertices)
        vertices = np.concatenate([vertices, vertices[sides].mean(axis=1)])
        radii = np.sqrt(vertices**2 @ np.ones(3))[:, None]
        vertices += vertices / radii * (1 - radii)
        (a, b, c), (ab, bc, ca) = faces.T, middles.T
        faces = np.stack([a, ab, ca, ab, b, bc, ca, bc, c, ab, bc, ca], axis=-1).reshape(-1, 3)
    return vertices, faces
