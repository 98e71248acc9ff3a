"""Rounds and sizes of blocks of a search: its cost against the digits of its end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TrainingCosts:
    """Numbers that bound the work of training; more rounds and larger blocks end a little closer
    to the maximum.
    """

    # Rounds of expectation maximisation at most, until no variance changes by more than `settled`,
    # as a share of all; and steps of the search in each round, with gaps.
    rounds: int = 15
    settled: float = 0.01
    more_steps: int = 25
    # Values in a block that compares graph kernels, and in one that compares variances of sensors.
    block_cells: int = 600
    own_cells: int = 600
    # Rounds that learn the covariance of sensors, with values missing independently and in long
    # gaps, and the correlations of individual variation that are compared.
    scattered_rounds: int = 8
    long_gap_rounds: int = 12
    own_correlations: tuple[float, ...] = (0.0, 0.3, 1.0, 3.0)


TRAINING_COSTS = TrainingCosts()
