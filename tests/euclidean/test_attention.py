"""Performer attention against exact attention, and what its module keeps."""

import copy
import io

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as exact_attention

from graphrf.euclidean.attention import PerformerAttention, attention_weights, softmax_features
from graphrf.euclidean.frequencies.draw import draw_frequencies
from tests.support.sequential import assert_unbiased

SCHEMES = [
    {"directions": "iid", "norms": "iid"},
    {"directions": "orthogonal", "norms": "iid"},
    {"directions": "orthogonal", "norms": "pnc"},
    {"directions": "orthogonal", "norms": "pm"},
    {"directions": "simplex", "norms": "iid"},
    {"directions": "orthogonal", "norms": "iid", "antithetic": True},
]

ONE = torch.zeros(5, 4)


def tokens(*shape, scale=0.5, seed=0, dtype=torch.float32):
    rng = torch.Generator().manual_seed(seed)
    return [scale * torch.randn(shape, generator=rng, dtype=dtype) for _ in range(3)]


def test_scores_are_unbiased_estimates_of_the_exponential():
    x = torch.tensor([[0.3, -0.2, 0.1, 0.4], [-0.4, 0.3, 0.2, 0.1], [0.1, 0.5, -0.3, 0.2]]).double()
    first, second = torch.triu_indices(3, 3)
    truth = (x @ x.T).exp()[first, second].numpy()

    def draw(round_, n):
        scores = np.empty((n, len(SCHEMES), truth.size))
        for number, scheme in enumerate(SCHEMES):
            # Two independent blocks of 4 for every estimate;
            # negatives are the second half of all rows.
            w = torch.tensor(draw_frequencies(8 * n, 4, seed=10 * round_ + number, **scheme).matrix)
            features = softmax_features(x, w) * n**0.5
            signs = 2 if scheme.get("antithetic") else 1
            features = features.reshape(3, signs, n, 8 // signs)
            scores[:, number] = torch.einsum("isnm,jsnm->nij", features, features)[:, first, second]
        return scores.reshape(n, -1)

    assert_unbiased(draw, np.tile(truth, len(SCHEMES)))


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda s: "-".join(map(str, s.values())))
def test_many_frequencies_come_near_exact_attention(scheme, is_causal):
    query, key, value = tokens(2, 3, 40, 4)
    attention = PerformerAttention(4, 10_000, seed=1, **scheme)
    exact = exact_attention(query, key, value, is_causal=is_causal)
    found = attention(query, key, value, is_causal=is_causal)
    other = exact_attention(query, key, value, is_causal=not is_causal)
    assert (found - exact).square().mean() < 0.015**2
    assert (found - other).square().mean() > 0.1**2


@pytest.mark.parametrize("is_causal", [False, True])
def test_the_module_multiplies_with_the_weights(is_causal):
    query, key, value = tokens(2, 3, 70, 4, scale=2.0, dtype=torch.float64)
    attention = PerformerAttention(4, 12, seed=0)
    mask = torch.rand(2, 1, 1, 70, generator=torch.Generator().manual_seed(3)) < 0.8
    options = {"attn_mask": mask, "is_causal": is_causal, "scale": 0.7}
    weights = attention_weights(query, key, attention.frequencies, **options)
    torch.testing.assert_close(
        attention(query, key, value, **options), weights @ value, rtol=0, atol=1e-12
    )


def test_values_and_lengths_may_differ_from_those_of_queries():
    query, _, _ = tokens(2, 3, 9, 4)
    _, key, _ = tokens(2, 3, 20, 4)
    value = tokens(2, 3, 20, 7)[2]
    attention = PerformerAttention(4, seed=0)
    assert attention(query, key, value).shape == (2, 3, 9, 7)
    assert attention(query[0], key[0], value).shape == (2, 3, 9, 7)
    assert attention(query[0, 0], key[0, 0], value[0, 0]).shape == (9, 7)


@pytest.mark.parametrize("is_causal", [False, True])
def test_a_padding_mask_is_the_same_as_shorter_keys(is_causal):
    query, key, value = tokens(2, 3, 30, 4)
    attention = PerformerAttention(4, seed=0)
    short = attention(query, key[..., :22, :], value[..., :22, :], is_causal=is_causal)
    for mask in (torch.arange(30) < 22, (torch.arange(30) < 22).expand(2, 1, 1, 30)):
        torch.testing.assert_close(attention(query, key, value, mask, is_causal=is_causal), short)


def test_rows_without_a_key_are_zero():
    query, key, value = tokens(2, 1, 5, 4)
    mask = torch.tensor([[False] * 5, [True] * 5])[:, None, None, :]
    attention = PerformerAttention(4, seed=0)
    out = attention(query, key, value, mask)
    assert (out[0] == 0).all()
    assert (out[1] != 0).all()
    weights = attention_weights(query, key, attention.frequencies, attn_mask=mask)
    assert (weights[0] == 0).all()
    torch.testing.assert_close(weights[1].sum(-1), torch.ones(1, 5))


def test_gradients_reach_queries_keys_and_values():
    given = [x.requires_grad_() for x in tokens(1, 2, 5, 3, dtype=torch.float64)]
    for is_causal in (False, True):
        attention = PerformerAttention(3, 4, seed=0)
        assert torch.autograd.gradcheck(
            lambda *x, a=attention, c=is_causal: a(*x, is_causal=c), given
        )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_numbers_are_widened(dtype):
    given = [x.to(dtype) for x in tokens(2, 2, 20, 4)]
    attention = PerformerAttention(4, seed=0)
    out = attention(*given)
    assert out.dtype == dtype
    assert torch.equal(out, attention(*(x.float() for x in given)).to(dtype))


def test_autocast_changes_no_bit():
    given = tokens(2, 2, 20, 4)
    attention = PerformerAttention(4, seed=0)
    plain = attention(*given), attention_weights(*given[:2], attention.frequencies)
    features = softmax_features(given[0], attention.frequencies)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(attention(*given), plain[0])
        assert torch.equal(attention_weights(*given[:2], attention.frequencies), plain[1])
        assert torch.equal(softmax_features(given[0], attention.frequencies), features)


def test_a_seed_begins_a_sequence_of_draws():
    a, b = (PerformerAttention(4, 8, seed=5) for _ in range(2))
    first = a.frequencies
    assert torch.equal(first, b.frequencies)
    a.redraw()
    assert not torch.isclose(first, a.frequencies).any()
    b.redraw()
    assert torch.equal(a.frequencies, b.frequencies)
    assert not torch.equal(first, PerformerAttention(4, 8, seed=6).frequencies)
    assert a.n_draws == 2


def test_training_redraws_and_evaluation_does_not():
    given = tokens(1, 1, 3, 4)
    attention = PerformerAttention(4, 8, redraw_every=2, seed=0)
    draws = []
    for _ in range(5):
        attention(*given)
        draws.append(attention.n_draws)
    assert draws == [1, 1, 2, 2, 3]
    attention.eval()
    for _ in range(5):
        attention(*given)
    assert attention.n_draws == 3
    kept = PerformerAttention(4, 8, seed=0)
    for _ in range(5):
        kept(*given)
    assert kept.n_draws == 1


def test_a_redraw_leaves_the_gradient_of_an_earlier_pass_alone():
    query, key, value = (x.requires_grad_() for x in tokens(1, 1, 3, 4))
    attention = PerformerAttention(4, 8, redraw_every=1, seed=0)
    out = attention(query, key, value)
    expected = torch.autograd.grad(out.sum(), query, retain_graph=True)
    attention(query, key, value)
    assert torch.equal(torch.autograd.grad(out.sum(), query)[0], expected[0])


def test_a_saved_module_goes_on_where_it_stood():
    given = tokens(1, 1, 3, 4)
    saved = PerformerAttention(4, 8, redraw_every=3, seed=0)
    for _ in range(4):
        saved(*given)
    file = io.BytesIO()
    torch.save(saved.state_dict(), file)
    file.seek(0)
    loaded = PerformerAttention(4, 8, redraw_every=3, seed=1)
    assert not torch.equal(loaded(*given), saved.eval()(*given))
    loaded.load_state_dict(torch.load(file, weights_only=True))
    copied = copy.deepcopy(saved)
    for module in (saved, loaded, copied):
        module.train()
    for _ in range(7):
        out = saved(*given)
        assert torch.equal(loaded(*given), out)
        assert torch.equal(copied(*given), out)
    assert (loaded.seed, loaded.n_draws) == (0, saved.n_draws)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((0,), {}, ValueError, "`head_dim` must be at least 1"),
        ((4, 7), {"antithetic": True}, ValueError, "`n_frequencies` must be even"),
        ((4,), {"antithetic": 1}, TypeError, "`antithetic` must be True or False"),
        ((4,), {"redraw_every": 0}, ValueError, "`redraw_every` must be at least 1"),
        (
            (1,),
            {"directions": "simplex"},
            ValueError,
            "simplex directions need at least 2 dimensions",
        ),
    ],
    ids=lambda x: str(x) if isinstance(x, str | dict) else "",
)
def test_settings_out_of_range_are_refused(arguments, options, error, message):
    with pytest.raises(error, match=message):
        PerformerAttention(*arguments, **options)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"query": torch.zeros(2, 3, 5, 6)}, ValueError, "`query` must have shape .*, length, 4"),
        (
            {"query": torch.zeros(2, 3, 5, 4).long()},
            TypeError,
            "`query` must be a floating-point tensor",
        ),
        (
            {"value": torch.zeros(2, 3, 6, 4)},
            ValueError,
            "`value` must have the length of `key`, 5",
        ),
        ({"key": torch.zeros(2, 3, 0, 4)}, ValueError, "`key` .* at least one position"),
        ({"key": torch.zeros(2, 2, 5, 4)}, ValueError, "leading dimensions must broadcast"),
        ({"dropout_p": 0.1}, ValueError, "`dropout_p` must be 0, got 0.1"),
        ({"attn_mask": torch.zeros(5)}, TypeError, "`attn_mask` must be a boolean tensor"),
        (
            {"attn_mask": torch.ones(4, dtype=torch.bool)},
            ValueError,
            "`attn_mask` must be a padding mask",
        ),
        ({"attn_mask": torch.ones(5, 5, dtype=torch.bool)}, ValueError, "is_causal=True"),
        (
            {"attn_mask": torch.ones(3, 1, 1, 5, dtype=torch.bool)},
            ValueError,
            "leading dimensions must broadcast",
        ),
        (
            {"query": ONE, "key": ONE, "attn_mask": torch.ones(3, 1, 1, 5, dtype=torch.bool)},
            ValueError,
            "leading dimensions must broadcast, got .*attn_mask",
        ),
    ],
    ids=[
        "query dimension",
        "integers",
        "value length",
        "no key",
        "key heads",
        "dropout",
        "float mask",
        "mask length",
        "mask by query",
        "mask batch",
        "mask and values",
    ],
)
def test_inputs_that_do_not_fit_are_refused(change, error, message):
    given = dict(zip(("query", "key", "value"), tokens(2, 3, 5, 4), strict=True))
    attention = PerformerAttention(4, redraw_every=1, seed=0)
    with pytest.raises(error, match=message):
        attention(**(given | change))
    assert attention.n_draws == 1
