"""GPyTorch's own test case for kernels, run on GRFKernel and RandomFeatureKernel as they are.

Needs the extra `gp`.

python checks/neighbours/gpytorch_kernel.py

Prints a table of what passed and failed, and why. The exit status is 1 where something failed that
`EXPECTED` does not name, or passed that it does.
"""

from __future__ import annotations

import sys
import unittest
from typing import Any

import torch

import graphrf as grf
from graphrf.euclidean import RandomFeatureKernel
from graphrf.gp import GRFKernel

# isort: split
# After graphrf, which imports linear_operator without a warning of torch's.
from gpytorch.test.base_kernel_test_case import BaseKernelTestCase

SEVERAL_COLUMNS = "inputs of four or six columns; a node is one number"
# Test -> why it cannot pass on the nodes of a graph.
EXPECTED = {"test_active_dims_list": SEVERAL_COLUMNS, "test_active_dims_range": SEVERAL_COLUMNS}

SIDE = 5
GRAPH = grf.from_edges(range(SIDE**2 - 1), range(1, SIDE**2))
FEATURES = grf.sample_features(GRAPH, grf.RandomWalks(16), seed=0, dtype="float64")


class NodeCases:
    """Data of nodes in the shapes of GPyTorch's."""

    source: Any

    def create_kernel_no_ard(self, **options: Any) -> GRFKernel:
        return GRFKernel(self.source, grf.Diffusion(1.5), **options)

    def _nodes(self, *shape: int) -> torch.Tensor:
        return torch.randint(SIDE**2, shape, generator=torch.Generator().manual_seed(0)).float()

    def create_data_no_batch(self) -> torch.Tensor:
        return self._nodes(50, 10)

    def create_data_single_batch(self) -> torch.Tensor:
        return self._nodes(2, 3, 1)

    def create_data_double_batch(self) -> torch.Tensor:
        return self._nodes(3, 2, 50, 1)


class GraphCase(NodeCases, BaseKernelTestCase, unittest.TestCase):
    """GRFKernel of a graph."""

    source = GRAPH


class FeaturesCase(NodeCases, BaseKernelTestCase, unittest.TestCase):
    """GRFKernel of sampled features."""

    source = FEATURES


class PointsCase(BaseKernelTestCase, unittest.TestCase):
    """RandomFeatureKernel."""

    def create_kernel_no_ard(self, **options: Any) -> RandomFeatureKernel:
        dimension = 4 if self.id().endswith("_list") else 6 if self.id().endswith("_range") else 2
        return RandomFeatureKernel(dimension, 16, seed=0, **options)

    def create_kernel_ard(self, num_dims: int, **options: Any) -> RandomFeatureKernel:
        return RandomFeatureKernel(num_dims, 16, seed=0, ard_num_dims=num_dims, **options)


# Case -> the tests that are expected to fail.
CASES: dict[type[unittest.TestCase], dict[str, str]] = {
    GraphCase: EXPECTED,
    FeaturesCase: EXPECTED,
    PointsCase: {},
}


def report(cases: dict[type[unittest.TestCase], dict[str, str]]) -> int:
    """Run the cases with tests expected to fail; 1 where others do, or these pass."""
    wrong = 0
    print("| suite | passed | failed | why |\n|---|---|---|---|")
    for case, expected in cases.items():
        result = unittest.TestResult()
        suite = unittest.defaultTestLoader.loadTestsFromTestCase(case)
        number = suite.countTestCases()
        suite.run(result)
        failed = {
            test.id().rsplit(".", 1)[1]: report
            for test, report in [*result.failures, *result.errors]
        }
        why = "; ".join(sorted({expected.get(name, f"NOT EXPECTED: {name}") for name in failed}))
        print(f"| {case.__doc__.rstrip('.')} | {number - len(failed)} | {len(failed)} | {why} |")
        for name, report in failed.items():
            if name not in expected:
                print(report, file=sys.stderr)
        wrong += failed.keys() != expected.keys()
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(report(CASES))
