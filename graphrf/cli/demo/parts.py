"""Settings of the demo, and a record of results for each of its parts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from graphrf._base import checks
from graphrf.datasets.sets import Dataset
from graphrf.sampling.walks.coupling import Coupling


@dataclass(frozen=True)
class Settings:
    """Settings of `graphrf demo`; the defaults need no file and no download.

    Attributes
    ----------
    dataset : str
        The graph whose kernel and PageRank are estimated, a name of `graphrf.datasets`.
    mesh : str
        The mesh that carries the signal, a name of `graphrf.datasets`, whose `mesh-` may be left out.
    traffic : bool
        Also interpolate the traffic speeds of San Jose, and predict those of Los Angeles through time.
    n_walks : int
        Walks from each node, even (some couplings join pairs), at least 4.
    repeats : int
        Independent repetitions that errors are averaged over, at least 2.
    seed : int
        Seed of everything random.
    p_halt : float in [0.025, 0.925]
        Probability that a walk for the kernel ends before each step; lengths that are truncated have none.
    """

    dataset: str = "karate"
    mesh: str = "generated-torus"
    traffic: bool = False
    n_walks: int = 16
    repeats: int = 20
    seed: int = 0
    p_halt: float = 0.1

    def __post_init__(self) -> None:
        checks.integer("n_walks", self.n_walks, low=4, high=10_000)
        if self.n_walks % 2:
            raise checks.value_error(
                "n_walks", f"must be even, since some couplings join pairs of walks, got {self.n_walks}"
            )
        checks.integer("repeats", self.repeats, low=2)
        checks.integer("seed", self.seed, low=0, high=2**31)
        # Within these the permutations of sigma coupling are shipped.
        checks.number("p_halt", self.p_halt, low=0.025, high=0.925)


@dataclass(frozen=True)
class Source:
    """The data that a part worked on."""

    name: str
    description: str
    licence: str
    n_nodes: int
    n_edges: int


# In place of a distribution of lengths: no walks, hence no directions, and entries instead of walks.
COMPRESSED = "compressed powers"


@dataclass(frozen=True)
class GramRow:
    """The error of one distribution of lengths with one kind of directions; sizes are means for each node."""

    lengths: str
    directions: str
    n_walks: int
    error: float
    stderr: float
    steps: float
    nonzeros: float
    seconds: float


@dataclass(frozen=True)
class GramPart:
    """A graph kernel, estimated by walks and compared with the exact one.

    Attributes
    ----------
    rows : every distribution and kind of directions at `n_walks` walks
    curves : the distributions of the figure at several numbers of walks, by label
    compared_rows : rows of the matrix that were compared
    exact_seconds : time of computing these exactly
    too_short : whether walks end so early that estimates have a huge variance
    """

    source: Source
    kernel: str
    p_halt: float
    n_walks: int
    repeats: int
    rows: tuple[GramRow, ...]
    curves: dict[str, tuple[GramRow, ...]]
    compared_rows: int
    exact_seconds: float
    too_short: bool
    coupling: Coupling = field(repr=False)


@dataclass(frozen=True)
class InterpolationRow:
    """Accuracy and time of one method that predicts held-out values.

    `fitted_noise` is the deviation of the noise that training found; None where nothing was trained, as `seconds`.
    """

    method: str
    rmse: float
    coverage: float
    deviation: float
    seconds: float | None
    fitted_noise: float | None


@dataclass(frozen=True, eq=False)
class InterpolationPart:
    """A signal seen at some nodes and predicted at the others.

    Attributes
    ----------
    signal : what is predicted, with its unit
    n_observed, n_predicted : int
    noise : deviation of the noise that was added to the observations, 0 if they are measurements
    predictive : whether deviations include the noise of a measurement
    rows : the mean, all defaults, and the diffusion kernel
    notes : sentences, what training warned of
    kernel : the best one by default, in words
    hyperparameters : of the Gaussian process by default
    observed, truth, mean, deviation : ndarray, shape (N,)
        NaN where not known; `mean` and `deviation` of the Gaussian process by default.
    data : the data set, for the figure
    """

    source: Source
    signal: str
    unit: str
    n_observed: int
    n_predicted: int
    noise: float
    predictive: bool
    rows: tuple[InterpolationRow, ...]
    notes: tuple[str, ...]
    kernel: str
    hyperparameters: dict[str, float]
    observed: np.ndarray = field(repr=False)
    truth: np.ndarray = field(repr=False)
    mean: np.ndarray = field(repr=False)
    deviation: np.ndarray = field(repr=False)
    data: Dataset = field(repr=False)


@dataclass(frozen=True)
class TimeRow:
    """Accuracy of one method that predicts held-out values of a time series; None: it gives no intervals."""

    method: str
    where: str
    rmse: float
    coverage: float | None


@dataclass(frozen=True, eq=False)
class TimePart:
    """Speeds through time at sensors that were hidden, and ahead.

    Attributes
    ----------
    rows : the mean of the time of day and the Gaussian process, at hidden sensors and ahead
    kernel : the graph kernel that was chosen, in words
    times : ndarray, shape (T,)
        Hours.
    observed, truth, mean, deviation : ndarray, shape (T, N)
        NaN in `observed` where nothing was shown.
    example : positions of a sensor that was shown and of one that was not, for the figure
    """

    source: Source
    n_times: int
    n_hidden: int
    rows: tuple[TimeRow, ...]
    kernel: str
    seconds: float
    times: np.ndarray = field(repr=False)
    observed: np.ndarray = field(repr=False)
    truth: np.ndarray = field(repr=False)
    mean: np.ndarray = field(repr=False)
    deviation: np.ndarray = field(repr=False)
    example: tuple[int, int] = field(repr=False)


@dataclass(frozen=True)
class PageRankRow:
    """The L1 error of one estimator with one coupling; steps are means for each node."""

    estimator: str
    coupling: str
    error: float
    stderr: float
    steps: float
    seconds: float


@dataclass(frozen=True, eq=False)
class PageRankPart:
    """PageRank by walks, compared with power iteration.

    Attributes
    ----------
    exact : ndarray, shape (N,)
    estimates : scores of single runs by label, for the figure
    """

    source: Source
    p_halt: float
    n_walks: int
    repeats: int
    rows: tuple[PageRankRow, ...]
    top: tuple[tuple[str, float], ...]
    exact_seconds: float
    exact_iterations: int
    exact: np.ndarray = field(repr=False)
    estimates: dict[str, np.ndarray] = field(repr=False)


Part = GramPart | InterpolationPart | TimePart | PageRankPart
