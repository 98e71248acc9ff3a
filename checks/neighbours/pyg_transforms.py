"""The conventions of PyTorch Geometric's transforms, asked of those in `graphrf.pyg`.

Needs the extra `pyg`.

python checks/neighbours/pyg_transforms.py

torch_geometric is distributed without its tests. These are the conventions that its transforms
keep: what they may change, and that what takes a transform or its result in PyTorch Geometric takes
these. Prints a table; the exit status is 1 where something failed.
"""

from __future__ import annotations

import copy
import pickle
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import graphrf as grf
from graphrf.pyg import (
    AddRandomFeatures,
    AddReturnProbabilities,
    GRFDiffusion,
    PersonalizedPageRank,
)

with warnings.catch_warnings():
    # torch_geometric 2.8 on torch 2.13: torch.jit.script is deprecated.
    warnings.simplefilter("ignore")
    import torch_geometric.transforms as T
    from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset
    from torch_geometric.loader import DataLoader
    from torch_geometric.nn import GCNConv
    from torch_geometric.utils import coalesce, is_undirected, to_dense_adj

HEAT = grf.Diffusion(1.0)
TRANSFORMS: dict[str, Any] = {
    "GRFDiffusion": GRFDiffusion(HEAT, k=8, seed=0),
    "PersonalizedPageRank": PersonalizedPageRank(8),
    "AddRandomFeatures": AddRandomFeatures(HEAT, dim=4, seed=0),
    "AddReturnProbabilities": AddReturnProbabilities(4, seed=0),
}
ADDING = ("AddRandomFeatures", "AddReturnProbabilities")


def ring(n: int = 12, **attributes: Any) -> Data:
    """A ring whose nodes have features, labels and masks."""
    at = torch.arange(n)
    ends = coalesce(torch.stack([torch.cat([at, (at + 1) % n]), torch.cat([(at + 1) % n, at])]))
    known = {"x": torch.ones(n, 3), "y": at % 2, "train_mask": at < n // 2, **attributes}
    return Data(edge_index=ends, num_nodes=n, **known)


def same(first: Data, second: Data) -> bool:
    """Whether two data objects hold the same, bit for bit."""
    return set(first.keys()) == set(second.keys()) and all(
        torch.equal(first[name], second[name])
        if torch.is_tensor(first[name])
        else first[name] == second[name]
        for name in first.keys()  # noqa: SIM118 (iteration goes over pairs)
    )


# -- conventions: each is called with the transform and its name -----------------------------------


def is_a_base_transform(transform: Any, name: str) -> None:
    assert isinstance(transform, T.BaseTransform)
    assert repr(transform).startswith(f"{name}(")


def leaves_what_it_was_given(transform: Any, name: str) -> None:
    data = ring()
    before = copy.deepcopy(data)
    assert transform(data) is not data
    assert same(data, before)


def keeps_what_it_does_not_replace(transform: Any, name: str) -> None:
    data, out = ring(), transform(ring())
    for kept in ("y", "train_mask", *(("edge_index",) if name in ADDING else ("x",))):
        assert torch.equal(out[kept], data[kept]), kept
    assert out.num_nodes == data.num_nodes


def gives_valid_data(transform: Any, name: str) -> None:
    out = transform(ring())
    assert out.validate()
    assert out.edge_index.dtype == torch.int64
    assert out.is_coalesced()
    if name == "GRFDiffusion":
        assert is_undirected(out.edge_index, out.edge_weight)


def repeats_itself(transform: Any, name: str) -> None:
    again = pickle.loads(pickle.dumps(transform))
    for other in (transform, again, copy.copy(transform), copy.deepcopy(transform)):
        assert same(transform(ring()), other(ring()))


def works_in_compositions(transform: Any, name: str) -> None:
    data = ring()
    assert same(T.Compose([transform])(data), transform(data))
    prepared = T.Compose([T.NormalizeFeatures(), T.ToUndirected(), transform, T.ToDevice("cpu")])(
        data
    )
    assert prepared.validate()
    assert T.ComposeFilters([lambda d: d.num_nodes > 3])(transform(data))


def takes_lists_and_loaders(transform: Any, name: str) -> None:
    made = [transform(ring(n)) for n in (5, 8)]
    batch = Batch.from_data_list(made)
    assert all(same(one, other) for one, other in zip(batch.to_data_list(), made, strict=True))
    assert next(iter(DataLoader(made, batch_size=2))).num_nodes == 13


def works_as_transform_of_a_dataset(transform: Any, name: str) -> None:
    class Rings(InMemoryDataset):
        processed_file_names = "data.pt"

        def process(self) -> None:
            change = self.pre_transform or (lambda data: data)
            self.save([change(ring(5)), change(ring(8))], self.processed_paths[0])

        def __init__(self, root: str, **options: Any) -> None:
            super().__init__(root, log=False, **options)
            self.load(self.processed_paths[0])

    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        later, before = Rings(one, transform=transform), Rings(two, pre_transform=transform)
        assert all(same(later[i], before[i]) for i in range(2))
        # This reads what was saved, and compares the transform's repr.
        again = Rings(two, pre_transform=transform)
        assert same(again[1], before[1])


def takes_graphs_without_edges_and_nodes(transform: Any, name: str) -> None:
    empty = torch.zeros((2, 0), dtype=torch.long)
    for n in (0, 1, 3):
        out = transform(Data(edge_index=empty, num_nodes=n))
        assert out.num_nodes == n
        assert out.validate()


def takes_a_batch_as_one_graph(transform: Any, name: str) -> None:
    out = transform(Batch.from_data_list([ring(5), ring(8)]))
    ends = out.edge_index
    assert ((ends[0] < 5) == (ends[1] < 5)).all()
    assert out.num_nodes == 13


def refuses_heterogeneous_data(transform: Any, name: str) -> None:
    data = HeteroData()
    data["a"].x = torch.ones(2, 1)
    data["a", "to", "a"].edge_index = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(TypeError, match="to_homogeneous"):
        transform(data)
    assert transform(data.to_homogeneous()).validate()


def drops_the_numbers_of_edges_that_go(transform: Any, name: str) -> None:
    out = transform(ring(e_id=torch.arange(24)))
    assert ("e_id" in out) == (name in ADDING)


def feeds_a_convolution(transform: Any, name: str) -> None:
    out = transform(ring())
    x = out["return_probabilities"] if name == "AddReturnProbabilities" else out.x
    model = GCNConv(x.shape[1], 2, normalize=name in ADDING)
    loss = model(x.float(), out.edge_index, out.get("edge_weight")).square().sum()
    loss.backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


def goes_into_a_sparse_tensor(transform: Any, name: str) -> None:
    out = T.ToSparseTensor(attr="edge_weight", layout=torch.sparse_csr)(transform(ring()))
    assert out.adj_t.shape == (12, 12)


def agrees_with_pytorch_geometric(transform: Any, name: str) -> None:
    data = ring()
    if name == "AddReturnProbabilities":
        theirs = T.AddRandomWalkPE(4, attr_name="pe")(data).pe
        torch.testing.assert_close(
            transform(data).return_probabilities.float(), theirs, atol=0.02, rtol=0
        )
    elif name in ADDING:
        wide = AddRandomFeatures(HEAT, dim=4096, attr_name="f", seed=0)(data).f.double().numpy()
        exact = HEAT.dense(grf.load_graph(data))
        assert np.abs(wide @ wide.T - exact).max() < 6 * np.sqrt(2 / 4096) * exact.max()
    else:
        heat = {"method": "heat", "t": 0.5}
        diffusion = {"method": "ppr", "alpha": 0.15} if name == "PersonalizedPageRank" else heat
        loops = T.AddSelfLoops()(data)
        theirs = T.GDC(
            self_loop_weight=None,
            normalization_in="sym",
            normalization_out=None,
            diffusion_kwargs=diffusion,
            sparsification_kwargs={"method": "threshold", "eps": 1e-9},
            exact=True,
        )(loops)
        exact = to_dense_adj(theirs.edge_index, edge_attr=theirs.edge_attr, max_num_nodes=12)[0]
        if name == "PersonalizedPageRank":
            ours = PersonalizedPageRank(12, max_residual=1e-7, normalization="none")(loops)
        else:
            sampler = grf.sampling.ExactPowers(30)
            ours = GRFDiffusion(HEAT, k=12, sampler=sampler, normalization="none")(loops)
        found = to_dense_adj(ours.edge_index, edge_attr=ours.edge_weight, max_num_nodes=12)[0]
        torch.testing.assert_close(found, exact, atol=1e-5, rtol=0)


CONVENTIONS: tuple[Callable[[Any, str], None], ...] = (
    is_a_base_transform,
    leaves_what_it_was_given,
    keeps_what_it_does_not_replace,
    gives_valid_data,
    repeats_itself,
    works_in_compositions,
    takes_lists_and_loaders,
    works_as_transform_of_a_dataset,
    takes_graphs_without_edges_and_nodes,
    takes_a_batch_as_one_graph,
    refuses_heterogeneous_data,
    drops_the_numbers_of_edges_that_go,
    feeds_a_convolution,
    goes_into_a_sparse_tensor,
    agrees_with_pytorch_geometric,
)


def main() -> int:
    print("| transform | passed | failed | which |\n|---|---|---|---|")
    wrong = 0
    for name, transform in TRANSFORMS.items():
        failed = []
        for convention in CONVENTIONS:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    warnings.filterwarnings(
                        "ignore", "`torch.jit.script`|Sparse (CSR|invariant)|.*pyg-lib"
                    )
                    convention(transform, name)
            except Exception:
                failed.append(convention.__name__.replace("_", " "))
                traceback.print_exc()
        print(
            f"| `{name}` | {len(CONVENTIONS) - len(failed)} | {len(failed)} | {'; '.join(failed)} "
            "|",
            flush=True,
        )
        wrong += len(failed)
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
