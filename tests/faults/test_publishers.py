"""Publishers that cut connections, stall or send something else: messages, and what is stored."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import socket
import struct
import subprocess
import sys
import textwrap
import time
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from graphrf.datasets import files as data_files
from tests.support.bounds import within
from tests.support.publisher import Publisher, sends

CONTENT = bytes(range(256)) * 40
TABLE = b"id,name,type\n" + b"1,a,b\n" * 50
SMALL_MOST = 200_000


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    server = Publisher()
    yield server
    server.stop()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def zipped(name: str, content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return file.getvalue()


GOOD = {
    "plain": CONTENT,
    "sized": CONTENT,
    "zip": zipped("folder/member", CONTENT),
    "gzip": CONTENT,
    "columns": TABLE,
}


@pytest.fixture
def files(monkeypatch, tmp_path, publisher) -> dict:
    """A registry of a file of each way to store it, an empty cache; no bound on time."""
    other_gzip = {"sha256": "0" * 64, "licence": "-"}
    known = {"sha256": sha256(CONTENT), "licence": "-"}
    selected = b"id,type\n" + b"1,b\n" * 50
    entries = {
        "plain": {**known, "stored": "identity"},
        "sized": {**known, "stored": "identity", "size": len(CONTENT)},
        "zip": {**known, "stored": "member", "member": "folder/member"},
        "gzip": {**other_gzip, "stored": "gzip", "content_sha256": sha256(CONTENT)},
        "columns": {
            **other_gzip,
            "stored": "columns",
            "columns": ["id", "type"],
            "content_sha256": sha256(selected),
        },
    }
    for key, entry in entries.items():
        entry["url"] = f"{publisher.url}/{key}"
        publisher.answers[f"/{key}"] = sends(GOOD[key])
    monkeypatch.setattr(data_files, "registry", lambda: {"files": entries})
    data_files.forget_verified()
    monkeypatch.setattr(data_files, "TIMEOUT", 60.0)
    monkeypatch.setattr(data_files, "LONGEST", 60.0)
    monkeypatch.setattr(data_files, "MOST", SMALL_MOST)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("GRAPHRF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("GRAPHRF_DATA_DIR", raising=False)
    return entries


def stored(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if not path.is_dir()]


# -- connections -----------------------------------------------------------------------------------


def cut(request: BaseHTTPRequestHandler) -> None:
    sends(CONTENT[:5000], length=len(CONTENT))(request)


def reset(request: BaseHTTPRequestHandler) -> None:
    cut(request)
    request.wfile.flush()
    request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.connection.close()


def stalls_in_the_middle(request: BaseHTTPRequestHandler) -> None:
    cut(request)
    request.wfile.flush()
    time.sleep(0.6)


def drips(request: BaseHTTPRequestHandler) -> None:
    sends(b"", length=len(CONTENT))(request)
    for byte in CONTENT:
        request.wfile.write(bytes([byte]))
        time.sleep(0.02)


def no_http(request: BaseHTTPRequestHandler) -> None:
    request.wfile.write(b"\0\xff" * 100 + b"\r\n\r\n")


def redirects(place: str) -> Callable[[BaseHTTPRequestHandler], None]:
    return sends(b"", ("Location", place), code=302)


def endless_redirect(request: BaseHTTPRequestHandler) -> None:
    """To the right file, if all of an endless content is read before."""
    request.send_response(302)
    request.send_header("Location", "/endless_redirect")
    request.end_headers()
    while True:
        request.wfile.write(bytes(65536))


CONNECTIONS = {
    "cut": cut,
    "reset": reset,
    "stalls in the middle": stalls_in_the_middle,
    "drips": drips,
    "no HTTP": no_http,
    "a wrong length": sends(b"", length=-1),
    "404": sends(b"<html>", code=404),
    "a loop": redirects("/plain"),
    "no place": redirects("http://["),
    "a file": redirects("file:///etc/passwd"),
    "a long name": redirects(f"http://{'a' * 300}.invalid/"),
    "gzip that was not asked for": sends(gzip.compress(CONTENT), ("Content-Encoding", "gzip")),
    "a redirect without end": endless_redirect,
}


# Only these meet the bounds on time: a good answer may be late where the machine is busy.
SLOW = ("stalls in the middle", "drips")


@pytest.mark.parametrize("fault", CONNECTIONS)
def test_a_publisher_who_fails_leaves_nothing_and_the_next_call_recovers(
    files, publisher, tmp_path, monkeypatch, fault
):
    for key in ("plain", "gzip"):
        publisher.answers[f"/{key}"] = CONNECTIONS[fault]
        publisher.answers["/plain"] = CONNECTIONS[fault]
        with monkeypatch.context() as patch:
            if fault in SLOW:
                patch.setattr(data_files, "TIMEOUT", 0.3)
                patch.setattr(data_files, "LONGEST", 1.0)
            with within(30, 2000), pytest.raises((ConnectionError, ValueError)) as caught:
                data_files.find(key)
        assert str(tmp_path / "cache" / key) in str(caught.value)
        assert "GRAPHRF_DATA_DIR" in str(caught.value)
        if fault != "a wrong length":  # nothing then, which is not what was published
            assert isinstance(caught.value, ConnectionError)
        assert stored(tmp_path) == []
        publisher.answers[f"/{key}"] = sends(GOOD[key])
        assert data_files.find(key).is_file()
        (tmp_path / "cache" / key).unlink()


# -- contents --------------------------------------------------------------------------------------


def endless(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    while True:
        request.wfile.write(bytes(65536))


def empty_members(request: BaseHTTPRequestHandler) -> None:
    """Of what is decompressed nothing comes, ever."""
    request.send_response(200)
    request.send_header("Content-Encoding", "gzip")
    request.end_headers()
    while True:
        request.wfile.write(gzip.compress(b"") * 100)


def bomb(size: int) -> bytes:
    return gzip.compress(bytes(size), mtime=0)


def encrypted(archive: bytes) -> bytes:
    """With the bit that says so, in both headers."""
    changed = bytearray(archive)
    changed[6] |= 1
    changed[archive.index(b"PK\x01\x02") + 8] |= 1
    return bytes(changed)


def with_method(archive: bytes, method: int) -> bytes:
    changed = bytearray(archive)
    at = archive.index(b"PK\x01\x02")
    changed[8] = changed[at + 10] = method
    return bytes(changed)


def lying(archive: bytes, size: int) -> bytes:
    """With another size of what the member holds."""
    changed = bytearray(archive)
    at = archive.index(b"PK\x01\x02")
    changed[22:26] = changed[at + 24 : at + 28] = struct.pack("<I", size)
    return bytes(changed)


PAGE = sends(b"<html>not found</html>")
TOO_MUCH = r"has more than [0-9,]+ bytes"
ENCODED = r"could not be fetched .*sent in the encoding 'gzip.*', which was not asked for"
OTHER = "is not what was published|has SHA-256|is not a whole gzip file"
CONTENTS = {
    "endless": ("plain", endless, TOO_MUCH),
    "longer than its size": ("sized", sends(CONTENT + b"x"), TOO_MUCH),
    "bomb in transfer": ("plain", sends(bomb(50_000_000), ("Content-Encoding", "gzip")), ENCODED),
    "empty gzip without end": ("plain", empty_members, ENCODED),
    "bomb in an archive": ("zip", sends(zipped("folder/member", bytes(50_000_000))), TOO_MUCH),
    "page for gzip": ("gzip", PAGE, OTHER),
    "page for an archive": ("zip", PAGE, OTHER),
    "page for a table": ("columns", PAGE, OTHER),
    "nothing": ("plain", sends(b""), OTHER),
    "no text": ("columns", sends(b"\xff\xfe\x00"), OTHER),
    "short rows": ("columns", sends(b"id,name,type\n1\n"), OTHER),
    "a cell without end": ("columns", sends(b'id,name,type\n"' + b"x" * 150_000), OTHER),
    "another member": ("zip", sends(zipped("other", CONTENT)), OTHER),
    "a member outside": ("zip", sends(zipped("../../folder/member", CONTENT)), OTHER),
    "an encrypted member": ("zip", sends(encrypted(GOOD["zip"])), OTHER),
    "an unknown method": ("zip", sends(with_method(GOOD["zip"], 99)), OTHER),
    "a lying size": ("zip", sends(lying(GOOD["zip"], 10)), OTHER),
    "half an archive": ("zip", sends(GOOD["zip"][:100] + GOOD["zip"][-60:]), OTHER),
}


def test_a_file_that_has_moved_is_fetched_from_where_it_is(files, publisher):
    asked = []

    def moved(request: BaseHTTPRequestHandler) -> None:
        asked.append(request.headers["Accept-Encoding"])
        sends(b"moved", ("Location", "../there?a=1"), code=301)(request)

    publisher.answers["/plain"] = moved
    publisher.answers["/there?a=1"] = redirects(f"{publisher.url}/last")
    publisher.answers["/last"] = sends(CONTENT, ("Content-Encoding", "identity"))
    assert data_files.find("plain").read_bytes() == CONTENT
    assert asked == ["identity"]


def chunks(request: BaseHTTPRequestHandler) -> None:
    """HTTP/1.1 without a length."""
    request.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for start in range(0, len(CONTENT), 1000):
        piece = CONTENT[start : start + 1000]
        request.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
    request.wfile.write(b"0\r\n\r\n")


def test_contents_in_chunks_are_whole(files, publisher):
    publisher.answers["/plain"] = chunks
    assert data_files.find("plain").read_bytes() == CONTENT


@pytest.mark.parametrize("case", CONTENTS)
def test_another_content_is_refused_within_bounds_and_the_next_call_recovers(
    files, publisher, tmp_path, case
):
    key, answer, message = CONTENTS[case]
    publisher.answers[f"/{key}"] = answer
    with within(30, 2000), pytest.raises((ValueError, ConnectionError), match=message) as caught:
        data_files.find(key)
    assert str(tmp_path / "cache" / key) in str(caught.value)
    assert "GRAPHRF_DATA_DIR" in str(caught.value)
    assert stored(tmp_path) == []
    publisher.answers[f"/{key}"] = sends(GOOD[key])
    assert data_files.find(key).is_file()


def test_any_flipped_bit_of_what_is_sent_or_stored_is_noticed(files, publisher, tmp_path):
    good = {key: data_files.find(key).read_bytes() for key in ("sized", "gzip", "zip")}
    for key, content in good.items():
        path = tmp_path / "cache" / key
        for position in range(0, len(content), max(len(content) // 20, 1)):
            damaged = bytearray(content)
            damaged[position] ^= 1 << position % 8
            times = path.stat()
            path.write_bytes(damaged)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # as if nothing had happened
            asked = publisher.asked[f"/{key}"]
            found = data_files.find(key).read_bytes()
            # A bit of a gzip header may be another one: what counts is what the file holds.
            same = key == "gzip" and found == bytes(damaged) and gzip.decompress(found) == CONTENT
            assert found == content or same
            assert publisher.asked[f"/{key}"] == asked + (not same)
        for end in (0, 1, len(content) // 2, len(content) - 1):
            path.write_bytes(content[:end])
            assert data_files.find(key).read_bytes() == content
        path.write_bytes(content * 2)
        assert data_files.find(key).read_bytes() == content or key == "gzip"


def test_files_and_bombs_in_the_cache_are_read_within_bounds(files, publisher, tmp_path):
    path = tmp_path / "cache" / "gzip"
    path.parent.mkdir()
    with within(30, 500):
        path.write_bytes(bomb(100_000_000))
        assert gzip.decompress(data_files.find("gzip").read_bytes()) == CONTENT
        with path.open("wb") as file:
            file.truncate(10**10)
        assert gzip.decompress(data_files.find("gzip").read_bytes()) == CONTENT
        with (tmp_path / "cache" / "plain").open("wb") as file:
            file.truncate(10**10)
        assert data_files.find("plain").read_bytes() == CONTENT


def test_what_is_no_file_in_the_data_folder_is_refused_a_link_to_nothing_is_none(
    files, tmp_path, monkeypatch
):
    folder = tmp_path / "data"
    (folder / "plain").mkdir(parents=True)
    (folder / "sized").symlink_to(tmp_path / "absent")
    os.mkfifo(folder / "zip")
    monkeypatch.setenv("GRAPHRF_DATA_DIR", str(folder))
    for key in ("plain", "zip"):
        with pytest.raises(ValueError, match="must be a plain file, and is none; remove it"):
            data_files.find(key)
    assert data_files.find("sized") == tmp_path / "cache" / "sized"


def test_what_is_no_file_in_the_cache_says_so_or_is_replaced(files, tmp_path):
    cache = tmp_path / "cache"
    (cache / "plain").mkdir(parents=True)
    with pytest.raises(
        ValueError,
        match=r"plain was fetched, but cannot be stored at .*; remove it, or set GRAPHRF_C",
    ):
        data_files.find("plain")
    (cache / "plain").rmdir()
    (cache / "plain").symlink_to(tmp_path / "absent")
    assert data_files.find("plain").read_bytes() == CONTENT
    assert not (tmp_path / "absent").exists()


def test_a_cache_that_can_be_none_is_said_so_before_anything_is_fetched(
    files, publisher, tmp_path, monkeypatch
):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("GRAPHRF_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(
        ValueError, match=r"the cache must be a folder, got .*; set GRAPHRF_CACHE_DIR to one"
    ):
        data_files.find("plain")
    monkeypatch.setenv("GRAPHRF_CACHE_DIR", "~nobody-of-this-name/cache")
    with pytest.raises(
        ValueError, match=r"GRAPHRF_CACHE_DIR must name a folder, got .*no such home folder"
    ):
        data_files.find("plain")
    monkeypatch.delenv("GRAPHRF_CACHE_DIR")
    # This is so without HOME and an account.
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: f"~/.cache/{name}")
    with pytest.raises(
        ValueError, match="there is no home folder for the cache; set GRAPHRF_CACHE_DIR"
    ):
        data_files.find("plain")
    assert data_files.location(["plain"]) == "to fetch"
    assert not publisher.asked


# -- several files and several processes -----------------------------------------------------------


def test_what_was_fetched_before_a_connection_was_cut_is_kept(
    files, publisher, tmp_path, monkeypatch
):
    names = ["a", "b", "c", "d", "e"]
    for name in (*names, "unknown"):
        files[f"source/{name}"] = {
            "stored": "identity",
            "licence": "-",
            "url": f"{publisher.url}/{name}",
            **({"sha256": sha256(name.encode())} if name in names else {}),
        }
        publisher.answers[f"/{name}"] = sends(name.encode())
    made = {"x": b"abcdeunknown", "y": b"y"}
    for name, content in made.items():
        files[f"source/{name}"] = {
            "stored": "san_jose",
            "licence": "-",
            "sha256": sha256(content),
            "inputs": [f"source/{input}" for input in (*names, "unknown")],
        }
    monkeypatch.setattr(
        data_files, "san_jose", lambda inputs: {"x": b"".join(inputs.values()), "y": b"y"}
    )
    for broken in (*names, "unknown"):
        publisher.answers[f"/{broken}"] = cut
        with pytest.raises(ConnectionError, match=f"source/{broken} is not on this machine"):
            data_files.find("source/x")
        publisher.answers[f"/{broken}"] = sends(broken.encode())
    assert data_files.find("source/x").read_bytes() == made["x"]
    assert data_files.find("source/y").read_bytes() == made["y"]
    # Each is asked for when it is cut, and once more. None is asked for again that was whole.
    assert publisher.asked == dict.fromkeys([f"/{name}" for name in (*names, "unknown")], 2)
    (tmp_path / "cache" / "source" / "y").unlink()
    data_files.find("source/y")
    assert publisher.asked["/unknown"] == 3  # without a checksum it is not kept
    assert publisher.asked["/a"] == 2


FETCH = """
import sys
from graphrf.datasets import files as data_files
data_files.registry = lambda: {"files": {"folder/file": {
    "sha256": sys.argv[2], "stored": "identity", "licence": "-", "url": sys.argv[1]}}}
for turn in range(int(sys.argv[3])):
    sys.stdin.readline()
    data_files.forget_verified()
    content = data_files.find("folder/file").read_bytes()
    print(len(content), flush=True)
"""


@pytest.mark.parametrize("rounds", [8, pytest.param(100, marks=pytest.mark.full)])
def test_processes_that_fetch_the_same_file_at_once_both_get_it(publisher, tmp_path, rounds):
    content, n = CONTENT * 50, 2
    publisher.answers["/file"] = sends(content)
    command = [
        sys.executable,
        "-c",
        textwrap.dedent(FETCH),
        f"{publisher.url}/file",
        sha256(content),
        str(rounds),
    ]
    environment = {**os.environ, "GRAPHRF_CACHE_DIR": str(tmp_path), "NO_PROXY": "127.0.0.1"}
    environment.pop("GRAPHRF_DATA_DIR", None)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, env=environment, **pipes) for _ in range(n)]
    try:
        for _ in range(rounds):
            for process in processes:
                process.stdin.write("\n")
                process.stdin.flush()
            assert [int(process.stdout.readline()) for process in processes] == [len(content)] * n
            assert [path.name for path in stored(tmp_path)] == ["file"]
            (tmp_path / "folder" / "file").unlink()
        assert publisher.asked["/file"] >= rounds
    finally:
        for process in processes:
            process.stdin.close()
            process.stdout.close()
            process.kill()
            process.wait()


# -- paths -----------------------------------------------------------------------------------------


def test_no_key_leads_out_of_the_cache(files, publisher, tmp_path):
    parts = ("..", ".", "", "a", "/", "\\", "C:", "a\0b", "~", "..\\..", " ..", "con")
    for first in parts:
        for second in parts:
            for third in parts:
                key = "/".join((first, second, third))
                try:
                    path = data_files._inside(tmp_path, key)
                except ValueError:
                    continue
                assert os.path.commonpath([tmp_path, os.path.realpath(path)]) == str(tmp_path)
                assert ".." not in path.parts
                assert path != tmp_path
    for key in ("../x", "/x", "a/../../x", "a\0b", "..\\x", "C:/x", "", "."):
        files[key] = files["plain"]
        with pytest.raises(ValueError, match="does not lie inside the data folder"):
            data_files.find(key)
    assert stored(tmp_path) == []
    assert not publisher.asked
