"""Errors of arguments hold the argument's name."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import graphrf as grf
from graphrf._base import checks

GRAPH = grf.from_edges([0, 1], [1, 2])


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("steps", lambda: checks.integer("steps", 2.5)),
        ("steps", lambda: checks.integer("steps", 0, low=1)),
        ("noise", lambda: checks.number("noise", float("nan"))),
        ("noise", lambda: checks.number("noise", 10**400)),
        ("seed", lambda: checks.seed(-1)),
        ("path", lambda: checks.path("path", 3)),
        ("method", lambda: checks.choice("method", "seris", ("series", "walks"))),
        ("method", lambda: checks.choice("method", None, ("series", "walks"))),
        ("optimize", lambda: checks.flag("optimize", "no")),
        ("y", lambda: checks.finite("y", np.array([1.0, np.inf]))),
        ("adjacency", lambda: grf.Graph(np.ones((2, 3)))),
        ("kernel", lambda: grf.apply_kernel(GRAPH, "diffusion", np.ones(3))),
        ("p_halt", lambda: grf.pagerank.estimate(GRAPH, p_halt=0.0)),
    ],
)
def test_errors_hold_the_name_that_their_message_begins_with(argument, call):
    with pytest.raises((TypeError, ValueError), match=f"^`{argument}` must") as caught:
        call()
    assert caught.value.argument == argument
    assert pickle.loads(pickle.dumps(caught.value)).argument == argument
