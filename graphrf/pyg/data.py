"""Graphs from PyTorch Geometric's data, and results back into it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, HeteroData

from graphrf._base import checks
from graphrf.graph.graph import Graph
from graphrf.graph.loaders import load_graph
from graphrf.kernels.kernel import require_kernel
from graphrf.sampling.sample import require_sampler

EDGE_WEIGHT = "edge_weight"
# Attributes in which PyTorch Geometric numbers edges
# (`to_homogeneous`, loaders); they follow the edges.
_NUMBERS_OF_EDGES = ("edge_type", "e_id")
# Both directions of an edge may differ by the rounding of float32.
_ROUNDING = 1e-6


def check_settings(transform: Any) -> None:
    """Check the settings that several transforms have; a seed that is None is drawn."""
    if hasattr(transform, "kernel"):
        require_kernel(transform.kernel)
        if transform.sampler is not None:
            require_sampler(transform.sampler)
    for name in ("weight", "attr_name"):
        value = getattr(transform, name)
        if value is not None and (not isinstance(value, str) or not value):
            raise checks.type_error(
                name, f"must be the name of an attribute or None, got {checks.describe(value)}"
            )
    if hasattr(transform, "seed"):
        object.__setattr__(transform, "seed", checks.seed(transform.seed))


def graph_of(data: Any, weight: str | None) -> Graph | None:
    """The graph of `data` with the directions of its edges, or None where it has no node."""
    if isinstance(data, HeteroData):
        raise checks.type_error(
            "data", "must be homogeneous, got HeteroData; data.to_homogeneous() makes it so"
        )
    if not isinstance(data, Data):
        raise checks.type_error(
            "data", f"must be a torch_geometric.data.Data, got {checks.describe(data)}"
        )

    if data.num_nodes is None:
        raise checks.value_error(
            "data", "must state how many nodes it has, by `num_nodes`, `x` or `edge_index`"
        )
    if data.num_nodes == 0:
        return None
    if data.edge_index is None:
        raise checks.value_error(
            "data", "must have an `edge_index`; transforms to `adj_t` come after this one"
        )

    given: str | Literal[False] = weight or False
    if weight is not None and getattr(data, weight, None) is None:
        if weight != EDGE_WEIGHT:
            raise checks.value_error(
                "weight", f"must be an attribute of the data, which have no {weight!r}"
            )
        given = False
    return load_graph(data, weight=given, weight_is="similarity", directed=True)


def undirected(graph: Graph | None) -> Graph | None:
    """The same graph as an undirected one, if every edge has its reverse with the same weight."""
    if graph is None:
        return None
    adjacency = graph.adjacency
    larger = adjacency.maximum(adjacency.T)
    if (abs(adjacency - adjacency.T) - _ROUNDING * larger).max() > 0:
        raise checks.value_error(
            "data",
            "must list every edge in both directions with one weight, but some are not; "
            "torch_geometric.transforms.ToUndirected() adds the reverses",
        )
    return Graph(larger)


def with_edges(
    data: Data, operator: sp.csr_array, weight: str | None, attr_name: str | None
) -> Data:
    """`data` with the entries of an operator as edges: row i is what comes into node i."""
    device = None if data.edge_index is None else data.edge_index.device
    by_source = sp.csr_array(operator.T)
    by_source.sort_indices()
    sources = np.repeat(np.arange(by_source.shape[0]), np.diff(by_source.indptr))
    edge_index = torch.from_numpy(np.stack([sources, by_source.indices.astype(np.int64)])).to(
        device
    )
    values = torch.from_numpy(by_source.data.astype(np.float32, copy=False)).to(device)

    if attr_name is not None:
        data[f"{attr_name}_index"], data[f"{attr_name}_weight"] = edge_index, values
        return data

    weight = EDGE_WEIGHT if weight is None else weight
    stale = sorted(set(data.edge_attrs()) - {"edge_index", *_NUMBERS_OF_EDGES, weight})
    if stale:
        raise checks.value_error(
            "data",
            "must have no attributes of the edges that are to be replaced, got "
            f"{', '.join(stale)}; delete them, or keep the edges: attr_name='diffusion'",
        )

    for name in _NUMBERS_OF_EDGES:
        if name in data:
            del data[name]
    data.edge_index, data[weight] = edge_index, values
    return data


def with_node_attribute(data: Data, values: np.ndarray, attr_name: str | None) -> Data:
    """`data` with an attribute of the nodes, appended to `x` if it has no name."""
    device = None if data.edge_index is None else data.edge_index.device
    tensor = torch.from_numpy(values).to(device)
    if attr_name is not None:
        data[attr_name] = tensor
    elif data.x is None:
        data.x = tensor
    else:
        x = data.x.view(-1, 1) if data.x.dim() == 1 else data.x
        # Integers would make zeros of nearly all values.
        dtype = x.dtype if x.is_floating_point() else tensor.dtype
        data.x = torch.cat([x.to(dtype), tensor.to(x.device, dtype)], dim=-1)
    return data
