"""Places that refuse to be written to, and a quick one."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def in_memory(beside: Path) -> Iterator[Path]:
    """A folder in memory, where nothing waits for a disk; where there is none, on it."""
    shared = Path("/dev/shm")
    base = shared if os.access(shared, os.W_OK) else beside
    with tempfile.TemporaryDirectory(dir=base) as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A small disk in memory at a folder, by `mount -t tmpfs`; skipped without the right."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def read_only(folder: Path) -> None:
    """Let nothing more be written to a mounted disk, by the superuser neither."""
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)


@contextmanager
def plain_user() -> Iterator[None]:
    """Work as somebody bound by permissions: the superuser becomes nobody."""
    if os.geteuid() != 0:
        yield
        return
    try:
        os.seteuid(65534)
    except OSError as error:
        pytest.skip(f"the superuser cannot be anybody else here: {error}")
    try:
        yield
    finally:
        os.seteuid(0)
