"""Transforms for PyTorch Geometric in small trained models, with rivals: topics of papers, and kinds of rings.

Cora with 20 labelled papers a topic, 500 for the choice of the epoch and 1,000 for the test, drawn anew for every
seed. The data have no words: where a model needs inputs that no transform makes, every paper has a learned vector.
Accuracies are means over the seeds with their standard errors; the seconds are those of the transform.

    python examples/pyg_cora.py --seeds 10
    python examples/pyg_cora.py --quick
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as functional
import torch_geometric.transforms as pyg
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, GINConv, SimpleConv, global_mean_pool

import graphrf as grf
from graphrf.transforms import AddRandomFeatures, AddReturnProbabilities, GRFDiffusion, PersonalizedPageRank

# GDC's heat kernel with time 5, and the kernel of the random features.
HEAT, SMOOTH = grf.Diffusion(10**0.5), grf.Diffusion(8.0)
WALK_LENGTH = 16


# -- cora ------------------------------------------------------------------------------------------------------


def cora() -> Data:
    """Cora as PyTorch Geometric holds it, without words."""
    source = grf.datasets.load("cora")
    edges = source.graph.adjacency.tocoo()
    return Data(
        edge_index=torch.from_numpy(np.stack([edges.row, edges.col]).astype(np.int64)),
        y=torch.from_numpy(np.asarray(source.targets, dtype=np.int64)),
        num_nodes=source.graph.n_nodes,
    )


def split(y: Tensor, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes for training (20 a class), for the choice of the epoch (500) and for the test (1,000)."""
    order = np.random.default_rng(seed).permutation(len(y))
    classes = y.numpy()[order]
    train = np.concatenate([order[classes == c][:20] for c in range(int(y.max()) + 1)])
    rest = order[~np.isin(order, train)]
    return torch.from_numpy(train), torch.from_numpy(rest[:500]), torch.from_numpy(rest[500:1500])


class Convolutions(nn.Module):
    """Two graph convolutions over learned vectors of the nodes."""

    def __init__(self, data: Data, normalize: bool) -> None:
        super().__init__()
        self.inputs = nn.Parameter(0.1 * torch.randn(data.num_nodes, 32))
        n_classes = int(data.y.max()) + 1
        self.first, self.second = (GCNConv(32, width, normalize=normalize) for width in (32, n_classes))
        self.edges = data.edge_index, data.edge_weight

    def forward(self) -> Tensor:
        hidden = functional.dropout(self.inputs, 0.5, self.training)
        hidden = functional.dropout(self.first(hidden, *self.edges).relu(), 0.5, self.training)
        return self.second(hidden, *self.edges)


class Averages(nn.Module):
    """PPRGo: every node's own guess, then one weighted mean of guesses; here over learned vectors."""

    def __init__(self, data: Data) -> None:
        super().__init__()
        self.inputs = nn.Parameter(0.1 * torch.randn(data.num_nodes, 32))
        self.guess = nn.Sequential(nn.Dropout(0.5), nn.Linear(32, int(data.y.max()) + 1))
        self.means = SimpleConv(aggr="sum")
        self.edges = data.edge_index, data.edge_weight

    def forward(self) -> Tensor:
        return self.means(self.guess(self.inputs), *self.edges)


class Perceptron(nn.Module):
    """Two layers on inputs that a transform made; no edges."""

    def __init__(self, data: Data) -> None:
        super().__init__()
        self.x = data.x.float()
        width, n_classes = self.x.shape[1], int(data.y.max()) + 1
        self.layers = nn.Sequential(
            nn.Dropout(0.2), nn.Linear(width, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, n_classes)
        )

    def forward(self) -> Tensor:
        return self.layers(self.x)


def accuracy(make: Callable[[], nn.Module], y: Tensor, seed: int, epochs: int) -> float:
    """Share of right topics in the test at the epoch that is best in validation."""
    torch.manual_seed(seed)
    train, check, test = split(y, seed)
    model = make()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best = (-1.0, 0.0)
    for _ in range(epochs):
        model.train()
        optimizer.zero_grad()
        functional.cross_entropy(model()[train], y[train]).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            right = (model().argmax(dim=1) == y).float()
        best = max(best, (float(right[check].mean()), float(right[test].mean())), key=lambda found: found[0])
    return best[1]


def row_means(data: Data) -> Data:
    """The plain edges and loops, with weights that sum to 1 at every node: one step of a walk that may stay."""
    data = pyg.AddSelfLoops()(data)
    degrees = torch.bincount(data.edge_index[1], minlength=data.num_nodes)
    data.edge_weight = 1.0 / degrees[data.edge_index[1]]
    return data


def as_weight(data: Data) -> Data:
    """Where GDC puts weights, moved to where convolutions look for them."""
    data.edge_weight = data.edge_attr
    del data.edge_attr
    return data


def projected_edges(data: Data) -> Data:
    """The rows of the adjacency matrix with loops, projected to 256 random signs."""
    signs = torch.from_numpy(np.random.default_rng(0).choice([-1.0, 1.0], (data.num_nodes, 256)) / 16).float()
    x = signs.clone()
    x.index_add_(0, data.edge_index[1], signs[data.edge_index[0]])
    data.x = x
    return data


def unit_rows(data: Data) -> Data:
    """Inputs of mean square 1 at every node: where a node lies counts, not how well it is linked."""
    data.x = functional.normalize(data.x.float()) * data.x.shape[1] ** 0.5
    return data


def with_returns(data: Data) -> Data:
    """Return probabilities, every column with mean 0 and mean square 1, beside the inputs if there are any."""
    columns = data.returns
    columns = (columns - columns.mean(dim=0)) / columns.std(dim=0).clamp(min=1e-12)
    data.x = columns if data.x is None else torch.cat([data.x, columns], dim=1)
    return data


Model = Callable[[Data], nn.Module]
_LOOPS = pyg.AddSelfLoops()
_PPR = {"method": "ppr", "alpha": 0.15}


def cora_rows() -> dict[str, dict[str, tuple[Callable[[Data], Data], Model]]]:
    """Groups of rows: a transform and the model that is trained on what it makes."""
    features = pyg.Compose([AddRandomFeatures(SMOOTH, 256, attr_name=None, seed=0), unit_rows])
    returns = pyg.Compose([AddReturnProbabilities(WALK_LENGTH, attr_name="returns", seed=0), with_returns])
    rival = pyg.Compose([pyg.AddRandomWalkPE(WALK_LENGTH, "returns"), with_returns])
    eigenvectors = pyg.Compose([pyg.AddLaplacianEigenvectorPE(64, None, True), unit_rows])
    cut = {"method": "topk", "k": 32, "dim": 0}
    heat = pyg.GDC(diffusion_kwargs={"method": "heat", "t": 5.0}, sparsification_kwargs=cut)
    approximate = pyg.GDC(
        normalization_in="col", diffusion_kwargs={**_PPR, "eps": 1e-4},
        sparsification_kwargs={"method": "threshold", "eps": 1e-3}, exact=False,
    )  # fmt: skip
    return {
        "two convolutions (GCN)": {
            "plain edges": (pyg.Compose([]), lambda data: Convolutions(data, True)),
            "GDC, heat, dense": (pyg.Compose([heat, as_weight]), lambda data: Convolutions(data, False)),
            "GRFDiffusion, heat": (
                pyg.Compose([_LOOPS, GRFDiffusion(HEAT, 32, seed=0)]),
                lambda data: Convolutions(data, False),
            ),
        },
        "one weighted mean (PPRGo)": {
            "plain edges": (row_means, Averages),
            "GDC, PageRank, by pushing": (pyg.Compose([approximate, as_weight]), Averages),
            "PersonalizedPageRank": (PersonalizedPageRank(32), Averages),
        },
        "perceptron without edges": {
            "projected edges": (pyg.Compose([projected_edges, unit_rows]), Perceptron),
            "AddLaplacianEigenvectorPE, 64": (eigenvectors, Perceptron),
            "AddRandomFeatures, 256": (features, Perceptron),
            "  and AddReturnProbabilities": (pyg.Compose([features, returns]), Perceptron),
            "AddRandomWalkPE": (rival, Perceptron),
            "AddReturnProbabilities": (returns, Perceptron),
        },
    }


# -- graphs that convolutions cannot tell apart ---------------------------------------------------------------

SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)


def skip_graph(skip: int, rng: np.random.Generator) -> Data:
    """A ring of 41 nodes, each linked to the `skip`-th next one, too; numbered at random. Degrees are 4."""
    names = rng.permutation(41)
    ring = np.arange(41)
    ends = np.concatenate([np.stack([ring, (ring + step) % 41]) for step in (1, skip)], axis=1)
    edges = torch.from_numpy(names[np.concatenate([ends, ends[::-1]], axis=1)])
    return Data(edge_index=edges, num_nodes=41, y=torch.tensor([SKIPS.index(skip)]))


class Isomorphism(nn.Module):
    """Two layers of GIN and the mean over the nodes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        widths = [width, 32, 32]
        self.layers = nn.ModuleList(
            GINConv(nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Linear(b, b)))
            for a, b in itertools.pairwise(widths)
        )
        self.last = nn.Linear(32, len(SKIPS))

    def forward(self, batch: Batch) -> Tensor:
        x = batch.x
        for layer in self.layers:
            x = layer(x, batch.edge_index).relu()
        return self.last(global_mean_pool(x, batch.batch, batch.num_graphs))


def skip_accuracy(transform: Callable[[Data], Data], seed: int, epochs: int) -> float:
    """Share of right skips on 50 new graphs, trained on 100."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    train, test = (
        Batch.from_data_list([transform(skip_graph(skip, rng)) for skip in SKIPS for _ in range(n)])
        for n in (10, 5)
    )
    mean, deviation = train.x.mean(dim=0), train.x.std(dim=0).clamp(min=1e-4)  # what is constant stays so
    train.x, test.x = (train.x - mean) / deviation, (test.x - mean) / deviation
    model = Isomorphism(train.x.shape[1])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(epochs):
        optimizer.zero_grad()
        functional.cross_entropy(model(train), train.y).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return float((model(test).argmax(dim=1) == test.y).float().mean())


def constant(data: Data) -> Data:
    """The same input for every node."""
    data.x = torch.ones(data.num_nodes, 1)
    return data


SKIP_ROWS: dict[str, Callable[[Data], Data]] = {
    "constant inputs": constant,
    "AddRandomWalkPE": pyg.AddRandomWalkPE(WALK_LENGTH, None),
    "AddReturnProbabilities": AddReturnProbabilities(WALK_LENGTH, attr_name=None, seed=0),
}


# -- the table -------------------------------------------------------------------------------------------------


def cell(values: list[float]) -> str:
    """Mean and its standard error, in per cent."""
    error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{100 * np.mean(values):.1f} ± {100 * error:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="splits and starts")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument(
        "--quick", action="store_true", help="two seeds, 5 epochs, without dense rivals: a check that it runs"
    )
    args = parser.parse_args()
    seeds, epochs = (2, 5) if args.quick else (args.seeds, args.epochs)

    # AddRandomWalkPE makes torch warn of its sparse tensors.
    warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
    data = cora()
    # What loops are compiled for and libraries load at first use is not the transforms' cost.
    ring = skip_graph(2, np.random.default_rng(0))
    print(f"cora: {data.num_nodes} papers, accuracy in per cent, {seeds} seeds, {epochs} epochs")
    for group, rows in cora_rows().items():
        print(f"\n{group:34}{'accuracy':>14}{'edges':>10}{'seconds':>10}")
        for name, (transform, model) in rows.items():
            if args.quick and ("GDC" in name or "WalkPE" in name):
                continue
            if "Laplacian" not in name:  # which the ring is too small for
                transform(ring)
            begin = time.perf_counter()
            made = transform(data)
            seconds = time.perf_counter() - begin
            found = [accuracy(lambda m=model, d=made: m(d), data.y, seed, epochs) for seed in range(seeds)]
            print(f"  {name:32}{cell(found):>14}{made.num_edges:10}{seconds:10.2f}", flush=True)

    print(f"\nrings of 41 nodes with skips of {', '.join(map(str, SKIPS))}: which skip, by GIN, {seeds} seeds")
    for name, transform in SKIP_ROWS.items():
        found = [skip_accuracy(transform, seed, epochs) for seed in range(seeds)]
        print(f"  {name:32}{cell(found):>14}", flush=True)


if __name__ == "__main__":
    main()
