"""The command line, as it is used."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

import graphrf
from graphrf.cli import app
from graphrf.cli.options.messages import plain_messages
from graphrf.datasets import files as data_files


def invoke(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """No data folder, an empty cache, and no network."""
    monkeypatch.delenv(data_files.DATA_VARIABLE, raising=False)
    monkeypatch.setenv(data_files.CACHE_VARIABLE, str(tmp_path / "cache"))
    for variable in (
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "http_proxy",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
    ):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")


def test_kernels_in_messages_stay_kernels_with_six_digits():
    with plain_messages({"laplacian": "--laplacian"}):
        text = warnings.formatwarning(
            "the inverse of Matern(nu=3.0, lengthscale=46.812038531852785, "
            "laplacian='combinatorial') is off; pass laplacian='normalized'",
            UserWarning,
            "file.py",
            3,
        )
    kernel = "Matern(nu=3.0, lengthscale=46.812, laplacian='combinatorial')"
    assert (
        text == f"graphrf: warning: the inverse of {kernel} is off; pass --laplacian normalized\n"
    )


def test_warnings_are_one_plain_line_and_the_format_comes_back():
    before = warnings.formatwarning
    with plain_messages({}):
        text = warnings.formatwarning("walks are short", UserWarning, "file.py", 3)
    assert text == "graphrf: warning: walks are short\n"
    assert warnings.formatwarning is before


# -- datasets --------------------------------------------------------------------------------------


def test_datasets_lists_every_name_with_its_size_and_whereabouts(offline):
    result = invoke("datasets")
    assert result.exit_code == 0
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if line}
    assert set(graphrf.datasets.names()) <= set(lines)
    assert re.search(r"karate\s+graph\s+34\s+78\s+built in\s+BSD-3-Clause", lines["karate"])
    assert re.search(r"cora\s+graph\s+2,708\s+5,278\s+to fetch", lines["cora"])
    assert re.search(r"uci-wine\s+table\s+178\s+-\s", lines["uci-wine"])


def test_datasets_sees_files_in_the_data_folder(offline, monkeypatch, tmp_path):
    (tmp_path / "graphs").mkdir()
    (tmp_path / "graphs" / "dolphins.gml").write_text("graph []")
    monkeypatch.setenv(data_files.DATA_VARIABLE, str(tmp_path))
    assert re.search(r"dolphins .* data folder", invoke("datasets").stdout)
    assert re.search(r"polbooks .* to fetch", invoke("datasets").stdout)


def test_datasets_shows_a_card():
    result = invoke("datasets", "cora")
    assert result.exit_code == 0
    assert result.stdout == graphrf.datasets.describe("cora")


def test_unknown_card_is_exit_code_2():
    result = invoke("datasets", "coro")
    assert result.exit_code == 2
    names = "`NAME` must be one of the names that `graphrf datasets` lists"
    assert result.stderr == f"graphrf: {names}, got 'coro'; did you mean 'cora'?\n"


# -- the command itself ----------------------------------------------------------------------------


def test_version_and_help():
    assert invoke("--version").stdout == f"graphrf {graphrf.__version__}\n"
    text = invoke("--help").stdout
    assert "demo" in text
    assert "datasets" in text


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom graphrf.cli import app\n"
        "try: app(['--help'])\nexcept SystemExit as stop: assert stop.code == 0\n"
        "heavy = {'numpy', 'scipy', 'numba', 'torch', 'matplotlib', 'networkx', 'sklearn'} & "
        "set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300, capture_output=True)


def test_command_is_installed():
    command = Path(sys.executable).with_name("graphrf")
    if not command.exists():
        pytest.skip("graphrf is not installed in this environment")
    done = subprocess.run(
        [command, "pagerank", "karate", "--top", "0"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "graphrf: `--top` must be at least 1, got 0\n"
