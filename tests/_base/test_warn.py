"""Warnings point at the user's line, from whatever depth of the package they come."""

from __future__ import annotations

import warnings

from graphrf._base.warn import warn


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
