"""Every command of the command line against the library's own result with the same seed."""

from __future__ import annotations

import csv
import io
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import graphrf as grf
from graphrf.cli import app
from graphrf.cli.options.messages import plain_messages
from graphrf.pagerank import local_pagerank, pagerank

EDGES = "source,target,length\na,b,1\nb,c,2\nc,d,1\nd,a,2\nd,e,4\ne,f,1\nf,g,1\ng,e,2\n"
OBSERVED = "node,speed\na,1.0\nc,2.0\ne,5.5\ng,6.0\na,1.2\n"
LABELLED = "node,class\na,x\nc,x\ne,y\ng,y\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a graph and observations, in which commands are run."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("roads.csv", EDGES), ("observed.csv", OBSERVED), ("classes.csv", LABELLED)):
        (tmp_path / name).write_text(text)
    return tmp_path


def run(line: str) -> str:
    """The standard output of a command that goes well."""
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code == 0, result.output
    return result.stdout


def columns(text: str) -> dict[str, list[str]]:
    """The columns of csv text by their titles."""
    titles, *rows = csv.reader(io.StringIO(text))
    return dict(zip(titles, map(list, zip(*rows, strict=True)), strict=True))


def numbers(cells: list[str]) -> np.ndarray:
    return np.array(cells, dtype=np.float64)


# -- features --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sampler"),
    [
        ("", lambda: None),
        ("--budget 4 --max-length 3", lambda: grf.CompressedPowers(4, 3)),
        (
            "--budget 4 --lengths auto --kernel diffusion",
            lambda: grf.CompressedPowers(4, lengths=grf.sampling.AutoLengths(grf.Diffusion())),
        ),
        ("--sampler cut --budget 6 --max-length 4", lambda: grf.sampling.CutPowers(6, 4)),
        ("--sampler exact --max-length 5", lambda: grf.sampling.ExactPowers(5)),
        (
            "--sampler exact --kernel diffusion --lengthscale 2",
            lambda: grf.sampling.ExactPowers(grf.Diffusion(2.0).truncation_length(1e-3)),
        ),
        ("--sampler walks", lambda: grf.RandomWalks()),
        (
            "--sampler walks --walks 8 --lengths iid --p-halt 0.3",
            lambda: grf.RandomWalks(8, grf.sampling.IID(0.3)),
        ),
        (
            "--sampler walks --lengths sigma --directions independent",
            lambda: grf.RandomWalks(32, grf.sampling.SigmaCoupled(0.1), directions="independent"),
        ),
        (
            "--sampler walks --lengths antithetic",
            lambda: grf.RandomWalks(32, grf.sampling.Antithetic(0.1)),
        ),
        (
            "--sampler walks --lengths truncated --max-length 6",
            lambda: grf.RandomWalks(32, grf.sampling.Truncated(6)),
        ),
        (
            "--sampler walks --lengths auto --kernel matern --nu 2 --lengthscale 1.5",
            lambda: grf.RandomWalks(
                32, grf.sampling.AutoLengths(grf.Matern(nu=2.0, lengthscale=1.5))
            ),
        ),
        ("--laplacian combinatorial", lambda: grf.CompressedPowers(laplacian="combinatorial")),
    ],
)
def test_features_are_those_of_the_library(place, options, sampler):
    run(f"features roads.csv -o f.npz --seed 3 {options}")
    made = grf.features.load_features("f.npz")
    own = grf.sample_features(grf.load_graph("roads.csv"), sampler(), seed=3)
    assert made.description == own.description
    kernel = grf.Diffusion(laplacian=own.laplacian)
    assert (made.matrix(kernel) != own.matrix(kernel)).nnz == 0


def test_lengths_are_coupled_by_a_file(place):
    own = grf.couplings.learn_coupling(
        grf.load_graph("roads.csv"), grf.Diffusion(2.0), p_halt=0.2, order=6
    )
    own.save("c.json")
    run("features roads.csv --sampler walks --lengths c.json --walks 4 -o f.npz --seed 1")
    features = grf.sample_features(
        grf.load_graph("roads.csv"), grf.RandomWalks(4, grf.sampling.SigmaCoupled(own)), seed=1
    )
    made = grf.features.load_features("f.npz")
    assert (made.matrix(grf.Diffusion()) != features.matrix(grf.Diffusion())).nnz == 0


def test_features_of_some_nodes_and_weights(place):
    (place / "few.txt").write_text("c\na\n")
    for given in ("few.txt", "c,a"):
        run(
            f"features roads.csv --weight length --weight-is distance --nodes {given} -o f.npz "
            "--seed 1"
        )
        graph = grf.load_graph("roads.csv", weight="length", weight_is="distance")
        own = grf.sample_features(graph, nodes=["c", "a"], seed=1)
        made = grf.features.load_features("f.npz")
        assert made.nodes.tolist() == own.nodes.tolist() == [2, 0]
        assert (made.matrix(grf.Diffusion()) != own.matrix(grf.Diffusion())).nnz == 0


def test_features_in_a_folder_are_gone_on_with(place):
    first = json.loads(run("features roads.csv -o kept --json"))
    again = json.loads(run("features roads.csv -o kept --json"))
    assert first["seed"] == again["seed"] == grf.features.load_features("kept").seed
    other = CliRunner().invoke(app, ["features", "roads.csv", "-o", "kept", "--budget", "2"])
    assert other.exit_code == 2
    assert "-o" in other.stderr


def test_a_drawn_seed_is_told_and_gives_the_same_again(place):
    first = CliRunner().invoke(app, ["features", "roads.csv", "-o", "a.npz", "--sampler", "walks"])
    seed = grf.features.load_features("a.npz").seed
    assert f"--seed {seed}" in first.stderr
    assert first.stdout == ""
    run(f"features roads.csv -o b.npz --sampler walks --seed {seed}")
    assert Path("a.npz").read_bytes() == Path("b.npz").read_bytes()


@pytest.mark.filterwarnings("ignore:a guaranteed bound, mostly well above the error")
def test_an_error_is_asked_for_in_place_of_a_sampler(place):
    graph, kernel = grf.load_graph("roads.csv"), grf.Diffusion(3.0)
    run("features roads.csv --kernel diffusion --lengthscale 3 --error 0.1 --seed 1 -o f.npz")
    own = grf.sample_features(graph, kernel=kernel, error=0.1, seed=1).gram(kernel)
    assert np.array_equal(grf.features.load_features("f.npz").gram(kernel), own)


# -- regression and classification -----------------------------------------------------------------


def test_fit_then_predict_is_the_regressor(place):
    run("fit roads.csv observed.csv -o model.npz --seed 4")
    gp = grf.GraphGPRegressor(grf.load_graph("roads.csv"), seed=4)
    gp.fit(["a", "c", "e", "g", "a"], [1.0, 2.0, 5.5, 6.0, 1.2])
    mean, std = gp.predict(return_std=True)

    table = columns(run("predict model.npz"))
    assert table["node"] == list("abcdefg")
    assert np.array_equal(numbers(table["mean"]), mean)
    assert np.array_equal(numbers(table["std"]), std)

    run("predict model.npz --nodes g,b --observation --samples 3 --seed 8 -o p.json")
    record = json.loads(Path("p.json").read_text())
    mean, std = gp.predict(["g", "b"], return_std="observation")
    draws = gp.sample(["g", "b"], n_samples=3, seed=8)
    found = record["result"]
    assert record["seed"] == 8
    assert found["node"] == ["g", "b"]
    assert found["std"] == std.tolist()
    assert [found[f"sample_{number}"] for number in (1, 2, 3)] == draws.tolist()
    assert np.array_equal(found["mean"], mean)


def test_settings_of_fit_reach_the_regressor(place):
    options = (
        "--kernel matern --lengthscale 1.5 --no-optimize --noise 0.04 --output-scale 2 --method "
        "features"
    )
    record = json.loads(
        run(
            f"fit roads.csv observed.csv -o m.npz --seed 4 --laplacian combinatorial {options} "
            "--json"
        )
    )
    gp = grf.GraphGPRegressor.load("m.npz")
    assert gp.kernel_ == grf.Matern(lengthscale=1.5, laplacian="combinatorial")
    assert (gp.noise_, gp.output_scale_, gp.method_, gp.seed_) == (0.04, 2.0, "features", 4)
    assert record["result"]["kernel"] == repr(gp.kernel_)
    assert gp.progress is False
    assert gp.numerics.n_threads is None


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a,1\nc,2\n", ""),
        ("a;1\nc;2\n", ""),
        ("a 1\nc 2\n", ""),
        ("# speeds\nwhere\tspeed\na\t1\n\nc\t2\n", ""),
        ("target,node\n1,a\n2,c\n", ""),
        ("speed,where\n1,a\n2,c\n", "--node-column where"),
        ("speed,where\n1,a\n2,c\n", "--target-column speed"),
        ("day,where,speed\n1,a,1\n2,c,2\n", "--node-column where --target-column speed"),
        ("x,a,1\ny,c,2\n", "--node-column 1 --target-column 2"),
        ("id,day,y\na,7,1\nc,8,2\n", ""),
        ('\ufeffnode,y\r\n"a",1\r\nc,2\r\n', ""),
    ],
)
def test_columns_of_observations_are_found(place, text, options):
    (place / "seen.csv").write_text(text, encoding="utf-8", newline="")
    run(
        "fit roads.csv seen.csv -o m.npz --seed 0 --kernel diffusion --no-optimize --noise 0.01 "
        f"--output-scale 1 {options}"
    )
    given = grf.GraphGPRegressor.load("m.npz")._fitted
    assert given.observations.nodes.tolist() == [0, 2]
    assert (given.observations.means[:, 0] + given.offset).tolist() == pytest.approx([1.0, 2.0])


@pytest.mark.parametrize("text", ["a,y\nb,n\nc,y\nd,n\n", "d,label\na,y\nb,n\nc,y\n"])
def test_a_first_line_with_a_node_has_no_titles(place, text):
    """One of its cells is the title of a column of targets elsewhere."""
    found = []
    for first in ("", "node,class\n"):
        (place / "seen.csv").write_text(first + text)
        found.append(run("classify roads.csv seen.csv --seed 0 --kernel diffusion -o -"))
    assert found[0] == found[1]


def test_classify_is_the_classifier(place):
    table = columns(run("classify roads.csv classes.csv --seed 1"))
    gp = grf.GraphGPClassifier(grf.load_graph("roads.csv"), seed=1)
    gp.fit(["a", "c", "e", "g"], np.array(["x", "x", "y", "y"]))
    assert np.array_equal(numbers(table["p(y)"]), gp.predict_proba()[:, 1])
    assert table["class"] == gp.predict().tolist()


def test_the_sparse_precision_is_asked_for_by_method(place):
    options = "--kernel matern --nu 1 --method precision --seed 1"
    assert (
        json.loads(run(f"classify roads.csv classes.csv {options} --json"))["method"] == "precision"
    )
    run(f"fit roads.csv observed.csv -o m.npz {options}")
    assert grf.GraphGPRegressor.load("m.npz").method_ == "precision"
    refused = CliRunner().invoke(
        app, ["classify", "roads.csv", "classes.csv", "--method", "precision"]
    )
    assert refused.exit_code != 0
    assert "must have a sparse precision" in refused.stderr


def test_warnings_of_the_classifier_are_passed_on(place):
    (place / "line.csv").write_text("".join(f"{k},{k + 1}\n" for k in range(29)))
    labels = np.random.default_rng(0).permutation(np.repeat(["x", "y"], 15))
    rows = "".join(f"{k},{label}\n" for k, label in enumerate(labels))
    (place / "shuffled.csv").write_text("node,class\n" + rows)
    with pytest.warns(UserWarning, match="explains the labels no better than independent values"):
        done = CliRunner().invoke(app, ["classify", "line.csv", "shuffled.csv", "--seed", "0"])
    assert done.exit_code == 0


def test_counts_with_exposures_and_covariates_are_fitted_as_in_python(place):
    y, exposure, height = np.array([[3, 1, 2, 6, 4], [2, 1, 1, 3, 2], [0.5, 2, 1, 1.5, 1]])
    rows = "".join(
        f"{n},{a:.0f},{e},{h}\n" for n, a, e, h in zip("abceg", y, exposure, height, strict=True)
    )
    (place / "cases.csv").write_text("node,cases,expected,height\n" + rows)
    options = (
        "--target-column cases --kernel bym2 --likelihood poisson --exposure expected --seed 0 -q "
        "-o m.npz"
    )
    graph = grf.load_graph("roads.csv")
    gp = grf.GraphGPRegressor(graph, kernel="bym2", likelihood="poisson", seed=0)

    run(f"fit roads.csv cases.csv {options}")
    gp.fit(list("abceg"), y, exposure=exposure)
    found = columns(run("predict m.npz --above 1.2"))
    for title, expected in zip(("mean", "std"), gp.predict(return_std=True), strict=True):
        np.testing.assert_allclose(numbers(found[title]), expected, rtol=1e-12)
    np.testing.assert_allclose(numbers(found["probability"]), gp.probability(above=1.2), rtol=1e-12)

    assert "coefficient of height" in run(f"fit roads.csv cases.csv {options} --covariates height")
    gp.fit(list("abceg"), y, x=height[:, None], exposure=exposure)
    (place / "heights.csv").write_text("node,height\nd,1.5\na,0.5\n")
    found = columns(run("predict m.npz --covariates heights.csv --samples 1 --seed 2"))
    assert found["node"] == ["d", "a"]
    x = np.array([[1.5], [0.5]])
    np.testing.assert_allclose(numbers(found["mean"]), gp.predict(["d", "a"], x=x), rtol=1e-12)
    draw = gp.sample(["d", "a"], seed=2, x=x)[0]
    np.testing.assert_allclose(numbers(found["sample_1"]), draw, rtol=1e-12)


def test_trials_of_a_binomial_are_a_column(place):
    (place / "votes.csv").write_text("node,y,voters\na,3,9\nc,2,4\ne,7,8\ng,5,9\n")
    said = json.loads(
        run(
            "fit roads.csv votes.csv --likelihood binomial --trials voters --kernel diffusion "
            "--json --seed 0 -q -o m.npz"
        )
    )
    assert said["result"]["likelihood"] == "Binomial()"
    gp = grf.GraphGPRegressor(
        grf.load_graph("roads.csv"), kernel="diffusion", likelihood="binomial", seed=0
    )
    gp.fit(list("aceg"), [3, 2, 7, 5], trials=[9, 4, 8, 9])
    np.testing.assert_allclose(
        numbers(columns(run("predict m.npz"))["mean"]), gp.predict(), rtol=1e-12
    )


# -- PageRank --------------------------------------------------------------------------------------


def test_pagerank_by_power_is_that_of_the_library(place):
    graph = grf.load_graph("roads.csv", directed=True, weight="length", weight_is="similarity")
    run(
        "pagerank roads.csv --directed --weight length --weight-is similarity --p-halt 0.2 -o "
        "scores.csv"
    )
    table = columns(Path("scores.csv").read_text())
    assert np.array_equal(numbers(table["score"]), pagerank(graph, p_halt=0.2).scores)
    assert table["node"] == list(graph.nodes)

    record = json.loads(run("pagerank roads.csv --sources a,a,g --tol 1e-6 --json"))
    own = pagerank(grf.load_graph("roads.csv"), personalization={"a": 2, "g": 1}, tol=1e-6)
    assert record["result"]["score"] == own.scores.tolist()
    assert record["converged"]
    assert record["iterations"] == own.iterations


def test_pagerank_by_walks_has_standard_errors(place):
    table = columns(run("pagerank karate --method walks --walks 8 --batches 2 --seed 3 -o -"))
    own = grf.pagerank.estimate(grf.datasets.load("karate").graph, n_walks=8, n_batches=2, seed=3)
    assert np.array_equal(numbers(table["score"]), own.scores)
    assert np.array_equal(numbers(table["stderr"]), own.stderr)
    record = json.loads(run("pagerank karate --method walks --tol 0.1 --seed 3 --json"))
    own = grf.pagerank.estimate(grf.datasets.load("karate").graph, tol=0.1, seed=3)
    assert record["result"]["score"] == own.scores.tolist()
    assert record["l1_error"] == own.l1_error


def test_pagerank_of_sources_alone(place):
    table = columns(
        run("pagerank karate --method local --sources 33,0 --top 3 --seed 7 -o s.csv")
        and Path("s.csv").read_text()
    )
    own = local_pagerank(grf.datasets.load("karate").graph, [33, 0], k=3, seed=7)
    positions, scores = own.best(3)
    assert [int(node) for node in table["node"]] == positions.ravel().tolist()
    assert np.array_equal(numbers(table["score"]), scores.ravel())
    assert table["source"] == ["33"] * 3 + ["0"] * 3


def test_the_table_shows_the_best_nodes(place):
    lines = run("pagerank karate --top 2").splitlines()
    best = pagerank(grf.datasets.load("karate").graph).top(2)
    assert lines[0].split() == ["node", "score"]
    assert [line.split() for line in lines[1:]] == [
        [str(node), f"{score:.6g}"] for node, score in best
    ]
    assert len(run("pagerank karate").splitlines()) == 11
    assert run("pagerank karate -o s.csv --top 2").splitlines() == lines
    assert len(Path("s.csv").read_text().splitlines()) == 35


# -- graphs ----------------------------------------------------------------------------------------


def test_a_file_wins_over_a_data_set_and_it_is_said(place):
    (place / "karate").mkdir()
    grf.load_graph("roads.csv").save(place / "karate")
    result = CliRunner().invoke(app, ["pagerank", "karate"])
    assert "folder karate" in result.stderr
    assert len(result.stdout.splitlines()) == 8
    assert CliRunner().invoke(app, ["pagerank", "generated-grid", "--quiet"]).stderr == ""


def test_meshes_and_other_options_of_loaders(place):
    (place / "square.off").write_text("OFF\n4 2 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n3 0 1 2\n3 0 2 3\n")
    faces = json.loads(run("pagerank square.off --json"))
    vertices = json.loads(
        run("pagerank square.off --mesh-on vertices --mesh-weights cotangent --json")
    )
    assert (faces["graph"]["nodes"], vertices["graph"]["nodes"]) == (2, 4)
    (place / "far.csv").write_text("w x y\n9 a b\n9 b c\n")
    assert columns(run("pagerank far.csv --columns x,y -o -"))["node"] == ["a", "b", "c"]
    assert columns(run("pagerank far.csv --columns 1,2 --header -o -"))["node"] == ["a", "b", "c"]


DISTANCES = (
    "graphrf: warning: the weights in 'length' are taken as similarities: nodes joined by a large "
    "weight are near each other. For lengths, times and costs pass --weight-is distance; "
    "--weight-is similarity ends this warning\n"
)
LEFT_ASIDE = (
    "graphrf: warning: the graph is unweighted, but its edges have 'weight' (attributes: "
    "'weight'): pass --weight weight to use it, or --unweighted for an unweighted graph without "
    "this warning\n"
)
REPEATED = (
    "graphrf: warning: parallel edges count once in an unweighted graph, and 1 of the 3 edges "
    "listed repeat an earlier one: give every edge the weight 1 to have parallel ones added, as "
    "networkx does, or pass --unweighted to count them once without this warning\n"
)


@pytest.mark.parametrize(
    ("title", "options", "said"),
    [
        ("length", "--weight length", DISTANCES),
        ("length", "--weight 2", DISTANCES),
        ("length", "--weight length --weight-is distance", ""),
        ("length", "--weight length --weight-is similarity", ""),
        ("length", "", ""),
        ("strength", "--weight strength", ""),
        ("weight", "", LEFT_ASIDE),
        ("weight", "--weight weight", ""),
        ("weight", "--unweighted", ""),
        ("years", "--directed", REPEATED),
        ("years", "--directed --unweighted", ""),
        ("years", "--directed --weight years", ""),
        ("years", "", ""),
    ],
)
def test_the_shell_warns_of_weights_as_python_does_in_words_of_its_own(place, title, options, said):
    (place / "w.csv").write_text(f"from,to,{title}\nx,y,2\ny,z,5\nx,y,1\n")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = CliRunner().invoke(app, ["pagerank", "w.csv", *options.split()])
    assert result.exit_code == 0
    with plain_messages({"weight": "--weight", "weight_is": "--weight-is"}):
        lines = [
            warnings.formatwarning(str(each.message), UserWarning, "file.py", 3) for each in caught
        ]
    assert "".join(lines) == said


def test_weights_are_not_both_taken_and_left_aside(place):
    result = CliRunner().invoke(
        app, ["pagerank", "roads.csv", "--weight", "length", "--unweighted"]
    )
    assert (result.exit_code, "exclude each other" in result.stderr) == (2, True)


def test_the_alpha_of_networkx_is_answered_with_the_p_halt_that_it_is(place):
    result = CliRunner().invoke(app, ["pagerank", "karate", "--alpha", "0.85"])
    assert result.exit_code == 2
    assert result.stderr == (
        "graphrf: `--alpha` is not an option of graphrf pagerank; networkx's alpha is 1 minus "
        "`--p-halt`: pass --p-halt 0.15\n"
    )
    assert "--alpha" not in CliRunner().invoke(app, ["pagerank", "--help"]).output.replace(
        "1 - alpha", ""
    )


def test_nodes_named_by_integers_are_taken_by_name(place):
    (place / "ids.csv").write_text("from,to\n1,2\n2,3\n3,4\n4,5\n")
    (place / "seen.csv").write_text("node,y\n1,0.0\n2,1.0\n4,3.0\n")
    (place / "told.csv").write_text("node,y\n1,a\n2,a\n4,b\n")
    run("features ids.csv --nodes 2,3 --seed 0 -o f.npz")
    assert grf.features.load_features("f.npz").nodes.tolist() == [1, 2]
    run(
        "fit ids.csv seen.csv --kernel diffusion --noise 0.01 --output-scale 1 --no-optimize "
        "--seed 0 -o m.npz"
    )
    assert columns(run("predict m.npz --nodes 2,4 -o -"))["node"] == ["2", "4"]
    classified = columns(run("classify ids.csv told.csv --nodes 2,4 --no-optimize --seed 0 -o -"))
    assert classified["node"] == ["2", "4"]
    assert "2" in columns(run("pagerank ids.csv --method local --sources 2 --seed 0 -o -"))["node"]


def test_kernels_may_be_written_with_underscores(place):
    line = "classify roads.csv classes.csv --seed 0 --kernel regularized-laplacian"
    assert run(line) == run(line.replace("regularized-", "regularized_"))


# -- files -----------------------------------------------------------------------------------------


def test_the_three_kinds_of_files_say_the_same(place):
    for ending in ("csv", "npz", "json"):
        run(f"pagerank roads.csv --p-halt 0.3 --quiet -o s.{ending}")
    scores = pagerank(grf.load_graph("roads.csv"), p_halt=0.3).scores
    record = json.loads(Path("s.json").read_text())
    assert record["result"] == {"node": list("abcdefg"), "score": scores.tolist()}
    with np.load("s.npz") as file:  # without pickle
        assert file["node"].tolist() == list("abcdefg")
        assert np.array_equal(file["score"], scores)
        assert json.loads(str(file["metadata"])) | {"result": 0} == record | {"result": 0}
    assert np.array_equal(numbers(columns(Path("s.csv").read_text())["score"]), scores)


def test_an_output_replaces_what_was_there(place):
    Path("s.csv").write_text("old")
    run("pagerank roads.csv -o s.csv")
    assert Path("s.csv").read_text().startswith("node,score\na,")
    assert {path.name for path in place.iterdir()} == {
        "roads.csv",
        "observed.csv",
        "classes.csv",
        "s.csv",
    }


def test_names_of_nodes_do_not_rule_the_terminal(place):
    (place / "escape.csv").write_text("source,target\na\x1b]0;new title\x07,b\nb,c\n")
    said = run("pagerank escape.csv --top 3")
    assert "\x1b" not in said
    assert "a\\x1b]0;new title\\x07" in said
    assert "a\x1b]0;new title\x07" in run("pagerank escape.csv -o -")  # csv that is no terminal's
