"""Kernels and priors on graphs for other libraries: GeometricKernels, PyMC, Bambi and NumPyro.

`SparseField` needs none of them; the modules `geometric`, `pymc` and `numpyro` need the extras of
these names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrf._base import lazy

if TYPE_CHECKING:
    from graphrf.bridges.field import SparseField as SparseField

__getattr__, __dir__, __all__ = lazy.attach(__name__, {"field": "SparseField"})
