"""How does `GraphTimeGPRegressor` compare with BoTorch's latent Kronecker GP?

    OMP_NUM_THREADS=1 python benchmarks/latent_kronecker.py [--rows random30 random70 hours]
    [--sensors 60]

Speeds of METR-LA's first day, every five minutes at 60 neighbouring sensors, with gaps as in
`space_time.py`. Both models are fitted to the other readings and predict those that are hidden:
RMSE in miles an hour, the share within the 95 % interval of a new reading, the mean width of these
intervals, CPU seconds of the fit and of means with standard deviations.

`LatentKroneckerGP` (Lin et al. 2025) has the covariance k(sensor, sensor') k(time, time'), and is
trained as its documentation says: `fit_gpytorch_mll` with iterative methods, readings standardised,
times scaled to [0, 1]. Its standard deviations come from 64 draws by pathwise conditioning. Its
kernel of time is its default, Matern 5/2, and that of sensors is one of

- `places`: the default, Matern 5/2, of three coordinates of each sensor, by classical scaling of
  the lengths of shortest paths along the graph (the data set has no positions);
- `graph`: a Matern kernel of all eigenpairs of the graph's Laplacian, plus a multiple of the
  identity; its lengthscale, smoothness and variances are trained;
- `two-of-time`: the same, and a kernel of time that is the sum of Matern 1/2 and 5/2;
- `free`: a covariance of rank 10 plus a diagonal, all trained, without the graph (`IndexKernel`).

`GraphTimeGPRegressor` has all its defaults, and is fitted twice, since the first fit includes
compilation. The figures are in docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import torch
from _machine import header, peak_gib
from scipy.sparse.csgraph import breadth_first_order, shortest_path
from space_time import DAY, hidden

import graphrf as grf

# isort: split
# After graphrf, which imports linear_operator without a warning of torch's.
from botorch.fit import fit_gpytorch_mll
from botorch.models.latent_kronecker_gp import LatentKroneckerGP
from gpytorch.kernels import IndexKernel, Kernel, MaternKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.settings import skip_posterior_variances

FORMS = ("places", "graph", "two-of-time", "free")


class OfTheGraph(Kernel):
    """A Matern kernel of the normalised Laplacian, mean variance 1, and a multiple of I."""

    def __init__(self, graph: grf.Graph) -> None:
        super().__init__()
        values, vectors = np.linalg.eigh(graph.laplacian(normalized=True).toarray())
        self.register_buffer("values", torch.tensor(np.maximum(values, 0.0)))
        self.register_buffer("vectors", torch.tensor(vectors))
        self.log_parameters = torch.nn.Parameter(
            torch.tensor([0.0, 1.0, -1.0], dtype=torch.float64)
        )

    def forward(
        self, x1: torch.Tensor, x2: torch.Tensor, diag: bool = False, **_: object
    ) -> torch.Tensor:
        smoothness, lengthscale, own = self.log_parameters.exp()
        spectrum = (2 * smoothness / lengthscale**2 + self.values) ** -smoothness
        matrix = (self.vectors * (spectrum / spectrum.mean())) @ self.vectors.T
        matrix = matrix + own * torch.eye(len(matrix), dtype=matrix.dtype)
        result = matrix[x1[..., 0].long()][..., x2[..., 0].long()]
        return result.diagonal(dim1=-1, dim2=-2) if diag else result


class Free(IndexKernel):
    """As a dense matrix, which draws of `LatentKroneckerGP` need."""

    def forward(self, i1: torch.Tensor, i2: torch.Tensor, **options: object) -> torch.Tensor:
        return super().forward(i1, i2, **options).to_dense()


def places(graph: grf.Graph, n_coordinates: int = 3) -> np.ndarray:
    """Classical scaling of shortest paths' lengths, weight exp(-d^2) having length d."""
    lengths = graph.adjacency.copy()
    lengths.data = np.sqrt(np.maximum(-np.log(np.minimum(lengths.data, 1.0)), 1e-6))
    distances = shortest_path(lengths, directed=False)
    distances = np.minimum(distances, 1.2 * distances[np.isfinite(distances)].max())
    centred = np.eye(len(distances)) - 1 / len(distances)
    values, vectors = np.linalg.eigh(-0.5 * centred @ distances**2 @ centred)
    coordinates = vectors[:, -n_coordinates:] * np.sqrt(np.maximum(values[-n_coordinates:], 0.0))
    return np.asarray((coordinates - coordinates.min(axis=0)) / np.ptp(coordinates, axis=0).max())


def latent_kronecker(
    graph: grf.Graph, y: np.ndarray, form: str
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Means and deviations of new readings, CPU seconds of the fit and predictions."""
    n_times, n = y.shape
    torch.manual_seed(0)
    x = torch.tensor(places(graph) if form == "places" else np.arange(n, dtype=float)[:, None])
    t = torch.linspace(0, 1, n_times, dtype=torch.float64)[:, None]
    of_sensors = {"places": None, "free": Free(n, rank=10)}.get(form, OfTheGraph(graph))
    if form == "two-of-time":
        of_time = ScaleKernel(MaternKernel(0.5)) + ScaleKernel(MaternKernel(2.5))
    else:
        of_time = None
    start = time.process_time()
    model = LatentKroneckerGP(
        x, t, torch.tensor(y.T), covar_module_X=of_sensors, covar_module_T=of_time
    )
    with model.use_iterative_methods():
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        fitted = time.process_time()
        # Without this, `posterior` solves for the covariance of all predictions, which takes more
        # than 20 GB here.
        with torch.no_grad(), skip_posterior_variances():
            posterior = model.posterior(x)
            mean = posterior.mean.reshape(n, n_times)
            draws = torch.cat([posterior.rsample(torch.Size([8])) for _ in range(8)])
    centre, scale = (getattr(model.outcome_transform, name).item() for name in ("means", "stdvs"))
    std = torch.sqrt(draws.var(dim=0) + scale**2 * model.likelihood.noise.item())
    # `posterior.mean` is that of standardised readings,
    # while its draws are in the units of the readings.
    return (
        (centre + scale * mean).numpy().T,
        std.numpy().T,
        fitted - start,
        time.process_time() - fitted,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rows", nargs="+", default=["random30"], choices=["random30", "random70", "hours"]
    )
    parser.add_argument(
        "--sensors", type=int, default=60, help="number of sensors, in breadth-first order"
    )
    parser.add_argument("--forms", nargs="+", default=FORMS, choices=FORMS)
    options = parser.parse_args()
    print(header("scipy", "torch", "gpytorch", "botorch"))
    data = grf.datasets.load("metr-la")
    adjacency = data.graph.adjacency
    chosen = np.sort(
        breadth_first_order(adjacency, np.diff(adjacency.indptr).argmax())[0][: options.sensors]
    )
    graph = data.graph.subgraph(chosen)
    speeds = data.extra["speeds"][:DAY, chosen]
    times = np.arange(DAY) / 12

    def report(
        name: str, mask: np.ndarray, mean: np.ndarray, std: np.ndarray, fit: float, predict: float
    ) -> None:
        error, std = (mean - speeds)[mask], std[mask]
        covered, width = np.mean(np.abs(error) <= 1.96 * std), 2 * 1.96 * std.mean()
        print(
            f"    {name:32}RMSE {np.sqrt(np.mean(error**2)):6.3f}  covered {covered:.3f}  width "
            f"{width:5.2f}  fit {fit:6.1f}, predictions {predict:5.1f} CPU s",
            flush=True,
        )

    for row in options.rows:
        mask = hidden(row, speeds.shape)
        y = np.where(mask, np.nan, speeds)
        print(f"{row}: {mask.sum()} of {mask.size} readings hidden", flush=True)
        for _ in range(2):  # the first includes compilation
            start = time.process_time()
            gp = grf.gp.GraphTimeGPRegressor(graph, seed=0).fit(y, times=times)
            fitted = time.process_time()
            mean, std = gp.predict(times=times, return_std="observation")
            ended = time.process_time()
        report("GraphTimeGPRegressor", mask, mean, std, fitted - start, ended - fitted)
        for form in options.forms:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = latent_kronecker(graph, y, form)
            report(f"LatentKroneckerGP, {form}", mask, *found)
    print(f"peak {peak_gib():.1f} GiB")


if __name__ == "__main__":
    main()
