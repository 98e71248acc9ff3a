"""Conversion of published files to stored ones: archive members, table columns, sensors."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import struct
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

# Bytes of a file whose size is not known, fetched,
# decompressed or read: four times the largest that there is.
MOST = 2**24


def converted(fetched: bytes, entry: Mapping[str, Any], name: str) -> dict[str, bytes]:
    """Content to store as `name`, converted from the fetched bytes."""
    kind = entry["stored"]
    if kind == "member":
        # One named member is read into memory: no path in the archive is ever used on disk.
        with (
            zipfile.ZipFile(io.BytesIO(fetched)) as archive,
            archive.open(entry["member"]) as member,
        ):
            content = member.read(MOST + 1)
        if len(content) > MOST:
            raise ValueError(f"{entry['member']} has more than {MOST:,} bytes")
        return {name: content}
    if kind == "columns":
        fetched = selected_columns(fetched, entry["columns"])
    return {name: gzip.compress(fetched, mtime=0) if kind in ("gzip", "columns") else fetched}


def selected_columns(table: bytes, columns: list[str]) -> bytes:
    """The named columns of a CSV table with a header, as CSV."""
    rows = csv.DictReader(io.StringIO(table.decode("utf-8-sig")))
    missing = [column for column in columns if column not in (rows.fieldnames or [])]
    if missing:
        raise ValueError(f"column {missing[0]!r} is missing")
    return _csv(itertools.chain([columns], ([row[column] for column in columns] for row in rows)))


def _csv(rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def san_jose(inputs: Mapping[str, bytes]) -> dict[str, bytes]:
    """The San Jose highway graph: sensors inserted into the roads that they lie on.

    `inputs` are the files of MetricGraph's `examples/data.pems`; PtE.csv has the road of each
    sensor and metres along its line in lines.shp, whose direction E.csv does not always share.
    """
    junctions, roads, places = (_rows(inputs[name]) for name in ("V.csv", "E.csv", "PtE.csv"))
    sensors = [
        line.split(",") for line in inputs["graph_sensor_locations_bay.csv"].decode().split()
    ]

    where = np.array([[float(row["x"]), float(row["y"])] for row in junctions])
    nodes: list[list[Any]] = [["node", "kind", "sensor_id", "lat", "lon"]]
    nodes += [[n, "junction", "", y, x] for n, (x, y) in enumerate(where.tolist())]
    nodes += [
        [len(where) + n, "sensor", sensor, float(lat), float(lon)]
        for n, (sensor, lat, lon) in enumerate(sensors)
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

    return {
        "nodes.csv": _csv(nodes),
        "edges.csv": _csv(edges),
        "speeds.csv": b"time" + inputs["Y.csv"],
    }


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
                raise ValueError(f"record {len(points) + 1} of lines.shp is not a polyline")
            points.append(struct.unpack_from("<dd", shapefile, at + 8 + 44 + 4 * n_parts))
            at += 8 + 2 * words
    except struct.error:
        raise ValueError(f"lines.shp ends within record {len(points) + 1}") from None
    return points
