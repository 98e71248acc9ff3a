"""The examples of attention: their arithmetic against exact values, and both run."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from graphrf.euclidean.attention import PerformerAttention


def run(example, monkeypatch, capsys, name: str, *options: str) -> list[str]:
    module = example(name)
    monkeypatch.setattr(sys, "argv", [name, *options])
    module.main()
    return capsys.readouterr().out.splitlines()


def test_sets_of_frequencies_are_blocks_of_their_own(example):
    module = example("attention_error")
    w = module.frequency_sets(20, 7, module.SCHEMES["orthogonal + PM"], 0)
    assert w.shape == (7, 20, 16)
    for block in (w[:, :16], w[:, 16:]):
        products = block @ block.transpose(0, 2, 1)
        norms = np.diagonal(products, axis1=1, axis2=2)
        np.testing.assert_allclose(norms, np.broadcast_to(norms[:, :1], norms.shape))
        np.testing.assert_allclose(products - norms[:, :, None] * np.eye(block.shape[1]), 0, atol=1e-12)
    assert len(np.unique(np.linalg.norm(w, axis=2).round(9))) == 14


def test_variance_and_covariance_have_the_means_of_independent_frequencies(example):
    module = example("attention_error")
    rng = np.random.default_rng(0)
    query, keys, m = 0.3 * rng.standard_normal(3), 0.3 * rng.standard_normal((4, 3)), 5
    found = module.quantities(query, keys, rng.standard_normal((20_000, m, 3)))
    # Cov(X_j, X_l) = exp(q.k_j + q.k_l) (exp((q + k_j).(q + k_l)) - 1) / m.
    truth = np.exp(keys @ query)
    matrix = np.outer(truth, truth) * (np.exp((query + keys) @ (query + keys).T) - 1) / m
    variance, covariance = np.trace(matrix) / 4, matrix.mean()
    expected = np.array([variance, covariance, variance - covariance]) / truth.sum() ** 2
    errors = found[:, :3].std(axis=0) / len(found) ** 0.5
    assert (abs(found[:, :3].mean(axis=0) - expected) < 5 * errors).all()
    assert (errors < 0.15 * expected).all()


def test_pm_norms_raise_the_variance_and_lower_the_error_of_attention(example):
    module = example("attention_error")
    results = module.measure(module.READINGS["standard deviation"], (16,), 2, 1000, 0)
    reference = results[16, "orthogonal"]

    def bounds(name: str, quantity: str) -> tuple[float, float]:
        column = module.QUANTITIES.index(quantity)
        ratio, spread = module.ratio_and_error(results[16, name][:, column], reference[:, column])
        return ratio - 2.5 * spread, ratio + 2.5 * spread  # five standard errors each way

    assert bounds("orthogonal + PM", "error")[1] < 1
    assert bounds("simplex", "error")[1] < 1
    assert bounds("simplex + PM", "error")[1] < 0.8
    low, high = bounds("orthogonal + PNC", "error")
    assert low < 1 < high
    # Two standard errors, as in the table: variance has heavy tails.
    ratio, spread = module.ratio_and_error(results[16, "orthogonal + PM"][:, 0], reference[:, 0])
    assert ratio - spread > 1


def test_attention_error_prints_and_draws(example, monkeypatch, capsys, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    picture = tmp_path / "error.png"
    rows = run(example, monkeypatch, capsys, "attention_error", "--quick", "--out", str(picture))
    assert len([row for row in rows if row.strip()[:2] in ("8 ", "16")]) == 20
    assert sum("more, more, less" in row for row in rows) == 2
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_patches_are_squares_of_pixels(example):
    image = np.arange(64).reshape(1, 8, 8)
    tokens = example("performer_digits").patches(image)
    assert tokens.shape == (1, 16, 4)
    assert tokens[0, 5].tolist() == image[0, 2:4, 2:4].ravel().tolist()


def test_parts_of_the_digits_do_not_overlap(example):
    parts = example("performer_digits").split_digits()
    assert [len(y) for _, y in parts.values()] == [1000, 397, 400]
    images = torch.cat([x.flatten(1) for x, _ in parts.values()])
    # The set has no two equal images.
    assert len(images.unique(dim=0)) == len(images) == 1797


def test_models_of_one_seed_start_from_the_same_weights(example):
    module = example("performer_digits")
    exact, performer = (module.build(module.SCHEMES[name], 8, None, 3) for name in ("exact softmax", "orthogonal"))
    weights = dict(performer.named_parameters())
    assert all(torch.equal(weights[name], value) for name, value in exact.named_parameters())
    assert [block.attention.seed for block in performer.blocks] == [6, 7]


def test_a_performer_of_many_frequencies_is_the_exact_transformer(example):
    module = example("performer_digits")
    exact = module.build(None, 0, None, 0)
    performer = module.build(module.SCHEMES["orthogonal"], 1024, None, 0)
    x = module.split_digits()["test"][0][:20]
    assert all(isinstance(block.attention, PerformerAttention) for block in performer.blocks)
    torch.testing.assert_close(performer(x), exact(x), rtol=0, atol=0.1)


def test_estimated_attention_matrices_come_near_the_exact_one(example):
    module = example("performer_digits")
    model = module.build(None, 0, None, 0)
    found = module.attention_matrices(model, module.split_digits()["test"][0][0], 64, seed=0)
    exact, few, _, many = found.values()
    for matrix in found.values():
        torch.testing.assert_close(matrix.sum(dim=1), torch.ones(16))
    assert (many - exact).abs().max() < (few - exact).abs().max()
    assert (many - exact).abs().max() < 0.1 * exact.max()


def test_performer_digits_prints_accuracies_and_draws(example, monkeypatch, capsys, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    module = example("performer_digits")
    kept = ("exact softmax", "orthogonal")
    monkeypatch.setattr(module, "SCHEMES", {name: module.SCHEMES[name] for name in kept})
    few = {name: (x[:160], y[:160]) for name, (x, y) in module.split_digits().items()}
    monkeypatch.setattr(module, "split_digits", lambda: few)
    picture = tmp_path / "digits.png"
    rows = run(
        example, monkeypatch, capsys, "performer_digits", "--quick", "--rate", "0.02", "--out", str(picture)
    )
    assert [row[:18].strip() for row in rows[-2:]] == list(kept)
    assert ".625 +- .003" in rows[-1]
    assert all(0 < float(row[18:25]) < 1 for row in rows[-2:])
    assert picture.stat().st_size > 10_000


def test_training_learns_more_than_guessing(example):
    module = example("performer_digits")
    model = module.build(module.SCHEMES["orthogonal"], 8, 16, 0)
    validation, _ = module.train(model, module.split_digits(), epochs=2, rate=0.01, batch=64, seed=0)
    assert validation > 0.15  # guessing gives .1
