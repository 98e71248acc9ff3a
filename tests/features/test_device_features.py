"""Features whose record is on a torch device, against those on the host, bit for bit."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

import graphrf as grf

torch = pytest.importorskip("torch", reason="records on devices need the extra `gp`")

from graphrf.features import device_record, tensor  # noqa: E402
from graphrf.features.device_record import unsigned16  # noqa: E402
from graphrf.features.matrix import step_squares  # noqa: E402
from graphrf.features.rows import row_numbers  # noqa: E402
from tests.support.same_features import ARRAYS, changed, with_tensors  # noqa: E402
from tests.support.simulated_device import Simulated, SimulatedDevice  # noqa: E402

CPU = torch.device("cpu")
LENGTH = 9
SAMPLERS = {
    "walks": grf.RandomWalks(16, grf.sampling.Truncated(LENGTH)),
    "combinatorial walks": grf.RandomWalks(
        16, grf.sampling.Truncated(LENGTH), laplacian="combinatorial"
    ),
    "cut powers": grf.sampling.CutPowers(budget=12, max_length=LENGTH),
    "compressed powers": grf.CompressedPowers(budget=6, max_length=LENGTH),
}


def kernel_of(features):
    return grf.Diffusion(0.5, laplacian=features.laplacian)


@pytest.fixture(params=SAMPLERS)
def features(request, weighted_graph):
    return grf.sample_features(
        weighted_graph, SAMPLERS[request.param], nodes=[3, 0, 7, 5, 3, 2], seed=1
    )


def same(one, other):
    pairs = [(getattr(one.record, name), getattr(other.record, name)) for name in ARRAYS]
    return all(
        left is right or (left.dtype == right.dtype and np.array_equal(left, right))
        for left, right in pairs
    )


def fetched(features):
    """Whether the record is on the host."""
    return "record" in vars(features)


# -- sizes and matrices ----------------------------------------------------------------------------


def test_sizes_and_torch_matrices_come_without_a_copy_of_the_record(features):
    device = with_tensors(features)
    for name in ("nnz", "nbytes", "n_steps", "shape", "max_length", "device"):
        assert getattr(device, name) == getattr(features, name), name
    assert repr(device) == repr(features)
    device.take([7, 3])
    if features.record.dropped is None:  # the bound of cut powers is numpy's
        device.torch(kernel_of(features))
    assert not fetched(device)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_torch_matrix_has_the_bits_of_the_scipy_one(features, dtype):
    features = changed(features, dtype=np.dtype(dtype))
    expected = features.matrix(kernel_of(features))
    found = with_tensors(features).torch(kernel_of(features))
    assert str(found.dtype) == f"torch.{dtype}"
    assert tuple(found.shape) == expected.shape
    np.testing.assert_array_equal(found.crow_indices().numpy(), expected.indptr)
    np.testing.assert_array_equal(found.col_indices().numpy(), expected.indices)
    np.testing.assert_array_equal(found.values().numpy(), expected.data)


def test_what_is_numpy_is_that_of_the_host(features, tmp_path):
    kernel, device = kernel_of(features), with_tensors(features)
    np.testing.assert_array_equal(
        device.matrix(kernel).toarray(), features.matrix(kernel).toarray()
    )
    np.testing.assert_array_equal(
        device.gram(kernel, rows=[3, 5]), features.gram(kernel, rows=[3, 5])
    )
    np.testing.assert_array_equal(device.row_errors(kernel), features.row_errors(kernel))
    assert device.truncation_error(kernel) == features.truncation_error(kernel)
    x, y = np.ones((8, 2)), np.arange(12.0).reshape(6, 2)
    np.testing.assert_array_equal(device.factor().grad_f(x, y), features.factor().grad_f(x, y))
    device.save(tmp_path / "device.npz")
    features.save(tmp_path / "host.npz")
    assert (tmp_path / "device.npz").read_bytes() == (tmp_path / "host.npz").read_bytes()


# -- rows, places, pickles -------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [[7, 3], [3, 3, 0, 2, 5, 7, 0], [0], []])
def test_rows_are_taken_on_the_device(features, wanted):
    device = with_tensors(features)
    wanted = np.array(wanted, dtype=np.int64)
    taken = device.take(wanted)
    assert taken.on_device
    assert not fetched(device) | fetched(taken)
    expected = features.take(wanted)
    assert same(expected, taken)
    np.testing.assert_array_equal(taken.nodes, expected.nodes)
    with pytest.raises(ValueError, match="among the sampled nodes, got 6"):
        device.take([6])


@pytest.mark.parametrize("at", ["host", "device"])
def test_rows_with_more_entries_than_int32_counts_are_taken_with_int64(at, features):
    assert features.record.indices.dtype == np.int32
    wanted = [7, 3, 3]
    expected = features.take(wanted)
    n_entries = expected.nnz
    whole = features if at == "host" else with_tensors(features)
    for most, kind in ((n_entries, np.int32), (n_entries - 1, np.int64)):
        record = whole._record.take(row_numbers("nodes", wanted, whole.nodes), most)
        taken = grf.features.Features(whole.info, np.array(wanted), record)
        assert taken.record.indptr.dtype == taken.record.indices.dtype == kind
        for name in ("indptr", "indices", "visit_ptr", "visits_per_entry", "steps", "counts"):
            np.testing.assert_array_equal(
                getattr(taken.record, name), getattr(expected.record, name)
            )
        kernel = kernel_of(features)
        np.testing.assert_array_equal(
            taken.matrix(kernel).toarray(), expected.matrix(kernel).toarray()
        )


def test_pointers_of_repeated_rows_do_not_overflow():
    pointer = np.array([0, 2**30, 2**31 - 1], dtype=np.int32)
    joined = device_record.starts_of(torch.from_numpy(pointer).diff()[[0, 0, 1, 0]])
    expected = np.cumsum([0, 2**30, 2**30, 2**30 - 1, 2**30])
    assert joined.dtype == torch.int64
    np.testing.assert_array_equal(joined.numpy(), expected)


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_parts_are_all_rows_in_order_with_and_without_visits(at_once):
    sizes = torch.tensor([0, 0, 3, 0, 1, 5, 0])
    pointer = torch.cat([torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)])
    bits = torch.ones(9, dtype=torch.int16)
    record = device_record.DeviceRecord(
        pointer, torch.zeros(9, dtype=torch.int64), pointer, bits, bits, bits
    )
    parts = record.parts(at_once)
    assert (parts[0].rows.start, parts[-1].rows.stop) == (0, 7)
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        first, last = part.rows.start, part.rows.stop
        assert first < last
        for span in (part.entries, part.visits):
            assert (span.start, span.stop) == (pointer[first], pointer[last])
        assert following is None or following.rows.start == last
    assert len(parts) == {1: 4, 2: 3, 100: 1}[at_once]  # the first of four has no visits


def test_features_go_to_the_host_and_stay_where_they_are(features):
    device = with_tensors(features)
    assert features.to("cpu") is features
    assert features.to(CPU) is features
    host = device.to("cpu")
    assert not host.on_device
    assert same(features, host)
    assert device.device_rows(CPU) is device.device_rows(CPU)


@pytest.mark.parametrize(
    "use",
    [
        lambda features, path: features.save(path / "features.npz"),
        lambda features, path: features.to("cpu"),
        lambda features, path: pickle.loads(pickle.dumps(features)),
        lambda features, path: copy.copy(features),
        lambda features, path: copy.deepcopy(features),
    ],
    ids=["save", "to", "pickle", "copy", "deepcopy"],
)
def test_what_goes_to_the_host_leaves_no_copy_on_the_devices_features(use, features, tmp_path):
    device = with_tensors(features)
    result = use(device, tmp_path)
    assert not fetched(device)
    if isinstance(result, grf.features.Features):
        assert result.device == "cpu"
        assert not result.on_device
        assert not result.record.counts.flags.writeable
        assert same(features, result)
    kept = device.record
    use(device, tmp_path)
    assert device.record is kept
    assert device.to("cpu").record is kept  # what was fetched before is not fetched again


def test_a_device_gets_the_record_once_and_gives_back_what_is_asked_for(features):
    with SimulatedDevice() as simulated:
        device = features.to("meta")
        assert device.device == "meta"
        assert "on meta" in repr(device)
        assert device.to("meta") is device
        simulated.transfers.clear()
        uncut = replace(device.device_rows(torch.device("meta")).record, dropped=None)
        matrix = grf.features.Features(device.info, device.nodes, uncut).torch(kernel_of(features))
        assert isinstance(matrix, Simulated)
        largest = max(LENGTH + 1, features.n_nodes)
        assert simulated.largest("to") <= largest  # the modulation, the nodes and their degrees
        assert simulated.largest("from") <= 6  # where parts begin and end
        host = device.to("cpu")
        assert simulated.largest("from") == features.record.steps.size
    np.testing.assert_array_equal(matrix.inner.values(), features.matrix(kernel_of(features)).data)
    assert same(features, host)


@pytest.mark.cuda
def test_a_gpu_has_the_bits_of_the_host(features, gpu):
    device = features.to(gpu)
    assert device.device == str(gpu)
    assert device.n_steps == features.n_steps
    kernel = kernel_of(features)
    np.testing.assert_array_equal(
        device.torch(kernel).values().cpu().numpy(), features.matrix(kernel).data
    )
    assert same(features.take([7, 3, 3]), device.take([7, 3, 3]))
    assert same(features, device.to("cpu"))


# -- passes over the visits ------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [1, 7, 10_000])
def test_passes_by_parts_are_those_of_numba(features, at_once):
    device = with_tensors(features)
    (_, record, roots), size = device.device_rows(CPU), LENGTH + 1
    f = 0.9 ** np.arange(size)
    load = torch.tensor(f / features.info.survival / features.n_walks)
    values = tensor.entry_values(record, roots, load, torch.float32, at_once)
    np.testing.assert_array_equal(values.numpy(), features.matrix_from_modulation(f).data)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((8, 3)), rng.standard_normal((6, 3))
    sums = tensor.step_products(
        record, roots, torch.tensor(x), torch.tensor(y), size, at_once
    ).numpy()
    loads = 1.0 / (features.info.survival * features.n_walks)
    np.testing.assert_allclose(sums * loads, features.factor().grad_f(x, y), rtol=1e-12, atol=1e-12)
    squares = tensor.step_squares(record, roots, size, at_once).numpy()
    np.testing.assert_allclose(
        squares * np.outer(loads, loads) / 6,
        step_squares(features.info, features.nodes, features.record),
        rtol=1e-12,
    )
    pointer, rows, order = tensor.transposed_pattern(record, 8, at_once)
    expected = features.matrix_from_modulation(f).T.tocsr()
    np.testing.assert_array_equal(pointer.numpy(), expected.indptr)
    np.testing.assert_array_equal(rows.numpy(), expected.indices)
    np.testing.assert_array_equal(values[order].numpy(), expected.data)


def test_counts_beyond_two_to_the_fifteen_stay_positive():
    features = grf.sample_features(
        grf.from_edges([0], [1]), grf.RandomWalks(65_535, grf.sampling.Truncated(3)), seed=0
    )
    assert features.record.counts.max() == 65_535
    device = with_tensors(features)
    assert device.n_steps == features.n_steps
    assert int(unsigned16(device.device_rows(CPU).record.counts).max()) == 65_535
    kernel = grf.Diffusion(0.5)
    np.testing.assert_array_equal(
        device.torch(kernel).values().numpy(), features.matrix(kernel).data
    )


def test_a_part_that_was_left_out_is_noticed(features):
    """The negative control of the passes by parts."""
    device = with_tensors(features)
    _, record, roots = device.device_rows(CPU)
    load = torch.ones(LENGTH + 1, dtype=torch.float64)
    whole = tensor.entry_values(record, roots, load, torch.float64, 7)
    del record.parts(7)[1]
    assert not torch.equal(tensor.entry_values(record, roots, load, torch.float64, 7), whole)
