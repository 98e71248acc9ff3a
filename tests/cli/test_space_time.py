"""Commands on signals through time against the library's own results, and what they refuse."""

from __future__ import annotations

import csv
import io
import shlex
from functools import cache

import numpy as np
import pytest
from typer.testing import CliRunner

import graphrf as grf
from graphrf.cli import app

NAMES = list("abcdef")
TIMES = np.arange(16.0)
WAVES = 50 + 5 * np.sin(TIMES[:, None] / 3 + np.arange(6) / 2)
GAPPED = WAVES.copy()
GAPPED[3:6, 1] = GAPPED[9] = np.nan
DATES = [f"2024-05-06 {hour:02d}:30" for hour in range(16)]


def table(rows: list[list[object]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def cell(value: float) -> str:
    return "" if np.isnan(value) else repr(float(value))


def wide(times: list[object], title: str = "date") -> str:
    return table(
        [[title, *NAMES]] + [[t, *map(cell, row)] for t, row in zip(times, GAPPED, strict=True)]
    )


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [
        [t, n, cell(v)]
        for t, row in zip(DATES, GAPPED, strict=True)
        for n, v in zip(NAMES, row, strict=True)
    ]
    texts = {
        "roads.csv": "source,target\na,b\nb,c\nc,d\nd,e\ne,f\nf,g\n",
        "wide.csv": wide(DATES),
        "hours.csv": wide(list(TIMES), "hour"),
        "zoned.csv": wide([f"{date}+02:00" for date in DATES]),
        "long.csv": table([["when", "node", "speed"], *lines]),
        "times.csv": "time\n2024-05-06 03:30\n2024-05-06T20:00\n",
        "mixed.csv": wide([*DATES[:15], 15]),
        "zones.csv": wide([*(f"{date}+02:00" for date in DATES[:15]), DATES[15]]),
        "when.csv": wide([*DATES[:15], "noon"]),
        "who.csv": wide(DATES).replace("f\n", "zz\n", 1),
        "word.csv": wide(DATES).replace(cell(WAVES[2, 2]), "fast", 1),
        "inf.csv": wide(DATES).replace(cell(WAVES[2, 2]), "inf", 1),
        "gaps.csv": table([["date", "a"], *([date, ""] for date in DATES)]),
        "untitled.csv": table([[t, *map(cell, row)] for t, row in zip(DATES, WAVES, strict=True)]),
        "four.csv": table([["when", "node", "speed", "flow"], *([*line, "1"] for line in lines)]),
        "times_only.csv": table([["hour"], *([time] for time in TIMES)]),
        "seen.csv": "node,speed\na,1\nb,2\nc,4\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def run(line: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


def read(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


@cache
def direct() -> grf.gp.GraphTimeGPRegressor:
    graph = grf.load_graph("roads.csv")
    gp = grf.gp.GraphTimeGPRegressor(graph, "diffusion", seed=0)
    return gp.fit(GAPPED, times=np.array(DATES, "datetime64[s]"), nodes=NAMES)


def test_fit_and_predict(place):
    shown = run("fit roads.csv long.csv --time when --kernel diffusion --seed 0 -q -o m.npz")
    gp = direct()
    assert f"noise                    {gp.noise_:.6g}" in shown
    assert "PeriodicTime" not in shown
    assert "MaternTime" in shown
    titles, *rows = read(run("predict m.npz --nodes g,b --times times.csv"))
    assert titles == ["time", "node", "mean", "std"]
    assert [row[:2] for row in rows] == [
        ["2024-05-06 03:30", "g"],
        ["2024-05-06 03:30", "b"],
        ["2024-05-06T20:00", "g"],
        ["2024-05-06T20:00", "b"],
    ]
    at = np.array(["2024-05-06T03:30", "2024-05-06T20:00"], "datetime64[s]")
    found = np.array([row[2:] for row in rows], float).T
    for column, wanted in zip(found, gp.predict(list("gb"), at, return_std=True), strict=True):
        np.testing.assert_allclose(column, wanted.ravel(), rtol=1e-12)
    titles, *rows = read(run("predict m.npz --nodes c --observation --samples 2 --seed 3 -q"))
    assert titles[4:] == ["sample_1", "sample_2"]
    assert [row[0] for row in rows] == [date.replace(" ", "T") for date in DATES]
    mean, std = gp.predict(["c"], return_std="observation")
    draws = gp.sample(["c"], n_samples=2, seed=3)
    expected = np.column_stack([mean, std, draws[0], draws[1]])
    np.testing.assert_allclose(np.array([row[2:] for row in rows], float), expected, rtol=1e-12)


def test_hours_and_time_zones(place):
    run("fit roads.csv hours.csv --time 0 --kernel matern --lengthscale 2 --seed 0 -q -o h.npz")
    run("fit roads.csv zoned.csv --time date --kernel matern --lengthscale 2 --seed 0 -q -o z.npz")
    hours = read(run("predict h.npz --nodes a,g"))
    zoned = read(run("predict z.npz --nodes a,g"))
    assert (hours[1][0], zoned[1][0]) == ("0.0", "2024-05-05T22:30+00:00")
    again = read(run("predict z.npz --nodes a,g --times 2024-05-06T00:30+02:00"))
    np.testing.assert_allclose(
        *([float(row[2]) for row in rows] for rows in (again[1:], zoned[1:3])), rtol=1e-9
    )
    columns = [np.array([row[2:] for row in rows[1:]], float) for rows in (hours, zoned)]
    np.testing.assert_allclose(columns[0], columns[1], rtol=1e-6)
    assert "as in `fit`: mixed ones are refused" in run("predict z.npz --times 2024-05-06T00:30", 2)


def test_fill_keeps_the_form(place):
    before = read(wide(DATES))
    run("fill roads.csv wide.csv --kernel diffusion --seed 0 -q -o filled.csv --std std.csv")
    filled, std = (read((place / name).read_text()) for name in ("filled.csv", "std.csv"))
    gp = direct()
    mean, spread = gp.predict(NAMES, return_std=True)
    for row, (old, new, off) in enumerate(zip(before[1:], filled[1:], std[1:], strict=True)):
        assert old[0] == new[0] == off[0]
        for column in range(6):
            cells = [line[1 + column] for line in (old, new, off)]
            if cells[0]:
                assert cells[1:] == [cells[0], "0.0"]
            else:
                found = [float(text) for text in cells[1:]]
                np.testing.assert_allclose(
                    found, [mean[row, column], spread[row, column]], rtol=1e-9
                )
    assert filled[0] == std[0] == before[0]
    long = read(run("fill roads.csv long.csv --time when --kernel diffusion --seed 0 -q"))
    assert long[0] == ["when", "node", "speed"]
    values = np.array([row[2] for row in long[1:]], float).reshape(16, 6)
    np.testing.assert_allclose(values, np.array([row[1:] for row in filled[1:]], float), rtol=1e-9)


KEPT: list[bytes] = []


def through(place) -> bytes:
    """The file of a model through time, fitted once."""
    if not KEPT:
        run(
            "fit roads.csv wide.csv --time date --kernel matern --lengthscale 2 --seed 0 -q -o "
            "through.npz"
        )
        KEPT.append((place / "through.npz").read_bytes())
    return KEPT[0]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "fit roads.csv wide.csv --time day -o m.npz",
            "`--time` must be a column of wide.csv, got 'day'",
        ),
        (
            "fit roads.csv mixed.csv --time date -o m.npz",
            "mixed.csv, line 17: the time is a number",
        ),
        ("fit roads.csv zones.csv --time date -o m.npz", "of one time zone"),
        (
            "fit roads.csv when.csv --time date -o m.npz",
            "line 17: a time must be a number of hours, or a date",
        ),
        (
            "fit roads.csv who.csv --time date -o m.npz",
            "title of column 6: no node of the graph is named 'zz'",
        ),
        (
            "fit roads.csv word.csv --time date -o m.npz",
            "word.csv, line 4: a reading must be a finite number",
        ),
        (
            "fit roads.csv inf.csv --time date -o m.npz",
            "inf.csv, line 4: a reading must be a finite number",
        ),
        (
            "fit roads.csv gaps.csv --time date -o m.npz",
            "`OBSERVATIONS` must hold at least one value",
        ),
        ("fit roads.csv untitled.csv --time 0 -o m.npz", "has no titles"),
        ("fit roads.csv four.csv --time when -o m.npz", "`--target-column` is needed"),
        (
            "fit roads.csv four.csv --time when --target-column node -o m.npz",
            "three different columns",
        ),
        (
            "fit roads.csv wide.csv --time date --target-column a -o m.npz",
            "needs a column of nodes",
        ),
        ("fit roads.csv times_only.csv --time hour -o m.npz", "one for each node are needed"),
        (
            "fit roads.csv wide.csv --time date --noise 1 -o m.npz",
            "`--noise` cannot be used with `--time`",
        ),
        (
            "fit roads.csv wide.csv --time date --no-optimize -o m.npz",
            "`--no-optimize` cannot be used with `--time`",
        ),
        (
            "fit roads.csv wide.csv --time date --method series -o m.npz",
            "`--method` cannot be used",
        ),
        (
            "fit roads.csv wide.csv --time date --kernel matern --nu 2 -o m.npz",
            "`--lengthscale` is needed",
        ),
        (
            "fit roads.csv wide.csv --time date --laplacian normalized -o m.npz",
            "`--laplacian` needs `--kernel`",
        ),
        ("fill roads.csv wide.csv --observation -o f.csv", "`--observation` needs `--std`"),
        (
            "fit roads.csv wide.csv --time date --max-train 2 -o m.npz",
            "`--max-train` must be at least 10",
        ),
        ("fit roads.csv missing.csv --time date -o m.npz", "OBSERVATIONS must be a file"),
        ("fill roads.csv wide.csv -o filled.npz", "`-o` must end in .csv"),
        ("fill roads.csv wide.csv --std wide.csv", "`--std` must be different from the input file"),
        (
            "fill roads.csv wide.csv -o f.csv --std f.csv",
            "`--std` and `-o` must be different files",
        ),
        ("fill roads.csv wide.csv --json", "`--json` cannot be used"),
        ("predict once.npz --times 3", "`--times` cannot be used with once.npz"),
        ("predict through.npz --times 3", "`--times` must be dates"),
        (
            "predict through.npz --times noon",
            "`--times` must be a file (there is none named 'noon') or times",
        ),
        ("predict through.npz --times 3,2024-05-06", "got both"),
        ("predict through.npz --nodes zz", "no node of the graph is named 'zz'"),
        ("predict seen.csv", "`MODEL`"),
    ],
)
def test_refusals(place, line, message):
    if "once" in line:
        run("fit roads.csv seen.csv --kernel diffusion --no-optimize --seed 0 -q -o once.npz")
    if "through" in line:
        (place / "through.npz").write_bytes(through(place))
    said = run(line + ("" if "predict" in line else " --seed 0"), 2)
    assert message in said
    assert not (place / "m.npz").exists()
