"""Transforms for PyTorch Geometric in small trained models, with rivals.

Cora with 20 labelled papers a topic, 500 for validation and 1,000 for the test, drawn anew for
every seed. The data have no words: where a model needs inputs that no transform makes, every paper
has a learned vector. Every row has settings to try (times, lengthscales, numbers of eigenvectors,
sizes of the learned vectors at the start). Each seed takes the setting and the epoch that are best
on its own papers for validation, and only that model counts in the test. Accuracies are means over
the seeds with their standard errors; the seconds are those of the transform, a mean over the
settings; the edges are those of the setting that was chosen most often.

    python examples/pyg_cora.py --out pyg_cora.png
    python examples/pyg_cora.py --quick
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
import torch.nn.functional as functional
import torch_geometric.transforms as pyg
from _figures import figure
from _options import add_figure_option
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, GINConv, SimpleConv, global_mean_pool
from torch_geometric.utils import to_torch_csr_tensor

import graphrf as grf
from graphrf.plot import COLOURS
from graphrf.pyg import (
    AddRandomFeatures,
    AddReturnProbabilities,
    GRFDiffusion,
    PersonalizedPageRank,
)

WALK_LENGTH = 16
# The settings that are tried. A learned vector starts
# with entries of a standard deviation in SCALES.
SCALES = (0.1, 1.0)
TIMES = (2.0, 5.0, 10.0)
HALTS = (0.3, 0.15, 0.05)
LENGTHSCALES = (2.0, 4.0, 8.0, 16.0)
KERNELS = [
    kernel for length in LENGTHSCALES for kernel in (grf.Diffusion(length), grf.Matern(1.5, length))
]
EIGENVECTORS = (8, 16, 32, 64, 96, 128, 192, 256)
WIDTHS = (64, 128, 256, 512)
WALK_LENGTHS = (2, 4, 8, 16)


# -- cora ------------------------------------------------------------------------------------------


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
    """Nodes for training (20 a class), for validation (500) and for the test (1,000)."""
    order = np.random.default_rng(seed).permutation(len(y))
    classes = y.numpy()[order]
    train = np.concatenate([order[classes == c][:20] for c in range(int(y.max()) + 1)])
    rest = order[~np.isin(order, train)]
    return torch.from_numpy(train), torch.from_numpy(rest[:500]), torch.from_numpy(rest[500:1500])


def messages(data: Data) -> Tensor:
    """The matrix that passes the inputs on, by rows: on CPUs faster than the list of edges."""
    return to_torch_csr_tensor(data.edge_index.flip(0), data.edge_weight, data.num_nodes)


class Convolutions(nn.Module):
    """Two graph convolutions over learned vectors of the nodes."""

    def __init__(self, data: Data, normalize: bool, scale: float) -> None:
        super().__init__()
        self.inputs = nn.Parameter(scale * torch.randn(data.num_nodes, 32))
        n_classes = int(data.y.max()) + 1
        self.first, self.second = (
            GCNConv(32, width, normalize=normalize, cached=normalize) for width in (32, n_classes)
        )
        self.messages = messages(data)

    def forward(self, nodes: Tensor) -> Tensor:
        hidden = functional.dropout(self.inputs, 0.5, self.training)
        hidden = functional.dropout(self.first(hidden, self.messages).relu(), 0.5, self.training)
        return self.second(hidden, self.messages)[nodes]


class Averages(nn.Module):
    """PPRGo: every node's own guess, then one weighted mean; here over learned vectors."""

    def __init__(self, data: Data, scale: float) -> None:
        super().__init__()
        self.inputs = nn.Parameter(scale * torch.randn(data.num_nodes, 32))
        self.guess = nn.Sequential(nn.Dropout(0.5), nn.Linear(32, int(data.y.max()) + 1))
        self.means = SimpleConv(aggr="sum")
        self.messages = messages(data)

    def forward(self, nodes: Tensor) -> Tensor:
        return self.means(self.guess(self.inputs), self.messages)[nodes]


class Perceptron(nn.Module):
    """Two layers on inputs that a transform made; no edges."""

    def __init__(self, data: Data) -> None:
        super().__init__()
        self.x = data.x.float()
        width, n_classes = self.x.shape[1], int(data.y.max()) + 1
        self.layers = nn.Sequential(
            nn.Dropout(0.5),
            nn.Linear(width, 64),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(64, n_classes),
        )

    def forward(self, nodes: Tensor) -> Tensor:
        return self.layers(self.x[nodes])


def accuracies(
    make: Callable[[], nn.Module], y: Tensor, seed: int, epochs: int
) -> tuple[float, float]:
    """Shares of right topics, at the best in validation of every fifth epoch."""
    torch.manual_seed(seed)
    train, check, test = split(y, seed)
    model = make()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best = (-1.0, 0.0)
    for epoch in range(1, epochs + 1):
        model.train()
        optimizer.zero_grad()
        functional.cross_entropy(model(train), y[train]).backward()
        optimizer.step()
        if epoch % 5:
            continue  # the validation takes longer than a step of training
        model.eval()
        with torch.no_grad():
            nodes = torch.cat([check, test])
            right = (model(nodes).argmax(dim=1) == y[nodes]).float()
        found = float(right[: len(check)].mean()), float(right[len(check) :].mean())
        best = max(best, found, key=lambda pair: pair[0])
    return best


def chosen_accuracy(
    settings: dict[str, Callable[[], nn.Module]], y: Tensor, seed: int, epochs: int
) -> tuple[str, float]:
    """The setting whose best epoch is best in validation, and its share in the test."""
    found = {name: accuracies(make, y, seed, epochs) for name, make in settings.items()}
    name = max(found, key=lambda name: found[name][0])
    return name, found[name][1]


def row_means(data: Data) -> Data:
    """Plain edges and loops with weights of sum 1 at nodes: a step that may stay."""
    data = pyg.AddSelfLoops()(data)
    degrees = torch.bincount(data.edge_index[1], minlength=data.num_nodes)
    data.edge_weight = 1.0 / degrees[data.edge_index[1]]
    return data


def as_weight(data: Data) -> Data:
    """Where GDC puts weights, moved to where convolutions look for them."""
    data.edge_weight = data.edge_attr
    del data.edge_attr
    return data


def projected_edges(data: Data, hops: int, width: int) -> Data:
    """Rows of the adjacency with loops, to the power `hops`, on `width` random signs."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (data.num_nodes, width))
    x = torch.from_numpy(signs).float()
    for _ in range(hops):
        x = x.index_add(0, data.edge_index[1], x[data.edge_index[0]])
    data.x = x
    return data


def unit_rows(data: Data) -> Data:
    """Inputs of mean square 1 at nodes: where a node lies counts, not how linked."""
    data.x = functional.normalize(data.x.float()) * data.x.shape[1] ** 0.5
    return data


def with_returns(data: Data) -> Data:
    """Return probabilities, columns with mean 0 and mean square 1, beside any inputs."""
    columns = data.returns
    columns = (columns - columns.mean(dim=0)) / columns.std(dim=0).clamp(min=1e-12)
    data.x = columns if data.x is None else torch.cat([data.x, columns], dim=1)
    return data


Setting = tuple[Callable[[Data], Data], Callable[[Data], nn.Module]]
_LOOPS = pyg.AddSelfLoops()


def heat_rows() -> dict[str, dict[str, Setting]]:
    """Two convolutions: edges as they are, and edges by the heat kernel of a time."""

    def dense(time: float) -> Callable[[Data], Data]:
        cut = {"method": "topk", "k": 32, "dim": 0}
        heat = pyg.GDC(diffusion_kwargs={"method": "heat", "t": time}, sparsification_kwargs=cut)
        return pyg.Compose([heat, as_weight])

    def sampled(time: float) -> Callable[[Data], Data]:
        return pyg.Compose([_LOOPS, GRFDiffusion(grf.Diffusion((2 * time) ** 0.5), 32, seed=0)])

    def settings(transform: Callable[[float], Callable[[Data], Data]]) -> dict[str, Setting]:
        made = {time: transform(time) for time in TIMES}
        return {
            f"t={time:g} scale={scale:g}": (
                made[time],
                partial(Convolutions, normalize=False, scale=scale),
            )
            for time in TIMES
            for scale in SCALES
        }

    plain = pyg.Compose([])
    return {
        "plain edges": {
            f"scale={s:g}": (plain, partial(Convolutions, normalize=True, scale=s)) for s in SCALES
        },
        "GDC, heat, dense": settings(dense),
        "GRFDiffusion, heat": settings(sampled),
    }


def pagerank_rows() -> dict[str, dict[str, Setting]]:
    """One weighted mean: of the neighbours, and by PageRank with a probability to halt."""

    def pushed(halt: float) -> Callable[[Data], Data]:
        push = pyg.GDC(
            normalization_in="col",
            diffusion_kwargs={"method": "ppr", "alpha": halt, "eps": 1e-4},
            sparsification_kwargs={"method": "threshold", "eps": 1e-3},
            exact=False,
        )
        return pyg.Compose([push, as_weight])

    def settings(transform: Callable[[float], Callable[[Data], Data]]) -> dict[str, Setting]:
        made = {halt: transform(halt) for halt in HALTS}
        return {
            f"halt={halt:g} scale={scale:g}": (made[halt], partial(Averages, scale=scale))
            for halt in HALTS
            for scale in SCALES
        }

    return {
        "plain edges": {f"scale={s:g}": (row_means, partial(Averages, scale=s)) for s in SCALES},
        "GDC, PageRank, by pushing": settings(pushed),
        "PersonalizedPageRank": settings(lambda halt: PersonalizedPageRank(32, p_halt=halt)),
    }


def input_rows() -> dict[str, dict[str, Setting]]:
    """A perceptron on what lies in the inputs."""

    def returns(length: int) -> Callable[[Data], Data]:
        return pyg.Compose(
            [AddReturnProbabilities(length, attr_name="returns", seed=0), with_returns]
        )

    def exact_returns(length: int) -> Callable[[Data], Data]:
        return pyg.Compose([pyg.AddRandomWalkPE(length, "returns"), with_returns])

    features = {
        f"{type(kernel).__name__} {kernel.lengthscale:g}": pyg.Compose(
            [AddRandomFeatures(kernel, 256, attr_name=None, seed=0), unit_rows]
        )
        for kernel in KERNELS
    }
    rows: dict[str, dict[str, Callable[[Data], Data]]] = {
        "projected edges": {
            f"hops={hops} width={n}": pyg.Compose(
                [partial(projected_edges, hops=hops, width=n), unit_rows]
            )
            for hops in (1, 2)
            for n in WIDTHS
        },
        "AddLaplacianEigenvectorPE": {
            f"k={k}": pyg.Compose([pyg.AddLaplacianEigenvectorPE(k, None, True), unit_rows])
            for k in EIGENVECTORS
        },
        "AddRandomFeatures, 256": features,
        "  and AddReturnProbabilities": {
            name: pyg.Compose([made, returns(WALK_LENGTH)]) for name, made in features.items()
        },
        "AddRandomWalkPE": {f"length={n}": exact_returns(n) for n in WALK_LENGTHS},
        "AddReturnProbabilities": {f"length={n}": returns(n) for n in WALK_LENGTHS},
    }
    return {
        row: {name: (made, Perceptron) for name, made in settings.items()}
        for row, settings in rows.items()
    }


# -- graphs that convolutions cannot tell apart ----------------------------------------------------

SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)


def skip_graph(skip: int, rng: np.random.Generator) -> Data:
    """A ring of 41 nodes, each linked to the `skip`-th next, too; numbered at random."""
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
    # Constant features stay constant.
    mean, deviation = train.x.mean(dim=0), train.x.std(dim=0).clamp(min=1e-4)
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


# -- the table and the figure ----------------------------------------------------------------------


def cell(values: list[float]) -> str:
    """Mean and its standard error, in per cent."""
    error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{100 * np.mean(values):.1f} ± {100 * error:.1f}"


def draw(accuracies: dict[str, dict[str, list[float]]], path: str) -> None:
    """Accuracies with two standard errors each way, ours and others' in two colours."""
    lines = [
        (group, row, 100 * np.array(found))
        for group, rows in accuracies.items()
        for row, found in rows.items()
    ]
    with figure(path, height=0.32 * len(lines) + 0.9) as sheet:
        ax = sheet.subplots()
        places = np.arange(len(lines)) + 0.6 * np.array(
            [list(accuracies).index(group) for group, *_ in lines]
        )
        for place, (_, row, found) in zip(places, lines, strict=True):
            ours = any(
                name in row
                for name in ("GRF", "PersonalizedPageRank", "AddRandomFeatures", "AddReturn")
            )
            ax.errorbar(
                found.mean(),
                place,
                xerr=2 * found.std(ddof=1) / len(found) ** 0.5,
                fmt="o" if ours else "s",
                color=COLOURS[0] if ours else COLOURS[1],
                markersize=6,
            )
        for group in accuracies:
            first = min(
                place for place, line in zip(places, lines, strict=True) if line[0] == group
            )
            ax.annotate(
                group,
                (0.01, first - 0.55),
                xycoords=("axes fraction", "data"),
                fontsize=8.5,
                va="center",
            )
        ax.plot([], [], "o", color=COLOURS[0], label="graphrf")
        ax.plot([], [], "s", color=COLOURS[1], label="others")
        ax.set_yticks(places, [row.strip() for _, row, _ in lines])
        ax.set_ylim(places[-1] + 0.6, -1.0)
        ax.set_xlim(0, 100)
        ax.set_xlabel("test accuracy (%)")
        ax.grid(visible=False, axis="y")
        ax.legend(loc="lower right")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="splits and starts")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="two seeds, 10 epochs, two settings a row, without dense rivals: a check that it runs",
    )
    add_figure_option(parser)
    args = parser.parse_args()
    if args.out and args.seeds < 2:
        parser.error("--out needs at least two seeds, for the errors")
    seeds, epochs = (2, 10) if args.quick else (args.seeds, args.epochs)

    torch.set_num_threads(1)  # The models are small: a second thread waits more than it works.
    # AddRandomWalkPE and matrices by rows make torch warn of its sparse tensors.
    warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
    data = cora()
    # What loops are compiled for and libraries load at first use is not the transforms' cost.
    ring = skip_graph(2, np.random.default_rng(0))
    print(f"cora: {data.num_nodes} papers, accuracy in per cent, {seeds} seeds, {epochs} epochs")
    groups = {
        "two convolutions (GCN)": heat_rows(),
        "one weighted mean (PPRGo)": pagerank_rows(),
        "perceptron without edges": input_rows(),
    }
    drawn: dict[str, dict[str, list[float]]] = {group: {} for group in groups}
    for group, rows in groups.items():
        print(f"\n{group:34}{'accuracy':>14}{'edges':>10}{'seconds':>10}  chosen in validation")
        for row, settings in rows.items():
            if args.quick and ("GDC" in row or "WalkPE" in row):
                continue
            if args.quick:
                settings = dict(list(settings.items())[:: (len(settings) + 1) // 2])
            transforms = dict.fromkeys(transform for transform, _ in settings.values())
            if "Laplacian" not in row:  # which the ring is too small for
                next(iter(transforms))(ring)
            begin = time.perf_counter()
            made = {transform: transform(data) for transform in transforms}
            seconds = (time.perf_counter() - begin) / len(made)
            models = {
                name: partial(model, made[transform])
                for name, (transform, model) in settings.items()
            }
            found = [chosen_accuracy(models, data.y, seed, epochs) for seed in range(seeds)]
            chosen = Counter(name for name, _ in found).most_common()
            edges = made[settings[chosen[0][0]][0]].num_edges
            words = ", ".join(
                name + (f" ({times} times)" if times > 1 else "") for name, times in chosen
            )
            drawn[group][row] = [share for _, share in found]
            shares = cell(drawn[group][row])
            print(f"  {row:32}{shares:>14}{edges:10}{seconds:10.2f}  {words}", flush=True)

    print(
        "\n"
        f"rings of 41 nodes with skips of {', '.join(map(str, SKIPS))}: which skip, by GIN, "
        f"{seeds} seeds"
    )
    for name, transform in SKIP_ROWS.items():
        found = [skip_accuracy(transform, seed, epochs) for seed in range(seeds)]
        print(f"  {name:32}{cell(found):>14}", flush=True)
    if args.out:
        draw(drawn, args.out)


if __name__ == "__main__":
    main()
