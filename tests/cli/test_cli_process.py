"""The command line as a user runs it: examples of the help, pipes, signals, exit codes."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import graphrf as grf
from graphrf.cli import app
from graphrf.cli.demo import parts

COMMANDS = ["demo", "datasets", "features", "fit", "predict", "fill", "classify", "pagerank"]
RUN = [sys.executable, "-c", "from graphrf.cli import main; main()"]
EDGES = "source,target,length\na,b,1\nb,c,2\nc,d,1\nd,a,2\nd,e,4\ne,f,1\nf,g,1\ng,e,2\n"


def help_of(command: str) -> str:
    result = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    return result.stdout


def examples(command: str) -> list[str]:
    return re.findall(r"^\s*\$ graphrf (.+?)\s*$", help_of(command), re.MULTILINE)


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "graphrf", "--version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout == f"graphrf {grf.__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_of_the_help_run(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = {
        "roads.csv": EDGES,
        "observed.csv": "node,speed\na,1.0\nc,2.0\ne,5.5\n",
        "heat.csv": "node,celsius,height\n0,1.0,3\n35,2.0,1\n444,1.5,2\n899,3.0,2\n",
        "districts.csv": EDGES,
        "cases.csv": "node,value,expected\na,3,2.5\nc,2,1\ne,5,4\nf,1,2\n",
        "links.tsv": "page\tto\tclicks\nhome\tshop\t9\nshop\thome\t1\nhome\thelp\t2\n",
        "clubs.csv": "node,club\n0,Mr. Hi\n1,Mr. Hi\n32,Officer\n33,Officer\n",
    }
    hours = [
        np.datetime64("2024-05-06T00:00") + hour * np.timedelta64(1, "h") for hour in range(40)
    ]
    readings = np.random.default_rng(0).random((40, 3))
    lines = [
        f"{hour},{a:.3f},{c:.3f},{'' if a < 0.1 else e}"
        for hour, (a, c, e) in zip(hours, readings, strict=True)
    ]
    texts["speeds.csv"] = "\n".join(["date,a,c,e", *lines]) + "\n"
    lines = [
        f"{hour},{node},{y}"
        for hour, row in zip(hours, readings, strict=True)
        for node, y in zip("ace", row, strict=True)
    ]
    texts["long.csv"] = "\n".join(["when,node,speed", *lines[1:]]) + "\n"
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    graph = grf.load_graph("roads.csv")
    grf.sample_features(graph, seed=0).save("roads.npz")
    fixed = {"kernel": grf.Diffusion(), "optimize": False, "noise": 0.1, "output_scale": 1.0}
    grf.GraphGPRegressor(graph, seed=0, **fixed).fit(["a", "c"], [1.0, 2.0]).save("model.npz")
    if command == "predict":
        through_time = grf.gp.GraphTimeGPRegressor(graph, kernel="diffusion", seed=0)
        through_time.fit(readings, nodes=["a", "c", "e"], times=hours).save("traffic.npz")
        counts = grf.GraphGPRegressor(graph, likelihood="poisson", **fixed | {"noise": None})
        counts.fit(list("abcdefg"), [3, 1, 2, 2, 1, 3, 2]).save("risk.npz")
    monkeypatch.setattr(parts, "PARTS", ())  # tests/cli/test_demo.py runs them
    found = examples(command)
    assert 2 <= len(found) <= 5
    for line in found:
        arguments = shlex.split(line)
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, (line, result.output)
        if "-o" in arguments:
            assert os.path.exists(arguments[arguments.index("-o") + 1])
        else:
            assert result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_what_a_command_does_and_its_exit_codes(command):
    text = help_of(command)
    assert "Exit codes: 0 done; 2 " in text
    assert "Examples" in text
    sentence = next(part for part in text.split("\n\n") if "Usage" not in part)
    assert sentence.strip().endswith(".")


def test_json_is_all_that_is_printed():
    done = CliRunner().invoke(app, ["pagerank", "karate", "--method", "walks", "--json"])
    record = json.loads(done.stdout)
    assert record["graph"] == {
        "source": "data set karate",
        "nodes": 34,
        "edges": 78,
        "directed": False,
        "weighted": False,
    }
    assert record["command"] == "pagerank"
    assert f"--seed {record['seed']}" in done.stderr
    assert "\r" not in done.stderr  # no progress where nobody looks


def test_quiet_leaves_errors_alone():
    quiet = CliRunner().invoke(app, ["pagerank", "karate", "-q"])
    assert (quiet.exit_code, quiet.stderr) == (0, "")
    wrong = CliRunner().invoke(app, ["pagerank", "karat", "-q"])
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "karate" in wrong.stderr


def _in_bash(line):
    """What a line of bash prints; $RUN stands for the program."""
    done = subprocess.run(
        ["bash", "-c", line.replace("$RUN", shlex.join(RUN))],
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.stdout, done.stderr


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
@pytest.mark.parametrize(
    "arguments", ["pagerank generated-torus -q -o -", "datasets", "pagerank karate -q --json"]
)
def test_output_that_nobody_reads_ends_quietly(arguments):
    assert _in_bash(f"$RUN {arguments} | true; echo ${{PIPESTATUS[0]}}") == ("141\n", "")


@pytest.mark.skipif(os.name == "nt" or not os.path.exists("/dev/full"), reason="devices of Linux")
@pytest.mark.parametrize(
    "arguments", ["--help", "--version", "pagerank --help", "datasets", "pagerank karate -q"]
)
@pytest.mark.parametrize(
    ("output", "message"), [("&-", "standard output is closed"), ("/dev/full", "No space left")]
)
def test_output_that_cannot_be_written_is_an_error_in_one_line(arguments, output, message):
    printed, error = _in_bash(
        f"code=$( ( $RUN {arguments} >{output}; echo $? >&3 ) 3>&1 ); echo $code"
    )
    assert printed == "1\n"
    assert error.startswith(f"graphrf: {message}")
    assert error.count("\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="streams of POSIX")
@pytest.mark.parametrize("streams", ["2>&-", "<&-", "2>&- <&-"])
def test_a_result_needs_no_other_stream(streams):
    printed, error = _in_bash(f"$RUN pagerank karate --top 1 --quiet {streams}; echo $?")
    assert printed.startswith("node")
    assert (printed.splitlines()[-1], error) == ("0", "")
    assert "standard input is empty" in _in_bash("$RUN pagerank - <&-")[1]


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_an_interrupt_is_exit_code_130_and_leaves_no_file(tmp_path):
    out = tmp_path / "scores.csv"
    process = subprocess.Popen(
        [
            *RUN,
            *("pagerank", "generated-torus", "--method", "walks", "--walks", "60000"),
            *("--batches", "60000", "--seed", "0", "-o", str(out)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Where the tests run in the background of a shell,
        # interrupts are ignored, which processes inherit.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    assert "generated-torus" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    text, error = process.communicate(timeout=300)
    assert process.returncode == 130
    assert text == ""
    assert error == "graphrf: interrupted\n"
    assert list(tmp_path.iterdir()) == []


def test_a_data_set_that_cannot_be_fetched_says_where_to_put_it(tmp_path, monkeypatch):
    for variable in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(variable, "")
    monkeypatch.setenv("GRAPHRF_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("GRAPHRF_DATA_DIR", raising=False)
    done = CliRunner().invoke(app, ["pagerank", "cora"])
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "GRAPHRF_DATA_DIR" in done.stderr
