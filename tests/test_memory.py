from graphrf import _memory


def test_the_machine_says_how_much_memory_is_left():
    assert 2**20 < _memory.available_memory() < 2**60


def test_a_container_with_a_limit_has_less_than_its_machine(tmp_path, monkeypatch):
    limit, used, meminfo = tmp_path / "max", tmp_path / "current", tmp_path / "meminfo"
    monkeypatch.setattr(_memory, "_CGROUPS", ((limit, used),))
    monkeypatch.setattr(_memory, "_MEMINFO", meminfo)
    meminfo.write_text("MemTotal: 9 kB\nMemAvailable: 4096 kB\n")
    assert _memory.available_memory() == 4096 * 1024
    used.write_text("1000000\n")
    limit.write_text("max\n")
    assert _memory.available_memory() == 4096 * 1024
    limit.write_text("3000000\n")
    assert _memory.available_memory() == 2_000_000
    limit.write_text("500000\n")
    assert _memory.available_memory() == 0
