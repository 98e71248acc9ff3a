"""The deep expansion: its bound, its scores, and the example's reduced run."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.support.real_data import needs_data

pytestmark = pytest.mark.usefixtures("one_torch_thread")


def wave(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (n, 1))
    return x, np.sin(2 * x[:, 0]) + 0.1 * rng.standard_normal(n)


@pytest.fixture
def script(example):
    return example("deep_random_features")


def test_one_layers_bound_is_its_evidence(script):
    x, y = wave(40)
    model = script.Expansion(1, 6, 20, 0).fit(x, y)
    with torch.no_grad():
        phi = model.last(torch.tensor(x)) * (model.log_scale / 2).exp()
        covariance = phi @ phi.T + model.log_noise.exp() * torch.eye(40, dtype=torch.float64)
        law = torch.distributions.MultivariateNormal(
            torch.zeros(40, dtype=torch.float64), covariance
        )
        assert model.bound().item() == pytest.approx(law.log_prob(torch.tensor(y)).item(), abs=1e-8)


def test_two_layers_bound_is_below_the_evidence(script):
    """The evidence of a tiny model by draws of its hidden map; q about the best of them."""
    model = script.Expansion(2, 1, 30, 0).fit(*wave(12))
    hidden = model.hidden[0]
    with torch.no_grad():
        hidden.mean.zero_()
        hidden.log_deviation.zero_()
        draws = [hidden.draw() for _ in range(1000)]
        # q at one draw: bound() is then its likelihood less the divergence.
        hidden.log_deviation.fill_(-20)
        logs = []
        for weights in draws:
            hidden.mean.copy_(weights)
            logs.append(model.bound().item() + hidden.divergence().item())
        hidden.mean.copy_(draws[int(np.argmax(logs))])
        hidden.log_deviation.fill_(-3)
        bound, divergence = (
            np.mean([model.bound().item() for _ in range(100)]),
            hidden.divergence().item(),
        )
    likelihoods = np.exp(np.array(logs) - max(logs))
    evidence = np.log(likelihoods.mean()) + max(logs)
    error = likelihoods.std() / likelihoods.mean() / 1000**0.5
    assert bound < evidence
    # the negative control: without the divergence it would not be a bound
    assert bound + divergence > evidence + 5 * error


def test_scores_are_those_of_a_mixture(script):
    class Two:
        def mixture(self, x):
            return np.array([[0.0], [2.0]]), np.array([[1.0], [4.0]])

    scores = script.score(Two(), np.zeros((1, 1)), np.array([1.5]))
    density = (np.exp(-(1.5**2) / 2) + np.exp(-(0.5**2) / 8) / 2) / (2 * np.sqrt(2 * np.pi))
    assert scores.rmse == pytest.approx(0.5)
    assert scores.nlpd == pytest.approx(-np.log(density))


def test_the_test_points_have_no_part_in_the_choice(script):
    """Other test targets change the scores, not the number of frequencies."""
    x, y = wave(60)
    test = np.random.default_rng(0).permutation(60)[:6]
    changed = y.copy()
    changed[test] += 100
    first, second = (script.evaluate("SSGP", x, each, 1, 0) for each in (y, changed))
    assert first[1] == second[1]
    assert second[0].rmse > 50 * first[0].rmse


@needs_data
def test_the_reduced_run_prints_its_table_and_draws(run, tmp_path):
    picture = tmp_path / "deep.png"
    options = [
        "--sets",
        "airfoil",
        "--splits",
        "2",
        "--steps",
        "2",
        "--first",
        "60",
        "--out",
        str(picture),
    ]
    assert [words[0] for words in run("deep_random_features", *options)[2:]] == ["airfoil"] * 3
    assert picture.stat().st_size > 5000
