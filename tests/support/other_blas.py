"""Prints variables under which OpenBLAS takes another kernel than usual here.

`env $(python -m tests.support.other_blas) pytest ...` runs tests with other last bits. Nothing is
printed where BLAS is another library or the processor no x86: there these variables mean nothing.
"""

from __future__ import annotations

import platform

import numpy  # noqa: F401 (loads BLAS)
from threadpoolctl import threadpool_info


def variables(machine: str, kernels: set[str]) -> str:
    """For the processor's architecture, and the kernels of the OpenBLAS that is loaded."""
    if machine.lower() not in ("x86_64", "amd64") or not kernels:
        return ""
    # Haswell's are there on all but the oldest processors of x86, Sandybridge's on all of
    # Haswell's, and without fused multiplications and additions.
    if kernels & {"Haswell", "Zen"}:
        return "OPENBLAS_CORETYPE=Sandybridge"
    return "OPENBLAS_CORETYPE=Haswell OPENBLAS_L2_SIZE=512"


if __name__ == "__main__":
    found = {
        each["architecture"] for each in threadpool_info() if each["internal_api"] == "openblas"
    }
    print(variables(platform.machine(), found))
