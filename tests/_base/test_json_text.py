"""JSON without trust: how much memory its values may take is known before they are made."""

from __future__ import annotations

import sys
import tracemalloc

import pytest

from graphrf._base import memory
from graphrf._base.files.json_text import parsed


@pytest.mark.parametrize("kind", [str, str.encode])
@pytest.mark.parametrize(
    "value", ["[],", "{},", '"abc",', "0.1,", "12345,", '{"a":0.1},', '[["x"]],']
)
def test_a_text_whose_values_have_no_room_is_refused_unread(monkeypatch, value, kind):
    text = kind("[" + value * 20_000 + "0]")
    tracemalloc.start()
    parsed(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    large = kind("[" + value * 400_000 + "0]")
    monkeypatch.setattr(memory, "available_memory", lambda: 20 * peak)
    with pytest.raises(MemoryError, match="a JSON text of that size needs about"):
        parsed(large)
    assert sys.getsizeof(large) < 20 * peak
