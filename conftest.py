"""Examples of libraries that are not installed are left out: `make test-bridges` installs those of
the bridges.
"""

from importlib.util import find_spec

absent = [name for name in ("pymc", "numpyro") if find_spec(name) is None]
collect_ignore = [f"graphrf/bridges/{name}.py" for name in absent] + ["docs/bridges.md"] * bool(
    absent
)
