"""Do couplings of more than two walkers beat plain stratified lengths, and Sinkhorn plans the
assignments?

    python benchmarks/multiway.py solvers    # assignments against Sinkhorn plans, on the same cost
    python benchmarks/multiway.py lengths    # the variance due to lengths alone
    python benchmarks/multiway.py errors     # relative errors of Gram matrices, paired seeds

Couplings are learned for the graph and the p_halt they are used with, which favours them. The
kernel is the 2-regularised Laplacian.
"""

from __future__ import annotations

import argparse
import itertools
import time

import networkx as nx
import numpy as np
from _machine import header
from numba import njit
from scipy.optimize import linear_sum_assignment, linprog
from scipy.sparse import csr_array
from scipy.special import logsumexp

import graphrf as grf
from graphrf.couplings.multiway import multiway_cost, solve_multiway
from graphrf.couplings.quantiles import tile_modulations, tile_spectra
from graphrf.operators.series.density_of_states import density_of_states
from graphrf.sampling.walks.lengths import Survival
from graphrf.sampling.walks.loops import draw_lengths

KERNEL = grf.RegularizedLaplacian(1.0, 2)
P_HALTS = (0.1, 0.3)
WALKERS = (4, 8, 16)


def load(name: str) -> grf.Graph:
    if name == "grid 30 x 30":
        return grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(30, 30)))
    return grf.datasets.load(name).graph


def spectra_of(graph: grf.Graph, p_halt: float, order: int) -> tuple[np.ndarray, np.ndarray]:
    survival = Survival.geometric(p_halt)
    coefficients = tile_modulations(KERNEL.modulation(survival.table.size), survival, order)
    points, weights = density_of_states(graph, "normalized", np.random.default_rng(0))
    return tile_spectra(coefficients, points), weights


def laws(graph: grf.Graph, p_halt: float, n_walkers: int) -> dict[str, grf.sampling.LengthLaw]:
    made = {
        "iid": grf.sampling.IID(p_halt),
        "sigma": grf.sampling.SigmaCoupled(p_halt),
        "stratified": grf.sampling.Stratified(p_halt),
    }
    for name, order in (("multiway 30", 30), ("multiway 4m", 4 * n_walkers)):
        spectra, weights = spectra_of(graph, p_halt, order)
        permutations = solve_multiway(spectra, weights, n_walkers, rng=np.random.default_rng(0))
        made[name] = grf.sampling.SigmaCoupled(
            p_halt, grf.sampling.Coupling(permutations, p_halt=p_halt)
        )
    return made


# -- solvers ---------------------------------------------------------------------------------------


def sinkhorn_plan(cost: np.ndarray, epsilons: np.ndarray, sweeps: int = 300) -> np.ndarray:
    """The entropic plan of a cost tensor with uniform marginals, annealed, then rounded onto these
    marginals.

    Rounding: Altschuler, Weed and Rigollet, NeurIPS 2017, Algorithm 2, for any number of marginals.
    """
    order, m = cost.shape[0], cost.ndim
    others = [tuple(axis for axis in range(m) if axis != j) for j in range(m)]
    potentials = [np.zeros(order) for _ in range(m)]

    def along(vector: np.ndarray, axis: int) -> np.ndarray:
        return vector.reshape([-1 if i == axis else 1 for i in range(m)])

    for epsilon in epsilons:
        for _ in range(sweeps):
            for j in range(m):
                total = sum(along(potentials[i], i) for i in range(m) if i != j)
                potentials[j] = -epsilon * (
                    logsumexp((total - cost) / epsilon, axis=others[j]) + np.log(order)
                )
    plan = np.exp((sum(along(potentials[i], i) for i in range(m)) - cost) / epsilons[-1])
    for j in range(m):
        plan = plan * along(np.minimum(1.0, 1.0 / (order * plan.sum(axis=others[j]))), j)
    lacking = [1.0 / order - plan.sum(axis=others[j]) for j in range(m)]
    mass = lacking[0].sum()
    if mass > 1e-15:
        product = np.ones_like(plan)
        for j in range(m):
            product = product * along(np.maximum(lacking[j], 0.0), j)
        plan = plan + product / mass ** (m - 1)
    return plan


def plan_to_permutations(plan: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Tuples drawn in proportion to the plan until every tile of every walker is used once."""
    order, m = plan.shape[0], plan.ndim
    left = plan.copy()
    tiles = np.empty((m, order), np.int64)
    for q in range(order):
        total = left.sum()
        if total > 0:
            chosen = np.unravel_index(rng.choice(left.size, p=left.ravel() / total), left.shape)
        else:
            free = [np.setdiff1d(np.arange(order), tiles[j, :q]) for j in range(m)]
            chosen = tuple(rng.choice(options) for options in free)
        for j in range(m):
            tiles[j, q] = chosen[j]
            left[(slice(None),) * j + (chosen[j],)] = 0.0
    return tiles[1:, np.argsort(tiles[0])]


def linear_program(cost: np.ndarray) -> float:
    """The least cost of any plan with uniform marginals, permutations or not."""
    order, m = cost.shape[0], cost.ndim
    index = np.indices(cost.shape).reshape(m, -1)
    rows = (index + order * np.arange(m)[:, None]).ravel()
    columns = np.tile(np.arange(cost.size), m)
    matrix = csr_array((np.ones(rows.size), (rows, columns)))
    return float(linprog(cost.ravel(), A_eq=matrix, b_eq=np.ones(order * m), method="highs").fun)


def soft_assignment(
    spectra: np.ndarray, weights: np.ndarray, m: int, rng: np.random.Generator
) -> np.ndarray:
    """Annealed walker by walker: each holds an entropic plan against the mean sum of the others,
    rounded at last.

    The first walker keeps the identity. Potentials are kept from one level to the next.
    """
    order = spectra.shape[0]
    plans = rng.dirichlet(np.ones(order), (m, order))
    plans[0] = np.eye(order)
    means = plans @ spectra
    potentials = np.zeros((m, order))
    scale = 0.0
    for level in np.geomspace(1.0, 1e-3, 30):
        for _ in range(3):
            for j in range(1, m):
                others = means.sum(axis=0) - means[j]
                cost = (
                    4 * (weights * others**3) @ spectra.T
                    + 6 * (weights * others**2) @ (spectra**2).T
                    + 4 * (weights * others) @ (spectra**3).T
                )
                cost -= cost.mean(axis=1, keepdims=True)
                cost -= cost.mean(axis=0, keepdims=True)
                scale = scale or cost.std()
                logits = -cost / (scale * level)
                for _ in range(50):
                    rows = -logsumexp(logits + potentials[j] / level, axis=1, keepdims=True)
                    potentials[j] = -level * logsumexp(logits + rows, axis=0)
                plans[j] = np.exp(logits + rows + potentials[j] / level)
                means[j] = plans[j] @ spectra
    return np.stack([linear_sum_assignment(-plan)[1] for plan in plans[1:]])


def excess(cost: float, spectra: np.ndarray, weights: np.ndarray, m: int) -> str:
    """Cost above that of a sum which does not vary, relative to it, in parts in ten thousand."""
    bound = spectra.shape[0] * float((m * spectra.mean(axis=0)) ** 4 @ weights)
    return f"{1e4 * (cost / bound - 1):.2f}"


def clocked(function, *arguments, **options):  # type: ignore[no-untyped-def]
    started = time.perf_counter()
    result = function(*arguments, **options)
    return result, time.perf_counter() - started


def solvers() -> None:
    print(
        "\nexcess over Jensen's bound, in parts in ten thousand, and seconds; karate club, order 10"
    )
    print(
        "p_halt  m  independent  linear program  Sinkhorn plan, seconds  its permutations "
        " assignments, seconds  without restarts"
    )
    graph = load("karate")
    for p_halt, m in itertools.product(P_HALTS, (3, 4)):
        spectra, weights = spectra_of(graph, p_halt, 10)
        sums = sum(
            spectra.reshape([10 if i == j else 1 for i in range(m)] + [-1]) for j in range(m)
        )
        cost = sums**4 @ weights
        plan, seconds = clocked(sinkhorn_plan, cost, cost.mean() * np.geomspace(1e-2, 1e-5, 10))
        rng = np.random.default_rng(0)
        drawn = min(
            multiway_cost(spectra, weights, plan_to_permutations(plan, rng)) for _ in range(50)
        )
        found, assigned = clocked(solve_multiway, spectra, weights, m, rng=np.random.default_rng(0))
        single = solve_multiway(spectra, weights, m, rng=np.random.default_rng(0), restarts=0)
        costs = [cost.mean() * 10, linear_program(cost), (plan * cost).sum() * 10, drawn]
        costs += [multiway_cost(spectra, weights, permutations) for permutations in (found, single)]
        words = [excess(value, spectra, weights, m) for value in costs]
        print(
            f"{p_halt:<6} {m:>2} {words[0]:>12} {words[1]:>15} {words[2]:>14} {seconds:>7.2f} "
            f"{words[3]:>17} {words[4]:>13} {assigned:>8.3f} {words[5]:>17}"
        )

    print(
        "\n"
        "the same, order 30: annealed walker by walker, and assignments without and with random "
        "restarts"
    )
    print(
        "p_halt  m    annealed, seconds    0 restarts, seconds    4 restarts, seconds    16 "
        "restarts, seconds"
    )
    for p_halt, m in itertools.product(P_HALTS, (2, *WALKERS)):
        spectra, weights = spectra_of(graph, p_halt, 30)
        line = f"{p_halt:<6} {m:>2}"
        results = [clocked(soft_assignment, spectra, weights, m, np.random.default_rng(0))]
        for restarts in (0, 4, 16):
            rng = np.random.default_rng(0)
            results.append(clocked(solve_multiway, spectra, weights, m, rng=rng, restarts=restarts))
        for permutations, seconds in results:
            cost = excess(multiway_cost(spectra, weights, permutations), spectra, weights, m)
            line += f" {cost:>13} {seconds:>8.3f}"
        print(line)


# -- lengths ---------------------------------------------------------------------------------------


@njit
def draw_many(n_sources, m, rule, survival, permutations):  # type: ignore[no-untyped-def]
    """Lengths of the m walks of many sources, as the engine draws them."""
    drawn = np.empty((n_sources, m), np.int64)
    for source in range(n_sources):
        draw_lengths(np.uint64(source), rule, survival, permutations, np.uint64(0), drawn[source])
    return drawn


def lengths(n_sources: int = 200_000) -> None:
    """E of the costs of Eqs. 55 and 56 with the lengths' laws, above those of lengths that add no
    variance.
    """
    print(
        "\n"
        "excess over walks whose lengths add no variance, in per cent: Eq. 55 / Eq. 56 (200,000 "
        "sources)"
    )
    print(
        f"{'graph':<13} {'p_halt':>6} {'m':>3}"
        + "".join(f"{name:>20}" for name in laws(load("karate"), 0.1, 4))
    )
    for name, p_halt, m in itertools.product(("karate", "football"), P_HALTS, WALKERS):
        graph = load(name)
        points, weights = density_of_states(graph, "normalized", np.random.default_rng(0))
        line = f"{name:<13} {p_halt:>6} {m:>3}"
        for law in laws(graph, p_halt, m).values():
            table = law.survival.table
            f = KERNEL.modulation(table.size)
            walked = np.cumsum(
                (f / table)[:, None] * points ** np.arange(table.size)[:, None], axis=0
            )
            square, fourth = np.zeros(points.size), np.zeros(points.size)
            for drawn in np.array_split(
                draw_many(n_sources, m, int(law.rule), table, law.permutations(m)), 100
            ):
                mean_square = (sum(walked[column] for column in drawn.T) / m) ** 2
                square += mean_square.sum(axis=0) / n_sources
                fourth += (mean_square**2).sum(axis=0) / n_sources
            least = weights @ np.polynomial.polynomial.polyval(points, f) ** 4
            line += f"{100 * (weights @ square**2 / least - 1):>11.2f} /"
            line += f"{100 * (weights @ fourth / least - 1):>7.2f}"
        print(line, flush=True)


# -- errors ----------------------------------------------------------------------------------------


def errors(repeats: int = 30) -> None:
    print(
        "\n"
        f"relative Frobenius error of Phi Phi^T; ratios are paired by seed ({repeats} seeds, cora "
        "6)"
    )
    print(
        f"{'graph':<13} {'p_halt':>6} {'m':>3} {'directions':<12} {'iid':>16} {'sigma/iid':>14} "
        f"{'stratified/iid':>15} {'multiway 30/strat':>18} {'multiway 4m/strat':>18}"
    )
    for name in ("karate", "football", "grid 30 x 30", "cora"):
        graph = load(name)
        exact = KERNEL.dense(graph)
        size = np.linalg.norm(exact)
        seeds = 6 if name == "cora" else repeats
        for p_halt, m in itertools.product(P_HALTS, WALKERS):
            made = laws(graph, p_halt, m)
            for directions in ("independent", "stratified"):
                error = {key: np.empty(seeds) for key in made}
                for key, law in made.items():
                    sampler = grf.RandomWalks(m, law, directions=directions)
                    for seed in range(seeds):
                        gram = grf.sample_features(graph, sampler, seed=seed).gram(KERNEL)
                        error[key][seed] = np.linalg.norm(gram - exact) / size
                ratios = [
                    error["sigma"] / error["iid"],
                    error["stratified"] / error["iid"],
                    error["multiway 30"] / error["stratified"],
                    error["multiway 4m"] / error["stratified"],
                ]
                line = f"{name:<13} {p_halt:>6} {m:>3} {directions:<12}"
                for values in (error["iid"], *ratios):
                    line += f"  {values.mean():>6.4f} +- {values.std(ddof=1) / seeds**0.5:.4f}"
                print(line, flush=True)


if __name__ == "__main__":
    parts = {"solvers": solvers, "lengths": lengths, "errors": errors}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=parts)
    part = parser.parse_args().part
    print(header("scipy", "networkx"))
    parts[part]()
