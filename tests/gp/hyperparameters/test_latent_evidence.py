"""The evidence of counts and classes: dense and sparse agree, gradients of differences."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.hyperparameters.class_evidence import ClassEvidence
from graphrf.gp.hyperparameters.latent_evidence import DenseEvidence, SparseEvidence, block_evidence
from graphrf.gp.hyperparameters.mode import mean_variance_near
from graphrf.gp.hyperparameters.space import Model
from graphrf.gp.likelihoods.counts import NegativeBinomial
from graphrf.gp.methods.gram import PrecisionGram
from graphrf.gp.model.class_labels import Labels
from graphrf.gp.model.responses import Responses
from graphrf.gp.posterior.approximation import expectation_propagation
from graphrf.gp.posterior.approximation.expectation_propagation import independent_sites
from graphrf.operators.precision.markov import SparsePrecision

KERNEL = grf.Matern(nu=2.0, lengthscale=2.0)
LIKELIHOOD = NegativeBinomial(0.4)
NODES = np.arange(0, 34, 3)
SPREAD = 3.0


@pytest.fixture
def parts(karate):
    """A precision, the responses, and the mean variance of K."""
    y = np.random.default_rng(0).poisson(2.0, NODES.size) * 1.0
    responses = Responses.of(NODES, y, np.zeros(NODES.size), np.ones((34, 1)))
    return (
        SparsePrecision(karate, KERNEL),
        responses,
        mean_variance_near(karate, KERNEL, True, 0, None),
    )


def model(lengthscale=2.0, scale=1.5, dispersion=0.4):
    return Model(KERNEL.replace(lengthscale=lengthscale), scale, NegativeBinomial(dispersion))


def test_dense_and_sparse_evidence_agree_with_the_gradient_of_differences(parts, monkeypatch):
    monkeypatch.setattr(expectation_propagation, "_SETTLED", 1e-9)
    monkeypatch.setattr(expectation_propagation, "_ROUNDS", 300)
    precision, responses, mean_variance = parts
    steps = []
    gram, unknown = PrecisionGram(precision, responses.nodes), ("dispersion",)
    dense = DenseEvidence(
        [gram], [responses], mean_variance, SPREAD, unknown, lambda: steps.append(1)
    )
    sparse = SparseEvidence(
        precision, responses, mean_variance, SPREAD, unknown, lambda: steps.append(1)
    )
    names, h = ("lengthscale",), 1e-4
    found = [own.gradient(model(), names) for own in (dense, sparse)]
    assert len(steps) == 2
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-6)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-4)
    moves = ({"lengthscale": 2.0}, {"scale": 1.5}, {"dispersion": 0.4})
    for slope, move in zip(found[0][1], moves, strict=True):
        ((name, value),) = move.items()
        if name == "lengthscale":
            ends = (value + h, value - h)
        else:
            ends = (value * np.exp(h), value * np.exp(-h))
        above, below = (dense.gradient(model(**{name: end}), names)[0] for end in ends)
        assert slope == pytest.approx((above - below) / (2 * h), abs=1e-4)
    expected = 1.5 / np.diag(KERNEL.dense(precision.graph)).mean()
    assert [own.amplitude(model()) for own in (dense, sparse)] == pytest.approx([expected] * 2)


def test_blocks_add_up(parts):
    precision, responses, mean_variance = parts
    gram = PrecisionGram(precision, responses.nodes)
    one, two = (
        DenseEvidence([gram] * n, [responses] * n, mean_variance, SPREAD, ()).gradient(
            model(), ("lengthscale",)
        )
        for n in (1, 2)
    )
    assert two[0] == pytest.approx(2 * one[0])
    np.testing.assert_allclose(two[1], 2 * one[1])


def test_what_cannot_be_factored_is_impossible(parts, monkeypatch):
    precision, responses, mean_variance = parts

    def indefinite(kernel, names):
        return -np.eye(NODES.size), [np.eye(NODES.size)] * len(names)

    unit = lambda kernel, names, blocks: (1.0, np.zeros(len(names)))  # noqa: E731
    nothing = lambda kernel, names, blocks: (0.0, np.zeros(len(names)))  # noqa: E731
    sites = independent_sites(responses, LIKELIHOOD, SPREAD)
    assert block_evidence(-np.eye(NODES.size), responses, LIKELIHOOD, 0.1, sites) == -np.inf
    cases = [
        DenseEvidence([indefinite], [responses], unit, 0.1, ("dispersion",)),
        DenseEvidence(
            [PrecisionGram(precision, responses.nodes)],
            [responses],
            nothing,
            SPREAD,
            ("dispersion",),
        ),
        SparseEvidence(precision, responses, mean_variance, SPREAD, ("dispersion",)),
    ]
    monkeypatch.setattr(
        "graphrf.gp.hyperparameters.latent_evidence.SparsePrior.condition",
        lambda *given: (_ for _ in ()).throw(np.linalg.LinAlgError),
    )
    for evidence in cases:
        value, slopes = evidence.gradient(model(), ("lengthscale",))
        assert value == -np.inf
        np.testing.assert_array_equal(slopes, np.zeros(3))


@pytest.mark.parametrize(("normalize", "trained"), [(True, False), (False, True), (False, False)])
def test_classes_by_a_covariance_that_vanishes_are_impossible(normalize, trained):
    steps = []

    def vanishing(kernel, names):
        return np.zeros((4, 4)), [np.zeros((4, 4))] * len(names)

    labels = Labels.of(np.arange(4), np.array([0, 1, 0, 1]), 2)
    evidence = ClassEvidence(vanishing, labels, normalize, trained, lambda: steps.append(1))
    value, slopes = evidence.gradient(Model(KERNEL, 3.0, None), ("lengthscale",))
    assert steps == [1]
    # a prior without variance is one, and has no correlation and no variance to be scaled
    assert np.isfinite(value) != (normalize or trained)
    np.testing.assert_array_equal(slopes, np.zeros(2))
    assert trained or evidence.amplitude(Model(KERNEL, 3.0, None)) == 3.0
