"""Options that several examples take."""

from __future__ import annotations

import argparse

from graphrf.plot import require_matplotlib


def add_figure_option(parser: argparse.ArgumentParser) -> None:
    """`--out FILE`, refused before the work begins rather than after it."""
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=_figure_file,
        help="draw into this .png or .svg file (needs matplotlib)",
    )


def _figure_file(path: str) -> str:
    if not path.endswith((".png", ".svg")):
        raise argparse.ArgumentTypeError(f"must be a .png or .svg file, got {path}")
    require_matplotlib()
    return path
