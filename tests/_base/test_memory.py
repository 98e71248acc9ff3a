"""What is left of the machine's memory and of control groups."""

import pytest

from graphrf._base import memory

GIB = 2**30


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A machine of 64 GiB; the files of control groups are made by the tests."""
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemTotal: 9 kB\nMemAvailable: {64 * 2**20} kB\n")
    for name, path in (
        ("_MEMINFO", meminfo),
        ("_CGROUP_FOLDER", tmp_path),
        ("_OWN_CGROUPS", tmp_path / "own"),
    ):
        monkeypatch.setattr(memory, name, path)
    return tmp_path


def group(folder, limit, used, stat="", names=("memory.max", "memory.current")):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in zip((*names, "memory.stat"), (limit, used, stat), strict=True):
        (folder / name).write_text(f"{text}\n")


def test_the_machine_says_how_much_memory_is_left():
    assert 2**20 < memory.available_memory() < 2**60


def test_a_container_with_a_limit_has_less_than_its_machine(place):
    assert memory.available_memory() == 64 * GIB
    group(place, "max", GIB)
    assert memory.available_memory() == 64 * GIB
    group(place, 3 * GIB, GIB)
    assert memory.available_memory() == 2 * GIB
    group(place, GIB, 2 * GIB)
    assert memory.available_memory() == 0


def test_what_files_take_of_a_container_can_be_taken_back(place):
    group(
        place,
        8 * GIB,
        8 * GIB,
        f"anon {GIB}\ninactive_file {4 * GIB}\nactive_file {2 * GIB}\nshmem {GIB}",
    )
    assert memory.available_memory() == 6 * GIB
    group(place, 8 * GIB, 7 * GIB, "damaged")
    assert memory.available_memory() == GIB


@pytest.mark.parametrize(
    ("line", "folder", "names", "stat"),
    [
        ("0::/slurm/job 7/step", "", ("memory.max", "memory.current"), ""),
        (
            "4:cpu,memory:/slurm/job 7/step",
            "memory",
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
            f"total_inactive_file {GIB}\ntotal_active_file 0",
        ),
    ],
)
def test_the_least_of_nested_groups_counts(place, line, folder, names, stat):
    (place / "own").write_text(f"9:pids:/else\n{line}\n")
    group(place / folder / "slurm/job 7/step", 9 * GIB, GIB, stat, names)
    assert memory.available_memory() == (9 if stat else 8) * GIB
    group(place / folder / "slurm/job 7", 3 * GIB, GIB, stat, names)
    assert memory.available_memory() == (3 if stat else 2) * GIB
    group(place / folder / "slurm/job 8", 0, GIB, stat, names)  # somebody else's
    assert memory.available_memory() == (3 if stat else 2) * GIB


def test_limits_of_the_process_count(place):
    resource = pytest.importorskip("resource")
    mapped = int(memory._MAPPED.read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (mapped + GIB, before[1]))
        assert GIB / 2 < memory.available_memory() <= GIB + 2**26
        with pytest.raises(
            MemoryError, match=r"a matrix needs about 2 GiB of memory, and .* are left; wait"
        ):
            memory.require_memory(2 * GIB, "a matrix", "wait")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert memory.available_memory() == 64 * GIB
