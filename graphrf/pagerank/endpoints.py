r"""Scores from end points: the share of the walks that end at a node.

.. math:: \hat\rho_i = \frac{1}{N m} \sum_j \sum_{n \le m} 1\{\text{walk } n \text{ from } j \text{ ends at } i\}.

Source: the paper (Reid et al. 2024), App. E, Eq. 79; Fogaras et al. 2005.
"""

from __future__ import annotations

import numpy as np


def end_point_measure(counts: np.ndarray, n_walks: int) -> np.ndarray:
    """The estimate of x (`Problem`) from counts of end points, a part of those of `n_walks` walks; linear."""
    return counts / n_walks
