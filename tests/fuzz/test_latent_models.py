"""Files of latent Gaussian models with all kinds of harm: refused in words, or sound."""

from __future__ import annotations

import json
import os
import random
import sys
import warnings

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp import Field, Groups, LatentGaussianModel, Nodes, Steps, TriangleMesh
from graphrf.gp.terms import PenalisedRange
from tests.fuzz.damage import archive_of, record_and_arrays
from tests.support.bounds import within
from tests.support.mutations import json_text, mutated_arrays, mutated_bytes, mutated_json

pandas = pytest.importorskip("pandas")
pytest.importorskip("formulaic")
shapely = pytest.importorskip("shapely")
pytest.importorskip("pyproj")

SECONDS, MEGABYTES = 20, 512
N_FILES, N_PARTS = 10_000, 8


def data() -> pandas.DataFrame:
    """Thirty rows with columns of every kind that a model reads."""
    rng, n = np.random.default_rng(0), 30
    return pandas.DataFrame(
        {
            "y": rng.standard_normal(n),
            "cases": rng.poisson(2.0, n),
            "people": rng.uniform(1, 3, n),
            "x": rng.uniform(0, 4, n),
            "kind": pandas.Categorical(
                rng.choice(["low", "mid", "high"], n), categories=["low", "mid", "high"]
            ),
            "node": [
                [0, 1] if k % 9 == 0 else {2: 0.3, 3: 0.7} if k % 9 == 1 else int(k % 5)
                for k in range(n)
            ],
            "group": [("a", int(k % 3)) for k in range(n)],
            "day": pandas.Timestamp("2024-03-30", tz="Europe/Berlin")
            + pandas.to_timedelta(np.arange(n) % 7, "D"),
            "edge": [0, 1] * (n // 2),
            "metres": rng.uniform(0, 1, n),
            "east": rng.uniform(0, 1, n),
            "north": rng.uniform(0, 1, n),
            "place": pandas.Series(
                [
                    shapely.Point(k / n, 0.5) if k % 5 else shapely.box(0, 0, 1, 0.5)
                    for k in range(n)
                ],
                dtype=object,
            ).to_numpy(),
        },
        index=[f"row {k}" for k in range(n)],
    )


def models() -> list[LatentGaussianModel]:
    """Fitted models of every kind of term, factor, transform and likelihood."""
    graph = grf.from_edges(range(4), range(1, 5))
    streets = grf.gp.MetricGraph([0, 1], [1, 2], [1.0, 1.0])
    square = TriangleMesh([[0, 0], [1, 0], [1, 1], [0, 1]], [[0, 1, 2], [0, 2, 3]])
    projected = TriangleMesh(square.vertices, square.triangles, crs=32633)
    car = grf.CAR(0.5)
    prior = {
        "sd": grf.gp.terms.PenalisedDeviation(1.0, 0.1),
        "dependence": grf.gp.terms.BetaPrior(2, 2),
    }
    cases = [
        (
            "y ~ bs(x, df=4) + kind",
            [Nodes(graph, car, prior=prior), Nodes(graph, car) * Groups("kind")],
            "gaussian",
        ),
        (
            "cases ~ poly(x, 2):C(kind, contr.sum)",
            [Groups("group"), Steps("day", "ar1")],
            "poisson",
        ),
        ("log(people) ~ scale(x) + I(x > 1)", [Field(streets, at=("edge", "metres"))], "student_t"),
        (
            "y ~ 1",
            [Field(square, at=("east", "north"), prior={"range": PenalisedRange(0.5)})],
            "gaussian",
        ),
        ("y ~ 1", [Field(projected, at="place")], "gaussian"),
    ]
    settings = {"seed": 1, "hyperparameters": "mode"}
    result = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for formula, terms, likelihood in cases:
            more = {"exposure": "people"} if likelihood == "poisson" else {}
            result.append(
                LatentGaussianModel(formula, terms, likelihood, **more, **settings).fit(data())
            )
        averaged = LatentGaussianModel(
            "cases ~ 1", Groups("group"), exposure=data()["people"], likelihood="poisson"
        )
        result.append(averaged.set_params(seed=1).fit(data()))
    return result


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder, result = tmp_path_factory.mktemp("latent"), []
    for number, model in enumerate(models()):
        path = folder / f"{number}.npz"
        model.save(path)
        content = path.read_bytes()
        LatentGaussianModel.load(path)  # what it imports, it imports here
        result.append((model.predict(), content, *record_and_arrays(content)))
    return result


def require_sound(model: LatentGaussianModel) -> None:
    """All that a loaded model answers is finite; the mode states no spread of hyperparameters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mean, deviation = model.predict(return_std=True)
        table = [model.coefficients_, model.summary()[["mean", "0.5"]]]
        drawn = model.sample(n_samples=2, seed=1)
    assert all(np.isfinite(numbers).all(axis=None) for numbers in (mean, deviation, drawn, *table))
    assert repr(model)


def refused_or_sound(path) -> LatentGaussianModel | None:
    """The model of a file if it has one; it makes no file and imports no module."""
    files, modules = set(os.listdir(path.parent)), set(sys.modules)
    with within(SECONDS, MEGABYTES), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = LatentGaussianModel.load(path)
        except (ValueError, MemoryError) as error:
            if str(path) not in str(error):
                raise
            model = None
        else:
            require_sound(model)
    assert set(os.listdir(path.parent)) == files
    assert not {
        name
        for name in set(sys.modules) - modules
        if not name.startswith(("graphrf", "pandas", "scipy", "sklearn"))
    }
    return model


@pytest.mark.more
@pytest.mark.parametrize("part", range(N_PARTS))
def test_harmed_files_are_refused_or_sound(saved, part, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, kept = tmp_path / "model.npz", 0
    for seed in range(part, N_FILES, N_PARTS):
        rng = random.Random(seed)
        predictions, content, record, arrays = rng.choice(saved)
        if seed % 4 == 0:
            path.write_bytes(mutated_bytes(content, rng))
            model = refused_or_sound(path)
            if model is not None:
                np.testing.assert_allclose(model.predict(), predictions, rtol=1e-9)
        else:
            where = rng.randrange(3)
            text = json_text(mutated_json(record, rng) if where != 1 else record)
            path.write_bytes(
                archive_of(
                    text, mutated_arrays(arrays, rng) if where else arrays, rng.random() < 0.05
                )
            )
            model = refused_or_sound(path)
        kept += model is not None
    assert kept < 0.6 * N_FILES / N_PARTS  # most harm is noticed


HOSTILE = "x.map.__func__.__globals__['sys'].modules['os'].mkdir('made')"
EXPRESSIONS = [
    ["column", HOSTILE, []],
    ["function", "__import__", [["number", 1, []]]],
    ["function", "frompyfunc", [["number", 1, []]]],
    ["function", "load", [["column", "x", []]]],
    ["function", "log", [["function", "eval", [["column", "x", []]]]]],
    ["pieces", [[0, 1], [[[1.0]]], "extend; import os; os.mkdir('made')"], [["column", "x", []]]],
    ["lambda", HOSTILE, []],
    {"class": "Fraction", "arguments": {"numerator": "1e999999999"}},
]


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=lambda own: str(own)[:40])
@pytest.mark.parametrize("place", ["factor", "response"])
def test_no_expression_of_a_file_runs_code(saved, expression, place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, _, record, arrays = saved[0]
    record = json.loads(json.dumps(record))
    if place == "factor":
        record["design"]["factors"][0]["expression"] = expression
    else:
        record["response"] = expression
    path = tmp_path / "model.npz"
    path.write_bytes(archive_of(json.dumps(record), arrays))
    model = refused_or_sound(path)
    if model is not None:  # a column with a strange name is looked up, and is not there
        with pytest.raises(ValueError, match="has no column"):
            model.predict(data()) if place == "factor" else model.score(data())
    assert os.listdir(tmp_path) == ["model.npz"]


@pytest.mark.parametrize(
    "formula",
    [
        f"y ~ 1 + {{{HOSTILE} or x}}",
        f"y ~ {HOSTILE}",
        "y ~ I(__import__('os').mkdir('made'))",
        "open('made', 'w') ~ 1",
    ],
)
def test_formulas_of_files_are_text(saved, formula, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    predictions, _, record, arrays = saved[0]
    path = tmp_path / "model.npz"
    path.write_bytes(
        archive_of(
            json.dumps(record | {"settings": record["settings"] | {"formula": formula}}), arrays
        )
    )
    loaded = LatentGaussianModel.load(path)
    np.testing.assert_allclose(loaded.predict(), predictions, rtol=1e-9)
    assert loaded.formula == formula
    with pytest.raises(ValueError, match="`formula` has"):  # nor does another fit run it
        loaded.fit(data())
    assert os.listdir(tmp_path) == ["model.npz"]


def test_a_class_or_zone_of_a_file_is_one_of_a_list(saved, tmp_path):
    path = tmp_path / "model.npz"
    _, _, record, arrays = saved[1]
    text = json.dumps(record)
    for good, bad in (
        ('"class": "Groups"', '"class": "Popen"'),
        ("Europe/Berlin", "dateutil//etc/passwd"),
        ("Europe/Berlin", "../../etc/passwd"),
        ('"likelihood": "poisson"', '"likelihood": {"class": "system", "arguments": {}}'),
        ('"prior": "weak"', '"prior": {"class": "Popen", "arguments": {"args": "ls"}}'),
    ):
        assert good in text
        path.write_bytes(archive_of(text.replace(good, bad), arrays))
        with pytest.raises(ValueError, match=r"model\.npz"):
            LatentGaussianModel.load(path)
