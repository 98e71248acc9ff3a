"""Writers of this package, killed while they save: what a file is afterwards. A program.

`python -m tests.faults.saving ROUNDS FOLDER WRITER ...` prints a JSON object of two by writer:
`steps`, of kills before and after every call that changes the disk, and within every write; and
`moments`, of so many kills at random moments of saving without end. They tell how often what was
there was the old content, the new one, or nothing, what was wrong, and how many temporary files or
folders there were at most after a kill, and after the next save.
"""

from __future__ import annotations

import builtins
import hashlib
import io
import itertools
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import graphrf as grf
from tests.support.publisher import Publisher, sends


class Writer(NamedTuple):
    """How to save either of two contents, and to read it; `may_miss` allows nothing there."""

    save: Callable[[int, Path], Any]
    load: Callable[[Path], Any]
    may_miss: bool = False


def _graph() -> grf.Graph:
    around = np.arange(1500)
    return grf.from_edges(around, (around + 1) % 1500)


def features() -> Writer:
    both = [grf.sample_features(_graph(), grf.RandomWalks(2), seed=seed) for seed in (0, 1)]
    return Writer(lambda which, path: both[which].save(path), grf.features.load_features)


def coupling() -> Writer:
    order = np.arange(300)
    both = [grf.sampling.Coupling(permutations=order[::step], p_halt=0.1) for step in (1, -1)]
    return Writer(lambda which, path: both[which].save(path), grf.sampling.Coupling.load)


def regressor() -> Writer:
    kernel = grf.Diffusion(1.0)
    both = []
    for value in (1.0, 2.0):
        gp = grf.GraphGPRegressor(_graph(), kernel=kernel, optimize=False, noise=0.1, seed=0)
        both.append(gp.fit([0, 2], [value, -1.0]))
    return Writer(lambda which, path: both[which].save(path), grf.GraphGPRegressor.load)


def graph() -> Writer:
    both = [_graph(), grf.from_edges(["a", "b"], ["b", "c"])]
    return Writer(
        lambda which, path: both[which].save(path), lambda path: grf.open_graph(path, verify=True)
    )


def report() -> Writer:
    from graphrf.cli.demo.report import write

    def save(which: int, path: Path) -> None:
        os.replace(write([], path.parent, seed=which, seconds=1.0), path)

    return Writer(save, lambda path: path.read_text())


def data_set() -> Writer:
    """A file of a data set, fetched from a local server into a cache without it."""
    from graphrf.datasets import files

    content = bytes(range(256)) * 1000

    publisher = Publisher()
    publisher.answers["/"] = sends(content)
    digest = hashlib.sha256(content).hexdigest()
    entry = {"sha256": digest, "licence": "-", "stored": "identity", "url": f"{publisher.url}/"}

    def save(which: int, path: Path) -> None:
        files.forget_verified()
        _remove(path)
        os.environ["GRAPHRF_CACHE_DIR"] = str(path.parent)
        files.registry = lambda: {"files": {path.name: entry}}
        if files.find(path.name).read_bytes() != content:
            raise AssertionError("another content")

    return Writer(save, lambda path: path.read_bytes(), may_miss=True)


def first() -> Writer:
    """A file that is written once, by the first of many."""
    from graphrf._base.files.atomic import exclusive_write

    def save(which: int, path: Path) -> None:
        _remove(path)
        exclusive_write(path, bytes([which]) * 50_000)

    return Writer(save, lambda path: path.read_bytes(), may_miss=True)


def _remove(path: Path) -> None:
    if path.exists():
        path.unlink()


def naive() -> Writer:
    """The negative control: a file that is written in its place."""

    def save(which: int, path: Path) -> None:
        with open(path, "wb") as file:
            for _ in range(20):
                file.write(bytes([which]) * 50_000)

    return Writer(save, lambda path: path.read_bytes())


WRITERS = {
    writer.__name__: writer
    for writer in (features, coupling, regressor, graph, report, data_set, first, naive)
}


# -- killing ---------------------------------------------------------------------------------------


def at_step(number: int, work: Callable[[], Any]) -> int:
    """Do the work and be killed at the step of this number; the number of steps, if fewer."""
    step = itertools.count(1)
    steps = 0

    def point() -> None:
        nonlocal steps
        steps = next(step)
        if steps == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def with_points(function: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*arguments: Any, **options: Any) -> Any:
            point()
            result = function(*arguments, **options)
            point()
            return result

        return stepped

    class Stepped(io.BufferedWriter):
        """Every write reaches the file in two halves."""

        def write(self, content: Any) -> int:
            content = memoryview(content).cast("B") if len(memoryview(content)) else b""
            for half in (content[: len(content) // 2], content[len(content) // 2 :]):
                super().write(half)
                super().flush()
                point()
            return len(content)

    opened = io.open

    def stepped_open(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if mode not in ("wb", "xb"):
            return opened(file, mode, *arguments, **options)
        point()
        return Stepped(io.FileIO(file, mode))

    io.open = builtins.open = stepped_open  # type: ignore[assignment]
    for name in (
        "open",
        "fsync",
        "replace",
        "rename",
        "link",
        "unlink",
        "chmod",
        "mkdir",
        "rmdir",
        "ftruncate",
    ):
        setattr(os, name, with_points(getattr(os, name)))
    work()
    return steps


def in_child(work: Callable[[int], None], kill_after: float | None = None) -> str:
    """Do the work in a forked process, which may be killed; what it wrote to its pipe."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            work(writing)
            code = 0
        except BaseException as error:
            os.write(writing, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(code)
    os.close(writing)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise AssertionError(f"the writer failed: {said}")
    return said


# -- what is there afterwards ----------------------------------------------------------------------


def content(path: Path) -> dict[str, bytes] | bytes | None:
    """The bytes of a file; of a graph's folder those of all files, and of its record."""
    if not path.is_dir():
        return path.read_bytes() if path.exists() else None
    record = json.loads((path / "graph.json").read_bytes())
    # Each time it is saved a graph has another version.
    arrays = path / f"arrays-{record.pop('version')}"
    record.pop("checksum")
    return {"": json.dumps(record).encode()} | {
        file.name: file.read_bytes() for file in arrays.iterdir()
    }


class Tally:
    """What was found after kills."""

    def __init__(self, writer: Writer, path: Path) -> None:
        self.writer, self.path = writer, path
        self.known, self.loaded = [], []
        for which in (1, 0):
            writer.save(which, path)
            self.known.insert(0, content(path))
        self.found = {"rounds": 0, "old": 0, "new": 0, "missing": 0, "wrong": [], "most_left": 0}

    def look(self) -> None:
        now, found = content(self.path), self.found
        found["rounds"] += 1
        found["most_left"] = max(found["most_left"], self.left())
        if now is None and self.writer.may_miss:
            found["missing"] += 1
            return
        try:
            if now not in self.loaded:
                self.writer.load(self.path)
                self.loaded.append(now)
        except Exception as error:
            found["wrong"].append(f"{type(error).__name__}: {error}"[:200])
            return
        if now not in self.known:
            found["wrong"].append("neither the old content nor the new one")
        elif now == self.known[0]:
            found["old"] += 1
        else:
            found["new"] += 1

    def left(self) -> int:
        beside = [file for file in self.path.parent.iterdir() if file.name.startswith(".")]
        if not self.path.is_dir():
            return len(beside)
        # Beside the record of a graph's folder, and the arrays that it names.
        return (
            len(beside) + len({file.name for file in self.path.iterdir()} - {".graphrf-lock"}) - 2
        )

    def ended(self) -> dict[str, Any]:
        """The result, once a save has shown that nothing hinders it or stays behind."""
        self.writer.save(1, self.path)
        self.writer.load(self.path)
        if content(self.path) != self.known[1]:
            self.found["wrong"].append("the next save did not recover")
        return {**self.found, "left": self.left()}


def steps(writer: Writer, path: Path) -> dict[str, Any]:
    tally = Tally(writer, path)
    number = 0
    while True:
        number += 1
        writer.save(0, path)
        said = in_child(
            lambda pipe, number=number: os.write(  # type: ignore[misc]
                pipe, str(at_step(number, lambda: writer.save(1, path))).encode()
            )
        )
        if said:
            return {**tally.ended(), "steps": number - 1}
        tally.look()


def moments(writer: Writer, path: Path, rounds: int) -> dict[str, Any]:
    tally = Tally(writer, path)
    # Moments are spread over some saves, however long these take.
    begun = time.perf_counter()
    writer.save(0, path)
    spread = min(3 * (time.perf_counter() - begun), 0.2) + 0.003

    def save_again_and_again(_: int) -> None:
        for which in itertools.cycle((1, 0)):
            writer.save(which, path)

    for _ in range(rounds):
        in_child(save_again_and_again, kill_after=random.uniform(0, spread))
        tally.look()
    return tally.ended()


if __name__ == "__main__":
    rounds, folder, *names = sys.argv[1:]
    results = {}
    for name in names:
        writer, place = WRITERS[name](), Path(folder, name)
        place.mkdir()
        results[name] = {
            "steps": steps(writer, place / "saved"),
            "moments": moments(writer, place / "saved", int(rounds)),
        }
        shutil.rmtree(place)
    print(json.dumps(results))
