"""Saved regressors predict as they did; files are whole, without pickle, and checked."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import graphrf as grf
from graphrf.gp.files import objects as saved

NODES = np.arange(0, 144, 3)
Y = np.sin(np.arange(144) / 12)[NODES] + 0.1 * np.random.default_rng(0).standard_normal(48)
CHOSEN = {"kernel": "diffusion", "optimize": False}
TABLE = grf.sampling.Survival([1.0, 0.9, 0.5, 0.25])


def _same(one, other):
    for left, right in zip(
        one.predict(return_std=True), other.predict(return_std=True), strict=True
    ):
        np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(one.sample([0, 1], 3, seed=1), other.sample([0, 1], 3, seed=1))
    fitted = [name for name in vars(one) if name.endswith("_")]
    assert fitted == [name for name in vars(other) if name.endswith("_")]
    for name in fitted:
        left, right = (getattr(gp, name) for gp in (one, other))
        np.testing.assert_array_equal(left, right, err_msg=name)


AUTO_LENGTHS = grf.CompressedPowers(16, lengths=grf.sampling.AutoLengths(grf.Diffusion(2.0)))
COUPLED = grf.RandomWalks(8, lengths=grf.sampling.SigmaCoupled(0.1))
MODE = {"kernel": "diffusion", "hyperparameters": "mode"}


@pytest.mark.parametrize(
    ("settings", "y"),
    [
        ({}, Y),
        (
            {"kernel": "matern", "optimize": ("lengthscale", "nu"), "method": "series"},
            np.column_stack([Y, 1 - Y]),
        ),
        ({"kernel": grf.Matern(2.5, 3.0, laplacian="combinatorial"), "noise": np.float32(0.1)}, Y),
        ({**CHOSEN, "numerics": grf.gp.Numerics(sampler=AUTO_LENGTHS, n_threads=1)}, Y),
        (
            {
                **CHOSEN,
                "numerics": grf.gp.Numerics(sampler=COUPLED),
                "prior": None,
                "output_scale": np.float32(0.7),
            },
            Y,
        ),
        (
            {
                **MODE,
                "numerics": grf.gp.Numerics(solver="cg", tol=1e-4, max_iterations=np.int64(200)),
            },
            Y,
        ),
        (
            {
                **MODE,
                "numerics": grf.gp.Numerics(normalize=False),
                "prior": None,
                "noise": np.geomspace(0.01, 0.1, 48),
            },
            Y,
        ),
        (
            {
                "prior": grf.gp.HyperparameterPrior(noise=(0.01, 2.0), lengthscale=None),
                "method": "features",
            },
            Y,
        ),
        ({**MODE, "mean": np.stack(np.divmod(np.arange(144), 12), axis=1)}, 1e6 + Y),
        ({"mean": "zero", "kernel": grf.kernels.LearnedModulation(6), "output_scale": 1.0}, Y),
    ],
)
def test_predictions_after_loading_are_those_before(grid, tmp_path, settings, y):
    gp = grf.GraphGPRegressor(grid, **{"seed": 3, **settings}).fit(NODES, y)
    gp.save(tmp_path / "gp.npz")
    loaded = grf.GraphGPRegressor.load(tmp_path / "gp.npz")
    _same(gp, loaded)
    for name, value in gp.get_params(deep=False).items():
        if name == "graph":
            assert (loaded.graph.adjacency != grid.adjacency).nnz == 0
        elif isinstance(value, tuple):
            assert loaded.optimize == list(value)
        else:
            np.testing.assert_array_equal(getattr(loaded, name), value)
    if not gp.optimize:  # settings are all the same, as was seen; a fit of one kind is enough
        _same(gp, loaded.fit(NODES, y))


def test_repeats_and_a_drawn_seed_are_kept(weighted_graph, tmp_path):
    gp = grf.GraphGPRegressor(weighted_graph, method="features").fit(
        [0, 0, 3, 4, 6], [1.0, 2.0, 0.0, -1.0, 3.0]
    )
    gp.save(tmp_path / "gp.npz")
    _same(gp, grf.GraphGPRegressor.load(tmp_path / "gp.npz"))


@pytest.mark.parametrize(
    "value",
    [
        grf.Diffusion(1 / 3),
        grf.kernels.InverseCosine(),
        grf.kernels.PStepRandomWalk(3.0, 3),
        grf.RegularizedLaplacian(0.1, 3.0, laplacian="combinatorial"),
        grf.kernels.LearnedModulation(2, [1.0, -0.5, 0.1]),
        grf.kernels.PowerSeries(taylor=[Fraction(1, 3), Decimal("0.1"), 0.01]),
        grf.kernels.PowerSeries(modulation=[1.0, 0.1]),
        grf.RandomWalks(
            12, lengths=grf.sampling.IID(0.2), directions="independent", laplacian="combinatorial"
        ),
        grf.RandomWalks(12, lengths=grf.sampling.Antithetic(TABLE)),
        grf.RandomWalks(12, lengths=grf.sampling.Stratified(TABLE)),
        grf.RandomWalks(12, lengths=grf.sampling.Truncated(5)),
        grf.RandomWalks(
            12,
            lengths=grf.sampling.SigmaCoupled(
                TABLE, grf.sampling.Coupling(np.array([[2, 0, 1]]), seed=4)
            ),
        ),
        grf.RandomWalks(12, lengths=grf.sampling.AutoLengths(grf.Matern(1.5, 2.0), tol=1e-3)),
        grf.sampling.ExactPowers(7),
        grf.sampling.CutPowers(9, 7),
        grf.CompressedPowers(16, lengths=TABLE),
        grf.CompressedPowers(16, 5),
    ],
)
def test_every_kernel_and_sampler_survives_json(value):
    text = json.dumps(saved.encoded("value", value))
    assert saved.decoded(json.loads(text)) == value


def test_every_class_of_kernels_laws_and_samplers_is_known():
    classes = [
        value
        for package in (grf.kernels, grf.sampling)
        for value in (getattr(package, name) for name in package.__all__)
        if dataclasses.is_dataclass(value)
        and value not in (grf.kernels.Kernel, grf.sampling.ErrorChoice)
    ]
    assert len(classes) > 15
    for value in classes:
        assert saved._CLASSES[value.__name__] is value


@pytest.mark.parametrize(
    "names", [["a", "b", "c"], [(0, 1), (0, 2), ("x", (1.5, None))], [10, np.int64(20), True + 29]]
)
def test_names_of_nodes_are_kept(tmp_path, names):
    graph = grf.Graph(np.ones((3, 3)) - np.eye(3), nodes=names)
    gp = grf.GraphGPRegressor(graph, kernel=grf.Diffusion(1.0), optimize=False, noise=0.1, seed=0)
    gp.fit([0, 1], [1.0, -1.0]).save(tmp_path / "gp.npz")
    assert tuple(grf.GraphGPRegressor.load(tmp_path / "gp.npz").graph.nodes) == tuple(names)


def test_names_that_json_does_not_know_are_refused_with_the_way_out(tmp_path):
    graph = grf.Graph(np.ones((2, 2)) - np.eye(2), nodes=[frozenset("a"), frozenset("b")])
    gp = grf.GraphGPRegressor(graph, kernel=grf.Diffusion(1.0), optimize=False, noise=0.1).fit(
        [0, 1], [1.0, -1.0]
    )
    with pytest.raises(TypeError, match="pass graph=False"):
        gp.save(tmp_path / "gp.npz")
    assert not list(tmp_path.iterdir())
    gp.save(tmp_path / "gp.npz", graph=False)
    _same(gp, grf.GraphGPRegressor.load(tmp_path / "gp.npz", graph=graph))


def test_kernels_of_ones_own_are_refused_and_nothing_is_written(grid, tmp_path):
    class Diffusion(grf.Diffusion):
        """Another kernel with a known name."""

    gp = grf.GraphGPRegressor(grid, kernel=Diffusion(2.0), noise=0.1, optimize=False).fit(NODES, Y)
    with pytest.raises(TypeError, match="graphrf's own kernels"):
        gp.save(tmp_path / "gp.npz")
    assert not list(tmp_path.iterdir())


def test_only_fitted_regressors_are_saved(grid, tmp_path):
    with pytest.raises(NotFittedError):
        grf.GraphGPRegressor(grid).save(tmp_path / "gp.npz")
    gp = grf.GraphGPRegressor(grid, seed=0).fit(NODES, Y)
    with pytest.raises(TypeError, match="`graph` must be True or False"):
        gp.save(tmp_path / "gp.npz", graph=grid)
    with pytest.raises(TypeError, match="`path` must be a path"):
        gp.save(3)


@pytest.fixture(scope="module")
def content(grid, tmp_path_factory):
    """What a file of a regressor holds."""
    path = tmp_path_factory.mktemp("saved") / "gp.npz"
    grf.GraphGPRegressor(grid, seed=0).fit(NODES, Y).save(path)
    return path.read_bytes()


@pytest.fixture
def file(content, tmp_path):
    (tmp_path / "gp.npz").write_bytes(content)
    return tmp_path / "gp.npz"


def test_no_file_another_file_and_a_cut_one_are_refused(file, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"written by GraphGPRegressor\.save"):
        grf.GraphGPRegressor.load(tmp_path / "none.npz")
    content = file.read_bytes()
    for size in (0, 10, len(content) // 2, len(content) - 1):
        file.write_bytes(content[:size])
        with pytest.raises(
            ValueError, match=r"`path` must be a whole file written by GraphGPRegressor\.save"
        ):
            grf.GraphGPRegressor.load(file)
    np.savez(file, record=np.zeros(3))
    with pytest.raises(ValueError, match="`path` must be a whole file"):
        grf.GraphGPRegressor.load(file)


def _changed(path, record=None, **arrays):
    with np.load(path, allow_pickle=False) as archive:
        content = {name: archive[name] for name in archive.files}
    kept = json.loads(bytes(content["record"]).decode()) | (record or {})
    content["record"] = np.frombuffer(json.dumps(kept).encode(), np.uint8)
    np.savez(path, **{**content, **arrays})


@pytest.mark.parametrize(
    ("record", "arrays"),
    [
        ({"format": "graphrf regressor 0"}, {}),
        ({"kernel": {"class": "eval", "arguments": {"source": "1"}}}, {}),
        ({"kernel": {"class": "Diffusion", "arguments": {"lengthscale": -1.0}}}, {}),
        ({"kernel": 3}, {}),
        ({"fitted": {}}, {}),
        ({"settings": {"mean": "constant", "magic": 1}}, {}),
        ({}, {"nodes": np.arange(48) + 1000}),
        ({}, {"counts": np.ones(3)}),
        ({}, {"means": np.zeros((48, 2))}),
        ({}, {"means": np.full((48, 1), np.nan)}),
        ({}, {"weights": np.full(528, 2.0)}),
        ({}, {"indices": np.full(528, 10**6)}),
    ],
)
def test_files_that_contradict_themselves_are_refused(file, record, arrays):
    _changed(file, record, **arrays)
    with pytest.raises(
        ValueError, match=r"`path` must be a whole file written by GraphGPRegressor\.save"
    ):
        grf.GraphGPRegressor.load(file)


@pytest.mark.parametrize(
    "changes",
    [{"output_scale": 1e308}, {"noise": 1e308}, {"noise": 1e-308}, {"mean_variance": 1e-320}],
)
def test_variances_that_no_fit_finds_are_refused(file, changes):
    with np.load(file) as archive:
        fitted = json.loads(bytes(archive["record"]).decode())["fitted"]
    _changed(file, {"fitted": fitted | changes})
    with pytest.raises(ValueError, match="`path` must be a whole file"):
        grf.GraphGPRegressor.load(file)


def test_points_whose_probabilities_are_none_are_refused(file):
    with np.load(file, allow_pickle=False) as archive:
        points = json.loads(bytes(archive["record"]).decode())["points"]
    assert len(points) > 1
    for wrong in (
        points[1:],
        [points[0] | {"weight": -1.0}, *points[1:]],
        [points[0] | {"weight": 2.0}, *points[1:]],
    ):
        _changed(file, {"points": wrong})
        with pytest.raises(
            ValueError, match=r"`path` must be a whole file written by GraphGPRegressor\.save"
        ):
            grf.GraphGPRegressor.load(file)
    _changed(file, {"points": points}, counts=np.full(48, 1e-305))
    with pytest.raises(
        ValueError, match=r"`path` must be a whole file written by GraphGPRegressor\.save"
    ):
        grf.GraphGPRegressor.load(file)
    _changed(file, counts=np.ones(48))
    assert grf.GraphGPRegressor.load(file).n_points_ == len(points)


def test_pickled_arrays_are_never_read(file):
    _changed(file, nodes=np.array([lambda: None], dtype=object)[:0])
    with pytest.raises(ValueError, match="`path` must be a whole file"):
        grf.GraphGPRegressor.load(file)
    assert zipfile.is_zipfile(file)


def test_a_failed_write_keeps_the_file_that_was_there(grid, file, monkeypatch):
    before = file.read_bytes()

    def broken(*arguments, **named):
        raise OSError("disk full")

    gp = grf.GraphGPRegressor(grid, seed=1).fit(NODES, Y)
    monkeypatch.setattr(np.lib.format, "write_array", broken)
    with pytest.raises(OSError, match="disk full"):
        gp.save(file)
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]
