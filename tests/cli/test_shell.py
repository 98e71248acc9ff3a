"""What a shell brings: standard input, completion, tables with titles of their own, and help."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from graphrf.cli import app
from graphrf.cli.options import output
from graphrf.cli.options.commands import completed_graphs
from graphrf.cli.options.messages import Talking, brief, shortened

EDGES = "source,target\na,b\nb,c\nc,d\nd,a\nd,e\ne,f\nf,g\ng,e\n"
OBSERVED = "node,speed\na,1.0\nc,2.0\ne,5.5\ng,6.0\n"
LABELLED = "blog,party\na,left\nc,left\ne,right\ng,right\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a graph and observations, in which commands are run."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("roads.csv", EDGES), ("observed.csv", OBSERVED), ("classes.csv", LABELLED)):
        (tmp_path / name).write_text(text)
    return tmp_path


def run(line, text=None):
    return CliRunner().invoke(app, line.split(), input=text, env={"TERMINAL_WIDTH": "200"})


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("pagerank {} --top 3 -q", "roads.csv"),
        ("classify roads.csv {} --seed 0 -q", "classes.csv"),
        ("pagerank roads.csv --sources {} -o - -q", "nodes.txt"),
    ],
)
def test_a_dash_is_standard_input(place, command, file):
    (place / "nodes.txt").write_text("b\nc\n")
    read = run(command.format(file))
    piped = run(command.format("-"), (place / file).read_text())
    assert (read.exit_code, piped.exit_code) == (0, 0), piped.output
    assert piped.stdout == read.stdout


def test_messages_call_standard_input_by_its_name(place):
    refused = run("classify roads.csv - --seed 0", "node,class\na,left\nz,right\n")
    assert refused.exit_code == 2
    assert "graphrf: standard input, line 3: no node of the graph is named 'z'" in refused.stderr
    said = run("classify roads.csv - --seed 0", LABELLED)
    assert (
        "graphrf: the first line of standard input was read as titles: blog, party" in said.stderr
    )
    empty = run("classify roads.csv - --seed 0", "node,class\na,left\nc,\n")
    assert "graphrf: standard input, line 3: the label is empty" in empty.stderr
    alone = run("classify roads.csv - --seed 0", "node,class\na,left\nc,left\n")
    assert (
        "graphrf: OBSERVATIONS must have labels of at least two classes, got only 'left'"
        in alone.stderr
    )
    twice = run("classify - - --seed 0", EDGES)
    assert "`-`, standard input, can stand for one file only" in twice.stderr
    assert run("pagerank - --top 1", EDGES).exit_code == 0  # it is there again for the next command


def test_label_files_may_have_any_titles(place):
    named, own = (
        run(f"classify roads.csv {file} --seed 0")
        for file in ("classes.csv", _written(place, LABELLED.replace("blog,party", "node,class")))
    )
    assert named.exit_code == 0, named.output
    assert named.stdout == own.stdout
    assert "the first line of classes.csv was read as titles: blog, party" in named.stderr
    assert "read as titles" not in own.stderr


@pytest.mark.parametrize("first", ["aa,left", "a,up", "aa,1"])
def test_a_first_line_with_a_known_label_or_node_is_no_title(place, first):
    result = run(
        f"classify roads.csv {_written(place, LABELLED.replace('blog,party', first))} --seed 0"
    )
    if first == "a,up":
        assert "p(up)" in result.stdout
    else:
        assert "line 1: no node of the graph is named 'aa'" in result.stderr


def _written(place, text: str) -> str:
    (place / "other.csv").write_text(text)
    return "other.csv"


@pytest.mark.parametrize("command", ["", "fit", "features", "classify"])
def test_flags_are_shown_without_a_type(command):
    shown = run(f"{command} --help").stdout
    assert "--help" in shown
    assert run(f"{command} -h").stdout == shown
    assert "bool" not in shown


def test_words_data_sets_and_files_are_completed(place):
    (place / "karate").mkdir()
    assert completed_graphs("ka") == ["karate/", "karate", "karate-gml"]
    assert completed_graphs("roa") == ["roads.csv"]
    assert completed_graphs("[") == []
    for words, found in (
        ("graphrf fit --kernel d", ["diffusion"]),
        ("graphrf fit --method s", ["series"]),
        ("graphrf pagerank --method l", ["local"]),
        ("graphrf fi", ["fit", "fill"]),
        ("graphrf classify karate-", ["karate-gml"]),
    ):
        asked = {
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
            "_GRAPHRF_COMPLETE": "complete_bash",
        }
        result = CliRunner().invoke(app, [], prog_name="graphrf", env=asked)
        assert result.stdout.split() == found, words


def test_a_short_command_does_not_load_what_it_does_not_use(place):
    assert run("fit roads.csv observed.csv --kernel diffusion --seed 0 -q -o m.npz").exit_code == 0
    code = (
        "import sys; from graphrf.cli import main\n"
        "sys.argv = ['graphrf', 'predict', 'm.npz']\n"
        "try:\n    main()\nexcept SystemExit as done:\n    assert not done.code\n"
        "assert not {'torch', 'matplotlib', 'networkx'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 8


def test_fit_prints_few_digits_and_reports_all_in_json(place):
    command = "fit roads.csv observed.csv --kernel diffusion --seed 0 -o models/m.npz -q"
    shown, report = run(command), run(f"{command} --json")
    assert shown.exit_code == report.exit_code == 0, shown.output + report.output
    exact = json.loads(report.stdout)["result"]["kernel"]
    (digits,) = re.findall(r"lengthscale=([\d.]+)", exact)
    assert len(digits) > 12
    (line,) = [line for line in shown.stdout.splitlines() if line.startswith("kernel ")]
    assert line.endswith(exact.replace(digits, f"{float(digits):.6g}"))
    assert (place / "models" / "m.npz").exists()


def test_numbers_for_people():
    assert [brief(x) for x in (123456.78, -98765.4, 1234.5678, 0.000123456, 2e20)] == [
        "123457",
        "-98765.4",
        "1234.57",
        "0.000123456",
        "2e+20",
    ]
    assert (
        shortened("K(a=0.10000000000000002, b=64, c=1.23456e-07)")
        == "K(a=0.1, b=64, c=1.23456e-07)"
    )


def test_a_terminal_shows_six_digits_and_pipes_hold_all(monkeypatch):
    printed = []
    monkeypatch.setattr(output, "echo", printed.append)
    result = output.Result("pagerank", [("node", ["a"]), ("score", [1 / 3])], {})
    for terminal in (True, False):
        monkeypatch.setattr(sys, "stdout", SimpleNamespace(isatty=lambda shown=terminal: shown))
        output.deliver(result, None, Talking())
    assert printed == ["node,score\na,0.333333\n", f"node,score\na,{1 / 3}\n"]
