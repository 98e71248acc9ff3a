"""Random features of R^d: Fourier, positive (Laplace) and quadrature features, and what consumes them."""

from __future__ import annotations
