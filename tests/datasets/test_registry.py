"""The shipped registry of data sets: every entry is complete, and nothing fetched openly."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from graphrf._base.files.json_text import parsed
from graphrf.datasets import files, readers, sets

TEXT = resources.files("graphrf.datasets").joinpath("registry.json").read_text(encoding="utf-8")
REGISTRY = parsed(TEXT)  # refuses a key that is there twice
FILES, SETS = REGISTRY["files"], REGISTRY["datasets"]

# A path that means the same on every system, without
# a way out of the folder and without hidden names.
PATH = re.compile(r"(?:\w[\w.+-]*/)*\w[\w.+-]*", re.ASCII)
DIGEST = re.compile(r"[0-9a-f]{64}")
# Of a fixed commit.
URL = re.compile(
    r"https://raw\.githubusercontent\.com/[\w.-]+/[\w.-]+/[0-9a-f]{40}/[\w./%~+-]+", re.ASCII
)
NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def is_text(value):
    return isinstance(value, str) and value != "" and value.isprintable()


def is_list_of_texts(value):
    return isinstance(value, list) and all(map(is_text, value)) and len(set(value)) == len(value)


def is_size(value):
    return type(value) is int and 0 < value <= 2**30


def matches(pattern):
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def is_among(*options):
    return lambda value: any(type(value) is type(option) and value == option for option in options)


OF_A_FILE = {
    "licence": is_text,
    "stored": is_text,
    "sha256": matches(DIGEST),
    "content_sha256": matches(DIGEST),
    "size": is_size,
    "url": matches(URL),
    "member": matches(PATH),
    "columns": is_list_of_texts,
    "inputs": lambda value: is_list_of_texts(value) and value != [],
}
# What each way of storing needs beside licence, checksum and size.
NEEDS = {
    "identity": {"url"},
    "gzip": {"url", "content_sha256"},
    "member": {"url", "member"},
    "columns": {"url", "columns", "content_sha256"},
    "san_jose": {"inputs"},
}
OF_ALL = {
    "kind": is_among(*sets.KINDS),
    "description": is_text,
    "reader": is_among(*readers.READERS),
    "files": is_list_of_texts,
    "citation": is_text,
    "notes": is_list_of_texts,
}
OF_A_GRAPH = {"nodes": is_size, "edges": is_size, "weight": is_text}
OF_A_TABLE = {
    "rows": is_size,
    "columns": is_list_of_texts,
    "target": is_text,
    "drop": is_list_of_texts,
    "task": is_among("regression", "classification"),
    "delimiter": is_among(None, "\t", ",", ";"),
    "header": is_among(True, False),
}
OPTIONAL = {"citation", "notes", "weight", "delimiter", "header"}


def test_the_registry_is_read_as_it_is_shipped():
    assert files.registry() == REGISTRY
    assert set(REGISTRY) == {"files", "datasets"}


@pytest.mark.parametrize("key", FILES)
def test_files_have_what_their_way_of_storing_needs(key):
    entry = FILES[key]
    assert PATH.fullmatch(key)
    assert all(OF_A_FILE[fact](value) for fact, value in entry.items())
    # What is only made into other files may lack a checksum; the files that are made have theirs.
    raw = entry["stored"] == "identity" and "sha256" not in entry
    known = set() if raw else {"sha256", "size"}
    assert ("content_sha256" in entry) == key.endswith(".gz")
    assert set(entry) == {"licence", "stored"} | NEEDS[entry["stored"]] | known
    assert not raw or any(key in other.get("inputs", ()) for other in FILES.values())
    assert all(FILES[other]["stored"] == "identity" for other in entry.get("inputs", ()))


@pytest.mark.parametrize("name", SETS)
def test_data_sets_have_what_their_kind_needs(name):
    entry = SETS[name]
    facts = OF_ALL | (OF_A_TABLE if entry["kind"] == "table" else OF_A_GRAPH)
    assert NAME.fullmatch(name)
    assert set(facts) - OPTIONAL <= set(entry) <= set(facts)
    assert all(facts[fact](value) for fact, value in entry.items())
    assert (entry["reader"] == "table") == (entry["kind"] == "table")
    assert bool(entry["files"]) == (entry["reader"] not in ("networkx", "generated"))
    assert all("sha256" in FILES[key] for key in entry["files"])
    if entry["kind"] == "table":
        assert {entry["target"], *entry["drop"]} <= set(entry["columns"])
