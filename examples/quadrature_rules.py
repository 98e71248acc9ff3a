"""What quadrature rules do to a kernel with a short lengthscale: figures A.5 and A.6.

As there ("Numerical methods for improved decoupled sampling of Gaussian processes", Secs. A.3.3 and
A.3.3.4): the squared-exponential kernel with lengthscale 1/5 on [-3, 3] and on [-150, 150], by
Gauss-Hermite, Gauss-Legendre, compound Simpson and Filon rules of 16 to 256 nodes (Simpson and
Filon take one more). The chapter does not state the interval of the last two; here it ends at 5
standard deviations of the spectral density. Its Gauss-Legendre rule maps [-1, 1] to the line by
tan(pi u / 2) in units of 1/x; ours does so in units of 1/lengthscale, which makes the error a
function of distance over lengthscale. Both are shown.

    python examples/quadrature_rules.py --out quadrature_rules.png
    python examples/quadrature_rules.py --nodes 16 64 --points 501
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
from _figures import figure, legend_below
from _options import add_figure_option

from graphrf.euclidean.filon import filon_kernel
from graphrf.euclidean.frequencies.quadrature import gauss_legendre, simpson, spectral_rule
from graphrf.euclidean.kernels import stationary_kernel
from graphrf.plot import COLOURS

LENGTHSCALE = 0.2
MAX_FREQUENCY = 5.0
NEAR, FAR = 3.0, 150.0
RULES = ("Gauss-Hermite", "Gauss-Legendre", "Gauss-Legendre, in 1/x", "Simpson", "Filon")


def legendre_in_units_of_x(n_nodes: int, lengthscale: float) -> tuple[np.ndarray, np.ndarray]:
    """The chapter's map: nodes tan(pi u / 2) are frequencies of x, so l times them."""
    nodes, weights = gauss_legendre(n_nodes)
    return lengthscale * nodes, lengthscale * weights


def approximate(rule: str, n_nodes: int, t: np.ndarray) -> np.ndarray:
    """The kernel at distances t, unnormalised as in the chapter."""
    if rule == "Filon":
        return filon_kernel(t, n_nodes + 1, lengthscale=LENGTHSCALE, max_frequency=MAX_FREQUENCY)
    if rule == "Simpson":
        n_nodes += 1
    line = {
        "Gauss-Hermite": "gauss-hermite",
        "Gauss-Legendre": "gauss-legendre",
        "Gauss-Legendre, in 1/x": partial(legendre_in_units_of_x, lengthscale=LENGTHSCALE),
        "Simpson": partial(simpson, max_frequency=MAX_FREQUENCY),
    }[rule]
    frequencies, weights = spectral_rule(n_nodes, 1, rule=line, normalize=False)
    return np.cos(np.multiply.outer(t / LENGTHSCALE, frequencies[:, 0])) @ weights


def first_beyond(t: np.ndarray, error: np.ndarray, bound: float) -> float:
    """The least distance with an error above `bound`, infinite if there is none."""
    beyond = np.abs(error) > bound
    return float(t[beyond.argmax()]) if beyond.any() else np.inf


def draw(nodes: list[int], path: str) -> None:
    """The kernel near the origin for every number of nodes, and far from it by rule."""
    exact = stationary_kernel("gaussian")
    looks = dict(zip(RULES, zip(COLOURS, ("-", "-", ":", "--", "-."), strict=False), strict=True))
    t = np.linspace(-NEAR, NEAR, 1201)
    with figure(path, height=5.6) as sheet:
        upper, lower = sheet.subfigures(2, 1, height_ratios=[1.15, 1])
        axes = upper.subplots(1, len(nodes), sharey=True, squeeze=False)[0]
        for ax, n_nodes in zip(axes, nodes, strict=True):
            ax.plot(t, exact(np.abs(t) / LENGTHSCALE), color="#bdbdbd", linewidth=4, label="exact")
            for rule, (colour, style) in looks.items():
                ax.plot(
                    t, approximate(rule, n_nodes, t), style, color=colour, linewidth=1.2, label=rule
                )
            ax.set_title(f"{n_nodes} nodes")
            ax.set_xlabel("x - x'")
        axes[0].set_ylabel("kernel")
        legend_below(upper, axes[0], columns=6)
        t = np.linspace(-FAR, FAR, 12_001)
        axes = lower.subplots(1, len(RULES), sharey=True)
        for ax, (rule, (colour, _)) in zip(axes, looks.items(), strict=True):
            ax.plot(t, approximate(rule, nodes[-1], t), color=colour, linewidth=0.5)
            ax.set_title(rule.replace(", ", ",\n"), fontsize=9)
            ax.set_xticks((-100, 0, 100))
        axes[0].set_ylabel(f"kernel, {nodes[-1]} nodes")
        axes[2].set_xlabel("x - x', far from the origin")
        for ax in sheet.axes:
            ax.set_ylim(-1.15, 1.2)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[16, 64, 256], help="even numbers")
    parser.add_argument("--points", type=int, default=30_001, help="distances from 0 to 150")
    add_figure_option(parser)
    options = parser.parse_args(arguments)

    t = np.linspace(0, FAR, options.points)
    exact = stationary_kernel("gaussian")(t / LENGTHSCALE)
    print(
        f"squared-exponential kernel, lengthscale {LENGTHSCALE}; Simpson, Filon: "
        f"+-{MAX_FREQUENCY / LENGTHSCALE:g}"
    )
    print(
        f"{'nodes':>5} {'rule':<23} {'k(0)':>7}  {'error, t <= 3':>13} {'t <= 150':>9} "
        f"{'above .01 from':>14}"
    )
    for n_nodes in options.nodes:
        for rule in RULES:
            values = approximate(rule, n_nodes, t)
            error = values - exact
            near = np.abs(error[t <= NEAR]).max()
            print(
                f"{n_nodes:>5} {rule:<23} {values[0]:>7.4f}  {near:>13.1e} "
                f"{np.abs(error).max():>9.1e} {first_beyond(t, error, 0.01):>14.3g}"
            )
    print(f"\nwith {n_nodes} nodes (published: in words only, 256 nodes)")
    apart = np.ptp([approximate(rule, n_nodes, t[t <= NEAR]) for rule in RULES], axis=0).max()
    print(
        "  published: for t <= 3 all but Gauss-Hermite cannot be told apart; ours: all within "
        f"{apart:.1e}"
    )
    ghost = np.pi * n_nodes / (2 * MAX_FREQUENCY) * LENGTHSCALE
    print(
        f"  published: Filon is the better only for t > 100; ours: from pi/h = {ghost:.1f} on, "
        "Simpson's ghost"
    )
    if options.out:
        draw(options.nodes, options.out)


if __name__ == "__main__":
    main()
