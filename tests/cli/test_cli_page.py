"""The page on the command line: what its sessions show is what the commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from graphrf.cli import app

PAGE = Path(__file__).parents[2] / "docs" / "command_line.md"
NUMBER = re.compile(r"-?\d+\.\d+(?:e[+-]\d+)?")


def sessions() -> list[tuple[str, str]]:
    """Commands of the page, each with the output that it shows."""
    blocks = re.findall(
        r"^```console\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    steps = re.findall(
        r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", "".join(blocks).replace("\\\n", " "), re.MULTILINE
    )
    assert len(steps) > 8
    return steps


def test_commands_of_the_page_print_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command, shown in sessions():
        program, *arguments = shlex.split(command)
        if program == "cat":  # a file that the reader has
            Path(arguments[0]).write_text(shown)
            continue
        assert program == "graphrf"
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        assert NUMBER.sub("#", result.stdout).split() == NUMBER.sub("#", shown).split(), command
        found, wanted = (
            [float(text) for text in NUMBER.findall(out)] for out in (result.stdout, shown)
        )
        assert found == pytest.approx(wanted, rel=1e-3), command


def test_the_page_names_every_command():
    text = PAGE.read_text(encoding="utf-8")
    for command in app.registered_commands:
        assert re.search(rf"^\| `{command.name}\b", text, re.MULTILINE), command.name
