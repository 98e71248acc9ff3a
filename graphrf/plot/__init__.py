"""Figures of signals, fields and posteriors on maps, meshes and through time, of effects and ranks,
and of calibration.

Every function draws into the matplotlib axes `ax`, or into those of a new figure if `ax` is None,
and returns the axes: titles, labels and limits are changed there, and
`ax.figure.savefig("figure.svg")` writes the figure. Those that draw a posterior return the figure,
with several axes. Where you have imported `matplotlib.pyplot`, new figures are its own, for
`plt.show()`; it is never imported here, and no backend is chosen or changed. Needs the extra
`plot`; `interactive_map` and `interactive_mesh`, pages to zoom and turn, need `interactive`.
"""

from graphrf.plot._areas import plot_areas
from graphrf.plot._edges import plot_edges
from graphrf.plot._fields import plot_field, plot_fields, plot_triangulation
from graphrf.plot._interactive import interactive_map, interactive_mesh
from graphrf.plot._intervals import plot_effects, plot_ranking
from graphrf.plot._maps import plot_graph_signal
from graphrf.plot._mesh_files import write_mesh
from graphrf.plot._meshes import plot_mesh
from graphrf.plot._posterior import plot_map_posterior, plot_mesh_posterior
from graphrf.plot._reliability import plot_calibration, plot_reliability
from graphrf.plot._style import COLOURS, DEVIATIONS, VALUES, require_matplotlib, style
from graphrf.plot._times import animate_map, plot_forecast, plot_series

__all__ = [
    "COLOURS",
    "DEVIATIONS",
    "VALUES",
    "animate_map",
    "interactive_map",
    "interactive_mesh",
    "plot_areas",
    "plot_calibration",
    "plot_edges",
    "plot_effects",
    "plot_field",
    "plot_fields",
    "plot_forecast",
    "plot_graph_signal",
    "plot_map_posterior",
    "plot_mesh",
    "plot_mesh_posterior",
    "plot_ranking",
    "plot_reliability",
    "plot_series",
    "plot_triangulation",
    "require_matplotlib",
    "style",
    "write_mesh",
]
