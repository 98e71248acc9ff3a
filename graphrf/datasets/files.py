"""Finding raw files of data sets: a data folder, the cache, or the publisher; with SHA-256.

A file is known by its path inside the data folder, such as `graphs/dolphins.gml`.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import lzma
import os
import stat
import struct
import time
import zipfile
import zlib
from collections.abc import Mapping
from functools import cache, partial
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from graphrf._base.files.atomic import atomic_write
from graphrf._base.progress import progress_bar
from graphrf.datasets.conversions import MOST, converted, san_jose

if TYPE_CHECKING:
    import requests

DATA_VARIABLE = "GRAPHRF_DATA_DIR"
CACHE_VARIABLE = "GRAPHRF_CACHE_DIR"

# Seconds without a byte from the publisher after which a download is given up, and seconds for all
# of it: the largest file takes so long at 7 kB/s. The second bound is checked whenever bytes of the
# content arrive, so it does not stop a server that sends headers or chunk sizes byte by byte.
TIMEOUT, LONGEST = 30, 600
# Addresses that one file may be sent on to, one after the other.
_MOST_REDIRECTS = 10
# A read ends when it has so many bytes: little enough
# that a publisher who sends them one by one is soon seen.
_CHUNK = 64

# Files whose checksums this process has verified: path,
# inode, size, and times of the last change and renaming.
_verified: set[tuple[str, int, int, int, int]] = set()


@cache
def registry() -> dict[str, dict[str, Any]]:
    """The registry as it is shipped: `files` by path and `datasets` by name."""
    text = resources.files("graphrf.datasets").joinpath("registry.json").read_text(encoding="utf-8")
    return json.loads(text)


def cache_folder() -> Path:
    """`GRAPHRF_CACHE_DIR`, or the user's cache folder for graphrf; ValueError without one."""
    folder = _folder(CACHE_VARIABLE)
    if folder is None:
        import platformdirs

        folder = Path(platformdirs.user_cache_dir("graphrf"))
        if not folder.is_absolute():
            raise ValueError(
                f"there is no home folder for the cache; set {CACHE_VARIABLE} to a folder that can "
                "be written to"
            )
    # Without permission to read, writing raises the error.
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise ValueError(
            f"the cache must be a folder, got {folder}, which is none; set {CACHE_VARIABLE} to one"
        )
    return folder


def _folder(variable: str) -> Path | None:
    """The folder that a variable of the environment names, None where it is not set."""
    text = os.environ.get(variable)
    if not text:
        return None
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ValueError(
            f"{variable} must name a folder, got {text!r}, but there is no such home folder; give "
            "the whole path"
        ) from None


def find(key: str) -> Path:
    """The checked file `key`: from `GRAPHRF_DATA_DIR`, else the cache, else fetched into the cache.

    ConnectionError, with the place to put it, if it is not to be had; ValueError for another
    checksum or if `GRAPHRF_DATA_DIR` is no folder; OSError if it cannot be read or stored.
    """
    entry = registry()["files"][key]
    folder = _folder(DATA_VARIABLE)
    if folder is not None:
        if not os.path.isdir(folder):
            raise ValueError(
                f"{DATA_VARIABLE} must name a folder, got {str(folder)!r}, which is none, or "
                "cannot be seen"
            )
        path = _inside(folder, key)
        if verify(path, entry):
            return path
    path = _inside(cache_folder(), key)
    try:
        if verify(path, entry):
            return path
    except (ValueError, OSError):
        pass  # The cache is ours: what is damaged there, or cannot be read, is fetched again.
    for name, content in _made(key, entry, path).items():
        _store(name, _inside(cache_folder(), name), content)
    return path


def _store(key: str, target: Path, content: bytes) -> None:
    way_out = f"set {CACHE_VARIABLE} to a folder that can be written to"
    try:
        with atomic_write(target) as file:
            file.write(content)
    except ValueError:
        raise ValueError(
            f"{key} was fetched, but cannot be stored at {target}, because that, or what it would "
            f"lie in, is not what graphrf has put there; remove it, or {way_out}"
        ) from None
    except OSError as error:
        cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
        raise OSError(
            error.errno,
            f"{key} was fetched, but cannot be stored at {target} ({cause.strerror}); make room "
            f"there, or {way_out}",
        ) from None


def location(keys: list[str]) -> str:
    """Location of all these files, not read: "built in", "data folder", "cache" or "to fetch"."""
    if not keys:
        return "built in"
    for name, place in (("data folder", partial(_folder, DATA_VARIABLE)), ("cache", cache_folder)):
        try:
            folder = place()
            if folder is not None and all(_inside(folder, key).is_file() for key in keys):
                return name
        except (ValueError, OSError):
            pass  # Loading the files raises the error.
    return "to fetch"


def _inside(folder: Path, key: str) -> Path:
    """`folder / key`, refused where it lies outside the folder; links within are the user's own."""
    relative = PurePosixPath(key)
    if (
        relative.is_absolute()
        or ".." in relative.parts
        or set("\\:\0") & set(key)
        or not relative.parts
    ):
        raise ValueError(f"the registry names {key!r}, which does not lie inside the data folder")
    return folder.joinpath(*relative.parts)


# -- checksums -------------------------------------------------------------------------------------


def verify(path: Path, entry: Mapping[str, Any]) -> bool:
    """True if a file exists; ValueError if its checksum is wrong. Read once while unchanged."""
    try:
        facts = path.stat()
        # A change brings a new time of the second kind even where the first one is set back.
        mark = (str(path), facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
        if mark in _verified:
            return True
        if not stat.S_ISREG(facts.st_mode):
            raise ValueError(f"{path} must be a plain file, and is none; remove it")
        content = _read(path, entry)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise OSError(
            error.errno,
            f"{path} cannot be read ({error.strerror}); change its permissions, or set "
            f"{DATA_VARIABLE} to another folder, or to none",
        ) from None
    _check(content, entry, str(path), _AGAIN)
    _verified.add(mark)
    return True


def forget_verified() -> None:
    """Read files again when they are asked for, though nothing tells that they have changed."""
    _verified.clear()


_AGAIN = "remove it, or fetch it again from its publisher"


def _read(path: Path, entry: Mapping[str, Any]) -> bytes:
    """The bytes of a stored file; ValueError, with no more read, where it is too long."""
    # Compressed by another version of zlib it may be longer.
    most = MOST if "content_sha256" in entry else entry.get("size", MOST)
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(
            f"{path} has more than {most:,} bytes: it is damaged or another file; {_AGAIN}"
        )
    return content


def _check(content: bytes, entry: Mapping[str, Any], what: str, way_out: str) -> None:
    wanted = entry.get("sha256")
    found = hashlib.sha256(content).hexdigest()
    if wanted is None or found == wanted:
        return
    if "content_sha256" in entry:
        # Another version of zlib compresses to other bytes; what counts is what they hold.
        try:
            found, wanted = _content_digest(content), entry["content_sha256"]
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{what} is not a whole gzip file ({error}); {way_out}") from None
        if found == wanted:
            return
        what += " decompressed,"
    raise ValueError(
        f"{what} has SHA-256 {found}, wanted {wanted}: it is damaged or another file; {way_out}"
    )


def _content_digest(content: bytes) -> str:
    """SHA-256 of what a gzip file holds, of which no more than a piece is ever in memory."""
    digest, size = hashlib.sha256(), 0
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        while piece := file.read(2**18):
            size += len(piece)
            if size > MOST:
                raise OSError(f"it holds more than {MOST:,} bytes")
            digest.update(piece)
    return digest.hexdigest()


# -- fetching --------------------------------------------------------------------------------------


# Errors that damaged archives and tables cause in their readers; zipfile raises RuntimeError for
# header bits that stand for encryption and other methods.
_FAULTS = (
    *(ValueError, LookupError, TypeError, ArithmeticError, EOFError, OSError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, csv.Error),
)


def _made(key: str, entry: Mapping[str, Any], target: Path) -> dict[str, bytes]:
    """The bytes to store as `key`, and of files made with it, from what is published; checked."""
    if entry["stored"] == "san_jose":
        inputs = {PurePosixPath(name).name: _input(name) for name in entry["inputs"]}
        what = f"made from {', '.join(inputs)},"
        convert = partial(san_jose, inputs)
    else:
        fetched = _fetched(key, entry, target)
        what = f"fetched from {entry['url']},"
        convert = partial(converted, fetched, entry, PurePosixPath(key).name)
    try:
        contents = convert()
    except _FAULTS as error:
        raise ValueError(
            f"{key}, {what} is not what was published ({error}); try again later, or "
            f"{_by_hand(key, target)}"
        ) from None
    made = {str(PurePosixPath(key).parent / name): content for name, content in contents.items()}
    for name, content in made.items():
        way_out = f"nothing was stored; {_by_hand(name, target.parent / PurePosixPath(name).name)}"
        _check(content, registry()["files"][name], f"{name}, {what}", way_out)
    return made


def _input(key: str) -> bytes:
    """A published file that others are made from."""
    entry = registry()["files"][key]
    if "sha256" in entry:
        return find(key).read_bytes()
    # Without a checksum of its own it is used once and never
    # stored: only what is made from it can be checked.
    target = _inside(cache_folder(), key)
    folder = _folder(DATA_VARIABLE)
    for path in ([_inside(folder, key)] if folder is not None else []) + [target]:
        if path.is_file():
            return _read(path, entry)
    return _fetched(key, entry, target)


def _fetched(key: str, entry: Mapping[str, Any], target: Path) -> bytes:
    """The published bytes. They stay in memory, bounded, so that nothing half-written stays."""
    import requests
    import urllib3

    url, received, started = entry["url"], io.BytesIO(), time.monotonic()
    most = entry.get("size", MOST) if entry["stored"] == "identity" else MOST

    try:
        with requests.Session() as session, _answer(session, url) as response:
            response.raise_for_status()
            coding = response.headers.get("Content-Encoding", "identity")
            if coding.lower() != "identity":
                raise ValueError(
                    f"it was sent in the encoding {coding[:60]!r}, which was not asked for"
                )

            total = response.headers.get("Content-Length", "")
            n_bytes = int(total) if total.isdecimal() else None
            with progress_bar(key, None, total=n_bytes, unit="B") as bar:
                for chunk in response.raw.stream(_CHUNK, decode_content=False):
                    bar.update(received.write(chunk))
                    if received.tell() > most:
                        break
                    if time.monotonic() - started > LONGEST:
                        raise TimeoutError(f"it took more than {LONGEST} seconds")
    # Addresses that a publisher sends us on to can be such that their parsers raise ValueError.
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise ConnectionError(
            f"{key} is not on this machine and could not be fetched from {url} "
            f"({type(error).__name__}: {error}); {_by_hand(key, target)}"
        ) from None

    if received.tell() > most:
        raise ValueError(
            f"{key}, fetched from {url}, has more than {most:,} bytes: it is not what was "
            f"published; nothing was stored; {_by_hand(key, target)}"
        )
    return received.getvalue()


def _answer(session: requests.Session, url: str) -> requests.Response:
    """The response from an address, after redirects, whose content requests would read whole."""
    import requests

    session.get_redirect_target = lambda resp: None  # type: ignore[method-assign]
    for _ in range(_MOST_REDIRECTS):
        # Content compressed in transfer can be larger than the bytes received.
        response = session.get(
            url, stream=True, timeout=TIMEOUT, headers={"Accept-Encoding": "identity"}
        )
        if not response.is_redirect:
            return response
        response.close()
        url = urljoin(url, response.headers["Location"])
    raise requests.TooManyRedirects(f"it was sent on more than {_MOST_REDIRECTS} times")


def _by_hand(key: str, target: Path) -> str:
    return f"set {DATA_VARIABLE} to a folder that holds {key}, or put that file at {target}"
