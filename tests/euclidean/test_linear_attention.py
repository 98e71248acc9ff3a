"""The product of features with values against the quadratic form of the same features."""

import pytest
import torch

from graphrf.euclidean.linear_attention import linear_attention

LENGTHS = [(1, 1), (2, 2), (3, 3), (64, 64), (65, 65), (130, 130), (10, 20), (20, 10), (200, 7)]


def quadratic(log_query, log_key, value, is_causal):
    """Every weight by itself."""
    scores = (log_query[..., :, None, :] + log_key[..., None, :, :]).logsumexp(-1)
    if is_causal:
        scores = scores.masked_fill(
            torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf
        )
    return scores.softmax(-1) @ value


def inputs(length, n_keys, *, spread=(10.0, 30.0), requires_grad=False):
    rng = torch.Generator().manual_seed(0)
    shapes = ((2, 3, length, 5), (2, 3, n_keys, 5), (2, 3, n_keys, 4))
    values = [torch.randn(shape, generator=rng, dtype=torch.float64) for shape in shapes]
    scales = (*spread, 1.0)
    return [
        (x * scale).requires_grad_(requires_grad) for x, scale in zip(values, scales, strict=True)
    ]


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("length", "n_keys"), LENGTHS)
@pytest.mark.parametrize("chunk", [1, 8, 64])
def test_it_is_the_quadratic_form(length, n_keys, is_causal, chunk):
    given = inputs(length, n_keys)
    found = linear_attention(*given, is_causal=is_causal, chunk=chunk)
    torch.testing.assert_close(found, quadratic(*given, is_causal), rtol=0, atol=1e-12)


@pytest.mark.parametrize("is_causal", [False, True])
def test_gradients_are_those_of_the_quadratic_form(is_causal):
    given = inputs(37, 37, requires_grad=True)
    direction = torch.randn(
        2, 3, 37, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    expected = torch.autograd.grad((quadratic(*given, is_causal) * direction).sum(), given)
    found = torch.autograd.grad(
        (linear_attention(*given, is_causal=is_causal, chunk=8) * direction).sum(), given
    )
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def test_both_ways_through_a_chunk_agree():
    query, key, value = inputs(150, 150)
    # A feature that is 0 leaves its chunk close; one that is 0 to rounding only does not.
    key[..., 70, 2] = -torch.inf
    close = linear_attention(query, key, value, is_causal=True)
    key[..., 70, 2] = -2_000.0
    far = linear_attention(query, key, value, is_causal=True)
    assert (far != close).any()
    torch.testing.assert_close(far, close, rtol=1e-11, atol=1e-12)


def test_leading_dimensions_broadcast():
    log_query, log_key, value = inputs(9, 9)
    whole = linear_attention(
        log_query, log_key[:1].expand(2, 3, 9, 5), value[:, :1].expand(2, 3, 9, 4), is_causal=True
    )
    thin = linear_attention(log_query, log_key[0], value[:, :1], is_causal=True)
    torch.testing.assert_close(thin, whole)


@pytest.mark.parametrize("is_causal", [False, True])
def test_far_logarithms_neither_overflow_nor_underflow(is_causal):
    # Keys that grow by 1,500 in logarithm along the
    # sequence: exp(87) is the largest float32 has room for.
    given = inputs(150, 150, spread=(50.0, 50.0))
    given[1] += torch.linspace(0, 1500, 150, dtype=torch.float64)[:, None]
    given = [x.float() for x in given]
    expected = quadratic(*(x.double() for x in given), is_causal)
    found = linear_attention(*given, is_causal=is_causal)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=2e-3)
    # The usual way, one maximum for all keys, loses the denominators of early queries.
    log_query, log_key, _ = given
    query, key = (
        (log_query - log_query.amax(-1, keepdim=True)).exp(),
        (log_key - log_key.amax()).exp(),
    )
    assert ((query @ key.mT).tril().sum(-1) == 0).any()


@pytest.mark.parametrize("is_causal", [False, True])
def test_queries_without_a_key_give_zero_and_finite_gradients(is_causal):
    log_query, log_key, value = inputs(70, 70)
    log_key[0] = -torch.inf
    log_key[1, :, :66] = -torch.inf
    given = [x.requires_grad_() for x in (log_query, log_key, value)]
    found = linear_attention(*given, is_causal=is_causal)
    assert (found[0] == 0).all()
    assert (found[1, :, -1] != 0).all()
    assert bool((found[1, :, :66] == 0).all()) == is_causal
    found.sum().backward()
    assert all(x.grad.isfinite().all() for x in given)


def test_causal_gradients_do_not_keep_a_running_sum_for_each_position():
    length, m, width = 2048, 64, 64
    log_query, log_key, value = (torch.zeros(length, k, requires_grad=True) for k in (m, m, width))
    sizes = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: sizes.append(x.numel()) or x, lambda x: x
    ):
        linear_attention(log_query, log_key, value, is_causal=True)
    assert max(sizes) < length * m * width / 20
    assert sum(sizes) < length * m * width / 2
