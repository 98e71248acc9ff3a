"""What the command line says of bad input: one line, exit code 2, and nothing is written."""

from __future__ import annotations

import shlex
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import graphrf as grf
from graphrf.cli import app
from graphrf.cli.options.commands import NAMES
from graphrf.cli.options.messages import plain_messages
from tests.support.bounds import within

EDGES = "source,target,length\na,b,1\nb,c,2\nc,a,3\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with good files and bad ones."""
    monkeypatch.chdir(tmp_path)
    texts = {
        "roads.csv": EDGES,
        "seen.csv": "node,speed\na,1\nb,2\n",
        "nan.csv": "node,speed\na,1\nb,nan\n",
        "gap.csv": "node,speed\na,1\nb,\n",
        "word.csv": "node,speed\na,1\nb,fast\n",
        "who.csv": "node,speed\na,1\n# there is no z\nz,2\n",
        "ragged.csv": "node,speed\na,1\nb,2,3\n",
        "three.csv": "day,where,speed\n1,a,1\n",
        "one.csv": "node\na\n",
        "titles.csv": "node,speed\n",
        "empty.csv": "\n",
        "unit.csv": "a,31x\nb,5\nc,7\n",
        "same.csv": "node,class\na,x\nb,x\n",
        "notes.json": "{}",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "square.mtx").write_text(
        "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n"
    )
    (tmp_path / "bytes.csv").write_bytes(b"node,speed\n\xff,1\n")
    return tmp_path


BAD = [
    # files and graphs
    ("pagerank nowhere.csv", "GRAPH must be a file"),
    ("pagerank karat", "did you mean 'karate'"),
    ("pagerank uci-wine", "which is a table"),
    ("pagerank empty.csv", "is empty"),
    ("pagerank notes.json", "no known format"),
    ("pagerank roads.csv --weight width", "no column 'width'"),
    ("pagerank roads.csv --columns source", "`--columns` must be two columns"),
    (
        "pagerank roads.csv --mesh-on faces",
        "`--mesh-on` cannot be used with roads.csv, which is not a mesh",
    ),
    (
        "pagerank karate --directed",
        "`--directed` cannot be used with 'karate', which is not a file",
    ),
    ("pagerank roads.csv --weight-is distance", "`--weight`"),
    ("pagerank .", "`GRAPH` must hold a whole graph"),
    # outputs
    ("pagerank roads.csv -o scores.txt", "`-o` must end in .csv or .npz or .json"),
    ("pagerank roads.csv -o roads.csv", "`-o` must be different from the input file"),
    ("pagerank roads.csv -o seen.csv/x.csv", "`-o` must be the path of a file"),
    ("features roads.csv -o -", "features cannot be written as text"),
    ("features roads.csv -o f.csv", "`-o` must end in .npz"),
    ("fit roads.csv seen.csv -o model.json", "`-o` must end in .npz"),
    # features
    (
        "features roads.csv -o f.npz --sampler cats",
        "`--sampler` must be one of compressed, walks, cut, exact",
    ),
    (
        "features roads.csv -o f.npz --sampler compresed",
        "got 'compresed'; did you mean 'compressed'?",
    ),
    (
        "features roads.csv -o f.npz --sampler walks --lengths antitetic",
        "did you mean 'antithetic'?",
    ),
    (
        "features roads.csv -o f.npz --walks 8",
        "`--walks` cannot be used with `--sampler compressed`",
    ),
    (
        "features roads.csv -o f.npz --sampler walks --budget 8",
        "`--budget` cannot be used with `--sampler walks`",
    ),
    ("features roads.csv -o f.npz --sampler cut --max-length 3", "`--budget` is needed"),
    (
        "features roads.csv -o f.npz --sampler exact",
        "`--max-length` is needed with `--sampler exact`",
    ),
    ("features roads.csv -o f.npz --sampler walks --lengths truncated", "`--max-length` is needed"),
    (
        "features roads.csv -o f.npz --sampler walks --lengths odd",
        "`--lengths` must be one of stratified",
    ),
    (
        "features roads.csv -o f.npz --sampler walks --lengths notes.json",
        "`--lengths` must be a whole file",
    ),
    (
        (
            "features roads.csv -o f.npz --sampler walks --lengths auto --p-halt 0.1 --kernel "
            "diffusion"
        ),
        "`--p-halt` cannot be used with",
    ),
    ("features roads.csv -o f.npz --lengths auto", "`--kernel` is needed"),
    ("features roads.csv -o f.npz --lengths iid", "`--lengths` must be auto"),
    ("features roads.csv -o f.npz --lengthscale 2", "`--lengthscale` needs `--kernel`"),
    (
        "features roads.csv -o f.npz --sampler walks --walks 7 --lengths sigma",
        "`--walks` must be a multiple of 2",
    ),
    ("features roads.csv -o f.npz --sampler walks --p-halt 2", "`--p-halt` must be in"),
    ("features roads.csv -o f.npz --budget 0", "`--budget` must be"),
    ("features roads.csv -o f.npz --nodes a,z", "no node of the graph is named 'z'"),
    (
        "features roads.csv -o f.npz --nodes who.csv",
        "who.csv, line 4: no node of the graph is named 'z'",
    ),
    ("features roads.csv -o f.npz --seed -1", "`--seed` must be"),
    ("features roads.csv -o f.npz --threads 0", "`--threads` must be"),
    ("features roads.csv -o f.npz --memory-limit lots", "`--memory-limit` must be a size"),
    ("features roads.csv -o f.npz --memory-limit 10", "`--memory-limit` is"),
    ("features roads.csv --directed -o f.npz", "--undirected"),
    # kernels
    ("classify roads.csv seen.csv --kernel gauss", "`--kernel` must be one of diffusion, matern"),
    (
        "classify roads.csv seen.csv --kernel regularised_Laplacian",
        "got 'regularised_laplacian'; did you mean 'regularized_laplacian'?",
    ),
    (
        "classify roads.csv seen.csv --kernel diffusion --power 2",
        "`--power` cannot be used with `--kernel diffusion`",
    ),
    (
        "classify roads.csv seen.csv --kernel diffusion --lengthscale -1",
        "`--lengthscale` must be greater than 0",
    ),
    (
        "features roads.csv --kernel diffusion --error 0 -o g.npz",
        "`--error` must be in (0, 1], got 0",
    ),
    (
        "features roads.csv --kernel diffusion --error 0.1 --walks 3 -o g.npz",
        "`--walks` cannot be used with `--error`",
    ),
    (
        f"features roads.csv --memory-limit {'9' * 400} -o g.npz",
        "`--memory-limit` must be a size such as 4GiB",
    ),
    ("features roads.csv --error 0.1 -o g.npz", "`--kernel` is needed with `--error`"),
    (
        "features roads.csv --kernel diffusion --error 0.1 -o folder",
        "`-o` must be an .npz file with `--error`",
    ),
    ("features square.mtx --nodes 9 -o g.npz", "a position in [0, 2] is needed, got '9'"),
    # observations
    ("fit roads.csv nowhere.csv -o m.npz", "OBSERVATIONS must be a file"),
    (
        "fit roads.csv nan.csv -o m.npz",
        "nan.csv, line 3: the target must be a finite number, got 'nan'",
    ),
    (
        "fit roads.csv gap.csv -o m.npz",
        "gap.csv, line 3: the target must be a finite number, got an empty cell",
    ),
    (
        "fit roads.csv word.csv -o m.npz",
        "word.csv, line 3: the target must be a finite number, got 'fast'",
    ),
    (
        "fit roads.csv who.csv -o m.npz",
        "who.csv, line 4: no node of the graph is named 'z'; its nodes are a, b, c",
    ),
    (
        "fit roads.csv ragged.csv -o m.npz",
        "ragged.csv, line 3: 3 columns where the lines above have 2",
    ),
    (
        "fit roads.csv three.csv -o m.npz",
        "`--node-column` is needed: which column of three.csv has the nodes",
    ),
    (
        "fit roads.csv one.csv -o m.npz",
        "only one column; a column of nodes and one of values are needed",
    ),
    ("fit roads.csv titles.csv -o m.npz", "titles but no other line"),
    ("fit roads.csv empty.csv -o m.npz", "empty.csv is empty"),
    (
        "fit roads.csv unit.csv -o m.npz",
        "unit.csv, line 1: the target must be a finite number, got '31x'",
    ),
    ("fit roads.csv bytes.csv -o m.npz", "not UTF-8"),
    (
        "fit roads.csv seen.csv -o m.npz --target-column sped",
        "`--target-column` must be a column of seen.csv",
    ),
    (
        "fit roads.csv seen.csv -o m.npz --node-column 2",
        "`--node-column` must be a column of seen.csv",
    ),
    (
        "fit roads.csv seen.csv -o m.npz --node-column speed --target-column speed",
        "must be different columns",
    ),
    ("fit roads.csv seen.csv -o m.npz --method magic", "`--method` must be one of"),
    ("fit roads.csv seen.csv -o m.npz --noise -1", "`--noise` must be"),
    (
        "fit roads.csv seen.csv -o m.npz --likelihood possion",
        "got 'possion'; did you mean 'poisson'?",
    ),
    (
        "fit roads.csv seen.csv -o m.npz --covariates heigt",
        "`--covariates` must be a column of seen.csv, got 'heigt'",
    ),
    ("fit roads.csv seen.csv -o m.npz --exposure speed", "`--exposure`"),
    (
        "predict m0.npz --covariates seen.csv --nodes a",
        "`--nodes` and `--covariates` exclude each other",
    ),
    ("predict m0.npz --covariates nowhere.csv", "`--covariates` must be a file"),
    ("fit roads.csv seen.csv -o seen.csv", "`-o` must end in .npz"),
    ("classify roads.csv same.csv", "labels of at least two classes"),
    # models
    ("predict nowhere.npz", "`MODEL` must be a file written by `graphrf fit`"),
    ("predict f.npz", "`MODEL` must be a whole file written by `graphrf fit`"),
    ("predict m0.npz --nodes z", "no node of the graph is named 'z'"),
    ("predict m0.npz --seed 3", "`--seed` is not used without `--samples`"),
    ("predict m0.npz --samples 0", "`--samples` must be at least 1"),
    ("predict m0.npz -o m0.npz", "`-o` must be different from the input file"),
    # PageRank
    ("pagerank roads.csv --method magic", "`--method` must be one of power, walks, local"),
    ("pagerank roads.csv --method wlks", "got 'wlks'; did you mean 'walks'?"),
    ("pagerank roads.csv --walks 8", "`--walks` cannot be used with `--method power`"),
    ("pagerank roads.csv --method local", "`--sources` is needed"),
    (
        "pagerank roads.csv --method local --sources a --tol 1",
        "`--tol` cannot be used with `--method local`",
    ),
    (
        "pagerank roads.csv --method walks --tol 0.1 --batches 3 --seed 1",
        "`--batches` must be None where `--tol`",
    ),
    ("pagerank roads.csv --p-halt 1", "`--p-halt` must be in"),
    ("pagerank roads.csv --tol -1", "`--tol` must be"),
    ("pagerank roads.csv --top 0", "`--top` must be at least 1"),
    ("pagerank roads.csv --top 3 -o -", "`--top` prints a table"),
    (
        "pagerank roads.csv --method walks --p-halt 1e-8",
        "steps on average; --method power takes any",
    ),
    ("pagerank roads.csv --sources z", "no node of the graph is named 'z'"),
]


@pytest.mark.parametrize(("line", "message"), BAD, ids=[line for line, _ in BAD])
def test_bad_input_is_told_in_the_words_of_the_command_line(line, message, place):
    graph = grf.load_graph("roads.csv")
    if "predict f" in line:
        grf.sample_features(graph, nodes=["a", "b"], seed=0).save("f.npz")
    if "m0.npz" in line:
        fixed = {"kernel": grf.Diffusion(), "optimize": False, "noise": 0.1, "output_scale": 1.0}
        grf.GraphGPRegressor(graph, seed=0, **fixed).fit(["a", "b"], [1.0, 2.0]).save("m0.npz")
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stderr.splitlines()[-1].startswith("graphrf: ")
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before


def test_warnings_speak_of_options(place):
    features = grf.sample_features(
        grf.load_graph("roads.csv"), grf.RandomWalks(8, grf.sampling.IID(0.6)), seed=0
    )
    with pytest.warns(grf.features.HeavyTailWarning) as caught:
        features.matrix(grf.Diffusion(10.0))
    with plain_messages(NAMES | {"path": "-o"}):
        line = warnings.formatwarning(str(caught[0].message), UserWarning, "file.py", 3)
    assert line.startswith("graphrf: warning: these walks end too early")
    assert "use a smaller --p-halt, --lengths truncated, or the exact series" in line
    assert "or --method series of graphrf fit)" in line


def test_the_warning_of_cut_rows_speaks_of_options(place):
    features = grf.sample_features(grf.load_graph("roads.csv"), grf.sampling.CutPowers(1, 3))
    with pytest.warns(grf.features.TruncationWarning) as caught:
        features.matrix(grf.Diffusion(3.0))
    with plain_messages(NAMES | {"path": "-o"}):
        line = warnings.formatwarning(str(caught[0].message), UserWarning, "file.py", 3)
    assert (
        "raise `--max-length` (`--kernel` without `--max-length` gives a sufficient one) or "
        "`--budget`" in line
    )


@pytest.mark.parametrize(
    ("library", "here"),
    [
        ("pass directed=True, or directed=False", "pass --directed, or --undirected"),
        (
            "e.g. weight='length', or kernel='diffusion'",
            "e.g. --weight length, or --kernel diffusion",
        ),
        (
            "optimize=False for Diffusion(lengthscale=2.0)",
            "--no-optimize for Diffusion(lengthscale=2.0)",
        ),
        ("`path` was written by Features.save", "`-o` was written by `graphrf features`"),
        ("got 9; graph.index(...) turns names of nodes into positions", "got 9"),
        (
            "`n_walks` or n_walks, not `unknown` or graph.unknown()",
            "`--walks` or --walks, not `unknown` or graph.unknown()",
        ),
    ],
)
def test_names_of_the_library_are_told_as_those_of_the_command_line(library, here):
    with plain_messages(NAMES | {"path": "-o"}):
        line = warnings.formatwarning(library, UserWarning, "file.py", 3)
    assert line == f"graphrf: warning: {here}\n"


def test_options_that_nothing_uses_are_refused_without_an_empty_list(place):
    stderr = CliRunner().invoke(app, ["pagerank", "karate", "--directed"]).stderr
    assert stderr == "graphrf: `--directed` cannot be used with 'karate', which is not a file\n"


def test_a_type_that_is_no_number_is_refused_by_the_parser(place):
    result = CliRunner().invoke(app, ["pagerank", "roads.csv", "--top", "many"])
    assert result.exit_code == 2
    assert "--top" in result.stderr


def test_faults_of_ours_keep_their_traceback(place, monkeypatch):
    from graphrf.pagerank import power

    def broken(*arguments, **options):
        raise RuntimeError("a fault")

    monkeypatch.setattr(power, "pagerank", broken)
    result = CliRunner().invoke(app, ["pagerank", "roads.csv"])
    assert result.exit_code == 1
    assert isinstance(result.exception, RuntimeError)


def test_a_full_disk_is_exit_code_1(place, monkeypatch):
    import errno

    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(grf.features.Features, "save", full)
    result = CliRunner().invoke(app, ["features", "roads.csv", "-o", "f.npz", "--seed", "0"])
    assert result.exit_code == 1
    assert "No space left" in result.stderr


def test_control_characters_reach_no_terminal_by_messages(place):
    Path("titled.csv").write_text("blog,\x1b]0;x\x07\na,y\nb,n\nc,y\n")
    Path("bad.csv").write_text("a,1\nb,\x1b]0;x\x07\n")
    for command in ("classify roads.csv titled.csv", "fit roads.csv bad.csv -o m.npz"):
        said = CliRunner().invoke(app, command.split()).stderr
        assert "\x1b" not in said
        assert r"\x1b]0;x\x07" in said


def test_huge_tables_and_forged_archives_are_refused_before_they_are_read(place):
    """Files with holes: of 3 GiB, and an archive whose table of contents claims to have 3.9 GB."""
    with open("huge.csv", "wb") as file:
        file.truncate(2**40)
    with open("bomb.npz", "wb") as file:
        file.write(b"PK\3\4" + bytes(26))
        file.seek(3_900_000_100)
        file.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, 3_900_000_000, 100, 0))
    np.savez("cut.npz", visit_ptr=np.zeros(3))
    Path("cut.npz").write_bytes(Path("cut.npz").read_bytes().replace(b"PK\1\2", b"PK\1\3"))
    for command, message in (
        (
            "fit roads.csv huge.csv -o m.npz",
            "huge.csv has 1,099,511,627,776 bytes, whose reading takes",
        ),
        (
            "fit roads.csv huge.csv -o m.npz",
            "GiB are left; read it on a machine with more memory\n",
        ),
        (
            "pagerank roads.csv --method local --sources huge.csv",
            "huge.csv has 1,099,511,627,776 bytes",
        ),
        ("pagerank bomb.npz", "bomb.npz"),
        ("pagerank cut.npz", "cut.npz is not a readable scipy.sparse npz file"),
    ):
        with within(seconds=10, megabytes=400):
            result = CliRunner().invoke(app, command.split())
        assert (result.exit_code, message in result.stderr) == (2, True), result.stderr
