"""Backend information that networkx reads on its own import, which must stay quick."""

from __future__ import annotations

from typing import Any


def get_info() -> dict[str, Any]:
    """Name, summary and parameters of the networkx backend (`pagerank.networkx_backend`)."""
    return {
        "backend_name": "graphrf",
        "project": "graphrf",
        "package": "graphrf",
        "short_summary": "PageRank by compiled power iteration, or by random walks on request",
        "functions": {
            "pagerank": {
                "additional_docs": (
                    "Exact power iteration on all cores. It stops when the L1 norm of the change "
                    "is below `tol`\n"
                    "itself, not below `len(G) * tol`, so that large graphs are not answered with "
                    "the start."
                ),
                "additional_parameters": {
                    'method : {"power", "walks"}, optional (default: "power")': (
                        '"walks" estimates by random walks; `tol`, `max_iter` and `nstart` mean '
                        "nothing there."
                    ),
                    "n_walks, seed, ... : optional": (
                        'With method="walks": the other arguments of `graphrf.pagerank.estimate`.'
                    ),
                },
            }
        },
    }
