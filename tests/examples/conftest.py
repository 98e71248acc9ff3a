"""Scripts of examples/ that run in the process of their tests."""

from __future__ import annotations

import sys

import pytest

import graphrf as grf


@pytest.fixture
def printed(example, monkeypatch, capsys):
    """The text that a script prints, by its name and options."""

    def run_here(name: str, *options: str) -> str:
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *options])
        example(name).main()
        return capsys.readouterr().out

    return run_here


@pytest.fixture
def run(printed):
    """The words of every line that a script prints."""
    return lambda name, *options: [line.split() for line in printed(name, *options).splitlines()]


@pytest.fixture
def require():
    """Skips a test whose data set is not in the data folder."""

    def required(name: str) -> None:
        try:
            grf.datasets.load(name)
        except FileNotFoundError as error:
            pytest.skip(f"{name} is not in the data folder: {error}")

    return required
