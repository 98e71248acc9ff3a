"""Shared graphs: small, asymmetric, with a self-loop, an isolated node and two components."""

from __future__ import annotations

import importlib
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import settings

import graphrf as grf
from graphrf._base import progress
from tests.support.by_file import pytest_xdist_make_scheduler  # noqa: F401
from tests.support.false_alarms import (  # noqa: F401 (the hooks act from here)
    night,
    pytest_configure,
    pytest_report_header,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_testnodedown,
)
from tests.support.gpu import gpu, pytest_runtest_logreport  # noqa: F401
from tests.support.quick import pytest_collection_modifyitems  # noqa: F401
from tests.support.small_graphs import two_components

# `make test` looks at the same few inputs each time, `make test-more` at the same few hundred, a
# night at those of its seed; `make test-full` at 100,000 new ones.
settings.register_profile("few", max_examples=30, derandomize=not night(), deadline=None)
settings.register_profile("more", max_examples=300, derandomize=not night(), deadline=None)
settings.register_profile("full", max_examples=100_000, deadline=None)
settings.load_profile("few")

# What is written to standard error does not depend on whether loops were compiled before.
progress.silence()


@pytest.fixture(scope="session")
def weighted_graph() -> grf.Graph:
    """Eight nodes: a triangle with a tail and a self-loop, a path, an isolated node; weighted."""
    return two_components(weighted=True)


@pytest.fixture(scope="session")
def plain_graph() -> grf.Graph:
    """The same without weights."""
    return two_components(weighted=False)


@pytest.fixture(scope="session")
def karate() -> grf.Graph:
    """Zachary's karate club, unweighted."""
    return grf.Graph(nx.to_scipy_sparse_array(nx.karate_club_graph(), weight=None))


@pytest.fixture(scope="session")
def grid() -> grf.Graph:
    """A 12 x 12 grid."""
    return grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(12, 12)))


@pytest.fixture
def example(monkeypatch):
    """Imports a script by its name, as its neighbours do."""
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "examples")
    return importlib.import_module


@pytest.fixture
def one_torch_thread():
    """Torch works on one thread: small work is quicker so where all cores are taken."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def torch_float64():
    """Tensors of torch are float64 unless a dtype is named."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)
