"""The registry of data sets with every kind of harm: refused by the name of the entry, or safe to follow."""

from __future__ import annotations

import json
import random
from importlib import resources
from pathlib import PurePosixPath, PureWindowsPath
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrf.datasets import files, readers, sets
from graphrf.datasets import registry as _registry
from graphrf.datasets.registry import parsed_registry
from tests.support.bounds import within
from tests.support.mutations import json_text, mutated_bytes, mutated_json

SEEDS = st.integers(0, 2**63 - 1)
SECONDS, MEGABYTES = 20, 512
SHIPPED = resources.files("graphrf.datasets").joinpath("registry.json").read_text(encoding="utf-8")


def _part() -> dict:
    """One entry of each way of storing and of each reader: mutations of the whole would seldom hit an odd one."""
    whole = json.loads(SHIPPED)
    names = {entry["reader"]: name for name, entry in whole["datasets"].items()}
    names |= {"cites": "cora-directed", "columns": "github"}
    sets = {name: whole["datasets"][name] for name in names.values()}
    keys = [key for entry in sets.values() for key in entry["files"]]
    keys += [other for key in keys for other in whole["files"][key].get("inputs", ())]
    return {"files": {key: whole["files"][key] for key in keys}, "datasets": sets}


PART = _part()


def _require_safe(registry) -> None:
    """What `data_files` and `datasets` do with a registry neither leaves the folder nor fetches openly."""
    for key, entry in registry["files"].items():
        for path in (PurePosixPath(key), PureWindowsPath(key)):
            assert not path.is_absolute()
            assert not path.anchor
            assert ".." not in path.parts
        assert "\0" not in key
        if entry["stored"] == "san_jose":
            assert all(registry["files"][other]["url"] for other in entry["inputs"])
        else:
            assert urlsplit(entry["url"]).scheme == "https"
            assert urlsplit(entry["url"]).username is None
        assert "size" not in entry or 0 < entry["size"] <= 2**30
    for entry in registry["datasets"].values():
        assert entry["reader"] in readers.READERS
        assert all("sha256" in registry["files"][key] for key in entry["files"])
        assert isinstance(entry["description"], str)


def _refused(text: str) -> bool:
    with within(SECONDS, MEGABYTES):
        try:
            registry = parsed_registry(text)
        except ValueError as error:
            if "the registry" not in str(error):
                raise
            return True
        _require_safe(registry)
    return False


@given(SEEDS)
def test_registries_with_other_values_are_refused_or_safe(seed):
    _refused(json_text(mutated_json(PART, random.Random(seed))))


@given(SEEDS)
def test_registries_with_other_bytes_are_refused_or_safe(seed):
    content = mutated_bytes(json.dumps(PART).encode(), random.Random(seed))
    _refused(content.decode("utf-8", "replace"))


def test_the_shipped_registry_passes_whole():
    assert parsed_registry(SHIPPED) == json.loads(SHIPPED) == files.registry()
    assert not _refused(json.dumps(PART))
    assert set(_registry._READERS) == set(readers.READERS)
    assert set(_registry._KINDS) == set(sets.KINDS)


FILE, SET = "graphs/karate.gml", "karate-gml"


@pytest.mark.parametrize(
    ("part", "entry", "changes"),
    [
        ("files", FILE, {"sha256": "0" * 63}), ("files", FILE, {"sha256": "G" * 64}), ("files", FILE, {"size": 0}),
        ("files", FILE, {"size": 1.5}), ("files", FILE, {"size": True}), ("files", FILE, {"size": 2**40}),
        ("files", FILE, {"url": "http://example.org/x"}), ("files", FILE, {"url": "file:///etc/passwd"}),
        ("files", FILE, {"url": "https://user:word@example.org/x"}), ("files", FILE, {"url": "https://example.org"}),
        ("files", FILE, {"stored": "zip"}), ("files", FILE, {"inputs": ["x"]}), ("files", FILE, {"new": 1}),
        ("files", FILE, {"licence": ""}), ("files", FILE, {"member": "x"}), ("files", FILE, {"stored": ["gzip"]}),
        ("datasets", SET, {"reader": "eval"}), ("datasets", SET, {"files": ["graphs/none.gml"]}),
        ("datasets", SET, {"files": []}), ("datasets", SET, {"files": [FILE, FILE]}),
        ("datasets", SET, {"kind": "x"}), ("datasets", SET, {"kind": "table"}),
        ("datasets", SET, {"nodes": -1}), ("datasets", SET, {"notes": 1}),
        ("datasets", SET, {"files": ["traffic/san_jose/source/lines.shp"]}), ("datasets", SET, {"target": "x"}),
    ],
)  # fmt: skip
def test_wrong_values_are_refused_by_the_name_of_the_entry(part, entry, changes):
    registry = json.loads(SHIPPED)
    registry[part][entry] |= changes
    with pytest.raises(ValueError, match=f"the registry's entry '{entry}'"):
        parsed_registry(json.dumps(registry))


@pytest.mark.parametrize(
    "key",
    ["../x", "/x", "a/../x", "a\\x", "C:x", "C:/x", "", ".", ".hidden", "a//b", "a/", "a\0b", "a\n", "é", "~/x"],
)
def test_paths_that_could_leave_the_folder_are_refused(key):
    registry = json.loads(SHIPPED)
    registry["files"][key] = registry["files"][FILE]
    with pytest.raises(ValueError, match="does not lie inside the data folder"):
        parsed_registry(json.dumps(registry))


def test_a_key_that_is_there_twice_is_refused():
    twice = SHIPPED.replace('"datasets"', '"files": {}, "datasets"', 1)
    with pytest.raises(ValueError, match=r"the registry of data sets is no JSON \(a key is there twice\)"):
        parsed_registry(twice)
