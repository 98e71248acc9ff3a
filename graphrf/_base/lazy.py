"""Names of a package that are loaded at their first use, and libraries that an extra brings."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

# The libraries that the core lacks, and the extras that bring each.
EXTRAS = {
    "torch": ("gp", "euclidean", "pyg"),
    "sklearn": ("gp", "euclidean"),
    "gpytorch": ("gp",),
    "pymetis": ("gp", "pymc", "numpyro"),
    "linear_operator": ("gp",),
    "botorch": ("bo",),
    "dask": ("distributed",),
    "distributed": ("distributed",),
    "cloudpickle": ("distributed",),
    "psutil": ("distributed",),
    "torch_geometric": ("pyg",),
    "geometric_kernels": ("geometric",),
    "lab": ("geometric",),
    "matplotlib": ("plot",),
    "plotly": ("interactive",),
    "trimesh": ("mesh",),
    "shapely": ("mesh",),
    "pandas": ("pandas",),
    "formulaic": ("terms",),
    "narwhals": ("terms",),
    "pymc": ("pymc",),
    "pytensor": ("pymc",),
    "jax": ("numpyro",),
    "numpyro": ("numpyro",),
}


def attach(
    package: str, homes: Mapping[str, str], extra: str | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package whose names are imported at first use.

    `homes` maps modules below the package to the names that they define, with spaces between; a
    module without names is public itself. `extra` is the one to name where several bring a missing
    library.
    """
    home = {name: module for module, names in homes.items() for name in names.split() or [module]}

    def load(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = importlib.import_module(f".{home[name]}", package)
        except ModuleNotFoundError as error:
            raise missing(error, name, extra) from error
        value = module if name == home[name] else getattr(module, name)
        if not isinstance(value, ModuleType):
            setattr(sys.modules[package], name, value)
        return value

    public = sorted(home)

    def listed() -> list[str]:
        return sorted(
            {*public, *(name for name in vars(sys.modules[package]) if name.startswith("__"))}
        )

    return load, listed, public


def need(library: str, what: str) -> Any:
    """Import a library of an extra; if it is missing, the ImportError names the extra."""
    try:
        return importlib.import_module(library)
    except ModuleNotFoundError as error:
        raise missing(error, what) from error


def missing(error: ModuleNotFoundError, what: str, extra: str | None = None) -> ImportError:
    """The error that names what needs the missing library, and the extra that installs it."""
    library = (error.name or "").partition(".")[0]
    if library not in EXTRAS:
        return error
    named = extra if extra in EXTRAS[library] else EXTRAS[library][0]
    return ImportError(
        f"{what} needs {library}, which is not installed: pip install 'graphrf[{named}]'"
    )
