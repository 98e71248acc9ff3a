"""The base class of node kernels: checks, truncation lengths and dense matrices for all."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from graphrf._base import checks
from graphrf._base.memory import require_memory
from graphrf._base.warn import warn
from graphrf.graph.graph import LAPLACIANS, Graph, require_graph
from graphrf.kernels.chebyshev import WIDTHS, polynomial
from graphrf.kernels.coefficients import dyadic_remainder, remainder, square

_LARGEST_DENSE = 20_000
# Bytes for each entry of the Laplacian: its eigenvectors and LAPACK's workspace; measured.
_DENSE_BYTES = 40
# Squares of numbers above e^this overflow float64; reciprocals below e^-this underflow.
_LARGEST_LOG = 690.0
# A dense kernel's rounding error, relative to its norm, above which a warning is issued.
_ROUNDING_WARNING = 1e-6
_WAY_OUT = (
    "lower its power (`power`, `nu`, `steps`), or bring lengthscale, alpha or coefficients closer "
    "to 1"
)

# For a kernel that has only coefficients: the step of differences over the hyperparameter, the
# fewest and most terms of its series, and the fraction that may be left out.
_DIFFERENCE = float(np.finfo(np.float64).eps) ** (1 / 3)
_SHORTEST_SERIES = 64
_LONGEST_SERIES = 16_384
_NEGLIGIBLE = 1e-15
# Points among which the largest value of F is searched.
_POINTS = 257


@dataclass(frozen=True, repr=False)
class Kernel:
    """Base class of node kernels: an immutable object that holds hyperparameters, but no graph.

    Coefficients depend on the scale s of the Laplacian: 1 for the normalized Laplacian, where it
    may be left out; for the combinatorial one pass `scale=graph.laplacian_scale("combinatorial")`.

    Notes
    -----
    A kernel of your own is a frozen dataclass whose fields of type float are its hyperparameters,
    positive numbers (else it has `hyperparameters` and `hyperparameter_bounds` of its own), with
    `modulation_coefficients`: those of F in powers of the walk matrix, whose absolute values must
    have a finite sum. All else follows, at some cost: tails are estimated from up to 16,384
    coefficients, spectra are their sums, derivatives are differences. Closed forms can be given by
    `taylor_coefficients`, `modulation_derivatives`, `modulation_remainder`, `spectral_function`,
    `root_spectral_function`, `log_spectral_derivatives` and `nth_root`, which the other methods
    call with checked arguments; `check_scale` refuses hyperparameters that do not fit a graph, and
    `spectrum_end` is the largest eigenvalue that they allow. Gaussian processes cut series of
    coefficients after 20,000 terms, and warn, but not kernels with a `root_spectral_function` of
    their own.

    Examples
    --------
    Heat diffusion averaged over all times up to l^2 / 4, where `Diffusion` takes that time alone:

    >>> from dataclasses import dataclass
    >>> import numpy as np, graphrf as grf
    >>> from scipy.special import gammainc
    >>> @dataclass(frozen=True, repr=False)
    ... class AveragedHeat(grf.kernels.Kernel):
    ...     lengthscale: float = 1.0
    ...
    ...     def modulation_coefficients(self, n, scale):
    ...         mean = scale * self.lengthscale**2 / 4
    ...         return gammainc(np.arange(1, n + 1), mean) / mean  # the Poisson probability above k
    >>> kernel = AveragedHeat(lengthscale=4.0)
    >>> kernel.truncation_length(1e-3)
    10
    >>> graph = grf.datasets.load("karate").graph
    >>> bool(np.allclose(grf.kernel_block(graph, kernel, [0], [33]), kernel.dense(graph)[0, 33]))
    True
    """

    laplacian: str = field(default="normalized", kw_only=True)

    def __post_init__(self) -> None:
        checks.choice("laplacian", self.laplacian, LAPLACIANS)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # Kernels are not changed, and terms with one kernel object share its hyperparameters.
        return self

    # -- what a kernel may supply, called with checked arguments ---------------------------------

    @property
    def hyperparameters(self) -> dict[str, float]:
        """The trainable hyperparameters and their values, in the order of `modulation_jacobian`."""
        own = [f.name for f in dataclasses.fields(self) if f.type in (float, "float")]
        return {name: float(getattr(self, name)) for name in own}

    @property
    def proportions(self) -> tuple[str, ...]:
        """The hyperparameters that lie between 0 and 1, which are trained by their log odds."""
        return ()

    @property
    def is_series(self) -> bool:
        """True if K is a function of the Laplacian, a series in W; else a sparse inverse."""
        return True

    def modulation_coefficients(self, n: int, scale: float) -> np.ndarray:
        """f_0 .. f_{n-1} of F = sum_k f_k W^k, shape (n,): what every kernel must supply."""
        raise NotImplementedError(
            f"{type(self).__name__} must have `modulation_coefficients(n, scale)`"
        )

    def taylor_coefficients(self, n: int, scale: float) -> np.ndarray:
        """alpha_0 .. alpha_{n-1} of K = F^2, shape (n,)."""
        return square(self.modulation_coefficients(n, scale))[:n]

    def modulation_derivatives(self, n: int, scale: float) -> np.ndarray:
        """df_k / d(hyperparameter), shape (n, hyperparameters); here by central differences."""
        columns = [np.zeros((n, 0))]
        for name, value in self.hyperparameters.items():
            step = _DIFFERENCE * (abs(value) or 1.0)
            above, below = (self.replace(**{name: end}) for end in (value + step, value - step))
            change = above.modulation_coefficients(n, scale) - below.modulation_coefficients(
                n, scale
            )
            columns.append(change[:, None] / (2 * step))
        return np.hstack(columns)

    def modulation_remainder(self, length: int, scale: float) -> float:
        """sum_{k > length} |f_k|, of length -1 the sum of all; here an estimate."""
        return remainder(self._long_series(scale), length)

    def root_spectral_function(self, eigenvalues: np.ndarray, scale: float) -> np.ndarray:
        """The eigenvalues of F at eigenvalues of the Laplacian, the same shape."""
        values = polynomial(self._long_series(scale))(eigenvalues.ravel() / scale)
        return np.asarray(values.reshape(eigenvalues.shape))

    def spectral_function(self, eigenvalues: np.ndarray, scale: float) -> np.ndarray:
        """g at eigenvalues of the Laplacian, K = g(L), the same shape."""
        return self.root_spectral_function(eigenvalues, scale) ** 2

    def log_spectral_derivatives(self, eigenvalues: np.ndarray) -> np.ndarray | None:
        """d log g / d(hyperparameter), shape (len(eigenvalues), number of hyperparameters), finite.

        None: not in closed form; derivatives are then sums of the series of
        `modulation_derivatives`, which takes long where that is long.
        """
        return None

    @property
    def inverse_power(self) -> tuple[float, float, float] | None:
        """(c, t, q) if K = (c I + t L)^-q, of sparse inverse for small integers q; else None."""
        return None

    def nth_root(self, n: int) -> Kernel:
        """R with R^n = K, n > 1."""
        raise checks.value_error(
            "kernel",
            f"must have a root R with R^{n} = K in closed form, which {self!r} has not; Diffusion, "
            "RegularizedLaplacian and Matern have one for every n, PStepRandomWalk where n divides "
            "its steps",
        )

    def check_scale(self, scale: float) -> None:
        """Raise `ValueError` where the hyperparameters do not fit the scale."""

    # -- coefficients ----------------------------------------------------------------------------

    def taylor(self, n: int, scale: float | None = None) -> np.ndarray:
        """The coefficients alpha_0 .. alpha_{n-1} of K in powers of W, shape (n,), float64."""
        return self._finite(
            self.taylor_coefficients, checks.integer("n", n, low=1), self.checked_scale(scale)
        )

    def modulation(self, n: int, scale: float | None = None) -> np.ndarray:
        """The coefficients f_0 .. f_{n-1} of F in powers of W (K = F F^T), shape (n,), float64."""
        return self._finite(
            self.modulation_coefficients, checks.integer("n", n, low=1), self.checked_scale(scale)
        )

    def modulation_jacobian(self, n: int, scale: float | None = None) -> np.ndarray:
        """df_k / d(hyperparameter), shape (n, number of hyperparameters), float64."""
        return self._finite(
            self.modulation_derivatives, checks.integer("n", n, low=1), self.checked_scale(scale)
        )

    def modulation_tail(self, length: int, scale: float | None = None) -> float:
        """sum_{k > length} |f_k|: the error in operator norm of F cut after `length` steps.

        `length = -1` gives the total A. K itself is then off by at most tail (2 A - tail).
        """
        return self._finite(
            self.modulation_remainder,
            checks.integer("length", length, low=-1),
            self.checked_scale(scale),
        )

    def truncation_length(self, tol: float = 1e-3, scale: float | None = None) -> int:
        """The smallest length L with sum_{k>L} |f_k| <= tol * sum_k |f_k|."""
        tol = checks.number("tol", tol, low=0, high=1, include_low=False)
        scale = self.checked_scale(scale)

        def tail(length: int) -> float:
            return float(self._finite(self.modulation_remainder, length, scale))

        bound = tol * tail(-1)
        if tail(0) <= bound:
            return 0
        low, high = 0, 1  # tail(low) > bound throughout, tail(high) <= bound in the end
        while tail(high) > bound:
            low, high = high, 2 * high
            if high > 2**53:
                raise checks.value_error(
                    "tol", f"must be larger for {self!r}: more than 2^53 steps are needed"
                )
        while high - low > 1:
            middle = (low + high) // 2
            if tail(middle) > bound:
                low = middle
            else:
                high = middle
        return high

    def root(self, n: int) -> Kernel:
        """The kernel R with R^n = K, on the same Laplacian: estimated by n factors of a product.

        ================================== ================================================
        `Diffusion(l)`                     `Diffusion(l / sqrt(n))`
        `RegularizedLaplacian(l, p)`       `RegularizedLaplacian(l, p / n)`
        `Matern(nu, l)`                    `Matern(nu / n, l / sqrt(n))`, kappa being the same
        `PStepRandomWalk(alpha, p)`        `PStepRandomWalk(alpha, p / n)`, where n divides p
        ================================== ================================================

        R is positive semi-definite, as K is; `kernel.root(2)` is F, the symmetric root of K, seen
        as a kernel.

        Raises
        ------
        ValueError
            If the kernel has no such root in closed form. A root of `PStepRandomWalk` with an odd
            number of steps needs a larger alpha on the combinatorial Laplacian than one with an
            even number: that is checked when the scale or graph is known.

        Examples
        --------
        >>> import graphrf as grf
        >>> grf.Diffusion(lengthscale=8.0).root(4)
        Diffusion(lengthscale=4.0)
        """
        n = checks.integer("n", n, low=1)
        return self if n == 1 else self.nth_root(n)

    # -- spectra and dense matrices --------------------------------------------------------------

    def spectrum(self, eigenvalues: Any, scale: float | None = None) -> np.ndarray:
        r"""g at eigenvalues of the Laplacian, K = U g(Lambda) U^T; same shape; `scale` as above."""
        return self._finite(
            self.spectral_function,
            checks.array("eigenvalues", eigenvalues, np.float64),
            self.checked_scale(scale),
        )

    def root_spectrum(self, eigenvalues: Any, scale: float | None = None) -> np.ndarray:
        r"""The eigenvalues of F, whose squares are `spectrum`; same shape, float64."""
        return self._finite(
            self.root_spectral_function,
            checks.array("eigenvalues", eigenvalues, np.float64),
            self.checked_scale(scale),
        )

    def root_norm(self, scale: float | None = None) -> float:
        """The largest |F| where the Laplacian may have eigenvalues, by values at points and 0."""
        scale = self.checked_scale(scale)
        eigenvalues = np.linspace(0.0, self.spectrum_end(scale), _POINTS)
        return float(np.abs(self.root_spectrum(eigenvalues, scale)).max())

    def cancellation(self, scale: float | None = None) -> float:
        """sum_k |f_k| over the largest |F|: how much larger than the sum terms are, at least 1.

        Rounding of each power of W by a share u moves F by up to u times this, and K by up to twice
        that, relative to their norms. It is 1 where no coefficient is negative, and large for
        `PStepRandomWalk` with many steps and an alpha below the scale of the combinatorial
        Laplacian.
        """
        largest = self.root_norm(scale)
        return max(self.modulation_tail(-1, scale) / largest, 1.0) if largest > 0 else 1.0

    def hyperparameter_bounds(self, scale: float | None = None) -> dict[str, float]:
        """The lower bound of each hyperparameter, excluded in training; 0 unless overridden."""
        self.checked_scale(scale)
        return dict.fromkeys(self.hyperparameters, 0.0)

    def spectrum_end(self, scale: float) -> float:
        """The largest eigenvalue that the Laplacian may have where this kernel exists."""
        return WIDTHS[self.laplacian] * scale

    def check_graph(self, graph: Graph) -> float:
        """Check that the kernel exists on a graph, and return the graph's scale s."""
        require_graph(graph).require_undirected(f"the kernel {self!r}")
        scale = graph.laplacian_scale(self.laplacian)
        self.check_scale(scale)
        return scale

    def dense(self, graph: Graph) -> np.ndarray:
        """The exact kernel matrix, (N, N), float64, by eigendecomposition of the dense Laplacian.

        O(N^3) time and about 40 N^2 bytes; above 20,000 nodes use `graphrf.apply_kernel`. A
        `UserWarning` is given where rounding of the eigenvalues may move it by more than a
        millionth of its norm: with huge lengthscales on graphs that a few light edges hold
        together.
        """
        return self._dense(graph, root=False)

    def dense_root(self, graph: Graph) -> np.ndarray:
        """The exact symmetric F with K = F F^T, shape (N, N), float64; cost as `dense`."""
        return self._dense(graph, root=True)

    def _dense(self, graph: Graph, root: bool) -> np.ndarray:
        scale = self.check_graph(graph)
        needed = _DENSE_BYTES * graph.n_nodes**2
        if graph.n_nodes > _LARGEST_DENSE:
            raise ValueError(
                f"a dense kernel matrix is made for at most {_LARGEST_DENSE} nodes, got "
                f"{graph.n_nodes} (it would need {needed / 2**30:.0f} GiB); graphrf.apply_kernel "
                "multiplies by it without forming it"
            )
        require_memory(
            needed,
            f"a dense kernel matrix of {graph.n_nodes} nodes",
            "graphrf.apply_kernel multiplies by it without forming it",
        )
        laplacian = graph.laplacian(self.laplacian == "normalized").toarray()
        eigenvalues, vectors = np.linalg.eigh(laplacian)
        eigenvalues = cleaned_eigenvalues(eigenvalues, graph, self.laplacian)
        function = self.root_spectral_function if root else self.spectral_function
        values = self._finite(function, eigenvalues, scale)
        self.warn_of_rounding(graph, eigenvalues, values, root=root)
        product = (vectors * values) @ vectors.T
        return np.asarray(0.5 * (product + product.T))

    def warn_of_rounding(
        self, graph: Graph, eigenvalues: np.ndarray, values: np.ndarray, *, root: bool = False
    ) -> None:
        """Warn where rounding of the decomposition moves g(L), or F, by over a millionth.

        Rounding adds some E to L. To first order that moves g(L) by at most |E| times the largest
        divided difference of g between two eigenvalues (Daleckii and Krein), which is one of
        neighbours, or a slope; those of the null space are 0 exactly. `eigenvalues` are those of
        `cleaned_eigenvalues`.
        """
        scale = graph.laplacian_scale(self.laplacian)
        function = self.root_spectral_function if root else self.spectral_function
        top = WIDTHS[self.laplacian] * min(
            scale, graph.without_loops().laplacian_scale(self.laplacian)
        )
        null = _nullity(graph)
        rounding = eigenvalues.size * np.finfo(np.float64).eps * top
        own = eigenvalues[null:]
        ends = np.clip(np.concatenate([own - rounding, own + rounding]), 0.0, top)
        below, above = np.split(self._finite(function, ends, scale), 2)
        gaps = np.maximum(np.diff(eigenvalues[null - 1 :]), rounding)
        moved = np.abs(np.diff(values[null - 1 :])) * (rounding / gaps)
        lost = max(moved.max(initial=0.0), np.abs(above - below).max(initial=0.0))
        size = float(np.abs(values).max())
        if lost > _ROUNDING_WARNING * size:
            warn(
                f"the eigenvalues of this graph's Laplacian are known to {rounding:.1g} only, "
                f"where {self!r} is so steep that its matrix may be off by "
                f"{lost / size if lost < size else 1:.1g} of its norm; shorten the lengthscale, or "
                "bring the weights closer together"
            )

    # -- as a Python object ----------------------------------------------------------------------

    def replace(self, **changes: Any) -> Self:
        """This kernel with some arguments changed."""
        return dataclasses.replace(self, **changes)

    def __repr__(self) -> str:
        shown = [f for f in dataclasses.fields(self) if f.name != "laplacian"]
        arguments = [f"{f.name}={getattr(self, f.name)!r}" for f in shown]
        if self.laplacian != "normalized":
            arguments.append(f"laplacian={self.laplacian!r}")
        return f"{type(self).__name__}({', '.join(arguments)})"

    # -- for kernels -------------------------------------------------------------------------------

    def checked_scale(self, scale: float | None) -> float:
        """The scale of the Laplacian, once it is known to suit the kernel."""
        if self.laplacian == "normalized":
            if scale is not None and scale != 1:
                raise checks.value_error(
                    "scale", f"must be 1 for the normalized Laplacian, got {scale}"
                )
            checked = 1.0
        elif scale is None:
            raise checks.value_error(
                "scale",
                "must be given for the combinatorial Laplacian, whose coefficients depend on the "
                'graph: pass scale=graph.laplacian_scale("combinatorial")',
            )
        else:
            checked = checks.number("scale", scale, low=0, include_low=False)
        self.check_scale(checked)
        return checked

    def _finite(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Value of `function`, or a ValueError unless it is finite."""
        try:
            with np.errstate(all="ignore"):
                values = function(*arguments)
                sound = np.isfinite(values).all()
        except (OverflowError, ZeroDivisionError):
            sound = False
        if not sound:
            raise ValueError(f"{self!r} leaves the range of float64 on this graph: {_WAY_OUT}")
        return values

    def _long_series(self, scale: float) -> np.ndarray:
        """Coefficients of F until the remainder is negligible, or to the largest length."""
        n = _SHORTEST_SERIES
        while True:
            series = self.modulation_coefficients(n, scale)
            left, _ = dyadic_remainder(series)
            if n >= _LONGEST_SERIES or left <= _NEGLIGIBLE * float(np.abs(series).sum()):
                return series
            n *= 2

    def check_size(self, log_size: float) -> None:
        """Raise `ValueError` where the largest eigenvalue of K, by logarithm, leaves float64."""
        if not abs(log_size) < _LARGEST_LOG:
            raise ValueError(
                f"{self!r} leaves the range of float64: its largest eigenvalue is "
                f"10^{log_size / math.log(10):.0f}; {_WAY_OUT}"
            )

    def require_proportion(self, name: str, least: float = 0.0) -> None:
        """Check a field between 0 and 1, by `least` off both, and store it as a float."""
        ends = {"include_low": least > 0, "include_high": least > 0}
        checked = checks.number(name, getattr(self, name), low=least, high=1 - least, **ends)
        object.__setattr__(self, name, checked)

    def require_positive(self, *names: str) -> None:
        """Check fields that must be positive numbers, and store them as floats."""
        for name in names:
            checked = checks.number(name, getattr(self, name), low=0, include_low=False)
            if name == "lengthscale":  # its square must be a number
                checks.number(name, checked, low=1e-150, high=1e150)
            object.__setattr__(self, name, checked)


def cleaned_eigenvalues(eigenvalues: np.ndarray, graph: Graph, laplacian: str) -> np.ndarray:
    """Computed eigenvalues of a dense Laplacian, ascending, in their range, 0 where they are.

    As many are 0 as the graph has components; what rounding leaves of them is much to a steep
    kernel.
    """
    cleaned = np.clip(eigenvalues, 0.0, WIDTHS[laplacian] * graph.laplacian_scale(laplacian))
    cleaned[: _nullity(graph)] = 0.0
    return cleaned


def _nullity(graph: Graph) -> int:
    """The dimension of a Laplacian's null space: the number of components."""
    return int(graph.components().max()) + 1


def require_kernel(kernel: Any) -> Kernel:
    """`kernel`, once it is known to be a `Kernel`: the check at the door of all that takes one."""
    if not isinstance(kernel, Kernel):
        raise checks.not_a_kernel(kernel)
    return kernel
