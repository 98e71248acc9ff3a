"""The sampler of a command: compressed, cut or exact powers of the walk matrix, or random walks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphrf.cli.options.commands import given_options, refuse_unused, require_known

if TYPE_CHECKING:
    from graphrf.graph.graph import Graph
    from graphrf.kernels.kernel import Kernel
    from graphrf.sampling.protocol import Sampler
    from graphrf.sampling.walks.lengths import LengthLaw
    from graphrf.sampling.walks.random_walks import AdaptiveLengths

_TAKES = {
    "compressed": ("--budget", "--max-length", "--lengths"),
    "walks": ("--walks", "--lengths", "--p-halt", "--max-length", "--directions"),
    "cut": ("--budget", "--max-length"),
    "exact": ("--max-length",),
}
_HALTING = {
    "stratified": "Stratified",
    "iid": "IID",
    "antithetic": "Antithetic",
    "sigma": "SigmaCoupled",
}
_LENGTHS = (*_HALTING, "truncated", "auto")
# Fraction of a kernel's sum |f_k| that may lie above the largest power.
_TAIL = 1e-3


@dataclass(frozen=True)
class Sampling:
    """A sampler by name, with its settings; None stands for the library's default."""

    sampler: str | None = None
    budget: int | None = None
    max_length: int | None = None
    walks: int | None = None
    lengths: str | None = None
    p_halt: float | None = None
    directions: str | None = None
    error: float | None = None

    def chosen(self, graph: Graph, kernel: Kernel | None, laplacian: str) -> dict[str, Any]:
        """Arguments of `sample_features`: a sampler, or a kernel and its error."""
        given = given_options(self)
        if self.error is not None:
            refuse_unused(given, ("--error",), "`--error`")
            if kernel is None:
                raise ValueError("`--kernel` is needed with `--error`, which refers to one kernel")
            return {"kernel": kernel, "error": self.error}
        name = self.sampler or "compressed"
        require_known("--sampler", name, tuple(_TAKES))
        del given["--sampler"]
        refuse_unused(given, _TAKES[name], f"`--sampler {name}`")
        return {"sampler": self._made(name, graph, kernel, laplacian)}

    def _made(self, name: str, graph: Graph, kernel: Kernel | None, laplacian: str) -> Sampler:
        from graphrf.sampling.powers.powers import CompressedPowers, CutPowers, ExactPowers
        from graphrf.sampling.walks.random_walks import RandomWalks

        if name == "walks":
            return RandomWalks(
                32 if self.walks is None else self.walks,
                self._law(graph, kernel),
                directions=self.directions or "stratified",
                laplacian=laplacian,
            )

        if name == "compressed":
            options: dict[str, Any] = {"max_length": self.max_length, "laplacian": laplacian}
            if self.lengths not in (None, "auto"):
                raise ValueError(
                    f"`--lengths` must be auto with `--sampler compressed`, got {self.lengths!r}"
                )
            if self.lengths is not None:
                options["lengths"] = self._auto(kernel)
            return CompressedPowers(32 if self.budget is None else self.budget, **options)

        highest = self._highest(f"`--sampler {name}`", graph, kernel)
        if name == "exact":
            return ExactPowers(highest, laplacian=laplacian)
        if self.budget is None:
            raise ValueError(
                "`--budget` is needed with `--sampler cut`: how many entries of a row are kept"
            )
        return CutPowers(self.budget, highest, laplacian=laplacian)

    def _law(self, graph: Graph, kernel: Kernel | None) -> LengthLaw | AdaptiveLengths:
        from graphrf.sampling.walks import lengths
        from graphrf.sampling.walks.coupling import Coupling

        law = self.lengths or "stratified"
        given = {"--p-halt": self.p_halt, "--max-length": self.max_length}

        if law == "truncated":
            refuse_unused(given, ("--max-length",), "`--lengths truncated`")
            return lengths.Truncated(self._highest("`--lengths truncated`", graph, kernel))
        if law == "auto":
            refuse_unused(given, (), "`--lengths auto`")
            return self._auto(kernel)

        refuse_unused(given, ("--p-halt",), f"`--lengths {law}`")
        p_halt = 0.1 if self.p_halt is None else self.p_halt
        if law in _HALTING:
            made: LengthLaw = getattr(lengths, _HALTING[law])(p_halt)
            return made
        if not Path(law).is_file():
            require_known("--lengths", law, _LENGTHS, also=" or a file of `Coupling.save`")
        try:
            coupling = Coupling.load(law)
        except ValueError as error:
            raise ValueError(str(error).replace("`path`", "`--lengths`")) from None

        known = self.p_halt is None and coupling.p_halt is not None
        return lengths.SigmaCoupled(coupling) if known else lengths.SigmaCoupled(p_halt, coupling)

    def _auto(self, kernel: Kernel | None) -> AdaptiveLengths:
        from graphrf.sampling.walks.auto_lengths import AutoLengths

        if kernel is None:
            raise ValueError(
                "`--kernel` is needed with `--lengths auto`, which fits the lengths to it"
            )
        return AutoLengths(kernel)

    def _highest(self, chosen: str, graph: Graph, kernel: Kernel | None) -> int:
        """The highest power: as given, or where the kernel's series may end."""
        if self.max_length is not None:
            return self.max_length
        if kernel is None:
            raise ValueError(
                f"`--max-length` is needed with {chosen}, or `--kernel`, which determines it"
            )
        return kernel.truncation_length(_TAIL, kernel.check_graph(graph))
