"""Threads, forked workers and several clients: no deadlock, the same bits, no leftovers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import graphrf as grf
from graphrf._base import blas, threads
from graphrf._base.files.untrusted import untrusted
from graphrf.pagerank import local_pagerank, pagerank
from tests.support.interleaving import interleaved_results

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
linux = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="open files are counted in /proc"
)

# What every thread and every process computes, on objects that they share.
WORK = """
import hashlib, numpy as np, graphrf as grf
from graphrf.pagerank import local_pagerank, pagerank
rng = np.random.default_rng(0)
graph = grf.from_points(rng.normal(size=(300, 2)), n_neighbors=6)
kernel = grf.Diffusion(2.0)
y = np.sin(np.arange(120.0))
options = dict(kernel=kernel, optimize=False, output_scale=1.0, noise=0.1, seed=0)
options["numerics"] = grf.gp.Numerics(n_threads=2)
series = grf.GraphGPRegressor(graph, method="series", **options).fit(np.arange(120), y)
walks = grf.GraphGPRegressor(graph, **options).set_params(numerics__sampler=grf.RandomWalks(8))
walks.fit(np.arange(120), y)
features = grf.sample_features(graph, grf.RandomWalks(8), seed=3, n_threads=2)
factor, f, x = features.factor(n_threads=2), kernel.modulation(20), rng.normal(size=(300, 9))

def work():
    sampled = grf.sample_features(graph, grf.RandomWalks(8), seed=3, n_threads=2)
    made = sampled.matrix(kernel, n_threads=2)
    fitted = grf.GraphGPRegressor(graph, method="series", **options).fit(np.arange(120), y)
    arrays = [
        made.data, made.indices, features.matrix(kernel).data, features.gram(kernel),
        factor.apply(f, x), factor.apply_t(f, x), factor.grad_f(x, x),
        grf.apply_kernel(graph, kernel, x, n_threads=2), *series.predict(return_std=True),
        *walks.predict(return_std=True), *fitted.predict(return_std=True),
        series.sample(n_samples=2, seed=1),
        grf.pagerank.estimate(graph, seed=0, n_threads=2).scores,
        pagerank(graph, n_threads=2).scores,
        local_pagerank(graph, [0, 5], max_residual=1e-6, n_threads=2).scores.data,
        grf.couplings.learn_coupling(graph, kernel, order=6).permutations,
        kernel.dense(graph.subgraph(np.arange(50))),
    ]
    return [hashlib.sha256(np.ascontiguousarray(array)).hexdigest()[:16] for array in arrays]
"""


def run(code, timeout=300, **variables):
    """What a fresh process prints as JSON; one that hangs shows where its threads are."""
    head = f"import faulthandler\nfaulthandler.dump_traceback_later({timeout - 10}, exit=True)\n"
    made = subprocess.run(
        [sys.executable, "-c", head + code],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert made.returncode == 0, made.stderr[-3000:]
    return json.loads(made.stdout.splitlines()[-1])


# -- threads ---------------------------------------------------------------------------------------


def test_threads_that_share_all_objects_get_the_bits_of_one_alone():
    pytest.importorskip("torch")
    space: dict = {}
    exec(WORK, space)
    alone = space["work"]()
    barrier = threading.Barrier(8)

    def at_once(_):
        barrier.wait()
        return space["work"]()

    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(at_once, range(8)):
            assert found == alone


def test_names_are_imported_by_several_threads_at_once_in_a_fresh_process():
    pytest.importorskip("torch")
    code = """
import json, threading, graphrf as grf
from concurrent.futures import ThreadPoolExecutor
names = [name for name in grf.__all__ if name != "distributed"]
barrier = threading.Barrier(8)
def get(i):
    barrier.wait()
    return [id(getattr(grf, name)) for name in names[5 * i:] + names[:5 * i]]
with ThreadPoolExecutor(8) as pool:
    found = list(pool.map(get, range(8)))
print(json.dumps(len({frozenset(each) for each in found})))
"""
    assert run(code) == 1


@pytest.mark.full
def test_several_processes_and_threads_that_compile_into_one_empty_folder_agree(tmp_path):
    code = """
import json, graphrf as grf, numpy as np, threading
from concurrent.futures import ThreadPoolExecutor
graph = grf.from_edges(np.arange(99), np.arange(1, 100))
barrier = threading.Barrier(4)
def work(_):
    barrier.wait()
    features = grf.sample_features(graph, grf.RandomWalks(4), seed=0, n_threads=2)
    kernel = grf.Diffusion(1.0)
    product = grf.apply_kernel(graph, kernel, np.ones(100))
    return float(features.matrix(kernel).sum()), float(product[3])
with ThreadPoolExecutor(4) as pool:
    print(json.dumps(sorted(set(pool.map(work, range(4))))))
"""
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: run(code, NUMBA_CACHE_DIR=str(tmp_path)), range(3)))
    assert len(found[0]) == 1
    assert found[0] == found[1] == found[2]


def blas_numbers():
    from threadpoolctl import threadpool_info

    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


def test_contexts_of_blas_threads_that_overlap_leave_blas_as_it_was():
    pytest.importorskip("threadpoolctl")
    from threadpoolctl import threadpool_limits

    with threadpool_limits(2, user_api="blas"):
        before = blas_numbers()
        one, other = blas.blas_threads(1), blas.blas_threads(2)
        one.__enter__()
        other.__enter__()
        assert set(blas_numbers()) == {1}  # the least that was asked for
        one.__exit__(None, None, None)
        assert blas_numbers() == before
        other.__exit__(None, None, None)
        assert blas_numbers() == before


def test_joint_covariances_are_made_with_the_threads_of_blas_that_were_chosen(monkeypatch):
    pytest.importorskip("torch")
    from threadpoolctl import threadpool_limits

    from graphrf.gp.posterior.cholesky import CholeskyPosterior

    graph = grf.from_edges(np.arange(9), np.arange(1, 10))
    options = {
        "kernel": "diffusion",
        "method": "series",
        "optimize": False,
        "output_scale": 1.0,
        "noise": 0.1,
    }
    gp = grf.GraphGPRegressor(graph, **options).fit([0, 5], [0.0, 1.0])
    seen, original = [], CholeskyPosterior.covariances
    monkeypatch.setattr(
        CholeskyPosterior,
        "covariances",
        lambda self, nodes: seen.append(set(blas_numbers())) or original(self, nodes),
    )
    with threadpool_limits(2, user_api="blas"):
        gp.predict(return_cov=True)
    assert seen == [{1}]


def test_the_last_thread_to_leave_restores_blas_whichever_lowered_it():
    pytest.importorskip("threadpoolctl")
    from threadpoolctl import threadpool_limits

    inside, leave = threading.Barrier(2, timeout=120), threading.Event()

    def stay():
        with blas.blas_threads(1):
            inside.wait()
            leave.wait(30)

    with threadpool_limits(2, user_api="blas"):
        before = blas_numbers()
        with ThreadPoolExecutor(1) as pool:
            with blas.blas_threads(1):
                stayed = pool.submit(stay)
                inside.wait()
            assert set(blas_numbers()) == {1}
            leave.set()
            stayed.result()
        assert blas_numbers() == before


def test_libraries_with_a_number_for_each_thread_are_lowered_in_every_thread(monkeypatch):
    class Library:
        threading_layer = "openmp"

        def __init__(self):
            self._own = threading.local()

        @property
        def num_threads(self):
            return getattr(self._own, "number", 4)

        def set_num_threads(self, number):
            self._own.number = number

    library = Library()
    monkeypatch.setattr(blas, "_blas_libraries", lambda: [library])
    barrier = threading.Barrier(3, timeout=120)

    def number(_):
        with blas.blas_threads(1):
            barrier.wait()
            inside = library.num_threads
        return inside, library.num_threads

    with ThreadPoolExecutor(3) as pool:
        assert set(pool.map(number, range(3))) == {(1, 4)}


def test_torch_tensors_made_by_several_threads_leave_the_filters_of_warnings_alone():
    torch = pytest.importorskip("torch")
    from graphrf.features import tensor as _feature_tensor

    graph = grf.from_edges([0, 1], [1, 2])
    features = grf.sample_features(graph, grf.RandomWalks(4), seed=0)
    kernel = grf.Diffusion(1.0)
    features.torch(kernel)
    before = list(warnings.filters)
    seen = []
    code = _feature_tensor.csr_tensor.__code__
    for result in interleaved_results(
        lambda: features.torch(kernel), lambda: seen.append(list(warnings.filters)), code
    ):
        assert torch.equal(result.to_dense(), features.torch(kernel).to_dense())
    assert seen
    assert all(filters == before for filters in seen)


def test_memory_that_is_shared_with_torch_outlives_its_array():
    torch = pytest.importorskip("torch")
    from graphrf.features.device_record import shared

    array = np.arange(5, dtype=np.uint16)
    array.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tensor = shared(array)
    assert tensor.data_ptr() == array.ctypes.data
    del array
    assert tensor.dtype == torch.int16
    assert tensor.tolist() == [0, 1, 2, 3, 4]


def test_threads_that_draw_on_a_device_take_turns_with_settings_and_filters(monkeypatch):
    torch = pytest.importorskip("torch")
    from graphrf.gp.torch import draws as torch_draws

    inside, most = [], []

    @contextmanager
    def watched():
        inside.append(0)
        most.append(len(inside))
        time.sleep(0.05)  # long enough for another thread to come in, if it can
        yield
        inside.pop()

    names = ("cg_tolerance", "max_cg_iterations", "max_lanczos_quadrature_iterations")
    settings = {name: getattr(torch_draws.settings, name) for name in names}
    monkeypatch.setattr(
        torch_draws, "settings", SimpleNamespace(fast_computations=watched, **settings)
    )
    kernel = grf.gp.GRFKernel(grf.from_edges([0, 1, 2], [1, 2, 3]), grf.Diffusion(1.0))

    def draw(_):
        draws = torch_draws.pathwise_draws(
            kernel, torch.tensor([0, 3]), torch.ones(2), 0.1, n_samples=2, seed=0
        )
        return draws.coefficients.tolist()

    alone = draw(0)  # libraries that are imported on the way add filters of their own
    before = list(warnings.filters)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(draw, range(4))) == [alone] * 4
    assert set(most) == {1}
    assert warnings.filters == before


def test_files_read_by_several_threads_leave_the_filters_of_warnings_alone(tmp_path):
    (tmp_path / "a.mtx").write_text(
        "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 0.5\n"
    )
    (tmp_path / "b.gml").write_text(
        "graph [ node [ id 0 ] node [ id 1 ] edge [ source 0 target 1 ] ]"
    )
    grf.load_graph(tmp_path / "a.mtx", directed=True)
    before = list(warnings.filters)
    inside = []

    def read(i):
        with untrusted(tmp_path, "file"):
            inside.append(list(warnings.filters))
        return grf.load_graph(tmp_path / ("a.mtx", "b.gml")[i % 2], directed=i % 2 == 0).n_edges

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(read, range(40))) == {1}
    assert all(filters == before for filters in (*inside, warnings.filters))


def test_what_other_threads_warn_of_is_heard_while_a_file_is_read(tmp_path):
    def warn():
        warnings.warn("of another thread", UserWarning, stacklevel=1)

    def read():
        with untrusted(tmp_path, "file"):
            thread = threading.Thread(target=warn)
            thread.start()
            thread.join()

    with pytest.warns(UserWarning, match="of another thread"):
        read()


def test_data_sets_are_loaded_by_several_threads_at_once_in_a_fresh_process():
    code = """
import json, threading, graphrf as grf
from concurrent.futures import ThreadPoolExecutor
names = ["karate", "les-miserables"]
barrier = threading.Barrier(8)
def load(i):
    barrier.wait()
    turned = names[i % 2:] + names[:i % 2]
    return sorted((name, grf.datasets.load(name).graph.n_edges) for name in turned)
with ThreadPoolExecutor(8) as pool:
    found = list(pool.map(load, range(8)))
print(json.dumps([each == found[0] for each in found]))
"""
    assert run(code) == [True] * 8


# -- processes -------------------------------------------------------------------------------------


@forks
@pytest.mark.parametrize(
    "method",
    [
        "fork",
        pytest.param("forkserver", marks=pytest.mark.full),
        pytest.param("spawn", marks=pytest.mark.full),
    ],
)
def test_children_of_a_process_that_has_used_its_threads_get_its_bits(method, tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "shared_work.py").write_text(WORK)
    code = f"""
import json, multiprocessing, sys
sys.path.insert(0, {str(tmp_path)!r})
if __name__ == "__main__":
    from shared_work import work
    alone = work()
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        found = [pool.apply_async(work) for _ in range(2)]
        print(json.dumps([each.get() == alone for each in found]))
"""
    (tmp_path / "main.py").write_text(code)
    made = subprocess.run(
        [sys.executable, str(tmp_path / "main.py")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert made.returncode == 0, made.stderr[-3000:]
    assert json.loads(made.stdout.splitlines()[-1]) == [True, True]


# A thread that stays within what it has entered until the process has been forked.
STAYS = """
import json, os, threading
inside, leave = threading.Event(), threading.Event()
def stay(context):
    with context:
        inside.set()
        leave.wait(30)
def begun(context):
    thread = threading.Thread(target=stay, args=(context,))
    thread.start()
    assert inside.wait(60)
    return thread
def status_of(child_succeeds):
    child = os.fork()
    if child == 0:
        os._exit(0 if child_succeeds() else 1)
    return os.waitpid(child, 0)[1]
"""


@forks
def test_a_fork_waits_for_another_threads_compilation_and_the_child_can_compile():
    code = """
import numba
from numba.core.compiler_lock import global_compiler_lock
import graphrf._base.forks
thread = begun(global_compiler_lock)
threading.Timer(0.5, leave.set).start()
status = status_of(lambda: numba.njit(lambda x: x + 1)(1) == 2)
thread.join()
print(json.dumps(status))
"""
    assert run(STAYS + code) == 0


@forks
def test_a_child_forked_while_another_thread_computes_a_cached_property_computes_its_own():
    code = """
from contextlib import contextmanager
from graphrf._base.cached import cached_property
class Holder:
    slow = False
    @cached_property
    def value(self):
        if self.slow:
            inside.set()
            leave.wait(30)
        return 7
class Slow(Holder):
    slow = True
@contextmanager
def computed():
    Slow().value
    yield
thread = begun(computed())
status = status_of(lambda: Holder().value == 7)
leave.set()
thread.join()
print(json.dumps(status))
"""
    assert run(STAYS + code) == 0


@forks
def test_a_child_forked_while_other_threads_have_lowered_blas_has_what_was_there_before():
    pytest.importorskip("threadpoolctl")
    code = """
from threadpoolctl import threadpool_limits, threadpool_info
from graphrf._base.blas import blas_threads
import scipy.linalg
def blas(): return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]
with threadpool_limits(2, user_api="blas"):
    before = blas()
    thread = begun(blas_threads(1))
    def as_before():
        good = blas() == before
        with blas_threads(1):
            good = good and set(blas()) == {1}
        return good and blas() == before
    status = status_of(as_before)
    leave.set()
    thread.join()
print(json.dumps(status))
"""
    assert run(STAYS + code) == 0


@pytest.mark.full
def test_a_grid_search_in_two_processes_finds_what_one_finds():
    pytest.importorskip("sklearn")
    pytest.importorskip("torch")
    from sklearn.model_selection import GridSearchCV

    graph = grf.from_points(np.random.default_rng(0).normal(size=(200, 2)), n_neighbors=6)
    settings = {
        "kernel": "diffusion",
        "method": "series",
        "optimize": False,
        "output_scale": 1.0,
        "noise": 0.1,
    }
    gp = grf.GraphGPRegressor(graph, **settings, seed=0)
    scores = [
        GridSearchCV(gp, {"noise": [0.01, 1.0]}, n_jobs=n_jobs, cv=2)
        .fit(np.arange(100)[:, None], np.sin(np.arange(100)))
        .cv_results_["mean_test_score"]
        for n_jobs in (1, 2)
    ]
    assert np.array_equal(*scores)


@forks
def test_loader_workers_forked_after_torch_was_used_get_the_features_of_their_parent():
    pytest.importorskip("torch")
    code = """
import json, torch, numpy as np, graphrf as grf
graph = grf.from_edges(np.arange(99), np.arange(1, 100))
features, kernel = grf.sample_features(graph, grf.RandomWalks(4), seed=0), grf.Diffusion(1.0)
rows = features.torch(kernel).to_dense()
product = rows @ rows.T
class Rows(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, i):
        return features.take(np.arange(25 * i, 25 * i + 25)).torch(kernel).to_dense()
options = dict(batch_size=None, num_workers=2, multiprocessing_context="fork")
loader = torch.utils.data.DataLoader(Rows(), **options)
print(json.dumps(torch.equal(torch.cat(list(loader)), rows)))
"""
    assert run(code) is True


# -- several clients of Dask -----------------------------------------------------------------------

CLUSTERS = """
import json, threading, numpy as np, graphrf as grf
from concurrent.futures import ThreadPoolExecutor
from distributed import Client, LocalCluster
from graphrf.distributed import sample_features
graph = grf.from_edges(np.arange(299), np.arange(1, 300))
kernel, sampler, x = grf.Diffusion(1.0), grf.RandomWalks(4), np.arange(300.0)
alone = grf.sample_features(graph, sampler, seed=1).matrix(kernel)
expected = alone @ (alone.T @ x)
def cluster():
    return LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0")
def at_once(clients):
    barrier = threading.Barrier(len(clients))
    def work(client):
        barrier.wait()
        features = sample_features(graph, sampler, seed=1, client=client)
        return bool(np.allclose(features.gram_matvec(kernel, x), expected, rtol=1e-5))
    with ThreadPoolExecutor(len(clients)) as pool:
        return list(pool.map(work, clients))
with cluster() as a, cluster() as b, Client(a) as one, Client(b) as other:
    print(json.dumps([at_once([one, other]), at_once([one] * 4)]))
"""


def test_two_clients_at_once_and_threads_that_share_one_get_what_one_process_does():
    pytest.importorskip("distributed")
    assert run(CLUSTERS) == [[True] * 2, [True] * 4]


# -- interrupts and what is left behind ------------------------------------------------------------


@forks
def test_an_interrupt_in_the_middle_stops_what_has_not_begun_and_leaves_all_usable():
    code = """
import json, os, signal, threading
import numpy as np, graphrf as grf
# Ignored where the tests run in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
graph = grf.from_edges(np.arange(49_999), np.arange(1, 50_000))
def sample(n): return grf.sample_features(graph, grf.RandomWalks(n), seed=0, n_threads=2)
first = sample(2)
timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    timer.start()
    while True:
        sample(64)
except KeyboardInterrupt:
    pass
again = sample(2)
left = [thread.name for thread in threading.enumerate() if thread.name.startswith("graphrf")]
print(json.dumps([first.n_steps == again.n_steps, left]))
"""
    assert run(code) == [True, []]


def test_an_error_in_one_task_ends_the_map_and_its_threads():
    def task(number):
        if number == 3:
            raise RuntimeError("the fourth")
        return number

    with pytest.raises(RuntimeError, match="the fourth"):
        list(threads.ordered_map(task, range(1000), 4))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("graphrf")]
    assert list(threads.ordered_map(lambda number: number, range(5), 4)) == list(range(5))


@linux
def test_many_calls_leave_no_threads_files_or_memory_behind(tmp_path):
    graph = grf.from_edges(np.arange(3000), np.arange(1, 3001))
    kernel = grf.Diffusion(1.0)
    x = np.ones((3001, 8))
    graph.save(tmp_path / "graph")

    def calls():
        features = grf.sample_features(graph, grf.RandomWalks(4), seed=0, n_threads=2)
        features.save(tmp_path / "features.npz")
        grf.features.load_features(tmp_path / "features.npz").factor(n_threads=2).apply(
            kernel.modulation(8), x
        )
        grf.apply_kernel(grf.open_graph(tmp_path / "graph"), kernel, x, n_threads=2)
        pagerank(graph, personalization=np.ones((9, 3001)), n_threads=2)
        local_pagerank(graph, [0, 1], max_residual=1e-4, n_threads=2)
        grf.pagerank.estimate(graph, seed=0, n_walks=2, n_threads=2)

    def held():
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        maps = Path("/proc/self/maps").read_text().count(str(tmp_path))
        return (
            threading.active_count(),
            len(os.listdir("/proc/self/fd")),
            maps,
            pages * os.sysconf("SC_PAGESIZE"),
        )

    for _ in range(5):
        calls()
    before = held()
    for _ in range(40):
        calls()
    after = held()
    assert after[:3] == before[:3]
    assert after[3] - before[3] < 40 * 2**20  # a leak of the result alone would be 40 x 1.5 MB
