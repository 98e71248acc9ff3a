"""Warnings point at the user's line, from whatever depth of the package they come."""

from __future__ import annotations

import warnings

import pytest

from graphrf._base.warn import heard, warn


def test_a_warning_points_at_the_first_frame_outside_the_package():
    inside = {"__name__": "graphrf.somewhere", "warn": warn}
    exec("def deep(n):\n    return warn('here') if n == 0 else deep(n - 1)", inside)
    for depth in (0, 1, 7):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            inside["deep"](depth)
        assert [(warning.filename, str(warning.message)) for warning in caught] == [
            (__file__, "here")
        ]


def test_messages_are_heard_within_a_block_and_still_shown():
    with heard() as outer:
        with pytest.warns(UserWarning, match="first"):
            warn("first")
        with heard() as inner, pytest.warns(UserWarning, match="second"):
            warn("second")
        with pytest.warns(UserWarning, match="third"):
            warn("third")
    with pytest.warns(UserWarning, match="fourth"):
        warn("fourth")
    assert (outer, inner) == (["first", "third"], ["second"])
