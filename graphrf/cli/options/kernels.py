"""The kernel of a command: a name and its hyperparameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphrf.cli.options.completion import of_words
from graphrf.cli.options.refusals import refuse_unused, refuse_without, require_known

if TYPE_CHECKING:
    from graphrf.kernels.kernel import Kernel

PANEL = "Kernel"
# For each kernel the options that it takes beside --laplacian, with the library's names.
KERNELS: dict[str, tuple[str, dict[str, str]]] = {
    "diffusion": ("Diffusion", {"--lengthscale": "lengthscale"}),
    "matern": ("Matern", {"--lengthscale": "lengthscale", "--smoothness": "nu"}),
    "regularized-laplacian": ("RegularizedLaplacian", {"--lengthscale": "lengthscale", "--power": "power"}),
    "p-step": ("PStepRandomWalk", {"--alpha": "alpha", "--steps": "steps"}),
    "inverse-cosine": ("InverseCosine", {}),
}


@dataclass(frozen=True)
class KernelChoice:
    """A kernel by name, with its hyperparameters; what is not given is the library's default."""

    kernel: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"{', '.join(KERNELS)}.",
            rich_help_panel=PANEL,
            autocompletion=of_words(tuple(KERNELS)),
        ),
    ] = None
    lengthscale: Annotated[
        float | None,
        typer.Option(help="Approximate number of steps over which nodes are correlated.", rich_help_panel=PANEL),
    ] = None
    power: Annotated[
        float | None, typer.Option(help="Exponent of regularized-laplacian.", rich_help_panel=PANEL)
    ] = None
    smoothness: Annotated[float | None, typer.Option(help="Smoothness nu of matern.", rich_help_panel=PANEL)] = (
        None
    )
    alpha: Annotated[float | None, typer.Option(help="Constant of p-step, at least 2.", rich_help_panel=PANEL)] = (
        None
    )
    steps: Annotated[int | None, typer.Option(help="Number of steps of p-step.", rich_help_panel=PANEL)] = None
    laplacian: Annotated[
        str | None,
        typer.Option(
            metavar="normalized|combinatorial", help="Laplacian of the kernel. "
            "Default: normalized.", rich_help_panel=PANEL
        ),
    ] = None  # fmt: skip

    def optional(self) -> Kernel | None:
        """The kernel; None, and no hyperparameters, where none is named."""
        if self.kernel is None:
            refuse_without(self._given, "`--kernel`")
            return None
        return self.made(self.kernel)

    @property
    def _given(self) -> dict[str, Any]:
        return {
            "--lengthscale": self.lengthscale, "--power": self.power, "--smoothness": self.smoothness,
            "--alpha": self.alpha, "--steps": self.steps,
        }  # fmt: skip

    def made(self, default: str) -> Kernel:
        """The kernel, `default` where none is named."""
        name = (self.kernel or default).lower().replace("_", "-")
        require_known("--kernel", name, KERNELS, given=self.kernel)
        class_name, takes = KERNELS[name]
        given = self._given
        refuse_unused(given, takes, f"`--kernel {name}`")
        from graphrf import kernels

        arguments = {argument: given[option] for option, argument in takes.items() if given[option] is not None}
        if self.laplacian is not None:
            arguments["laplacian"] = self.laplacian
        kernel: Kernel = getattr(kernels, class_name)(**arguments)
        return kernel
