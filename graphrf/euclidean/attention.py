r"""Softmax attention by positive random features: Performers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from graphrf._base import checks
from graphrf.euclidean.frequencies.draw import draw_frequencies
from graphrf.euclidean.frequencies.norms import NormCoupling
from graphrf.euclidean.linear_attention import linear_attention


def softmax_features(x: Tensor, frequencies: Tensor) -> Tensor:
    r"""Positive random features of the softmax kernel exp(q . k), shape (..., m).

    .. math:: \phi(x) = \frac{1}{\sqrt m} \exp(W x - |x|^2 / 2), \qquad E[\phi(q) \cdot \phi(k)] =
        \exp(q \cdot k).

    They are in the dtype of `x`, float32 if that is narrower. For long vectors the exponentials
    overflow (`PerformerAttention` works with their logarithms instead), and many frequencies are
    needed: the variance of the estimate grows as exp(|q + k|^2). Cost: O(n m d) for n points.

    Source: Choromanski et al. 2020, "Rethinking attention with Performers", Eq. 7; Reid et al.
    2024, "Variance-reducing couplings for random features", App. B.3.

    Parameters
    ----------
    x : Tensor, shape (..., d)
        Floating point. In attention queries and keys are multiplied by d^(-1/4) before.
    frequencies : Tensor, shape (m, d)
        Standard normal rows, coupled in any way: `draw_frequencies(m, d).matrix` as a tensor.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a floating-point tensor or the dimensions do not match. NaN is not
        checked.

    Examples
    --------
    >>> import torch
    >>> from graphrf.euclidean.frequencies.draw import draw_frequencies
    >>> w = torch.tensor(draw_frequencies(4096, 2, seed=0).matrix)
    >>> q, k = torch.tensor([[0.3, -0.2]]).double(), torch.tensor([[0.5, 0.4]]).double()
    >>> estimate = softmax_features(q, w) @ softmax_features(k, w).T
    >>> bool((estimate - torch.exp(q @ k.T)).abs() < 0.05)
    True
    """
    dimension = _check_frequencies(frequencies).shape[1]
    _check_floating("x", x)
    if x.ndim == 0 or x.shape[-1] != dimension:
        raise checks.value_error("x", f"must have shape (..., {dimension}), got {tuple(x.shape)}")
    with torch.autocast(x.device.type, enabled=False):
        x = x.to(_working(x))
        return (_log_features(x, frequencies) - 0.5 * math.log(frequencies.shape[0])).exp()


def attention_weights(
    query: Tensor,
    key: Tensor,
    frequencies: Tensor,
    *,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    r"""The matrix of attention weights that `PerformerAttention` does not form, shape (..., L, S).

    .. math:: \hat a_{ij} = \frac{\phi(q_i) \cdot \phi(k_j)}{\sum_l \phi(q_i) \cdot \phi(k_l)}.

    For inspection and tests: time and memory are O(L S m). Rows sum to 1, or are zero if all keys
    of a query are masked. Source: Reid et al. 2024, "Variance-reducing couplings for random
    features", Sec. 3.3.

    Parameters
    ----------
    query : Tensor, shape (..., L, d)
    key : Tensor, shape (..., S, d)
    frequencies : Tensor, shape (m, d)
    attn_mask, is_causal, scale : optional
        See `PerformerAttention.forward`, also for the errors.

    Examples
    --------
    >>> import torch
    >>> x, w = torch.zeros(3, 2), torch.ones(5, 2)
    >>> attention_weights(x, x, w, is_causal=True)
    tensor([[1.0000, 0.0000, 0.0000],
            [0.5000, 0.5000, 0.0000],
            [0.3333, 0.3333, 0.3333]])
    """
    dimension = _check_frequencies(frequencies).shape[1]
    scale = _check_inputs(query, key, dimension, attn_mask, scale)
    with torch.autocast(query.device.type, enabled=False):
        log_query, log_key = _log_pair(query, key, frequencies, attn_mask, scale)
    scores = (log_query[..., :, None, :] + log_key[..., None, :, :]).logsumexp(-1)
    if checks.flag("is_causal", is_causal):
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    empty = (scores == -torch.inf).all(-1, keepdim=True)
    return scores.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0).to(query.dtype)


class PerformerAttention(nn.Module):
    r"""Softmax attention in time linear in the length, by positive random features.

    .. math::
        o_i = \frac{\sum_j \phi(q_i) \cdot \phi(k_j) \, v_j}{\sum_j \phi(q_i) \cdot \phi(k_j)},
        \qquad
        \phi(x) = \frac{1}{\sqrt m} \exp(W x - |x|^2 / 2),

    with q and k multiplied by the square root of `scale`, d^(-1/2) unless given, so that the mean
    of phi(q) . phi(k) is exp(scale q . k). It is called like
    `torch.nn.functional.scaled_dot_product_attention`. All heads share the frequencies. The weights
    are positive and sum to 1, but they are ratios of unbiased estimates, so that their error is of
    order m^(-1/2) and their bias of order 1/m; both grow like exp(|q + k|^2).

    Cost: time O((L + S) m (d + d_v)), memory O((L + S) m); causal: as for `linear_attention`. Types
    narrower than float32 are widened to it, under autocast too; the result has the dtype of
    `query`.

    Source: Choromanski et al. 2020, "Rethinking attention with Performers", Sec. 2; Reid et al.
    2024, "Variance-reducing couplings for random features", Sec. 3.3 and App. B.3; Reid et al.
    2023, "Simplex random features", Sec. 5.4.

    Parameters
    ----------
    head_dim : int
        d, of queries and keys. Values may have another dimension.
    n_frequencies : int, optional
        m. By default d times log(d) rounded, so whole blocks of d: 256 for 64.
    directions : str
        Of `draw_frequencies`: "orthogonal" as in Performers, "simplex" and "simplex+", "iid", and
        the others.
    norms : str, NormCoupling or None
        Of `draw_frequencies`. "iid" as in Performers; "pm", one norm per block of d, which raises
        the variance of the scores and lowers the error of attention (Reid et al. 2024;
        `examples/attention_error.py`); "pnc".
    antithetic : bool
        Half of the frequencies are the negatives of the other half; ValueError for an odd m.
    redraw_every : int, optional
        Draw new frequencies after this many forward passes in training mode; None draws them once.
        Recomputation under `torch.utils.checkpoint` counts as a pass and may redraw within one
        step: use None then, and call `redraw` between steps.
    seed : int, optional
        Seed of the sequence of draws; None draws one. Set it if several processes train copies.

    Attributes
    ----------
    frequencies : Tensor, shape (m, d)
        A buffer in torch's default dtype.
    seed : int
    n_draws : int
        Number of draws so far. `state_dict` holds the frequencies, the seed, this and the passes
        since the last draw, so a loaded module continues like the saved one.

    Examples
    --------
    >>> import torch
    >>> attention = PerformerAttention(8, 4096, seed=0)
    >>> query, key, value = (
    ...     torch.randn(3, 2, 100, 8, generator=torch.Generator().manual_seed(0)) / 2
    ... )
    >>> exact = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    >>> bool((attention(query, key, value) - exact).abs().max() < 0.1)
    True
    """

    antithetic: bool
    directions: str
    norms: str | NormCoupling | None
    frequencies: Tensor

    def __init__(
        self,
        head_dim: int,
        n_frequencies: int | None = None,
        *,
        directions: str = "orthogonal",
        norms: str | NormCoupling | None = "iid",
        antithetic: bool = False,
        redraw_every: int | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self.head_dim: int = checks.integer("head_dim", head_dim, low=1)
        if n_frequencies is None:
            n_frequencies = self.head_dim * max(round(math.log(self.head_dim)), 1)
            n_frequencies += n_frequencies % 2 if checks.flag("antithetic", antithetic) else 0
        self.n_frequencies: int = checks.integer("n_frequencies", n_frequencies, low=1)
        if checks.flag("antithetic", antithetic) and self.n_frequencies % 2:
            raise checks.value_error(
                "n_frequencies",
                f"must be even with antithetic=True, got {n_frequencies}: they come in pairs",
            )
        if redraw_every is not None:
            redraw_every = checks.integer("redraw_every", redraw_every, low=1)
        self.directions, self.norms, self.antithetic = directions, norms, antithetic
        self.redraw_every = redraw_every
        self.seed: int = checks.seed(seed)
        self.n_draws: int = 0
        self.register_buffer("frequencies", torch.empty(self.n_frequencies, self.head_dim))
        self.redraw()

    def redraw(self) -> None:
        """Draw the next frequencies of the sequence of `seed`, a function of it and `n_draws`.

        O(m d^2) time on the CPU.
        """
        stream = np.random.SeedSequence([self.seed, self.n_draws]).generate_state(1, np.uint64)[0]
        drawn = draw_frequencies(
            self.n_frequencies,
            self.head_dim,
            directions=self.directions,
            norms=self.norms,
            antithetic=self.antithetic,
            seed=int(stream >> np.uint64(1)),
        )
        # A new tensor, since an earlier pass may need the old one for its gradient.
        self.frequencies = torch.tensor(
            drawn.matrix, dtype=self.frequencies.dtype, device=self.frequencies.device
        )
        self.n_draws += 1
        self._passes = 0

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
    ) -> Tensor:
        """Attend: o, shape (..., L, d_v), zero for queries without a key.

        Parameters
        ----------
        query : Tensor, shape (..., L, d)
        key : Tensor, shape (..., S, d)
        value : Tensor, shape (..., S, d_v)
            Leading dimensions (batch, heads) broadcast. NaN is not checked for and propagates.
        attn_mask : bool Tensor, shape (S,) or (..., 1, S), optional
            True for keys that are used, the same for all queries: a padding mask. Other masks have
            no form that is linear in the length, and raise an error. Can be combined with
            `is_causal`.
        dropout_p : float
            Only 0, since the weights are never formed. Apply dropout to the values or the output
            instead.
        is_causal : bool
            Query i sees the keys 0 to i.
        scale : float, optional
            Positive; d^(-1/2) if left out.

        Raises
        ------
        TypeError
            If an argument is not a floating-point tensor, or the mask not a boolean one.
        ValueError
            If shapes do not match, a length is zero, `dropout_p` is not 0 or `scale` not positive.
        """
        if dropout_p != 0:
            raise checks.value_error(
                "dropout_p",
                f"must be 0, got {dropout_p}: the weights are never formed; "
                "apply dropout to the values or to the output",
            )

        is_causal = checks.flag("is_causal", is_causal)
        scale = _check_inputs(query, key, self.head_dim, attn_mask, scale)
        _check_points("value", value, None)
        if value.shape[-2] != key.shape[-2]:
            raise checks.value_error(
                "value",
                f"must have the length of `key`, {key.shape[-2]}, got {checks.describe(value)}",
            )
        masks = {} if attn_mask is None else {"attn_mask": torch.atleast_2d(attn_mask)}
        _check_leading(query=query, key=key, value=value, **masks)

        if self.training and self.redraw_every is not None:
            if self._passes == self.redraw_every:
                self.redraw()
            self._passes += 1

        with torch.autocast(query.device.type, enabled=False):
            log_query, log_key = _log_pair(query, key, self.frequencies, attn_mask, scale)
            out = linear_attention(log_query, log_key, value.to(log_key.dtype), is_causal=is_causal)
        return out.to(query.dtype)

    def get_extra_state(self) -> Tensor:
        """Seed, draws and passes since the last draw, for `state_dict`."""
        return torch.tensor([self.seed, self.n_draws, self._passes])

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the state of a saved module."""
        self.seed, self.n_draws, self._passes = state.tolist()

    def extra_repr(self) -> str:
        return (
            f"head_dim={self.head_dim}, n_frequencies={self.n_frequencies}, "
            f"directions={self.directions!r}, norms={self.norms!r}, antithetic={self.antithetic}, "
            f"redraw_every={self.redraw_every}, seed={self.seed}"
        )


def _log_pair(
    query: Tensor, key: Tensor, frequencies: Tensor, attn_mask: Tensor | None, scale: float
) -> tuple[Tensor, Tensor]:
    """Logarithms of the features of queries and keys, but for 1/sqrt(m), which cancels."""
    root = math.sqrt(scale)
    dtype = _working(query, key)
    log_query, log_key = (_log_features(x.to(dtype) * root, frequencies) for x in (query, key))
    if attn_mask is not None:
        by_key = attn_mask if attn_mask.ndim == 1 else attn_mask[..., 0, :]
        log_key = log_key.where(by_key[..., None], -torch.inf)
    return log_query, log_key


def _log_features(x: Tensor, frequencies: Tensor) -> Tensor:
    return x @ frequencies.to(x).mT - 0.5 * x.square().sum(-1, keepdim=True)


def _working(*tensors: Tensor) -> torch.dtype:
    """float64 if one of the tensors is, float32 otherwise."""
    return torch.float64 if any(x.dtype == torch.float64 for x in tensors) else torch.float32


def _check_inputs(query: Any, key: Any, dimension: int, attn_mask: Any, scale: Any) -> float:
    """Validate the arguments that determine the weights, and return the scale."""
    _check_points("query", query, dimension)
    _check_points("key", key, dimension)
    _check_leading(query=query, key=key)
    if attn_mask is not None:
        n_keys = key.shape[-2]
        if not isinstance(attn_mask, Tensor) or attn_mask.dtype != torch.bool:
            raise checks.type_error(
                "attn_mask", f"must be a boolean tensor, got {checks.describe(attn_mask)}"
            )
        if attn_mask.shape[-1:] != (n_keys,) or attn_mask.shape[-2:-1] not in ((), (1,)):
            raise checks.value_error(
                "attn_mask",
                f"must be a padding mask of shape ({n_keys},) or (..., 1, {n_keys}), the same for "
                f"all queries, got shape {tuple(attn_mask.shape)}; give (batch, {n_keys}) as "
                "mask[:, None, None, :], and a causal mask as is_causal=True",
            )
        _check_leading(attn_mask=torch.atleast_2d(attn_mask), query=query, key=key)
    if scale is None:
        return 1 / math.sqrt(dimension)
    return checks.number("scale", scale, low=0, include_low=False)


def _check_floating(name: str, x: Any) -> None:
    if not isinstance(x, Tensor) or not x.is_floating_point():
        raise checks.type_error(name, f"must be a floating-point tensor, got {checks.describe(x)}")


def _check_points(name: str, x: Any, dimension: int | None) -> None:
    _check_floating(name, x)
    if x.ndim < 2 or (dimension is not None and x.shape[-1] != dimension) or 0 in x.shape:
        wanted = "d_v" if dimension is None else dimension
        raise checks.value_error(
            name,
            f"must have shape (..., length, {wanted}) with at least one position, got "
            f"{tuple(x.shape)}",
        )


def _check_leading(**tensors: Tensor) -> None:
    try:
        torch.broadcast_shapes(*(x.shape[:-2] for x in tensors.values()))
    except RuntimeError:
        shapes = ", ".join(f"`{name}` {tuple(x.shape)}" for name, x in tensors.items())
        raise ValueError(f"leading dimensions must broadcast, got {shapes}") from None


def _check_frequencies(frequencies: Tensor) -> Tensor:
    _check_floating("frequencies", frequencies)
    if frequencies.ndim != 2 or 0 in frequencies.shape:
        raise checks.value_error(
            "frequencies", f"must have shape (m, d), got {tuple(frequencies.shape)}"
        )
    return frequencies
