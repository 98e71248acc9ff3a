"""Archives of plain arrays, .npz, written without pickle, read without trust in their headers."""

from __future__ import annotations

import math
import re
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, Literal, NamedTuple

import numpy as np

from graphrf._base.memory import NoRoomError

# Bytes read at once, enough for the table of contents of an archive of a few hundred arrays.
_PIECE = 2**17
# Deflate writes 258 bytes with two bits at best; a larger declared ratio is false.
_DEFLATE_RATIO = 1032
_NAME = re.compile(r"\w[\w-]*\.npy", re.ASCII)
# NumPy writes version 1.0 for all types but long records; 2.0 and 3.0 have four bytes for the
# header's length.
_MAGICS = {b"\x93NUMPY\x01\x00": 2, b"\x93NUMPY\x02\x00": 4, b"\x93NUMPY\x03\x00": 4}
# Python 2 wrote L after long integers.
_HEADER = re.compile(
    rb"\{\s*'descr':\s*'([<>|=][biufcSU][1-9]\d{0,8})',\s*'fortran_order':\s*(True|False),"
    rb"\s*'shape':\s*\(((?:\d{1,18}L?,\s*){0,8}(?:\d{1,18}L?)?)\),?\s*\}\s*"
)
_FAULTS = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError),
    # zipfile raises these for bits that stand for
    # encryption, and for methods that it does not know.
    *(RuntimeError, NotImplementedError, OverflowError, LookupError, TypeError, AttributeError),
)


class _Pieces:
    """A file that returns at most `_PIECE` bytes a read; larger reads come from false sizes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size if 0 <= size <= _PIECE else _PIECE + 1)
        if len(data) > _PIECE:
            raise ValueError("its table of contents is longer than that of any record")
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        try:
            return self._file.seek(offset, whence)
        except (OSError, OverflowError, ValueError):
            raise ValueError("it points to a place outside the file") from None

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True


def write_arrays(
    file: IO[bytes], arrays: Mapping[str, np.ndarray], *, compressed: bool = False
) -> None:
    """Write arrays as numpy.savez does; ValueError for those of objects, which it may pickle."""
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def read_arrays(
    file: IO[bytes], limit: int, names: Collection[str] | None = None
) -> dict[str, np.ndarray]:
    """The arrays of an .npz archive by name, checked against their headers, in native byte order.

    Accepted are members NAME.npy, stored or deflated, each an array of numbers, booleans or text;
    with `names` only these are read, else nothing else may be there. ValueError for any fault,
    MemoryError for arrays of more than `limit` bytes, both before anything is allocated. Reading
    takes about 1 MB beside the arrays.
    """
    with _archive(file) as archive:
        members = archive.infolist()
        if names is not None:
            members = [
                member for member in members if member.filename.removesuffix(".npy") in names
            ]
        _check_members(members)
        total = sum(member.file_size for member in members)
        if total > limit:
            raise NoRoomError(
                f"its arrays take {total / 2**20:,.1f} MiB, and {limit / 2**20:,.1f} MiB are "
                "allowed"
            )
        return {member.filename.removesuffix(".npy"): _array(archive, member) for member in members}


def array_names(file: IO[bytes]) -> list[str]:
    """Names of the arrays of an .npz archive, within about 1 MB; ValueError for any fault."""
    with _archive(file) as archive:
        return [member.filename.removesuffix(".npy") for member in archive.infolist()]


@contextmanager
def _archive(file: IO[bytes]) -> Iterator[zipfile.ZipFile]:
    """The archive, once its table of contents is short and fits; ValueError for any fault."""
    size = file.seek(0, 2)
    file.seek(0)
    try:
        with zipfile.ZipFile(_Pieces(file)) as archive:
            _check_contents(archive.infolist(), size)
            yield archive
    except _FAULTS as error:
        raise ValueError(
            f"it is not an .npz archive, or not a whole one: {str(error)[:200]}"
        ) from None


class Header(NamedTuple):
    """Header of an .npy file: type, shape and order of its array, and the offset of its data."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: Literal["C", "F"]
    offset: int


def read_header(stream: IO[bytes]) -> Header | None:
    """The header of an .npy file of numbers, booleans or text; None for others."""
    width = _MAGICS.get(stream.read(8), 0)
    length = int.from_bytes(stream.read(width), "little")
    found = _HEADER.fullmatch(stream.read(length)) if width and length < 2**16 else None
    if found is None:
        return None
    try:
        dtype = np.dtype(found[1].decode())
    except (TypeError, ValueError):  # floats of 9 bytes
        return None
    shape = tuple(int(axis) for axis in re.findall(rb"\d+", found[3]))
    return Header(dtype, shape, "F" if found[2] == b"True" else "C", 8 + width + length)


def _check_contents(members: list[zipfile.ZipInfo], size: int) -> None:
    """Raise if an archive of `size` bytes cannot hold all these members."""
    names = [member.orig_filename for member in members]
    if len(set(names)) != len(names):
        raise ValueError("it has two members of one name")
    if sum(member.compress_size for member in members) > size:
        raise ValueError("its members overlap, or declare more bytes than the file has")


def _check_members(members: list[zipfile.ZipInfo]) -> None:
    """Raise where the name, method or size of a member is not that of an array that is read."""
    for member in members:
        name = member.orig_filename
        if not _NAME.fullmatch(name) or member.filename != name:
            raise ValueError(f"its member {name[:60]!r} is not named as an array, NAME.npy")
        if member.flag_bits & 0x1:
            raise ValueError(f"its member {name[:60]!r} is encrypted")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"its member {name[:60]!r} is neither stored nor deflated")
        ratio = 1 if member.compress_type == zipfile.ZIP_STORED else _DEFLATE_RATIO
        if member.file_size > ratio * member.compress_size:
            raise ValueError(f"its member {name[:60]!r} declares more bytes than it can hold")


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """The array of one member, once its header agrees with its size."""
    name = member.filename[:60]
    with archive.open(member) as stream:
        header = read_header(stream)
        if header is None:
            raise ValueError(
                f"its member {name!r} has no header of a plain array (.npy without objects)"
            )

        dtype, shape, order, offset = header
        n_bytes = math.prod(shape) * dtype.itemsize
        if offset + n_bytes != member.file_size:
            raise ValueError(
                f"its member {name!r} has another size than the shape {shape} of {dtype} in its "
                "header"
            )

        # The checksum is compared when all the bytes are
        # read that the member declares, which are these.
        data = np.empty(n_bytes, np.uint8)
        filled = 0
        while filled < n_bytes:
            piece = stream.read(min(_PIECE, n_bytes - filled))
            if not piece:
                raise ValueError(f"its member {name!r} ends early")
            data[filled : filled + len(piece)] = np.frombuffer(piece, np.uint8)
            filled += len(piece)

    if dtype.kind == "b" and data.size and data.max() > 1:
        raise ValueError(f"its member {name!r} holds bytes that are not booleans")
    array = data.view(dtype)
    if not dtype.isnative:
        array = array.byteswap(inplace=True).view(dtype.newbyteorder())
    if dtype.kind == "U" and array.size and array.view(np.uint32).max() > 0x10FFFF:
        raise ValueError(f"its member {name!r} holds numbers that are not characters")
    return array.reshape(shape, order=order)
