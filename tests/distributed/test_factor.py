"""Products on workers are those of one process, bit for bit; blocks stay where they are."""

from __future__ import annotations

import time

import numpy as np
import pytest
from distributed import Client, LocalCluster

import graphrf as grf
from graphrf.distributed import DistributedFactor
from graphrf.distributed.factor import TrafficCosts
from graphrf.features.matrix import step_squares
from graphrf.operators.factor import Factor
from tests.distributed.helpers import require_same, weighted

GRAPH = weighted()
NODES = np.random.default_rng(0).permutation(90)[:70]
SAMPLER = grf.RandomWalks(8, grf.sampling.Truncated(6))
F = grf.Diffusion(1.0).modulation(7)
RNG = np.random.default_rng(1)
ROWS = {
    "some": [3, 40, 41, 69],
    "backwards": list(range(69, -1, -1)),
    "some twice": [5, 60, 5, 5, 0, 33, 60],
}


def _close(found, expected):
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    tolerance = 64 * np.finfo(expected.dtype).eps
    np.testing.assert_allclose(
        found, expected, rtol=0, atol=tolerance * max(1.0, np.abs(expected).max(initial=0))
    )


@pytest.fixture(scope="module", params=["float32", "float64"])
def pair(cluster_client, request):
    """Features on the cluster and here."""
    options = {"nodes": NODES, "seed": 2, "dtype": request.param}
    remote = grf.distributed.sample_features(
        GRAPH, SAMPLER, client=cluster_client, block_size=9, **options
    )
    return remote, grf.sample_features(GRAPH, SAMPLER, **options)


def with_costs(factor, **costs):
    """The same factor with other costs of traffic."""
    return DistributedFactor(
        factor._info,
        factor._held,
        factor._sizes,
        factor._row_bytes,
        factor._order,
        TrafficCosts(**costs),
    )


@pytest.fixture
def staying(pair):
    """Factors, of which rows that are taken from the first stay on the workers."""
    remote, local = (features.factor() for features in pair)
    return with_costs(remote, few_bytes=-1), local


# -- products --------------------------------------------------------------------------------------


def _require_products(remote, local, shapes=((3,),), types=("float32",)):
    """All products, with some vectors and panels."""
    assert remote.shape == local.shape
    n, n_nodes = local.shape
    for columns in shapes:
        for dtype in types:
            x = RNG.standard_normal((n_nodes, *columns)).astype(dtype)
            y = RNG.standard_normal((n, *columns)).astype(dtype)
            found, expected = remote.apply(F, x), local.apply(F, x)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
            _close(remote.apply_t(F, y), local.apply_t(F, y))
            _close(remote.gram_apply(F, y), local.apply(F, local.apply_t(F, y)))
            _close(remote.gram_apply(F, y, 1.7), local.gram_apply(F, y, 1.7))
            _close(remote.grad_f(x, y), local.grad_f(x, y))
    np.testing.assert_array_equal(remote.diagonal(F), local.diagonal(F))


def test_products_are_those_of_one_process(pair):
    remote, local = (features.factor() for features in pair)
    assert isinstance(remote, Factor)
    assert (remote.dtype, remote.max_length) == (local.dtype, local.max_length)
    _require_products(remote, local, [(), (5,), (0,)], ["float32", "float64"])


def test_columns_beside_a_column_change_no_bit_of_its_products(pair):
    remote = pair[0].factor()
    y = RNG.standard_normal((70, 5))
    wide = remote.gram_apply(F, y), remote.apply_t(F, y)
    narrow = with_costs(remote, panel_bytes=1)
    np.testing.assert_array_equal(narrow.gram_apply(F, y), wide[0])
    np.testing.assert_array_equal(narrow.apply_t(F, y), wide[1])


def test_products_between_steps_are_added_up(pair):
    np.testing.assert_allclose(
        pair[0].step_squares(),
        step_squares(pair[1].info, pair[1].nodes, pair[1].record),
        rtol=1e-12,
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bits_depend_neither_on_workers_nor_on_threads(cluster_client, dtype):
    y = np.random.default_rng(3).standard_normal((90, 3)).astype(dtype)
    products = []
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=3, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster, set_as_default=False) as one,
    ):
        for client in (cluster_client, one):
            remote = grf.distributed.sample_features(
                GRAPH, SAMPLER, client=client, seed=2, dtype=dtype, block_size=8
            ).factor()
            products.append(
                [
                    remote.apply_t(F, y),
                    remote.gram_apply(F, y),
                    remote.grad_f(y, y),
                    remote.diagonal(F),
                ]
            )
    for found, expected in zip(*products, strict=True):
        np.testing.assert_array_equal(found, expected)


def require_same_rows(one, other):
    """The rows of two factors on this machine are the same."""
    require_same(
        *(
            grf.features.Features(factor._info, factor._nodes, factor._record)
            for factor in (one, other)
        )
    )


# -- some of the rows ------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_some_rows_come_here(pair, rows):
    remote, local = (features.factor().take(np.array(rows)) for features in pair)
    assert type(remote) is type(local)
    require_same_rows(remote, local)


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_some_rows_stay_there(staying, rows):
    remote, local = (factor.take(np.array(rows)) for factor in staying)
    assert isinstance(remote, DistributedFactor)
    _require_products(remote, local)


def test_some_of_some_rows_stay_there_or_come_here(staying):
    first, second, third = (
        np.array(ROWS["backwards"]),
        np.array([60, 2, 2, 35, 1, 68]),
        np.array([4, 0, 0, 5]),
    )
    remote, local = (factor.take(first).take(second) for factor in staying)
    _require_products(remote, local)
    _require_products(remote.take(third), local.take(third))
    require_same_rows(with_costs(remote).take(third), local.take(third))


def test_no_rows_are_a_factor_too(pair):
    remote, local = (features.factor().take(np.zeros(0, np.int64)) for features in pair)
    assert remote.shape == (0, 90)
    require_same_rows(remote, local)


@pytest.mark.parametrize(
    "rows",
    [[70], [0, -1], [True, False], [1.0]],
    ids=["beyond the last", "negative", "a mask", "floats"],
)
def test_rows_that_are_not_there_are_refused(pair, rows):
    with pytest.raises(ValueError, match="`rows` must be numbers of rows in"):
        pair[0].factor().take(np.array(rows))


# -- where blocks are ------------------------------------------------------------------------------


@pytest.fixture
def stately(cluster_client):
    """Blocks that Dask takes for large ones, which it does not move to save milliseconds."""
    cluster_client.run(_pretend)
    yield cluster_client
    cluster_client.run(_stop_pretending)


def _pretend():
    from graphrf.distributed.blocks import RowBlock

    RowBlock._plain, RowBlock.__sizeof__ = RowBlock.__sizeof__, lambda self: 2**26


def _stop_pretending():
    from graphrf.distributed.blocks import RowBlock

    RowBlock.__sizeof__ = RowBlock._plain
    del RowBlock._plain


def _where(features):
    return {
        key: set(found)
        for key, found in features._held.client.who_has(features._held.futures).items()
    }


def test_blocks_stay_on_the_workers_that_made_them(stately):
    features = grf.distributed.sample_features(GRAPH, SAMPLER, client=stately, seed=2, block_size=6)
    made = _where(features)
    assert all(len(workers) == 1 for workers in made.values())
    held = [
        sum(workers == {address} for workers in made.values())
        for address in set().union(*made.values())
    ]
    assert len(held) == 2
    assert min(held) >= 5  # of 15
    remote, y = features.factor(), np.ones(90)
    for _ in range(10):
        remote.gram_apply(F, y)
        remote.diagonal(F)
    remote.grad_f(y, y)
    assert _where(features) == made


def test_copies_of_small_blocks_do_not_stay(cluster_client):
    features = grf.distributed.sample_features(
        GRAPH, SAMPLER, client=cluster_client, seed=2, block_size=6
    )
    for _ in range(10):
        features.factor().gram_apply(F, np.ones(90))
    limit = time.monotonic() + 60
    while max(map(len, _where(features).values())) > 1 and time.monotonic() < limit:
        time.sleep(0.2)
    assert {len(workers) for workers in _where(features).values()} == {1}
    assert sum(held.n_blocks for held in features.memory().values()) == features.n_blocks


def test_panels_do_not_stay_on_workers(cluster_client):
    features = grf.distributed.sample_features(
        GRAPH, SAMPLER, client=cluster_client, seed=2, block_size=6
    )
    before = _keys(cluster_client)
    y = np.ones((90, 50))
    features.factor().gram_apply(F, y)
    features.factor().grad_f(y, y)
    limit = time.monotonic() + 60
    while (left := _keys(cluster_client) - before) and time.monotonic() < limit:
        time.sleep(0.1)
    assert not left


def _keys(client):
    """What workers hold."""
    return {key for keys in client.has_what().values() for key in keys}
