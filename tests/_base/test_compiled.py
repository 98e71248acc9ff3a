"""Compiled loops run whatever becomes of their cache: no folder, a full disk, damaged files."""

from __future__ import annotations

import errno
import importlib.util
import re
import warnings
from pathlib import Path

import pytest
from numba.core import caching

from graphrf._base import compiled, progress
from graphrf._base.progress import Once


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    """Loads a module with one compiled loop anew, as another process would."""
    monkeypatch.setattr(progress, "once", Once())
    progress.silence()
    source = tmp_path / "looped.py"
    source.write_text(
        "from graphrf._base.compiled import njit\n"
        "@njit(nogil=True, cache=True)\n"
        "def more(x):\n"
        "    return x + 1\n"
    )

    def load():
        spec = importlib.util.spec_from_file_location("looped", source)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.more

    return load


def test_loops_are_kept(loaded):
    assert loaded()(1) == 2
    again = loaded()
    assert again(1) == 2
    assert sum(again.stats.cache_hits.values()) == 1


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("size", [0, 1, 20, 60])
def test_damaged_files_are_made_anew(loaded, tmp_path, ending, size):
    """numba raises EOFError or UnpicklingError for ever."""
    loaded()(1)
    (kept,) = tmp_path.rglob(f"*.{ending}")
    kept.write_bytes(kept.read_bytes()[:size])
    assert loaded()(1) == 2
    again = loaded()
    assert again(1) == 2
    assert sum(again.stats.cache_hits.values()) == 1


def test_without_a_folder_for_the_cache_loops_run_and_one_warning_says_so(
    loaded, tmp_path, monkeypatch
):
    """numba raises RuntimeError where the decorator stands, so that nothing could be imported."""
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    first, second = loaded(), loaded()
    with pytest.warns(
        UserWarning, match="set NUMBA_CACHE_DIR to a folder to which only you can write"
    ):
        assert first(1) == 2
    assert (second(1), second.stats.cache_path) == (2, None)
    assert not list(tmp_path.rglob("*.nb?"))


def test_on_a_full_disk_loops_run_and_a_warning_says_so(loaded, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(caching.IndexDataCacheFile, "_save_data", full)
    more = loaded()
    with pytest.warns(UserWarning, match="or the disk is full"):
        assert more(1) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert more(1.5) == 2.5


LINE = (
    "Compiling loops, once on this machine: up to half a minute for each method; "
    "`graphrf compile` does it beforehand.\n"
)


@pytest.fixture
def aloud(monkeypatch):
    monkeypatch.setattr(progress, "once", Once())


def test_the_first_compilation_of_a_process_is_announced(loaded, aloud, capsys):
    more = loaded()
    assert capsys.readouterr().err == ""
    assert (more(1), more(1.5)) == (2, 2.5)
    assert capsys.readouterr().err == LINE


def test_loops_that_are_found_in_the_cache_are_not_announced(loaded, aloud, capsys, monkeypatch):
    loaded()(1)
    assert capsys.readouterr().err == LINE
    monkeypatch.setattr(progress, "once", Once())
    assert loaded()(1) == 2
    assert capsys.readouterr().err == ""


def test_all_loops_are_compiled_so():
    package = Path(compiled.__file__).parents[1]
    texts = {path: path.read_text() for path in package.rglob("*.py") if path.name != "compiled.py"}
    numbas_own = re.compile(r"from numba import [^\n]*\bn?jit\b|numba\.n?jit\b")
    assert len(texts) > 100
    assert [path for path, text in texts.items() if numbas_own.search(text)] == []
