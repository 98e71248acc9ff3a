"""Small and large harm to good input: bytes, JSON and arrays, by a seeded generator."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np

# Stands in JSON values for text that `json.dumps` does not write; see `json_text`.
_MARK = "\N{REPLACEMENT CHARACTER}raw"
_RAW = (
    *(
        "NaN",
        "Infinity",
        "-Infinity",
        "1e999",
        "-0.0",
        "5e-324",
        "1E-400",
        '"\\ud800"',
        '"\\u0000"',
        "]",
        '"',
    ),
    *("9" * 100_000, "[" * 100_000, "[" * 400 + "]" * 400, '{"a": ' * 50_000, '{"a": 1, "a": 2}'),
)
VALUES = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        7,
        255,
        65_535,
        65_536,
        10**6,
        2**31,
        2**31 - 1,
        2**53 + 1,
        2**63,
        2**64,
        2**70,
    ),
    *(0.0, -1.0, 0.5, 1.0, 1.5, 1e-300, 1e300, -1e300, 1e-12, 1e12, 0.1),
    *(
        "",
        "x",
        "0",
        "nan",
        "1e999999999",
        "../../x",
        "a\0b",
        "https://example.org/x",
        "é" * 50,
        "float64",
    ),
    *(
        [],
        {},
        [[]],
        [0],
        [0, 1],
        [1, 0],
        [0.5],
        ["x"],
        [None],
        {"": 0},
        {"class": "eval", "arguments": {}},
    ),
)


def mutated_bytes(data: bytes, rng: random.Random) -> bytes:
    """The bytes with one to three changes: bits, cuts, repeats, runs of one byte, insertions."""
    content = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at, size = rng.randrange(len(content) + 1), rng.choice((1, 1, 2, 4, 8, 64))
        kind = rng.randrange(6)
        if kind <= 1 and content:
            content[min(at, len(content) - 1)] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del content[at : at + size]
        elif kind == 3:
            content[at:at] = rng.randbytes(size)
        elif kind == 4:
            content[at : at + size] = bytes([rng.choice((0, 1, 255))]) * len(
                content[at : at + size]
            )
        else:
            content = content[:at] if rng.random() < 0.5 else content + content[at : at + 64]
    return bytes(content)


def mutated_json(value: Any, rng: random.Random) -> Any:
    """A copy of a JSON value with one to three changes: other kinds, keys gone or new."""
    value = json.loads(json.dumps(value))
    for _ in range(rng.choice((1, 1, 2, 3))):
        holders = list(_holders(value))
        if not holders or rng.random() < 0.02:
            value = _new(rng)
            continue
        holder = rng.choice(holders)
        # Small parts of the whole are hit as often as large ones.
        key = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        kind = rng.randrange(8)
        if kind == 0:
            del holder[key]
        elif kind == 1 and isinstance(holder, dict):
            holder[key + "x" if rng.random() < 0.5 else rng.choice(("", "class", "size"))] = (
                holder.pop(key)
            )
        elif kind == 1:
            holder.append(holder[key])
        elif kind == 2 and isinstance(holder, dict):
            holder["new"] = _new(rng)
        elif kind == 2:
            rng.shuffle(holder)
        elif kind == 3 and isinstance(holder[key], int | float):
            holder[key] = rng.choice(
                (holder[key] + 1, holder[key] - 1, -holder[key], holder[key] / 3, holder[key] * 9)
            )
        elif kind == 4:
            holder[key] = rng.choice(([holder[key]], {"x": holder[key]}, str(holder[key])))
        else:
            holder[key] = _new(rng)
    return value


def json_text(value: Any) -> str:
    """The value as text, with what the mutations put in that JSON does not know."""
    text = json.dumps(value)
    for number, raw in enumerate(_RAW):
        text = text.replace(json.dumps(f"{_MARK}{number};"), raw)
    return text


def mutated_arrays(arrays: dict[str, np.ndarray], rng: random.Random) -> dict[str, np.ndarray]:
    """The arrays with one to three changes: values, types, shapes, order, names."""
    arrays = {name: array.copy() for name, array in arrays.items()}
    for _ in range(rng.choice((1, 1, 2, 3))):
        if not arrays:
            break
        name, other = rng.choice(list(arrays)), rng.choice(list(arrays))
        kind = rng.randrange(12)
        if kind == 0:
            del arrays[name]
        elif kind == 1:
            arrays["new" if rng.random() < 0.5 else other] = arrays[name]
        elif kind == 2:
            arrays[name] = _of_another_type(arrays[name], rng)
        elif kind == 3:
            arrays[name] = _of_another_shape(arrays[name], rng)
        elif kind == 4:
            arrays[name] = _in_another_order(arrays[name], rng)
        else:
            arrays[name] = _with_other_values(arrays[name], rng)
    return arrays


def _new(rng: random.Random) -> Any:
    if rng.random() < 0.15:
        return f"{_MARK}{rng.randrange(len(_RAW))};"
    return json.loads(json.dumps(rng.choice(VALUES)))


def _holders(value: Any) -> list[Any]:
    found = []
    if isinstance(value, dict | list) and value:
        found.append(value)
        for part in value.values() if isinstance(value, dict) else value:
            found += _holders(part)
    return found


def _of_another_type(array: np.ndarray, rng: random.Random) -> np.ndarray:
    if array.dtype.kind in "cSU":
        return array
    kinds = (
        "?",
        "i1",
        "u1",
        "i2",
        "u2",
        "i4",
        ">i4",
        "u4",
        "i8",
        ">i8",
        "u8",
        "f2",
        "f4",
        ">f4",
        "f8",
        ">f8",
        "c16",
    )
    with np.errstate(all="ignore"):
        return array.astype(rng.choice((*kinds, "S3", "U3")), casting="unsafe")


def _of_another_shape(array: np.ndarray, rng: random.Random) -> np.ndarray:
    flat = array.ravel()
    return rng.choice(
        (
            *(flat[:0], flat[:1], flat[:-1], flat[1:], flat[::2], np.append(flat, flat)),
            *(
                np.zeros((), flat.dtype),
                flat[None],
                flat[:, None],
                np.asfortranarray(np.stack([flat, flat])),
            ),
        )
    )


def _in_another_order(array: np.ndarray, rng: random.Random) -> np.ndarray:
    flat = array.ravel()
    orders = (
        flat[::-1],
        np.sort(flat),
        np.roll(flat, 1),
        np.array(rng.sample(flat.tolist(), flat.size), flat.dtype),
    )
    return rng.choice(orders).reshape(array.shape)


def _with_other_values(array: np.ndarray, rng: random.Random) -> np.ndarray:
    if not array.size or array.dtype.kind not in "iufb":
        return array
    flat = array.ravel().copy()
    at = rng.randrange(flat.size)
    whole = (
        0,
        1,
        2,
        -1,
        7,
        8,
        100,
        255,
        32_767,
        65_535,
        2**31 - 1,
        -(2**31),
        2**62,
        2**63 - 1,
        -(2**63),
    )
    broken = (
        float("nan"),
        float("inf"),
        -float("inf"),
        5e-324,
        1e-30,
        0.5,
        1e30,
        1.7e308,
        -0.5,
        1 + 1e-9,
    )
    choices = whole + broken if flat.dtype.kind == "f" else whole
    with np.errstate(all="ignore"):
        new = np.array(rng.choice(choices)).astype(flat.dtype)
        kind = rng.randrange(5)
        if kind == 0:
            flat[:] = new
        elif kind == 1:
            flat[at] = flat[rng.randrange(flat.size)]
        elif kind == 2:
            flat[at] = flat[at] + flat.dtype.type(1)
        elif kind == 3:
            flat[at] = flat[at] ^ True if flat.dtype.kind == "b" else flat[at] - flat.dtype.type(1)
        else:
            flat[at] = new
    return flat.reshape(array.shape)
