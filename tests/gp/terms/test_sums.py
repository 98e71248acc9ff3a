"""Effects that no part of a model has, since sums of intrinsic terms are zero, are warned of."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp import Covariate, Groups, LatentGaussianModel, Nodes, Steps

pandas = pytest.importorskip("pandas")
pytest.importorskip("formulaic")

LINE = grf.from_edges(range(4), range(1, 5))
TWO_PARTS = grf.from_edges([0, 1, 3], [1, 2, 4])
RW1, RW2, DAYS, AREAS = Steps("hour"), Steps("hour", "rw2"), Groups("day"), Nodes(LINE, grf.ICAR())
MODE = {"hyperparameters": "mode", "seed": 0}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    cells = itertools.product(range(12), ("week", "weekend"), range(5))
    frame = pandas.DataFrame(cells, columns=["hour", "day", "node"])
    frame["z"] = rng.uniform(1, 2, len(frame))
    level = np.where(frame["day"] == "week", 1.0, -1.0)
    wave = level * np.sin(frame["hour"]) + frame["z"] + 0.5 * frame["node"]
    return frame.assign(y=wave + 0.1 * rng.standard_normal(len(frame)))


@pytest.mark.parametrize(
    ("formula", "terms", "words"),
    [
        ("1", RW1 * DAYS, ["'hour:day' has no mean over 'hour' for each 'day'", "C(day)"]),
        ("1", [RW1, RW1 * DAYS], ["no mean over 'hour' for each 'day'"]),
        ("1 + C(day)", RW2 * DAYS, ["has no linear trend over 'hour'", "hour * C(day)", "'ar1'"]),
        ("1 + hour", RW2 * DAYS, ["has no mean and linear trend over 'hour'"]),
        ("1 + C(day) + hour", RW2 * DAYS, ["has no linear trend"]),
        ("1", [RW1, AREAS * RW1], ["no mean over 'hour' for each 'node'", "a term of 'node'"]),
        ("1", [AREAS, AREAS * RW1], ["no mean over 'node' for each 'hour'"]),
        ("1", Covariate("z") * AREAS, ["coefficients of 'z'", "'+ z' in the formula"]),
        ("1 + z", Covariate("z") * (RW1 * DAYS), ["for each 'day'", "times 'z'"]),
        ("0", RW1, ["'hour' sums to zero", "'1 +'"]),
    ],
)
def test_what_no_part_of_the_model_has_is_warned_of(frame, formula, terms, words):
    with pytest.warns(UserWarning, match=" has no | sums? to zero") as heard:
        LatentGaussianModel(f"y ~ {formula}", terms, **MODE).fit(frame)
    (message,) = [text for each in heard if words[0] in (text := str(each.message))]
    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize(
    ("formula", "terms"),
    [
        ("1 + C(day)", RW1 * DAYS),
        ("0 + C(day)", RW1),
        ("1", [DAYS, RW1, RW1 * DAYS]),
        ("1 + hour * C(day)", RW2 * DAYS),
        ("1", [DAYS, RW2, Covariate("hour") * DAYS, RW2 * DAYS]),
        ("1", [AREAS, RW1, AREAS * RW1]),
        ("1", [Nodes(TWO_PARTS, grf.ICAR()), RW1, Nodes(TWO_PARTS, grf.ICAR()) * RW1]),
        ("1", Nodes(LINE, grf.BYM2()) * DAYS),
        ("1", Steps("hour", "ar1") * DAYS),
        ("1 + z", Covariate("z") * AREAS),
        ("1 + z", [Covariate("z") * DAYS, Covariate("z") * (RW1 * DAYS)]),
    ],
)
def test_where_another_part_has_it_nothing_is_said(frame, formula, terms, recwarn):
    LatentGaussianModel(f"y ~ {formula}", terms, **MODE).fit(frame)
    assert [str(each.message) for each in recwarn if "nothing else" in str(each.message)] == []
