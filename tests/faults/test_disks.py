"""Disks that are full or cannot be written to: an error, nothing lost, and later saves work."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import resource
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import graphrf as grf
from graphrf._base.files.atomic import atomic_write, exclusive_write
from tests.faults import saving
from tests.faults.places import in_memory, mounted, plain_user, read_only

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and mounts of Linux")

WRITERS = ("features", "coupling", "regressor", "graph", "report", "data_set", "first")
# What names the place in messages, and what has to be changed.
NAMED = {"graph": "`folder`", "report": "`--out`", "data_set": "GRAPHRF_CACHE_DIR"}


@pytest.fixture(scope="module", params=WRITERS)
def named(request) -> tuple[str, saving.Writer]:
    if request.param == "regressor" and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "data_set":
            from graphrf.datasets import files

            patch.setattr(files, "registry", files.registry)
            files.forget_verified()
            patch.setenv("GRAPHRF_CACHE_DIR", "-")
            patch.delenv("GRAPHRF_DATA_DIR", raising=False)
            patch.setenv("NO_PROXY", "127.0.0.1")
        yield request.param, saving.WRITERS[request.param]()


@contextlib.contextmanager
def longest_file(size: int) -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def require_refused(named, path: Path, codes: tuple[int, ...]) -> None:
    """Saving raises a clear error, and leaves what was there; nothing else."""
    name, writer = named
    before, others = saving.content(path), sorted(path.parent.iterdir())
    with pytest.raises(OSError) as caught:
        writer.save(1, path)
    assert caught.value.errno in codes
    text = str(caught.value)
    assert NAMED.get(name, "`path`") in text
    assert str(path if name != "report" else path.parent) in text
    assert os.strerror(caught.value.errno) in text
    assert "make room" in text or "can be written to" in text
    if not writer.may_miss:  # what was there of these was removed to be written
        assert saving.content(path) == before
        writer.load(path)
    allowed = [*others, path.parent / "report.html"]  # each file of a report is whole
    assert [file for file in path.parent.iterdir() if file not in allowed] == []
    assert not path.is_dir() or not list(path.glob(".*"))


def require_saved(named, path: Path) -> None:
    _, writer = named
    writer.save(1, path)
    writer.load(path)
    writer.save(0, path)


def test_a_file_that_may_not_grow_leaves_the_old_one(named, tmp_path):
    _, writer = named
    with in_memory(tmp_path) as folder:
        path = folder / "saved"
        writer.save(0, path)
        for size in (0, 1, 60, 100):
            with longest_file(size):
                require_refused(named, path, (errno.EFBIG,))
        require_saved(named, path)


def test_a_full_disk_leaves_the_old_file(named, tmp_path):
    _, writer = named
    with mounted(tmp_path / "disk", "size=3m") as disk:
        path, filler = disk / "folder" / "saved", disk / "filler"
        path.parent.mkdir()
        writer.save(0, path)
        size = os.path.getsize(path)
        for left in (0, 1):  # pages of 4096 bytes
            if writer.may_miss:  # it is removed to be written again
                path.unlink()
            with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(bytes(4096))
            with open(filler, "r+b") as file:
                file.truncate(max(os.path.getsize(filler) - left * 4096, 0))
            if size > 4096 or left == 0 or path.is_dir():
                require_refused(named, path, (errno.ENOSPC,))
            filler.unlink()
            require_saved(named, path)


def test_a_disk_that_cannot_be_written_to_leaves_the_old_file(named, tmp_path):
    _, writer = named
    with mounted(tmp_path / "disk", "size=3m") as disk:
        path = disk / "saved"
        writer.save(0, path)
        if writer.may_miss:  # it is removed here to be written again
            path.unlink()
        read_only(disk)
        require_refused(named, path, (errno.EROFS,))


def test_a_folder_without_rights_leaves_the_old_file(named, tmp_path):
    _, writer = named
    with in_memory(tmp_path) as base:
        path = base / "folder" / "saved"
        path.parent.mkdir()
        writer.save(0, path)
        if writer.may_miss:
            path.unlink()
        else:
            writer.load(path)  # nobody may have no rights to import what this needs
        for place in (path, path.parent) if path.is_dir() else (path.parent,):
            place.chmod(0o555)
        with plain_user():
            require_refused(named, path, (errno.EACCES,))
        for place in (path.parent, path):
            if place.is_dir():
                place.chmod(0o755)
        require_saved(named, path)


# -- paths that can be no file's -------------------------------------------------------------------


def test_paths_that_are_no_files_are_refused_before_anything_is_touched(tmp_path):
    (tmp_path / "file").write_bytes(b"mine")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/null")
    before = sorted(tmp_path.iterdir())
    saves = [saving.WRITERS[name]().save for name in ("features", "coupling")]
    for save in (*saves, lambda _, path: exclusive_write(path, b"x")):
        for path, why in (
            (f"{tmp_path}/file/below", "which is below the file"),
            (f"{tmp_path}/folder", "which is a folder"),
            (f"{tmp_path}/pipe", "which is no plain file"),
            (f"{tmp_path}/device", "which is no plain file"),
            ("/dev/full", "which is no plain file"),
            (f"{tmp_path}/new/", "must be the path of a file"),
            (f"{tmp_path}/a\0b", "must be the path of a file"),
            (f"{tmp_path}/..", "must be the path of a file"),
            (f"{tmp_path}/\ud800", "must be the path of a file"),
            ("", "must be the path of a file"),
        ):
            with pytest.raises(ValueError, match=why) as caught:
                save(0, path)
            assert "`path`" in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_names_may_be_as_long_as_the_disk_allows(tmp_path):
    coupling = grf.sampling.Coupling(permutations=[[1, 0]], p_halt=0.1)
    for name in ("n" * 255, "\N{GREEK SMALL LETTER ALPHA}" * 127):
        coupling.save(tmp_path / name)
        assert grf.sampling.Coupling.load(tmp_path / name) == coupling
    with pytest.raises(
        OSError, match=r"`path` must be one that can be written to, got .*choose a shorter one"
    ) as caught:
        coupling.save(tmp_path / ("n" * 256))
    assert caught.value.errno == errno.ENAMETOOLONG
    assert len(list(tmp_path.iterdir())) == 2


# -- what reaches the disk -------------------------------------------------------------------------


@pytest.mark.parametrize("old", [False, True])
def test_a_file_has_reached_the_disk_before_it_has_its_name_and_then_the_name(
    tmp_path, monkeypatch, old
):
    # After a power cut the name may otherwise stand for nothing, or for half the file.
    target, calls = tmp_path / "saved", []
    if old:
        target.write_bytes(b"old")
    fsync, replace = os.fsync, os.replace

    def recorded_fsync(handle: int) -> None:
        facts = os.fstat(handle)
        if stat.S_ISDIR(facts.st_mode):
            calls.append(("names", facts.st_ino == tmp_path.stat().st_ino, target.read_bytes()))
        else:
            calls.append(("content", facts.st_ino, facts.st_size))
        fsync(handle)

    def recorded_replace(source: str, to: str) -> None:
        calls.append(("replace", os.stat(source).st_ino, Path(to)))
        replace(source, to)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    with atomic_write(target) as file:
        file.write(b"half, ")
        file.write(b"whole")
        assert calls == []
        number = os.fstat(file.fileno()).st_ino
    assert calls == [
        ("content", number, 11),
        ("replace", number, target),
        ("names", True, b"half, whole"),
    ]


# -- what is kept ----------------------------------------------------------------------------------


def test_permissions_of_a_file_that_is_replaced_are_kept(tmp_path):
    coupling = grf.sampling.Coupling(permutations=[[1, 0]], p_halt=0.1)
    old = os.umask(0o027)
    try:
        coupling.save(tmp_path / "new")
    finally:
        os.umask(old)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640
    (tmp_path / "new").chmod(0o600)
    coupling.save(tmp_path / "new")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600


def test_a_link_is_replaced_and_what_it_leads_to_is_left(tmp_path):
    coupling = grf.sampling.Coupling(permutations=[[1, 0]], p_halt=0.1)
    (tmp_path / "file").write_bytes(b"mine")
    for name, to in (("link", "file"), ("dangling", "absent")):
        (tmp_path / name).symlink_to(tmp_path / to)
        coupling.save(tmp_path / name)
        assert not (tmp_path / name).is_symlink()
    assert (tmp_path / "file").read_bytes() == b"mine"
    assert not (tmp_path / "absent").exists()


def test_only_leftovers_of_dead_writers_of_the_same_file_are_removed(tmp_path):
    dead = tmp_path / ".saved.0123456789abcdef.part"
    kept = [
        tmp_path / name
        for name in (".other.0123456789abcdef.part", ".saved.notes.part", "saved.part")
    ]
    for file in (dead, *kept):
        file.write_bytes(b"x")
    with atomic_write(tmp_path / "saved") as one:
        one.write(b"one")
        with atomic_write(tmp_path / "saved") as another:  # while the first one is at work
            another.write(b"another")
        assert (tmp_path / "saved").read_bytes() == b"another"
    assert (tmp_path / "saved").read_bytes() == b"one"
    assert sorted(tmp_path.iterdir()) == sorted([*kept, tmp_path / "saved"])


def test_without_locks_nothing_is_removed(tmp_path, monkeypatch):
    import fcntl

    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    dead = tmp_path / ".saved.0123456789abcdef.part"
    dead.write_bytes(b"x")
    grf.sampling.Coupling(permutations=[[1, 0]], p_halt=0.1).save(tmp_path / "saved")
    assert sorted(tmp_path.iterdir()) == [dead, tmp_path / "saved"]


def test_the_umask_which_all_threads_share_is_not_touched(tmp_path, monkeypatch):
    def umask(_: int) -> int:
        raise AssertionError("another thread may make files now")

    monkeypatch.setattr(os, "umask", umask)
    grf.sampling.Coupling(permutations=[[1, 0]], p_halt=0.1).save(tmp_path / "saved")
    exclusive_write(tmp_path / "first", b"x")


def test_errors_of_the_block_that_have_nothing_to_do_with_the_file_pass(tmp_path):
    for error in (
        FileNotFoundError(errno.ENOENT, "-", "elsewhere"),
        KeyError("x"),
        KeyboardInterrupt(),
    ):
        with (  # noqa: PT012
            pytest.raises(type(error)) as caught,
            atomic_write(tmp_path / "saved") as file,
        ):
            file.write(b"half")
            raise error
        assert caught.value is error
    assert list(tmp_path.iterdir()) == []
