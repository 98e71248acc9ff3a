"""Figures: errors against walks and cost, couplings, signals on meshes, maps and through time, PageRank.

Every function draws into the matplotlib axes `ax`, or into a new figure of its own if `ax` is None, and returns
the axes; `ax.figure.savefig(path)` writes the figure. Those that draw a posterior fill a `figure`, or a subfigure,
with several axes and return it. pyplot is never imported: no backend is chosen or changed, and no figure stays
open behind the caller's back. Needs the extra `plot`.
"""

from graphrf.plot._curves import plot_error_against_walks, plot_front, plot_reliability
from graphrf.plot._maps import plot_graph_signal
from graphrf.plot._meshes import plot_mesh
from graphrf.plot._pairs import plot_pagerank, plot_permutation
from graphrf.plot._posterior import plot_map_posterior, plot_mesh_posterior
from graphrf.plot._style import COLOURS, DEVIATIONS, VALUES, require_matplotlib, style
from graphrf.plot._times import animate_map, plot_series

__all__ = [
    "COLOURS",
    "DEVIATIONS",
    "VALUES",
    "animate_map",
    "plot_error_against_walks",
    "plot_front",
    "plot_graph_signal",
    "plot_map_posterior",
    "plot_mesh",
    "plot_mesh_posterior",
    "plot_pagerank",
    "plot_permutation",
    "plot_reliability",
    "plot_series",
    "require_matplotlib",
    "style",
]
