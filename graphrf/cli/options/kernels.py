"""The kernel of a command: a name and its hyperparameters."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphrf.cli.options.commands import given_options, refuse_unused, refuse_without, require_known
from graphrf.cli.options.table import KERNEL_NAMES

if TYPE_CHECKING:
    from graphrf.kernels.kernel import Kernel

_AREAL = {"bym2": "BYM2", "car": "CAR", "icar": "ICAR"}


@dataclass(frozen=True)
class KernelChoice:
    """A kernel by name, with its hyperparameters; None stands for the library's default."""

    kernel: str | None = None
    lengthscale: float | None = None
    nu: float | None = None
    power: float | None = None
    alpha: float | None = None
    steps: int | None = None
    mixing: float | None = None
    dependence: float | None = None
    laplacian: str | None = None

    @property
    def name(self) -> str | None:
        """The name as the library writes it."""
        return None if self.kernel is None else self.kernel.lower().replace("-", "_")

    def made(self, default: str | None = None) -> Kernel | None:
        """The kernel; where none is named the default, or None without hyperparameters."""
        name = self.name or default
        given = given_options(self)
        del given["--kernel"]
        if name is None:
            refuse_without(
                {option: value for option, value in given.items() if option != "--laplacian"},
                "`--kernel`",
            )
            return None
        require_known("--kernel", name, KERNEL_NAMES)
        from graphrf import kernels

        kind = getattr(kernels, _AREAL.get(name) or "".join(map(str.capitalize, name.split("_"))))
        taken = [f"--{field.name}" for field in dataclasses.fields(kind) if field.init]
        refuse_unused(given, taken, f"`--kernel {name}`")
        kernel: Kernel = kind(
            **{option[2:]: value for option, value in given.items() if value is not None}
        )
        return kernel
