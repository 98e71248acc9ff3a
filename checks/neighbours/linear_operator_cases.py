"""linear_operator's own test case for operators, run on the covariance matrices of GRFKernel.

Needs the extra `gp`.

python checks/neighbours/linear_operator_cases.py

Products, solves, decompositions, samples and gradients are compared with those of the dense matrix.
The exit status is 1 where a test fails.
"""

from __future__ import annotations

import sys
import unittest
from typing import Any

import torch
from gpytorch_kernel import report

import graphrf as grf
from graphrf.gp import GRFKernel

# isort: split
# After graphrf, which imports linear_operator without a warning of torch's.
from linear_operator.test.linear_operator_test_case import LinearOperatorTestCase

GRAPH = grf.from_edges([*range(15), 0, 3, 7], [*range(1, 16), 8, 12, 14])
FEATURES = grf.sample_features(GRAPH, seed=0, dtype="float32")


class NodeCases:
    """The covariance of eight nodes."""

    source: Any
    seed = 0
    should_test_sample = True

    def create_linear_op(self) -> Any:
        kernel = GRFKernel(self.source, grf.Diffusion(1.5)).float()
        return kernel(torch.arange(8.0)[:, None]).evaluate_kernel()

    def evaluate_linear_op(self, operator: Any) -> torch.Tensor:
        return operator.to_dense()


class SeriesCase(NodeCases, LinearOperatorTestCase, unittest.TestCase):
    """`FactorOperator` of a graph."""

    source = GRAPH


class FeaturesCase(NodeCases, LinearOperatorTestCase, unittest.TestCase):
    """`FactorOperator` of sampled features."""

    source = FEATURES


if __name__ == "__main__":
    sys.exit(report({SeriesCase: {}, FeaturesCase: {}}))
