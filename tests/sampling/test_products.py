"""Products of features: exact factors, equal bits, bad input, means of B and B B^T."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf
from tests.sampling.test_sample import _projections, _same
from tests.statistics.grid import blocks, copies
from tests.support.sequential import assert_unbiased

KERNEL = grf.Diffusion(2.0)
# Two walks of two steps for every factor.
SAMPLER = grf.RandomWalks(2, grf.sampling.Truncated(2), directions="independent")
LAPLACIANS = ["normalized", "combinatorial"]
# Steps so few leave out 2.9 % of the root kernel.
pytestmark = pytest.mark.filterwarnings("ignore:walks of 2 steps cut the series")


@pytest.fixture(scope="module")
def product(karate):
    return grf.sampling.sample_product(
        karate, SAMPLER, n_factors=3, nodes=[5, 0, 33, 2], seed=3, dtype="float64"
    )


# -- matrices --------------------------------------------------------------------------------------


@pytest.mark.parametrize("laplacian", LAPLACIANS)
@pytest.mark.parametrize("n_factors", [1, 2, 3])
def test_exact_factors_give_the_exact_root(weighted_graph, n_factors, laplacian):
    # F is a polynomial of degree 6, each factor one of degree 6 / n.
    kernel = grf.kernels.PStepRandomWalk(
        2.5 * weighted_graph.laplacian_scale(laplacian), 12, laplacian=laplacian
    )
    sampler = grf.sampling.ExactPowers(6 // n_factors, laplacian=laplacian)
    product = grf.sampling.sample_product(
        weighted_graph, sampler, n_factors=n_factors, dtype="float64"
    )
    exact, root = kernel.dense(weighted_graph), kernel.dense_root(weighted_graph)
    x = np.random.default_rng(0).standard_normal((8, 3))
    for value, expected in [
        (product.matrix(kernel).toarray(), root),
        (product.apply(kernel, x), root @ x),
        (product.apply_t(kernel, x), root @ x),
        (product.gram(kernel), exact),
        (product.gram(kernel, other=product), exact),  # nothing was drawn
    ]:
        assert np.abs(value - expected).max() < 1e-6 * np.abs(expected).max()
    dense = kernel.root(n_factors).dense_root(weighted_graph)
    for factor in product.matrices(kernel):
        assert np.abs(factor.toarray() - dense).max() < 1e-6 * np.abs(dense).max()


def test_all_methods_follow_from_the_factors(karate, product):
    matrices = product.matrices(KERNEL)
    for matrix, features in zip(matrices, product.factors, strict=True):
        np.testing.assert_array_equal(
            matrix.toarray(), features.matrix(grf.Diffusion(2 / 3**0.5)).toarray()
        )
    b = matrices[0].toarray() @ matrices[1].toarray() @ matrices[2].toarray()
    rng = np.random.default_rng(0)
    np.testing.assert_allclose(product.matrix(KERNEL).toarray(), b, atol=1e-14)
    for columns in ((), (3,)):
        x, y = rng.standard_normal((34, *columns)), rng.standard_normal((4, *columns))
        np.testing.assert_allclose(product.apply(KERNEL, x), b @ x, atol=1e-13)
        np.testing.assert_allclose(product.apply_t(KERNEL, y), b.T @ y, atol=1e-13)
    np.testing.assert_allclose(product.gram(KERNEL), b @ b.T, atol=1e-14)
    np.testing.assert_allclose(
        product.gram(KERNEL, rows=[33, 5], cols=[0, 2, 2]), b[[2, 0]] @ b[[1, 3, 3]].T, atol=1e-14
    )
    other = grf.sampling.sample_product(karate, SAMPLER, nodes=[8, 4], seed=3, dtype="float64")
    expected = b[[1]] @ other.matrix(KERNEL).toarray().T
    np.testing.assert_allclose(product.gram(KERNEL, rows=[0], other=other), expected, atol=1e-14)
    np.testing.assert_allclose(
        product.gram(KERNEL, rows=[0], cols=[4], other=other), expected[:, 1:], atol=1e-14
    )


@pytest.mark.parametrize("filled", [False, True])
def test_gram_matrices_are_those_of_sparse_and_of_filled_rows(karate, grid, filled):
    product = grf.sampling.sample_product(
        karate if filled else grid,
        SAMPLER,
        n_factors=3,
        nodes=[5, 0, 33, 2],
        seed=3,
        dtype="float64",
    )
    matrix = product.matrix(KERNEL)
    assert (matrix.nnz > 0.25 * np.prod(matrix.shape)) == filled
    expected = (matrix @ matrix.T).toarray()
    gram = product.gram(KERNEL)
    np.testing.assert_allclose(gram, expected, atol=1e-14)
    np.testing.assert_array_equal(gram, gram.T)
    np.testing.assert_allclose(product.gram(KERNEL, cols=[0]), expected[:, [1]], atol=1e-14)


# -- seeds -----------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_bits_on_any_threads_and_choice_of_nodes(grid):
    sampler = grf.RandomWalks(8, grf.sampling.Stratified(0.3))
    whole = grf.sampling.sample_product(grid, sampler, seed=7, n_threads=1)
    other = grf.sampling.sample_product(grid, sampler, seed=7, n_threads=4)
    assert all(_same(one, two) for one, two in zip(whole.factors, other.factors, strict=True))
    nodes = [100, 3, 50, 3]
    part = grf.sampling.sample_product(grid, sampler, nodes=nodes, seed=7)
    assert _same(part.factors[0], whole.factors[0].take(nodes))
    assert _same(part.factors[1], whole.factors[1])
    np.testing.assert_array_equal(
        part.matrix(KERNEL).toarray(), whole.matrix(KERNEL).toarray()[nodes]
    )
    drawn = grf.sampling.sample_product(grid, sampler)
    again = grf.sampling.sample_product(grid, sampler, seed=drawn.seed)
    assert all(_same(one, two) for one, two in zip(drawn.factors, again.factors, strict=True))
    assert not _same(drawn.factors[0], whole.factors[0])


def test_every_factor_has_a_seed_of_its_own():
    pair = grf.from_edges([0], [1])
    sampler = grf.RandomWalks(1, grf.sampling.Truncated(1))
    given = [0, 1, 2, 2**32, 2**62, 2**63 - 1]
    derived = [
        features.seed
        for seed in given
        for n_factors in (1, 2, 3)
        for features in grf.sampling.sample_product(
            pair, sampler, n_factors=n_factors, seed=seed
        ).factors
    ]
    assert len({*given, *derived}) == len(given) + 6 * len(given)
    words = np.random.SeedSequence(2**62, spawn_key=(3,)).generate_state(3, np.uint64)
    product = grf.sampling.sample_product(pair, sampler, n_factors=3, seed=2**62)
    assert [features.seed for features in product.factors] == [int(word) // 2 for word in words]
    assert _same(product.factors[1], grf.sample_features(pair, sampler, seed=int(words[1]) // 2))


# -- bad input -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def features(karate):
    return grf.sample_features(karate, SAMPLER, seed=1)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda one, two: one, TypeError, "`factors` must be a sequence of Features"),
        (lambda one, two: [one, two, one], ValueError, "different seeds, got 1 twice"),
        (
            lambda one, two: [one, two.take([3, 4])],
            ValueError,
            r"`factors\[1\]` must have one row .* 2 rows for 34",
        ),
        (
            lambda one, two: [one, grf.sample_features(grf.from_edges([0], [1]), SAMPLER, seed=2)],
            ValueError,
            r"`factors\[1\]` must be features of the same graph and Laplacian",
        ),
    ],
)
def test_factors_that_form_no_product_are_refused(karate, features, change, error, message):
    two = grf.sample_features(karate, SAMPLER, seed=2)
    with pytest.raises(error, match=message):
        grf.sampling.ProductFeatures(change(features, two))


def test_factors_that_draw_nothing_may_share_a_seed(karate, features):
    exact = grf.sample_features(karate, grf.sampling.ExactPowers(2), seed=1)
    product = grf.sampling.ProductFeatures([features, exact, exact])
    assert (product.n_factors, product.seed) == (3, None)
    kernel = grf.Diffusion(1.0)
    np.testing.assert_allclose(
        grf.sampling.ProductFeatures((features,)).gram(kernel), features.gram(kernel), rtol=1e-6
    )


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda p: p.gram(grf.kernels.InverseCosine()), ValueError, r"R\^3 = K in closed form"),
        (
            lambda p: p.apply(grf.kernels.PStepRandomWalk(3.0, 4), np.ones(34)),
            ValueError,
            "`n` must divide the 4 steps",
        ),
        (
            lambda p: p.matrices(grf.Diffusion(1.0, laplacian="combinatorial")),
            ValueError,
            "of the normalized Lap",
        ),
        (
            lambda p: p.apply(KERNEL, np.ones(4)),
            ValueError,
            r"`x` must have shape \(34,\) or \(34, p\)",
        ),
        (
            lambda p: p.gram(KERNEL, rows=[1]),
            ValueError,
            "`rows` must be among the sampled nodes, got 1",
        ),
        (
            lambda p: p.gram(KERNEL, other=p),
            ValueError,
            "`other` must be drawn with different seeds",
        ),
        (
            lambda p: p.gram(KERNEL, other=p.factors[0]),
            TypeError,
            "`other` must be ProductFeatures, got a Features of",
        ),
    ],
)
def test_bad_arguments_of_a_product_are_named(product, call, error, message):
    with pytest.raises(error, match=message):
        call(product)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"n_factors": 0}, ValueError, "`n_factors` must be at least 1, got 0"),
        ({"nodes": [34]}, ValueError, "`nodes`"),
        ({"sampler": None}, TypeError, "`sampler` must be a sampler"),
    ],
)
def test_bad_arguments_of_sampling_are_named(karate, settings, error, message):
    settings = {"graph": karate, "sampler": SAMPLER, **settings}
    with pytest.raises(error, match=message):
        grf.sampling.sample_product(**settings)


def test_all_factors_share_the_memory_limit(grid):
    sampler = grf.RandomWalks(64, grf.sampling.Truncated(8))
    with pytest.raises(MemoryError, match="`memory_limit`"):
        grf.sampling.sample_product(grid, sampler, seed=0, memory_limit=1000)
    low, high = 1000, 2**30  # the least that one factor needs
    while high - low > 1000:
        middle = (low + high) // 2
        try:
            first = grf.sampling.sample_product(
                grid, sampler, n_factors=1, seed=0, memory_limit=middle
            )
            high = middle
        except MemoryError:
            low = middle
    with pytest.raises(MemoryError, match="`memory_limit`"):
        grf.sampling.sample_product(grid, sampler, seed=0, memory_limit=high + first.nbytes // 2)
    grf.sampling.sample_product(grid, sampler, seed=0, memory_limit=high + 2 * first.nbytes)


@pytest.mark.parametrize(
    "call",
    [
        lambda p, kernel: p.matrices(kernel),
        lambda p, kernel: p.matrix(kernel),
        lambda p, kernel: p.apply(kernel, np.ones(34)),
        lambda p, kernel: p.apply_t(kernel, np.ones(4)),
        lambda p, kernel: p.gram(kernel),
    ],
)
def test_warnings_name_the_root_kernel_and_point_at_the_caller(product, call):
    with pytest.warns(
        grf.features.TruncationWarning, match=r"cut the series of Diffusion\(lengthscale=4"
    ) as caught:
        call(product, grf.Diffusion(4 * 3**0.5))
    assert {warning.filename for warning in caught} == {__file__}


# -- means -----------------------------------------------------------------------------------------
#
# Many copies of a graph side by side are as many independent
# draws: walks of different nodes are independent.


def _blocks(graph, n, sample):
    """The diagonal blocks of what `sample` gives for n copies of a graph, (n, N, N)."""
    return blocks(sample(copies(graph, n)), graph.n_nodes)


def _b(kernel, sampler, n_factors, seed):
    def sample(graph):
        product = grf.sampling.sample_product(
            graph, sampler, n_factors=n_factors, seed=seed, dtype="float64"
        )
        return product.matrix(kernel)

    return sample


def _settings(graph, laplacian, n_factors, n_walks):
    """Kernel, sampler, projections and F_R for a product."""
    kernel = grf.Diffusion(2.0 if laplacian == "normalized" else 1.0, laplacian=laplacian)
    sampler = grf.RandomWalks(
        n_walks, grf.sampling.Truncated(2), directions="independent", laplacian=laplacian
    )
    left, right, root = _projections(graph, kernel.root(n_factors), sampler.lengths.survival)
    return kernel, sampler, left, right, root


def _projected(left, right, matrices):
    """left M right^T, and the trace, in which factors that share walks show."""
    trace = np.trace(matrices, axis1=-2, axis2=-1)[..., None]
    return np.concatenate([np.einsum("pi,...ij,pj->...p", left, matrices, right), trace], axis=-1)


def _draws_of_b(graph, kernel, sampler, n_factors, left, right):
    """Projections of B, and of B B'^T for an independent product B'."""

    def draw(round_index, n):
        one, two = (
            _blocks(graph, n, _b(kernel, sampler, n_factors, 2 * round_index + i)) for i in (0, 1)
        )
        grams = one @ two.transpose(0, 2, 1)
        return np.concatenate(
            [_projected(left, right, one), _projected(left, right, grams)], axis=1
        )

    return draw


@pytest.mark.parametrize("laplacian", LAPLACIANS)
@pytest.mark.parametrize("n_factors", [2, 3])
@pytest.mark.filterwarnings("ignore::graphrf.features.TruncationWarning")
def test_a_product_and_the_gram_matrix_of_two_are_unbiased(weighted_graph, n_factors, laplacian):
    kernel, sampler, left, right, root = _settings(weighted_graph, laplacian, n_factors, 1)
    f = np.linalg.matrix_power(root, n_factors)
    truth = np.concatenate([_projected(left, right, f), _projected(left, right, f @ f.T)])
    assert_unbiased(
        _draws_of_b(weighted_graph, kernel, sampler, n_factors, left, right), truth, n0=4000
    )


def test_the_unbiasedness_test_notices_factors_of_one_seed(weighted_graph):
    kernel, sampler, left, right, root = _settings(weighted_graph, "normalized", 2, 1)

    def draw(round_index, n):
        def squared(graph):
            features = grf.sample_features(graph, sampler, seed=round_index, dtype="float64")
            matrix = features.matrix(kernel.root(2))
            return matrix @ matrix

        return _projected(left, right, _blocks(weighted_graph, n, squared))

    with pytest.raises(AssertionError, match="round 1,"):
        assert_unbiased(draw, _projected(left, right, root @ root), n0=8000)
