"""The lengths of walks as torch operations on any device: those of `loops.draw_lengths`."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from graphrf.sampling.walks.lengths import LengthLaw, Rule
from graphrf.sampling.walks.philox import Use
from graphrf.sampling.walks.philox_torch import philox, unit

# Calls of the generator, of two steps each, that decide together how far antithetic walks go.
_CALLS = 4


class DeviceLengths:
    """A law of lengths for one source's walks, bound to a seed; the bits of `draw_lengths`.

    Divisors are tensors: GPUs multiply by the reciprocal of a number, which rounds differently.
    """

    def __init__(self, law: LengthLaw, n_walks: int, key: int, device: torch.device) -> None:
        table = law.survival.table
        permutations = law.permutations(n_walks)
        self._rule = Rule(law.rule)
        self._n_walks = n_walks
        self._key = key
        self._walks = torch.arange(n_walks, device=device)
        # Ascending, as required by the search, and without S(0).
        self._survival = torch.from_numpy(table[:0:-1].copy()).to(device)
        self._halt = torch.from_numpy(1.0 - table[1:] / table[:-1]).to(device)
        self._order = n_walks
        if self._rule == Rule.PERMUTATION:
            self._order = permutations.shape[1]
            # The first walk of a group keeps its tile.
            permutations = np.concatenate([np.arange(self._order)[None, :], permutations])
        self._permutations = torch.from_numpy(np.array(permutations, np.int64)).to(device)
        self._divisor = torch.full((), self._order, dtype=torch.float64, device=device)

    @property
    def walk_bytes(self) -> int:
        """Memory that `draw` takes for a walk: words of one call of the generator, or a stage."""
        return 52 * _CALLS if self._rule == Rule.ANTITHETIC else 72

    def draw(self, sources: Tensor) -> Tensor:
        """The lengths, int32, shape (rows, n_walks), of the walks of `sources` (int64)."""
        if self._rule == Rule.ANTITHETIC:
            return self._antithetic(sources)
        w0, w1, w2, _ = philox(sources[:, None], self._walks, 0, Use.LENGTH, self._key)
        x = unit(w0, w1)
        if self._rule == Rule.PERMUTATION:
            group = self._permutations.shape[0]
            tile = (w2[:, ::group] * self._order) >> 32
            tile = self._permutations[:, tile].movedim(0, 2).reshape(x.shape).contiguous()
            x = (self._order - 1 - tile + x) / self._divisor
        elif self._rule == Rule.STRATIFIED:
            shift = (w2[:, :1] * self._order) >> 32
            x = ((self._permutations[0] + shift) % self._order + x) / self._divisor
        # S does not increase: the steps k >= 1 with x < S(k) are all but those with S(k) <= x.
        return self._survival.numel() - torch.searchsorted(
            self._survival, x, right=True, out_int32=True
        )

    def _antithetic(self, sources: Tensor) -> Tensor:
        """Lengths of pairs, in stages of some steps until every walk has ended."""
        pairs = self._n_walks // 2
        steps = self._halt.numel()
        going = sources.new_ones((sources.numel() * pairs, 2), dtype=torch.bool)
        alive = torch.arange(going.shape[0], device=sources.device)
        lengths = torch.zeros_like(going, dtype=torch.int32)
        for first in range(0, steps, 2 * _CALLS):
            halt = self._halt[first : first + 2 * _CALLS]
            calls = torch.arange(first // 2, (first + halt.numel() + 1) // 2, device=sources.device)
            w0, w1, w2, w3 = philox(
                sources[alive // pairs][:, None],
                (alive % pairs)[:, None],
                calls,
                Use.LENGTH,
                self._key,
            )
            t = torch.stack([unit(w0, w1), unit(w2, w3)], 2).view(alive.numel(), -1)
            t = t[:, : halt.numel()]
            opposite = torch.where(t < 0.5, t + 0.5, t - 0.5)
            goes_on = torch.stack([t >= halt, opposite >= halt], 1)
            goes_on[:, :, 0] &= going
            goes_on = torch.cumprod(goes_on, 2, dtype=torch.uint8)
            lengths[alive] += goes_on.sum(2, dtype=torch.int32)
            going = goes_on[:, :, -1].bool()
            kept = going.any(1).nonzero().view(-1)
            if not kept.numel():
                break
            alive, going = alive[kept], going[kept]
        return lengths.view(sources.numel(), -1)
