"""Groups of blocks: what a task works on fits its worker, and all of a worker's threads work."""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError
from types import SimpleNamespace

import numpy as np
import pytest

from graphrf.distributed import block_store
from graphrf.distributed.client import Worker

LIMIT = 2**20


class _Fixed(block_store.Blocks):
    """Blocks of given sizes on given workers, with nothing behind them."""

    def __init__(self, sizes, where):
        self._futures = [SimpleNamespace(key=f"block {number}") for number in range(len(sizes))]
        known = {future.key: size for future, size in zip(self._futures, sizes, strict=True)}
        places = {future.key: at for future, at in zip(self._futures, where, strict=True)}
        self.client = SimpleNamespace(
            who_has=lambda futures: {future.key: places[future.key] for future in futures},
            nbytes=lambda keys, summary: {key: known[key] for key in keys},
        )

    @property
    def futures(self):
        return self._futures

    def revive(self):
        raise AssertionError("nothing is lost")


@pytest.fixture(autouse=True)
def two_workers(monkeypatch):
    """Workers of four threads and one, of which the first has little memory, the other no limit."""
    there = [Worker("small", 4, LIMIT), Worker("large", 1, None)]
    monkeypatch.setattr(block_store, "workers", lambda client: there)
    monkeypatch.setattr(block_store, "settled", lambda *arguments: None)
    return there


def _groups(sizes, where=None):
    groups = _Fixed(sizes, where or [("small",)] * len(sizes)).groups()
    numbers = [number for group in groups for number in group.numbers]
    assert sorted(numbers) == list(range(len(sizes)))
    return groups


@pytest.mark.parametrize("seed", range(5))
def test_blocks_under_way_take_at_most_a_quarter_of_a_worker(seed):
    sizes = np.random.default_rng(seed).integers(1, LIMIT // 16, 60).tolist()
    groups = _groups(sizes)
    assert len(groups) > 4
    for group in groups:
        assert group.numbers == sorted(group.numbers)
        assert group.threads == 1
    held = sorted(sum(sizes[number] for number in group.numbers) for group in groups)
    assert sum(held[-4:]) <= LIMIT // 4  # Dask runs as many tasks as there are threads
    assert np.mean(held) > LIMIT // 64  # and no group is cut for nothing


@pytest.mark.parametrize(("n_groups", "threads"), [(1, 4), (2, 2), (4, 1), (9, 1)])
def test_threads_of_groups_add_up_to_those_of_their_worker(n_groups, threads):
    groups = _groups([LIMIT // 16] * n_groups)
    assert [group.threads for group in groups] == [threads] * n_groups


def test_blocks_too_large_for_a_share_go_alone():
    groups = _groups([LIMIT, 1, 1, LIMIT, LIMIT])
    assert [group.numbers for group in groups] == [[0], [1, 2], [3], [4]]


def test_a_block_with_copies_is_worked_on_once():
    groups = _groups([5] * 4, [("small",), ("large",), ("small", "large"), ("large", "small")])
    assert [(group.address, group.numbers) for group in groups] == [
        ("small", [0, 2]),
        ("large", [1, 3]),
    ]


@pytest.mark.parametrize(
    ("key", "expected"), [("small", CancelledError), ("something else", KeyError)]
)
def test_a_worker_that_dies_while_parts_are_sent_to_it_is_lost_like_any_other(key, expected):
    blocks = _Fixed([10, 10], [("small",), ("large",)])

    async def scatter(data, **settings):
        raise KeyError(key)  # as the scheduler does

    blocks.client.scatter, blocks.client.sync = scatter, lambda send: asyncio.run(send())
    with pytest.raises(expected, match=key):
        blocks.sent(blocks.groups(), ["a", "b"])
