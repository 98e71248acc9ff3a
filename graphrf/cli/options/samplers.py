"""The sampler of a command: compressed, cut or exact powers of the walk matrix, or random walks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphrf.cli.options.refusals import given_options, refuse_unused, require_known

if TYPE_CHECKING:
    from graphrf.graph.graph import Graph
    from graphrf.kernels.kernel import Kernel
    from graphrf.sampling.protocol import Sampler
    from graphrf.sampling.walks.lengths import LengthLaw
    from graphrf.sampling.walks.random_walks import AdaptiveLengths

PANEL = "Sampler"
_TAKES = {
    "compressed": ("--budget", "--max-length", "--lengths"),
    "walks": ("--walks", "--lengths", "--p-halt", "--max-length", "--directions"),
    "cut": ("--budget", "--max-length"),
    "exact": ("--max-length",),
}
_HALTING = {"stratified": "Stratified", "iid": "IID", "antithetic": "Antithetic", "sigma": "SigmaCoupled"}
_LENGTHS = (*_HALTING, "truncated", "auto")
# What the series of a kernel may lose of sum |f_k| where it tells the largest power.
_TAIL = 1e-3


@dataclass(frozen=True)
class Sampling:
    """A sampler by name, with its settings; what is not given is the library's default."""

    sampler: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", rich_help_panel=PANEL,
            help="compressed (unbiased powers; the default), walks, cut (biased powers) or exact (powers).",
        ),
    ] = None  # fmt: skip
    budget: Annotated[
        int | None,
        typer.Option(
            help="Entries per row of each power; required for cut. Default: 32 for compressed.",
            rich_help_panel=PANEL,
        ),
    ] = None
    max_length: Annotated[
        int | None,
        typer.Option(
            help="Highest power, or length of truncated walks. Default for exact, "
            "cut and truncated: enough for the "
            "series of `--kernel`.",
            rich_help_panel=PANEL,
        ),
    ] = None  # fmt: skip
    walks: Annotated[int | None, typer.Option(help="Walks per node. Default: 32.", rich_help_panel=PANEL)] = None
    lengths: Annotated[
        str | None,
        typer.Option(
            metavar="LENGTHS", help="Lengths of walks: stratified (the default), iid, antithetic, sigma, "
            "truncated, auto (for `--kernel`), or a file from `graphrf couple`. For compressed: auto.",
            rich_help_panel=PANEL,
        ),
    ] = None  # fmt: skip
    p_halt: Annotated[
        float | None,
        typer.Option(help="Probability that a walk ends before each step. Default: 0.1.", rich_help_panel=PANEL),
    ] = None
    directions: Annotated[
        str | None,
        typer.Option(
            metavar="stratified|independent", help="Directions of walks. "
            "Default: stratified.", rich_help_panel=PANEL
        ),
    ] = None  # fmt: skip
    error: Annotated[
        float | None,
        typer.Option(
            help="Instead of a sampler: target relative error for `--kernel`, for which a sampler is chosen.",
            rich_help_panel=PANEL,
        ),
    ] = None  # fmt: skip

    @property
    def _name(self) -> str:
        return self.sampler or "compressed"

    def chosen(self, graph: Graph, kernel: Kernel | None, laplacian: str) -> dict[str, Any]:
        """Arguments of `sample_features`: a sampler, or a kernel and its error."""
        if self.error is None:
            return {"sampler": self._made(graph, kernel, laplacian)}
        refuse_unused(given_options(self), ("--error",), "`--error`")
        if kernel is None:
            raise ValueError("`--kernel` is needed with `--error`, which refers to one kernel")
        return {"kernel": kernel, "error": self.error}

    def _made(self, graph: Graph, kernel: Kernel | None, laplacian: str) -> Sampler:
        """The sampler for a graph; a kernel is needed where lengths or the highest power follow from it."""
        from graphrf.sampling.powers.powers import CompressedPowers, CutPowers, ExactPowers

        name = self._name
        require_known("--sampler", name, _TAKES)
        given = {
            "--budget": self.budget, "--walks": self.walks, "--lengths": self.lengths, "--p-halt": self.p_halt,
            "--max-length": self.max_length, "--directions": self.directions,
        }  # fmt: skip
        refuse_unused(given, _TAKES[name], f"`--sampler {name}`")
        if name == "walks":
            return self._walks(graph, kernel, laplacian)
        if name == "compressed":
            options: dict[str, Any] = {"max_length": self.max_length, "laplacian": laplacian}
            if self.lengths is not None:
                options["lengths"] = self._auto(kernel)
            return CompressedPowers(32 if self.budget is None else self.budget, **options)
        highest = self._highest(graph, kernel)
        if name == "exact":
            return ExactPowers(highest, laplacian=laplacian)
        if self.budget is None:
            raise ValueError("`--budget` is needed with `--sampler cut`: how many entries of a row are kept")
        return CutPowers(self.budget, highest, laplacian=laplacian)

    def _walks(self, graph: Graph, kernel: Kernel | None, laplacian: str) -> Sampler:
        from graphrf.sampling.walks.random_walks import RandomWalks

        walks = 32 if self.walks is None else self.walks
        return RandomWalks(
            walks,
            self._law(graph, kernel),
            directions=self.directions or "stratified",
            laplacian=laplacian,
        )

    def _law(self, graph: Graph, kernel: Kernel | None) -> LengthLaw | AdaptiveLengths:
        from graphrf.sampling.walks import lengths
        from graphrf.sampling.walks.coupling import Coupling

        law = self.lengths or "stratified"
        given = {"--p-halt": self.p_halt, "--max-length": self.max_length}
        if law in _HALTING:
            refuse_unused(given, ("--p-halt",), f"`--lengths {law}`")
            made: LengthLaw = getattr(lengths, _HALTING[law])(0.1 if self.p_halt is None else self.p_halt)
            return made
        if law == "truncated":
            refuse_unused(given, ("--max-length",), "`--lengths truncated`")
            return lengths.Truncated(self._highest(graph, kernel))
        if law == "auto":
            refuse_unused(given, (), "`--lengths auto`")
            return self._auto(kernel)
        if not Path(law).is_file():
            require_known("--lengths", law, _LENGTHS, also=" or a file of `graphrf couple`")
        try:
            coupling = Coupling.load(law)
        except ValueError as error:
            raise ValueError(str(error).replace("`path`", "`--lengths`")) from None
        if self.p_halt is not None or coupling.p_halt is None:
            refuse_unused({"--max-length": self.max_length}, (), f"`--lengths {law}`")
            return lengths.SigmaCoupled(0.1 if self.p_halt is None else self.p_halt, coupling)
        refuse_unused(given, ("--p-halt",), f"`--lengths {law}`")
        return lengths.SigmaCoupled(coupling)

    def _auto(self, kernel: Kernel | None) -> AdaptiveLengths:
        from graphrf.sampling.walks.auto_lengths import AutoLengths

        if self.lengths != "auto":
            raise ValueError(f"`--lengths` must be auto with `--sampler {self._name}`, got {self.lengths!r}")
        if kernel is None:
            raise ValueError("`--kernel` is needed with `--lengths auto`, which fits the lengths to it")
        return AutoLengths(kernel)

    def _highest(self, graph: Graph, kernel: Kernel | None) -> int:
        """The highest power: as given, or where the kernel's series may end."""
        if self.max_length is not None:
            return self.max_length
        if kernel is None:
            what = "`--lengths truncated`" if self._name == "walks" else f"`--sampler {self._name}`"
            raise ValueError(f"`--max-length` is needed with {what}, or `--kernel`, which determines it")
        return kernel.truncation_length(_TAIL, kernel.check_graph(graph))
