"""Finding the raw files of data sets: a data folder, the cache, or the publisher; checked by SHA-256.

A file is known by its path inside the data folder, such as `graphs/dolphins.gml`. The registry holds, for
each, where it is published, how the stored bytes follow from the published ones, and their checksums.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import itertools
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from functools import cache, partial
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from graphrf._files import atomic_write

DATA_VARIABLE = "GRAPHRF_DATA_DIR"
CACHE_VARIABLE = "GRAPHRF_CACHE_DIR"

# Seconds without a byte from the publisher after which a download is given up.
TIMEOUT = 30

# Files whose checksums this process has verified: path, size and time of the last change.
_verified: set[tuple[str, int, int]] = set()


@cache
def registry() -> dict[str, dict[str, Any]]:
    """The registry as it is shipped: `files` by path and `datasets` by name."""
    text = resources.files("graphrf").joinpath("registry.json").read_text(encoding="utf-8")
    return json.loads(text)


def cache_folder() -> Path:
    """`GRAPHRF_CACHE_DIR`, or the user's cache folder for graphrf."""
    folder = os.environ.get(CACHE_VARIABLE)
    if folder:
        return Path(folder).expanduser()
    import pooch

    return Path(pooch.os_cache("graphrf"))


def find(key: str) -> Path:
    """The checked file `key`: from `GRAPHRF_DATA_DIR`, else the cache, else fetched into the cache.

    Raises
    ------
    ConnectionError
        If the file is neither here nor to be had from its publisher; the message says where to put it.
    ValueError
        If a file does not have its registered checksum, or `GRAPHRF_DATA_DIR` is no folder.
    """
    entry = registry()["files"][key]
    folder = os.environ.get(DATA_VARIABLE)
    if folder:
        if not Path(folder).expanduser().is_dir():
            raise ValueError(f"{DATA_VARIABLE} must name a folder, got {folder!r}, which is none")
        path = _inside(Path(folder).expanduser(), key)
        if path.is_file():
            _verify(path, entry)
            return path
    path = _inside(cache_folder(), key)
    if path.is_file():
        try:
            _verify(path, entry)
            return path
        except ValueError:
            pass  # The cache is ours: a damaged file there is fetched again.
    for name, content in _made(key, entry, path).items():
        with atomic_write(_inside(cache_folder(), name)) as file:
            file.write(content)
    return path


def whereabouts(keys: list[str]) -> str:
    """Where all of some files are, without reading them: "built in" (there are none), "data folder", "cache",
    or "to fetch"."""
    if not keys:
        return "built in"
    folder = os.environ.get(DATA_VARIABLE)
    if folder and all(_inside(Path(folder).expanduser(), key).is_file() for key in keys):
        return "data folder"
    return "cache" if all(_inside(cache_folder(), key).is_file() for key in keys) else "to fetch"


def _inside(folder: Path, key: str) -> Path:
    """`folder / key`, refused where it would lie outside the folder."""
    relative = PurePosixPath(key)
    if relative.is_absolute() or ".." in relative.parts or "\\" in key or ":" in key or not relative.parts:
        raise ValueError(f"the registry names {key!r}, which does not lie inside the data folder")
    return folder.joinpath(*relative.parts)


# -- checksums -----------------------------------------------------------------------------------------


def _verify(path: Path, entry: Mapping[str, Any]) -> None:
    """Raise `ValueError` unless the file has its checksum; once per process for an unchanged file."""
    state = path.stat()
    mark = (str(path), state.st_size, state.st_mtime_ns)
    if mark in _verified:
        return
    _check(path.read_bytes(), entry, str(path), "remove it, or fetch it again from its publisher")
    _verified.add(mark)


def _check(content: bytes, entry: Mapping[str, Any], what: str, way_out: str) -> None:
    wanted = entry.get("sha256")
    found = hashlib.sha256(content).hexdigest()
    if wanted is None or found == wanted:
        return
    if "content_sha256" in entry:
        # Another version of zlib compresses to other bytes; what counts is what they hold.
        try:
            found, wanted = hashlib.sha256(gzip.decompress(content)).hexdigest(), entry["content_sha256"]
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{what} is not a whole gzip file ({error}); {way_out}") from None
        if found == wanted:
            return
        what += " decompressed,"
    raise ValueError(f"{what} has SHA-256 {found}, wanted {wanted}: it is damaged or another file; {way_out}")


# -- fetching ------------------------------------------------------------------------------------------


def _made(key: str, entry: Mapping[str, Any], target: Path) -> dict[str, bytes]:
    """The bytes to be stored as `key`, and of files that are made with it, from what is published; checked."""
    if entry["stored"] == "san_jose":
        inputs = {PurePosixPath(name).name: _input(name) for name in entry["inputs"]}
        what = f"made from {', '.join(inputs)},"
        convert = partial(san_jose, inputs)
    else:
        fetched = _fetched(key, entry["url"], target)
        what = f"fetched from {entry['url']},"
        convert = partial(_converted, fetched, entry, PurePosixPath(key).name)
    try:
        contents = convert()
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{key}, {what} is not what was published ({error}); try again later, or {_by_hand(key, target)}"
        ) from None
    made = {str(PurePosixPath(key).parent / name): content for name, content in contents.items()}
    for name, content in made.items():
        way_out = f"nothing was stored; {_by_hand(name, target.parent / PurePosixPath(name).name)}"
        _check(content, registry()["files"][name], f"{name}, {what}", way_out)
    return made


def _input(key: str) -> bytes:
    """A published file that others are made from."""
    entry = registry()["files"][key]
    if "sha256" in entry:
        return find(key).read_bytes()
    # Without a checksum of its own it is used once and never stored: only what is made from it can be checked.
    target = _inside(cache_folder(), key)
    folder = os.environ.get(DATA_VARIABLE)
    for path in ([_inside(Path(folder).expanduser(), key)] if folder else []) + [target]:
        if path.is_file():
            return path.read_bytes()
    return _fetched(key, entry["url"], target)


def _fetched(key: str, url: str, target: Path) -> bytes:
    """The bytes at a URL. They stay in memory (the largest file has 4 MB), so that nothing half-written stays."""
    import pooch
    import requests
    from tqdm import tqdm

    received = io.BytesIO()
    # disable=None: a bar on a terminal, nothing in a log. pooch sets the total, but wants one to begin with.
    with tqdm(total=1, desc=key, unit="B", unit_scale=True, disable=None) as bar:
        download = pooch.HTTPDownloader(progressbar=bar, timeout=TIMEOUT)
        try:
            download(url, received, None)
        except (requests.RequestException, OSError) as error:
            raise ConnectionError(
                f"{key} is not on this machine and could not be fetched from {url} "
                f"({type(error).__name__}: {error}); {_by_hand(key, target)}"
            ) from None
    return received.getvalue()


def _by_hand(key: str, target: Path) -> str:
    return f"set {DATA_VARIABLE} to a folder that holds {key}, or put that file at {target}"


def _converted(fetched: bytes, entry: Mapping[str, Any], name: str) -> dict[str, bytes]:
    """What is stored as `name`, from what was fetched."""
    kind = entry["stored"]
    if kind == "member":
        # One named member is read into memory: no path in the archive is ever used on disk.
        with zipfile.ZipFile(io.BytesIO(fetched)) as archive:
            return {name: archive.read(entry["member"])}
    if kind == "columns":
        fetched = selected_columns(fetched, entry["columns"])
    return {name: gzip.compress(fetched, mtime=0) if kind in ("gzip", "columns") else fetched}


def selected_columns(table: bytes, columns: list[str]) -> bytes:
    """The named columns of a CSV table with a header, as CSV."""
    rows = csv.DictReader(io.StringIO(table.decode("utf-8-sig")))
    missing = [column for column in columns if column not in (rows.fieldnames or [])]
    if missing:
        raise ValueError(f"column {missing[0]!r} is missing")
    return _csv([columns, *([row[column] for column in columns] for row in rows)])


def _csv(rows: list[list[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


# -- San Jose ------------------------------------------------------------------------------------------


def san_jose(inputs: Mapping[str, bytes]) -> dict[str, bytes]:
    """The San Jose highway graph: sensors inserted into the roads that they lie on.

    `inputs` are the files of MetricGraph's `examples/data.pems`: V.csv (junctions), E.csv (roads), PtE.csv
    (road of each sensor and metres along the road's line), lines.shp (those lines, whose direction E.csv
    does not always share), Y.csv (speeds) and graph_sensor_locations_bay.csv.
    """
    junctions, roads, places = (_rows(inputs[name]) for name in ("V.csv", "E.csv", "PtE.csv"))
    sensors = [line.split(",") for line in inputs["graph_sensor_locations_bay.csv"].decode().split()]
    where = np.array([[float(row["x"]), float(row["y"])] for row in junctions])
    nodes: list[list[Any]] = [["node", "kind", "sensor_id", "lat", "lon"]]
    nodes += [[n, "junction", "", y, x] for n, (x, y) in enumerate(where.tolist())]
    nodes += [
        [len(where) + n, "sensor", sensor, float(lat), float(lon)] for n, (sensor, lat, lon) in enumerate(sensors)
    ]
    on_road: dict[int, list[tuple[float, int]]] = {}
    for sensor, row in enumerate(places):
        on_road.setdefault(int(row["E"]), []).append((float(row["length"]), len(where) + sensor))
    edges: list[list[Any]] = [["source", "target", "length_m", "road"]]
    starts = _first_points(inputs["lines.shp"])
    if len(starts) != len(roads):
        raise ValueError(f"lines.shp has {len(starts)} lines for the {len(roads)} roads of E.csv")
    for road, (row, start) in enumerate(zip(roads, starts, strict=True)):
        first, last = int(row["V1"]) - 1, int(row["V2"]) - 1
        if np.hypot(*(where[last] - start)) < np.hypot(*(where[first] - start)):
            first, last = last, first
        stops = [(0.0, first), *sorted(on_road.get(road, [])), (float(row["length"]), last)]
        for (before, source), (after, target) in itertools.pairwise(stops):
            edges.append([source, target, round(after - before, 6), road])
    return {"nodes.csv": _csv(nodes), "edges.csv": _csv(edges), "speeds.csv": b"time" + inputs["Y.csv"]}


def _rows(table: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(table.decode("utf-8-sig"))))


def _first_points(shapefile: bytes) -> list[tuple[float, float]]:
    """The first point of every polyline of a shapefile (ESRI technical description, 1998)."""
    points: list[tuple[float, float]] = []
    at = 100  # the header
    try:
        while at < len(shapefile):
            (words,) = struct.unpack_from(">i", shapefile, at + 4)
            shape, n_parts, _ = struct.unpack_from("<i32xii", shapefile, at + 8)
            if shape not in (3, 13, 23) or words <= 0:
                raise ValueError(f"record {len(points) + 1} of lines.shp is no polyline")
            points.append(struct.unpack_from("<dd", shapefile, at + 8 + 44 + 4 * n_parts))
            at += 8 + 2 * words
    except struct.error:
        raise ValueError(f"lines.shp ends within record {len(points) + 1}") from None
    return points
