r"""Linear finite elements on triangles: mass, stiffness, and the gradients that both come from.

The basis function of a vertex is 1 there, 0 at all other vertices, and linear on every triangle.
With the areas |T| of triangles,

.. math:: C_{ij} = \int \psi_i \psi_j, \qquad G_{ij} = \int \nabla \psi_i^\top H \nabla \psi_j,
          \qquad \tilde C_{ii} = \sum_j C_{ij} = \sum_{T \ni i} |T| / 3,

where H is the identity, or a symmetric matrix or a number for each triangle, and :math:`\tilde C`
is the lumped mass, which keeps precisions sparse.

Source: Lindgren, Rue and Lindström 2011, "An explicit link between Gaussian fields and Gaussian
Markov random fields", Appendix A.2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp


class Elements(NamedTuple):
    """Areas and edges of T triangles in d dimensions, of which integrals over them are made."""

    triangles: np.ndarray  # (T, 3) vertices
    n_vertices: int
    areas: np.ndarray  # (T,)
    opposite: np.ndarray  # (T, 3, d) the edge opposite to each corner, in the direction of rotation

    @classmethod
    def of(cls, vertices: np.ndarray, triangles: np.ndarray) -> Elements:
        """The elements of vertices of shape (V, 2) or (V, 3)."""
        corners = vertices[triangles]
        opposite = corners[:, [2, 0, 1]] - corners[:, [1, 2, 0]]
        return cls(triangles, len(vertices), triangle_areas(corners), opposite)

    @property
    def lumped_mass(self) -> np.ndarray:
        """The integral of each basis function, shape (V,)."""
        return self.lumped(np.ones(len(self.areas)))

    def lumped(self, values: np.ndarray) -> np.ndarray:
        """The integral of each basis function times a number for each triangle, shape (V,)."""
        shares = np.repeat(values * self.areas / 3, 3)
        return np.bincount(self.triangles.ravel(), shares, minlength=self.n_vertices)

    @property
    def mass(self) -> sp.csr_array:
        """C, shape (V, V)."""
        local = self.areas[:, None, None] / 12 * (np.ones((3, 3)) + np.eye(3))
        return self.assembled(local)

    def stiffness(self, diffusion: np.ndarray | None = None) -> sp.csr_array:
        """G, shape (V, V), for the identity, for numbers of shape (T,), or for H of shape (T, 2, 2)
        in the plane.
        """
        edges = self.opposite
        if diffusion is None:
            products = edges @ edges.transpose(0, 2, 1)
        elif diffusion.ndim == 1:
            products = diffusion[:, None, None] * (edges @ edges.transpose(0, 2, 1))
        else:
            # A gradient is its opposite edge, turned by a right angle, over twice the area.
            turned = np.stack([-edges[..., 1], edges[..., 0]], axis=-1)
            products = turned @ diffusion @ turned.transpose(0, 2, 1)
        return self.assembled(products / (4 * self.areas[:, None, None]))

    def assembled(self, local: np.ndarray) -> sp.csr_array:
        """The sum of matrices of the triangles, shape (T, 3, 3), over all triangles."""
        rows = np.repeat(self.triangles, 3, axis=1).ravel()
        columns = np.tile(self.triangles, (1, 3)).ravel()
        n = self.n_vertices
        return sp.csr_array(sp.coo_array((local.ravel(), (rows, columns)), shape=(n, n)))


def triangle_areas(corners: np.ndarray) -> np.ndarray:
    """Areas of triangles with corners of shape (T, 3, 2) or (T, 3, 3)."""
    first, second = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    if corners.shape[2] == 2:
        return 0.5 * np.abs(first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0])
    return np.asarray(0.5 * np.linalg.norm(np.cross(first, second), axis=1))


def edges_of(triangles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of vertices, each once, shape (E, 2), and the three of each triangle, shape (T, 3)."""
    pairs = np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    # numbers are sorted some times faster than rows, in the same order
    n = int(pairs.max(initial=0)) + 1
    keys, number = np.unique(pairs @ np.array([n, 1]), return_inverse=True)
    return np.stack(np.divmod(keys, n), axis=1), number.reshape(-1, 3)


def smallest_angles(corners: np.ndarray) -> np.ndarray:
    """The smallest angle of each triangle in degrees, shape (T,)."""
    return _angles(corners, 0)


def largest_angles(corners: np.ndarray) -> np.ndarray:
    """The largest angle of each triangle in degrees, shape (T,)."""
    return _angles(corners, 2)


def _angles(corners: np.ndarray, opposite: int) -> np.ndarray:
    """The angle opposite to the shortest side, 0, or to the longest, 2."""
    sides = np.linalg.norm(corners[:, [2, 0, 1]] - corners[:, [1, 2, 0]], axis=2)
    squares = np.sort(sides, axis=1) ** 2
    others = squares.sum(axis=1) - 2 * squares[:, opposite]
    # the arctangent is exact for slivers too, where the cosine is 1 to rounding
    return np.asarray(np.degrees(np.arctan2(4 * triangle_areas(corners), others)))
