"""The registry of data sets as text, and what is checked in it before a byte is fetched or written."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from graphrf._base.files.json_text import is_integer, parsed

Check = Callable[[Any], bool]

# A path that means the same on every system, without a way out of the folder and without hidden names.
_PATH = re.compile(r"(?:\w[\w.+-]*/)*\w[\w.+-]*", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}")
_URL = re.compile(r"https://[\w.-]+(?::\d{1,5})?/[\w./%~+-]+", re.ASCII)
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LARGEST_FILE = 2**30

_KINDS = ("graph", "mesh", "traffic", "large", "table", "generated")
_READERS = (
    *("networkx", "gml", "cites", "mesh", "san_jose", "pems_bay", "metr_la", "labelled_edges", "edges", "cedge"),
    *("table", "generated"),
)


def _text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 2000 and value.isprintable()


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value)) and len(set(value)) == len(value)


def _size(value: Any) -> bool:
    return is_integer(value, low=1, high=_LARGEST_FILE)


def _matching(pattern: re.Pattern[str]) -> Check:
    return lambda value: isinstance(value, str) and len(value) <= 500 and pattern.fullmatch(value) is not None


def _among(*options: Any) -> Check:
    return lambda value: any(type(value) is type(option) and value == option for option in options)


_is_path, _is_name = _matching(_PATH), _matching(_NAME)
_FILE: dict[str, Check] = {
    "licence": _text,
    "stored": _among("identity", "gzip", "member", "columns", "san_jose"),
    "sha256": _matching(_DIGEST),
    "content_sha256": _matching(_DIGEST),
    "size": _size,
    "url": _matching(_URL),
    "member": _is_path,
    "columns": _texts,
    "inputs": lambda value: _texts(value) and bool(value),
}
# What each way of storing needs, beside a licence and mostly a checksum and a size.
_NEEDS = {
    "identity": {"url"},
    "gzip": {"url", "content_sha256"},
    "member": {"url", "member"},
    "columns": {"url", "columns", "content_sha256"},
    "san_jose": {"inputs"},
}
_GRAPH: dict[str, Check] = {"nodes": _size, "edges": _size, "weight": _text}
_TABLE: dict[str, Check] = {
    "rows": _size,
    "columns": _texts,
    "target": _text,
    "task": _among("regression", "classification"),
    "drop": _texts,
    "delimiter": _among(None, "\t", ",", ";"),
    "header": _among(True, False),
}
_DATA_SET: dict[str, Check] = {
    "kind": _among(*_KINDS),
    "description": _text,
    "reader": _among(*_READERS),
    "files": _texts,
    "citation": _text,
    "notes": _texts,
}
_OPTIONAL = {"citation", "notes", "weight", "delimiter", "header"}


def parsed_registry(text: str) -> dict[str, dict[str, Any]]:
    """The registry of a JSON text: `files` by path and `datasets` by name, every entry checked.

    ValueError, with the name of the entry, for an unknown or missing key, a path that could leave its folder, a
    URL that is not https, a digest that is none, and files or inputs that the registry does not have.
    """
    try:
        registry = parsed(text)
    except ValueError as error:
        raise ValueError(f"the registry of data sets is no JSON ({error})") from None
    if not isinstance(registry, dict) or set(registry) != {"files", "datasets"}:
        raise ValueError("the registry of data sets must have `files` and `datasets`, and nothing else")
    if not all(isinstance(entries, dict) for entries in registry.values()):
        raise ValueError("the registry of data sets must have its files and data sets by name")
    files, sets = registry["files"], registry["datasets"]
    inputs = {str(name) for entry in files.values() for name in _inputs(entry)}
    for key, entry in files.items():
        if not _is_path(key):
            raise ValueError(f"the registry names {key!r:.200}, which does not lie inside the data folder")
        _check_file(key, entry, files, inputs)
    for name, entry in sets.items():
        if not _is_name(name):
            raise ValueError(f"the registry has a data set {name!r:.200}: names are made of a-z, 0-9 and hyphens")
        _check_data_set(name, entry, files)
    return {"files": files, "datasets": sets}


def _check_file(key: str, entry: Any, files: Mapping[str, Any], inputs: set[str]) -> None:
    _check_keys(key, entry, _FILE, set(_FILE) - {"licence", "stored"})
    needed = _NEEDS[entry["stored"]]
    # What is only made into other files has no checksum; the files that are made have.
    known = {"sha256", "size"} if "sha256" in entry or entry["stored"] != "identity" else set()
    if set(entry) != {"licence", "stored"} | needed | known:
        wanted = ", ".join(sorted({"licence", "stored"} | needed | known))
        raise ValueError(
            f"the registry's entry {key!r} must have the keys {wanted}, got {', '.join(sorted(entry))}"
        )
    if not known and key not in inputs:
        raise ValueError(f"the registry's entry {key!r} must have a checksum: no other file is made from it")
    for other in entry.get("inputs", ()):
        if not isinstance(files.get(other), dict) or files[other].get("stored") != "identity":
            raise ValueError(
                f"the registry's entry {key!r} is made from {other!r:.200}, which is no published file"
            )


def _inputs(entry: Any) -> list[Any]:
    found = entry.get("inputs") if isinstance(entry, dict) else None
    return found if isinstance(found, list) else []


def _check_data_set(name: str, entry: Any, files: Mapping[str, Any]) -> None:
    facts = _TABLE if isinstance(entry, dict) and entry.get("kind") == "table" else _GRAPH
    _check_keys(name, entry, _DATA_SET | facts, _OPTIONAL)
    if (entry["reader"] == "table") != (entry["kind"] == "table"):
        raise ValueError(f"the registry's entry {name!r} must have the reader 'table' if it is one, and no other")
    if bool(entry["files"]) == (entry["reader"] in ("networkx", "generated")):
        raise ValueError(f"the registry's entry {name!r} must have files, unless it is built in")
    for key in entry["files"]:
        if key not in files or "sha256" not in files[key]:
            raise ValueError(f"the registry's entry {name!r} has the file {key!r:.200}, which is not registered")
    if facts is _TABLE and not {entry["target"], *entry["drop"]} <= set(entry["columns"]):
        raise ValueError(f"the registry's entry {name!r} must have its target and what it drops among its columns")


def _check_keys(name: str, entry: Any, known: Mapping[str, Check], optional: set[str]) -> None:
    """Raise unless an entry has the known keys and no others, each with a value of its kind."""
    if not isinstance(entry, dict):
        raise ValueError(f"the registry's entry {name!r} must be an object")
    strange, missing = set(entry) - set(known), set(known) - set(entry) - optional
    if strange or missing:
        problem = f"unknown {sorted(strange)[0]!r:.200}" if strange else f"no {sorted(missing)[0]!r}"
        raise ValueError(f"the registry's entry {name!r} has {problem}")
    for key, value in entry.items():
        if not known[key](value):
            raise ValueError(f"the registry's entry {name!r} has a wrong {key!r}: {value!r:.200}")
