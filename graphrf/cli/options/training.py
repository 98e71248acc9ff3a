"""Options of the commands that train a Gaussian process."""

from __future__ import annotations

from typing import Annotated

import typer

PANEL = "Training"
Method = Annotated[
    str,
    typer.Option(
        metavar="auto|series|precision|features", rich_help_panel=PANEL,
        help="Exact products with the kernel, a factor of its sparse inverse (matern, regularized_laplacian), or "
        "sampled features; auto uses an exact method if it is affordable.",
    ),
]  # fmt: skip
Optimize = Annotated[
    bool,
    typer.Option(
        "--optimize/--no-optimize", help="Train the lengthscale, or keep the given one.", rich_help_panel=PANEL
    ),
]
