"""The package as a whole: its public names, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys

import graphrf as grf


def test_dir_lists_the_public_names_and_nothing_else():
    listed = [name for name in dir(grf) if not name.startswith("_")]
    assert listed == sorted(name for name in grf.__all__ if not name.startswith("_"))
    assert [name for name in dir(grf.gp) if not name.startswith("_")] == sorted(grf.gp.__all__)
    for name in listed:
        assert getattr(grf, name).__doc__, name


def test_importing_the_package_imports_nothing_heavy():
    heavy = {"numpy", "scipy", "numba", "torch", "sklearn", "networkx", "matplotlib", "pooch", "typer"}
    code = f"import sys, graphrf; bad = {heavy!r} & set(sys.modules); assert not bad, bad"
    subprocess.run([sys.executable, "-c", code], check=True)
