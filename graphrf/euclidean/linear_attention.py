r"""Attention by features, in time linear in the length: the causal and the full product.

A kernel written as a sum over m positive features, A_ij = sum_r p_ir g_jr, makes the output of
attention a product of thin matrices, sum_j A_ij v_j / sum_j A_ij = p_i (g^T v) / p_i (g^T 1). Here
only the logarithms of p and g are used, and no product of theirs leaves [0, 1]:

- keys are divided by R_r = max_j g_jr, the largest value of their feature, and queries multiplied
  by it;
- each query is then divided by its largest feature, a_i = max_r p_ir R_r.

Both factors cancel between numerator and denominator, so they are constants for the gradient. The
feature with p_ir R_r = a_i meets a key with g_jr = R_r, so every denominator is at least 1. (With a
single maximum over all keys and features, as is usual, a denominator may underflow.)

For the causal sum the maximum must run over past keys only. Positions are divided into chunks of
`CHUNK`, each with a masked matrix of weights, and running sums over the earlier chunks. The maximum
includes the whole chunk, which suffices unless a feature varies within a chunk by more than
floating point can hold. In that case the positions of a chunk are halved repeatedly, every pair of
halves is a full product (queries of the later half with keys of the earlier one), and the pieces of
a query are merged by their a_i.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

CHUNK = 64

# A sum over keys and its logarithmic scale: the sum is `total` times exp(`log_scale`).
Piece = tuple[Tensor, Tensor]


def linear_attention(
    log_query: Tensor,
    log_key: Tensor,
    value: Tensor,
    *,
    is_causal: bool = False,
    chunk: int = CHUNK,
) -> Tensor:
    r"""Weighted means of values, weights being inner products of positive features, (..., L, d_v).

    .. math::
        o_i = \frac{\sum_j A_{ij} v_j}{\sum_j A_{ij}}, \qquad
        A_{ij} = \sum_r \exp(\texttt{log\_query}_{ir} + \texttt{log\_key}_{jr}),

    the sums over all keys j, or over j <= i if causal; zero if all keys of a query are removed.

    Cost: time O((L + S) m d_v), memory O((L + S) (m + d_v)). Causal: time O(L m (d_v + chunk)),
    memory O(L m) for the gradient, or O(L m log(chunk)) where a chunk must be halved, and
    O(L m d_v / chunk) for the running sums.

    Source: Choromanski et al. 2020, "Rethinking attention with Performers", Sec. 2.1 and App. B.1.

    Parameters
    ----------
    log_query : Tensor, shape (..., L, m)
        float32 or float64. A constant added to a row has no effect.
    log_key : Tensor, shape (..., S, m)
        A row of -inf removes a key.
    value : Tensor, shape (..., S, d_v)
    is_causal : bool
    chunk : int, a power of two
        Positions in a chunk of the causal sum. It affects the cost, not the result.

    Examples
    --------
    >>> log_query, log_key = torch.zeros(3, 2), torch.zeros(3, 2)
    >>> linear_attention(
    ...     log_query, log_key, torch.tensor([[1.0], [2.0], [6.0]]), is_causal=True
    ... ).flatten()
    tensor([1.0000, 1.5000, 3.0000])
    """
    # One more column gives the denominators.
    value = torch.cat([value, torch.ones_like(value[..., :1])], dim=-1)
    total, _ = (
        _causal(log_query, log_key, value, chunk) if is_causal else _full(log_query, log_key, value)
    )
    numerator, denominator = total[..., :-1], total[..., -1:]
    return numerator / denominator.where(denominator > 0, 1.0)


def _full(log_query: Tensor, log_key: Tensor, value: Tensor) -> Piece:
    """Every query with every key, through the m by d_v sums over the keys."""
    shift = _largest(log_key, -2)
    query, log_scale = _scaled(log_query + shift)
    return query @ ((log_key - shift).exp_().mT @ value), log_scale


def _block(log_query: Tensor, log_key: Tensor, value: Tensor) -> Piece:
    """`_full` through the matrix of weights, which is cheaper for fewer keys than features."""
    shift = _largest(log_key, -2)
    query, log_scale = _scaled(log_query + shift)
    return query @ (log_key - shift).exp_().mT @ value, log_scale


def _causal(log_query: Tensor, log_key: Tensor, value: Tensor, chunk: int) -> Piece:
    length = log_query.shape[-2]
    size = min(chunk, 1 << (length - 1).bit_length())
    n_chunks = -(-length // size)
    # Keys after the last query are not used.
    log_query = _filled(log_query, n_chunks * size, 0.0)
    log_key = _filled(log_key[..., :length, :], n_chunks * size, -torch.inf)
    value = _filled(value[..., :length, :], n_chunks * size, 0.0)

    chunks = [part.unflatten(-2, (n_chunks, size)) for part in (log_query, log_key, value)]
    if _close(chunks[1]):
        total, scale = _by_chunks(*chunks)
        return total.flatten(-3, -2)[..., :length, :], scale.flatten(-3, -2)[..., :length, :]
    piece = _by_halves(log_query, log_key, value, size)
    if n_chunks > 1:
        past = _past_chunks(*chunks)
        piece = _merged(piece, (past[0].flatten(-3, -2), past[1].flatten(-3, -2)))
    return piece[0][..., :length, :], piece[1][..., :length, :]


def _close(log_key: Tensor) -> bool:
    """True if no feature of a chunk varies so much that its quotients to the largest underflow."""
    log_key = log_key.detach()
    least = log_key.masked_fill(log_key == -torch.inf, torch.inf).amin(-2, keepdim=True)
    # Seven tenths of the exponent's range, with room for the sum over features, whose largest is 1.
    limit = -0.7 * math.log(torch.finfo(log_key.dtype).tiny)
    return bool((_largest(log_key, -2) - least < limit).all())


def _by_chunks(log_query: Tensor, log_key: Tensor, value: Tensor) -> Piece:
    """Queries with the keys that are not later; shapes (..., chunks, positions, columns).

    Keys of a chunk are divided by the largest value so far of their feature, including this chunk.
    If that is an earlier key's, all queries of the chunk see it; if it is the chunk's own, no key
    of it is far below.
    """
    reached = _largest(log_key, -2).cummax(-3).values
    query, log_scale = _scaled(log_query + reached)
    key = (log_key - reached).exp_()
    # Sums over earlier chunks at the scale of each; the last one has none after it. Indexing in
    # place of `unbind` would make the gradient quadratic in the number of chunks, since each index
    # fills a tensor of all of them.
    kept = (reached[..., :-1, :, :] - reached[..., 1:, :, :]).exp_().mT
    sums = [torch.zeros_like(value[..., 0, :1, :]) * key[..., 0, :1, :].mT]
    for own, factor in zip(
        (key.mT @ value)[..., :-1, :, :].unbind(-3), kept.unbind(-3), strict=True
    ):
        sums.append(factor * (sums[-1] + own))
    return (query @ key.mT).tril() @ value + query @ torch.stack(sums, dim=-3), log_scale


def _by_halves(log_query: Tensor, log_key: Tensor, value: Tensor, size: int) -> Piece:
    """`_by_chunks` for features that vary by any amount, with `size` positions a chunk."""
    weight, log_scale = _scaled(log_query + log_key)  # each position with itself
    piece: Piece = weight.sum(-1, keepdim=True) * value, log_scale
    half = 1
    while half < size:
        past = _block(
            _halves(log_query, half)[1], _halves(log_key, half)[0], _halves(value, half)[0]
        )
        totals, scales = (_halves(part, half) for part in piece)
        later = _merged((totals[1], scales[1]), past)
        piece = _joined(totals[0], later[0]), _joined(scales[0], later[1])
        half *= 2
    return piece


def _past_chunks(log_query: Tensor, log_key: Tensor, value: Tensor) -> Piece:
    """Queries with the keys of all earlier chunks; shapes (..., chunks, positions, columns)."""
    shift = _largest(log_key, -2)
    own = (log_key - shift).exp_().mT @ value
    # Running sums and their running maxima before each chunk; `unbind` as in `_by_chunks`.
    before = [torch.zeros_like(own[..., 0, :, :])]
    reached = [torch.full_like(shift[..., 0, :, :], _lowest(shift.dtype))]
    for sums, maxima in list(zip(own.unbind(-3), shift.unbind(-3), strict=True))[:-1]:
        reached.append(torch.maximum(reached[-1], maxima))
        kept, added = ((part - reached[-1]).exp().mT for part in (reached[-2], maxima))
        before.append(kept * before[-1] + added * sums)
    query, log_scale = _scaled(log_query + torch.stack(reached, dim=-3))
    return query @ torch.stack(before, dim=-3), log_scale


def _scaled(log_feature: Tensor) -> Piece:
    """Rows of features divided by their largest, and its logarithm; overwrites `log_feature`."""
    log_scale = _largest(log_feature, -1)
    return log_feature.sub_(log_scale).exp_(), log_scale


def _merged(a: Piece, b: Piece) -> Piece:
    """The sum of two sums on the larger of their scales."""
    log_scale = torch.maximum(a[1], b[1])
    return (a[1] - log_scale).exp() * a[0] + (b[1] - log_scale).exp() * b[0], log_scale


def _halves(x: Tensor, half: int) -> tuple[Tensor, ...]:
    """Earlier and later halves of every 2 * half positions, (..., pairs, half, columns)."""
    return x.unflatten(-2, (x.shape[-2] // (2 * half), 2, half)).unbind(-3)


def _joined(earlier: Tensor, later: Tensor) -> Tensor:
    return torch.stack([earlier, later], dim=-3).flatten(-4, -2)


def _filled(x: Tensor, length: int, fill: float) -> Tensor:
    """`x` with rows of `fill` behind it."""
    return torch.nn.functional.pad(x, (0, 0, 0, length - x.shape[-2]), value=fill)


def _largest(x: Tensor, dim: int) -> Tensor:
    """Maxima as constants; finite if all keys are removed, to avoid differences of infinities."""
    return x.detach().amax(dim, keepdim=True).clamp(min=_lowest(x.dtype))


def _lowest(dtype: torch.dtype) -> float:
    # A quarter of the range: sums of such a maximum and a logarithm of a feature stay finite.
    return torch.finfo(dtype).min / 4
