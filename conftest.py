"""Examples of libraries that are not installed are left out: `make test-bridges` installs those of
the bridges. Files that examples write are in a folder that goes with them.
"""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

absent = [name for name in ("pymc", "numpyro") if find_spec(name) is None]
collect_ignore = [f"graphrf/bridges/{name}.py" for name in absent] + ["docs/bridges.md"] * bool(
    absent
)


@pytest.fixture(autouse=True)
def _files_of_examples(request: pytest.FixtureRequest) -> Iterator[None]:
    """Examples run in a folder of their own."""
    if isinstance(request.node, pytest.DoctestItem):
        folder = request.getfixturevalue("tmp_path")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            yield
    else:
        yield
