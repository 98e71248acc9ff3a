import json

import numpy as np
import pytest
import scipy.sparse as sp

import graphrf as grf
from graphrf.features.bounds import HeavyTailWarning, TruncationWarning
from graphrf.features.factor import FeatureFactor
from graphrf.features.features import Features
from graphrf.features.record import Record
from graphrf.features.sample_info import SampleInfo
from graphrf.operators.factor import Factor
from tests.support.interleaving import interleaved_results

KERNEL = grf.RegularizedLaplacian(1.0, 2)


@pytest.fixture(scope="module")
def features(weighted_graph):
    return grf.sample_features(
        weighted_graph, grf.RandomWalks(16, grf.sampling.Stratified(0.2)), seed=3, dtype="float64"
    )


def _features_by_hand(
    graph, counts, *, nodes=None, laplacian="normalized", n_walks=1, work=None, dropped=None
) -> Features:
    """Features from dense counts c[k, i, v]."""
    nodes = np.arange(graph.n_nodes) if nodes is None else np.asarray(nodes)
    counts = counts[:, nodes]
    entries = counts.any(axis=0)
    rows, columns = np.nonzero(entries)
    values = counts[:, rows, columns].T
    per_entry = np.count_nonzero(values, axis=1)
    indptr = np.concatenate([[0], np.cumsum(entries.sum(axis=1))])
    degrees = np.where(graph.degrees > 0, graph.degrees, 1.0) if laplacian == "normalized" else None
    info = SampleInfo(
        n_nodes=graph.n_nodes,
        n_walks=n_walks,
        laplacian=laplacian,
        scale=graph.laplacian_scale(laplacian),
        complete=False,
        seed=0,
        dtype=np.dtype("float64"),
        description={},
        survival=np.ones(len(counts)),
        degrees=degrees,
        of_powers=work is not None,
    )
    record = Record(
        indptr=indptr.astype(np.int32),
        indices=columns.astype(np.int32),
        visit_ptr=np.concatenate([[0], np.cumsum(per_entry)])[indptr],
        visits_per_entry=per_entry.astype(np.uint16),
        steps=np.nonzero(values)[1].astype(np.uint16),
        counts=values[values != 0],
        work=work,
        dropped=dropped,
    )
    return Features(info, nodes, record)


def test_expected_counts_give_the_truncated_series_exactly():
    # On a path all transition probabilities are powers of 1/2, so expected counts are integers.
    path = grf.Graph(sp.diags_array([np.ones(3)] * 2, offsets=[-1, 1]))
    length = 6
    transition = path.adjacency.toarray() / path.degrees[:, None]
    counts = np.stack(
        [np.linalg.matrix_power(transition, k) * 2**length for k in range(length + 1)]
    )
    assert (counts == counts.astype(np.uint16)).all()
    features = _features_by_hand(path, counts.astype(np.uint16), n_walks=2**length)
    f = KERNEL.modulation(length + 1)
    walk = path.walk_matrix().toarray()
    expected = sum(f[k] * np.linalg.matrix_power(walk, k) for k in range(length + 1))
    np.testing.assert_allclose(features.matrix(KERNEL).toarray(), expected, rtol=0, atol=1e-14)
    error = np.linalg.norm(features.gram(KERNEL) - KERNEL.dense(path), 2)
    # Equality for positive modulations, whose worst eigenvalue, 1, is in the spectrum.
    assert error == pytest.approx(features.truncation_error(KERNEL), rel=1e-9)


def _cut_powers(graph, kept, **settings) -> Features:
    """Powers of which only the entries `kept`, boolean of shape (L + 1, N, N), remain."""
    laplacian = settings.get("laplacian", "normalized")
    walk = graph.walk_matrix(laplacian).toarray()
    powers = np.stack([np.linalg.matrix_power(walk, k) for k in range(len(kept))])
    if laplacian == "normalized":
        roots = np.sqrt(np.where(graph.degrees > 0, graph.degrees, 1.0))
    else:
        roots = np.ones(len(walk))
    nodes = settings.get("nodes", np.arange(graph.n_nodes))
    return _features_by_hand(
        graph,
        np.where(kept, powers * roots / roots[:, None], 0).astype(np.float32),
        work=np.ones(len(nodes), np.int64),
        dropped=np.linalg.norm(np.where(kept, 0, powers), axis=2).T[nodes].astype(np.float32),
        **settings,
    )


def _kernel(signed: bool, laplacian: str):
    if signed:
        return grf.kernels.PowerSeries(modulation=[0.5, -0.3, 0.2, 0.1, -0.05], laplacian=laplacian)
    return grf.RegularizedLaplacian(
        1.0 if laplacian == "normalized" else 0.2, 2, laplacian=laplacian
    )


@pytest.mark.parametrize("laplacian", ["normalized", "combinatorial"])
@pytest.mark.parametrize("signed", [False, True])
def test_the_bound_of_cut_rows_holds_whatever_is_cut(weighted_graph, karate, laplacian, signed):
    kernel = _kernel(signed, laplacian)
    rng = np.random.default_rng(0)
    for graph in (weighted_graph, karate):
        n = graph.n_nodes
        exact = kernel.dense(graph)
        # Almost nothing, half, almost all; at random, in whole columns and near the node alone.
        patterns = [
            np.broadcast_to(rng.random((n, n)) < share, (9, n, n))
            for share in (0.02, 0.5, 0.98, 1.0)
        ]
        patterns += [np.broadcast_to(rng.random(n) < share, (9, n, n)) for share in (0.5, 0.9)]
        patterns += [np.broadcast_to(np.eye(n, dtype=bool), (9, n, n)), rng.random((9, n, n)) < 0.5]
        for kept in patterns:
            for nodes in (np.arange(n), rng.choice(n, 5, replace=False), np.array([n // 2])):
                features = _cut_powers(graph, kept, laplacian=laplacian, nodes=nodes)
                gram = features.matrix_from_modulation(
                    kernel.modulation(9, graph.laplacian_scale(laplacian))
                )
                error = np.linalg.norm((gram @ gram.T).toarray() - exact[np.ix_(nodes, nodes)], 2)
                assert error <= features.truncation_error(kernel)


@pytest.mark.parametrize("laplacian", ["normalized", "combinatorial"])
def test_the_bound_of_cut_rows_is_tight_where_whole_powers_are_cut(
    weighted_graph, karate, laplacian
):
    # The modulation is positive and 1 an eigenvalue of W, so that what is cut has the norm of its
    # coefficients. Any other weights in the masses would miss it: degrees differ.
    kernel = grf.kernels.PowerSeries(modulation=[0.5, 0.3, 0.2, 0.1], laplacian=laplacian)
    for graph in (weighted_graph, karate):
        kept = np.zeros((4, graph.n_nodes, graph.n_nodes), bool)
        kept[:2] = True
        features = _cut_powers(graph, kept, laplacian=laplacian)
        assert features.truncation_error(kernel) == pytest.approx(2 * 1.1 * 0.3, rel=1e-5)
        # The Frobenius norm alone is far larger.
        assert np.linalg.norm(features.row_errors(kernel)) > 1.2 * 0.3
        # Other rows could be anything: their share of the columns counts as cut.
        some = features.take([1])
        schur = np.sqrt(0.3 * 1.1)
        assert some.truncation_error(kernel) == pytest.approx(
            2.2 * min(schur, float(some.row_errors(kernel)[0])), rel=1e-5
        )


@pytest.mark.parametrize("which", ["row", "column"])
def test_the_bound_of_cut_rows_needs_rows_and_columns(which):
    # In a complete graph one row, or column, of W has
    # the norm 15^-1/2, and all its entries are 1/15.
    graph = grf.Graph(np.ones((16, 16)) - np.eye(16))
    kept = np.ones((2, 16, 16), bool)
    if which == "row":
        kept[1, 3] = False
    else:
        kept[1, :, 3] = False
    kernel = grf.kernels.PowerSeries(modulation=[0.1, 1.0])
    bound = _cut_powers(graph, kept).truncation_error(kernel)
    assert bound == pytest.approx(2 * 1.1 * 15**-0.5, rel=1e-5)


def test_a_repeated_row_counts_once_in_the_bound(karate):
    kept = np.broadcast_to(np.random.default_rng(1).random((34, 34)) < 0.7, (5, 34, 34))
    features = _cut_powers(karate, kept)
    assert features.take([3, 8, 3]).truncation_error(KERNEL) == features.take(
        [3, 8]
    ).truncation_error(KERNEL)


def test_row_errors_of_walks_are_the_tail_beyond_the_longest(karate):
    features = grf.sample_features(
        karate, grf.RandomWalks(4, grf.sampling.Truncated(3)), nodes=[3, 5], seed=0
    )
    tail = KERNEL.modulation(200)[4:].sum()
    np.testing.assert_allclose(features.row_errors(KERNEL), [tail, tail], rtol=1e-9)
    with pytest.raises(TypeError, match="graphrf kernel"):
        features.row_errors("diffusion")


def test_gram_is_the_product_of_the_rows(features):
    phi = features.matrix(KERNEL).toarray()
    np.testing.assert_allclose(features.gram(KERNEL), phi @ phi.T, atol=1e-14)
    np.testing.assert_allclose(
        features.gram(KERNEL, rows=[2, 0], cols=[5, 4, 4]),
        phi[[2, 0]] @ phi[[5, 4, 4]].T,
        atol=1e-14,
    )


def test_gram_of_two_sets_uses_both_and_refuses_the_same_seed(weighted_graph, features):
    other = grf.sample_features(weighted_graph, grf.RandomWalks(8), seed=4, dtype="float64")
    expected = features.matrix(KERNEL) @ other.matrix(KERNEL).T
    np.testing.assert_allclose(features.gram(KERNEL, other=other), expected.toarray(), atol=1e-14)
    with pytest.raises(ValueError, match="another seed, both have 3"):
        features.gram(KERNEL, other=features)
    with pytest.raises(TypeError, match="`other` must be Features"):
        features.gram(KERNEL, other=other.matrix(KERNEL))


def test_gram_of_two_sets_of_one_seed_is_fine_where_one_draws_nothing(weighted_graph, features):
    kernel = grf.kernels.PowerSeries(modulation=[0.5, 0.3, 0.2])
    phi = features.matrix(kernel).toarray()
    for sampler in (grf.sampling.ExactPowers(2), grf.sampling.CutPowers(8, 2)):
        exact = grf.sample_features(weighted_graph, sampler, seed=3, dtype="float64")
        rows = exact.matrix(kernel).toarray()
        np.testing.assert_allclose(features.gram(kernel, other=exact), phi @ rows.T, atol=1e-14)
        np.testing.assert_allclose(exact.gram(kernel, other=features), rows @ phi.T, atol=1e-14)
        np.testing.assert_allclose(
            exact.gram(kernel, other=exact), kernel.dense(weighted_graph), atol=1e-6
        )
    compressed = grf.sample_features(weighted_graph, grf.CompressedPowers(2, 2), seed=3)
    with pytest.raises(ValueError, match="another seed"):
        features.gram(kernel, other=compressed)


def test_take_gives_the_rows_in_the_order_asked(features):
    some = features.take([4, 1, 4])
    phi = features.matrix(KERNEL).toarray()
    np.testing.assert_array_equal(some.matrix(KERNEL).toarray(), phi[[4, 1, 4]])
    assert some.nodes.tolist() == [4, 1, 4]
    assert some.n_steps == 2 * features.take([4]).n_steps + features.take([1]).n_steps
    assert sum(features.take([node]).n_steps for node in range(8)) == features.n_steps
    with pytest.raises(ValueError, match="among the sampled nodes, got 0"):
        some.take([0])


def test_heavy_tails_are_warned_about_and_light_ones_are_not(karate, recwarn):
    features = grf.sample_features(karate, grf.RandomWalks(4, grf.sampling.IID(0.4)), seed=0)
    features.matrix(KERNEL)
    assert not [warning for warning in recwarn if warning.category is HeavyTailWarning]
    with pytest.warns(HeavyTailWarning, match="smaller p_halt"):
        features.matrix(grf.Diffusion(8.0))
    with pytest.warns(HeavyTailWarning):
        features.gram(grf.Diffusion(8.0))


def test_warnings_point_at_the_line_that_asked(karate):
    features = grf.sample_features(karate, grf.RandomWalks(4, grf.sampling.IID(0.4)), seed=0)
    cut = grf.sample_features(karate, grf.RandomWalks(4, grf.sampling.Truncated(3)), seed=0)
    kernel = grf.Diffusion(8.0)
    for method in (features.matrix, features.gram, cut.matrix, cut.gram):
        with pytest.warns(UserWarning, match="walks") as record:
            method(kernel)
        assert {warning.filename for warning in record} == {__file__}


def test_a_kernel_beyond_the_longest_walk_that_ever_happens_is_warned_about(karate):
    # Every coefficient up to the last step with S(k) > 2^-53 underflows: the features are 0.
    features = grf.sample_features(karate, grf.RandomWalks(4, grf.sampling.IID(0.1)), seed=0)
    with pytest.warns(TruncationWarning, match="cut the series"):
        matrix = features.matrix(grf.Diffusion(100.0))
    assert not matrix.data.any()


def test_powers_in_float32_whose_series_cancels_are_warned_about_and_in_the_end_refused(
    karate, recwarn
):
    rounded = "powers are kept in float32: the Gram matrix may be off by"
    for steps in (4, 20, 30, 40):
        kernel = grf.kernels.PStepRandomWalk(19.0, steps, laplacian="combinatorial")
        powers = grf.sampling.ExactPowers(steps // 2, laplacian="combinatorial")
        features = grf.sample_features(karate, powers, dtype="float64", seed=0)
        if steps == 40:  # 12 times the norm of the kernel
            with pytest.raises(ValueError, match=f"{rounded} more than its norm"):
                features.gram(kernel)
            continue
        gram = features.gram(kernel)
        off = (
            np.linalg.norm(gram - kernel.dense(karate), 2)
            / kernel.root_norm(features.info.scale) ** 2
        )
        said = [str(warning.message) for warning in recwarn if rounded in str(warning.message)]
        recwarn.clear()
        assert len(said) == (steps > 4)
        assert off < (float(said[0].split("off by up to ")[1].split()[0]) if said else 1e-3)


def test_kernels_of_the_other_laplacian_are_refused(features, karate):
    with pytest.raises(ValueError, match="of the normalized Laplacian, whose walks these are"):
        features.matrix(grf.Diffusion(1.0, laplacian="combinatorial"))
    with pytest.raises(
        TypeError, match=r"graphrf kernel such as Diffusion\(lengthscale=2.0\), got str 'diffusion'"
    ):
        features.matrix("diffusion")


def test_names_are_refused_where_only_positions_are_known(features):
    with pytest.raises(
        TypeError, match=r"`rows` must be .* positions .*: graph.index\(\[...\]\) turns names"
    ):
        features.gram(grf.Diffusion(1.0), rows=["Valjean"])


def test_factor_is_linear_in_the_modulation_and_follows_its_protocol(weighted_graph, features):
    factor = features.factor()
    assert isinstance(factor, Factor)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 3)), rng.normal(size=(8, 3))
    f = rng.normal(size=12)
    dense = features.matrix_from_modulation(f).toarray()
    np.testing.assert_allclose(factor.apply(f, x), dense @ x, atol=1e-12)
    np.testing.assert_allclose(factor.apply(f, x[:, 0]), dense @ x[:, 0], atol=1e-12)
    np.testing.assert_allclose(factor.apply_t(f, y), dense.T @ y, atol=1e-12)
    np.testing.assert_allclose(factor.diagonal(f), (dense**2).sum(axis=1), atol=1e-12)
    gradient = factor.grad_f(x, y)
    assert gradient.shape == (features.max_length + 1,)
    for k in range(12):
        unit = np.eye(12)[k]
        expected = np.sum(y * (features.matrix_from_modulation(unit).toarray() @ x))
        assert gradient[k] == pytest.approx(expected, abs=1e-10)
    rows = np.array([5, 2, 2])
    np.testing.assert_allclose(factor.take(rows).apply(f, x), (dense @ x)[rows], atol=1e-12)
    np.testing.assert_allclose(
        factor.take(rows).grad_f(x, y[rows])[:3],
        [
            np.sum(y[rows] * (features.matrix_from_modulation(np.eye(3)[k]).toarray() @ x)[rows])
            for k in range(3)
        ],
        atol=1e-10,
    )


def test_threads_that_share_a_factor_get_their_own_modulation(features):
    factor = features.factor(n_threads=1)
    mine, other = np.ones(6), np.full(6, 2.0)
    expected = features.matrix_from_modulation(mine).toarray()
    for first in (mine, other):  # what the factor remembers at the start

        def call(first=first):
            factor.matrix(first)
            return factor.matrix(mine).toarray()

        results = interleaved_results(
            call, lambda: factor.matrix(other), FeatureFactor.matrix.__code__
        )
        assert len(results) > 4
        for result in results:
            np.testing.assert_array_equal(result, expected)


def test_saved_features_come_back_whole(tmp_path, features):
    path = tmp_path / "features.npz"
    features.save(path)
    again = grf.features.load_features(path)
    np.testing.assert_array_equal(again.matrix(KERNEL).toarray(), features.matrix(KERNEL).toarray())
    for name in (
        "n_nodes",
        "n_walks",
        "n_steps",
        "seed",
        "laplacian",
        "dtype",
        "description",
        "nnz",
    ):
        assert getattr(again, name) == getattr(features, name)
    assert [entry.name for entry in tmp_path.iterdir()] == ["features.npz"]


def test_paths_and_devices_that_are_none_are_refused(tmp_path, features):
    text = tmp_path / "edges.csv"
    text.write_text("1,2\n")
    with pytest.raises(ValueError, match=r"not an \.npz archive"):
        grf.features.load_features(text)
    with pytest.raises(TypeError, match="`path` must be a path, got NoneType None"):
        grf.features.load_features(None)
    with pytest.raises(TypeError, match="`path` must be a path"):
        features.save(3.5)
    torch = pytest.importorskip("torch", reason="the extra `gp` is not installed")
    # of the last three torch takes one for the host, and has no module for the others
    for device in ("foo", "meta", 3.5, 0, b"cpu", "hpu", "privateuseone"):
        for use in (features.to, lambda device: features.torch(KERNEL, device=device)):
            with pytest.raises(ValueError, match="`device` must be a torch device at hand"):
                use(device)
    with pytest.raises(ValueError, match=r"`device` must be a torch device at hand.*got None"):
        features.to(None)
    assert features.to(torch.device("cpu")) is features


def test_a_file_whose_arrays_contradict_each_other_is_refused(tmp_path, features):
    path = tmp_path / "features.npz"
    features.save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    for name, value in (
        ("indices", arrays["indices"] + 8),
        ("steps", arrays["steps"] + 1000),
        ("counts", arrays["counts"][:-1]),
        ("visit_ptr", arrays["visit_ptr"][::-1]),
        ("visits_per_entry", np.roll(arrays["visits_per_entry"], 1)),
        ("nodes", arrays["nodes"] - 1),
    ):
        np.savez(path, **{**arrays, name: value})
        with pytest.raises(ValueError, match="inconsistent"):
            grf.features.load_features(path)
    np.savez(path, **{name: array for name, array in arrays.items() if name != "degrees"})
    with pytest.raises(ValueError, match="inconsistent"):
        grf.features.load_features(path)
    record = json.loads(arrays["record"].tobytes()) | {"n_walks": 0}
    np.savez(path, **{**arrays, "record": np.frombuffer(json.dumps(record).encode(), np.uint8)})
    with pytest.raises(ValueError, match="inconsistent"):
        grf.features.load_features(path)


@pytest.mark.parametrize("laplacian", ["normalized", "combinatorial"])
def test_a_file_whose_values_overflow_is_refused(tmp_path, laplacian):
    graph = grf.from_edges([0, 1, 2], [1, 2, 3])
    for sampler in (
        grf.RandomWalks(4, laplacian=laplacian),
        grf.sampling.ExactPowers(3, laplacian=laplacian),
    ):
        path = tmp_path / "features.npz"
        grf.sample_features(graph, sampler, seed=0).save(path)
        with np.load(path) as archive:
            arrays = dict(archive)
        if laplacian == "combinatorial":  # degrees play no part
            if arrays["counts"].dtype == np.float32:
                np.savez(path, **{**arrays, "counts": np.full_like(arrays["counts"], 1e30)})
                with pytest.raises(
                    ValueError, match=r"features.npz'.* at most 1e\+18.* got 1e\+30"
                ):
                    grf.features.load_features(path)
            continue
        for degree in (5e-324, 1e-310, 1e308):
            arrays["degrees"][1] = degree
            np.savez(path, **arrays)
            with pytest.raises(
                ValueError, match=r"written by Features.save, got .*features.npz'.*degrees"
            ):
                grf.features.load_features(path)


def test_a_graph_of_extreme_weights_is_read_as_it_was_written(tmp_path):
    graph = grf.from_edges([0, 1, 2, 3], [1, 2, 3, 0], weight=[1e-290, 1.0, 1e200, 1e-100])
    for sampler in (
        grf.RandomWalks(64),
        grf.sampling.ExactPowers(8),
        grf.CompressedPowers(2),
        grf.sampling.CutPowers(2, 8),
    ):
        features = grf.sample_features(graph, sampler, seed=0, dtype="float64")
        features.save(tmp_path / "features.npz")
        again = grf.features.load_features(tmp_path / "features.npz")
        assert np.isfinite(again.matrix_from_modulation(np.ones(3)).data).all()
