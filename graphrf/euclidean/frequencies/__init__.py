"""Frequencies of random features: directions, norms and their couplings, and quadrature rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrf._base import lazy

if TYPE_CHECKING:
    from graphrf.euclidean.frequencies.copula import GaussianCopula as GaussianCopula
    from graphrf.euclidean.frequencies.copula import learn_copula as learn_copula
    from graphrf.euclidean.frequencies.directions import haar as haar
    from graphrf.euclidean.frequencies.directions import simplex as simplex
    from graphrf.euclidean.frequencies.directions import simplex_plus as simplex_plus
    from graphrf.euclidean.frequencies.draw import draw_frequencies as draw_frequencies
    from graphrf.euclidean.frequencies.norms import norm_coupling as norm_coupling
    from graphrf.euclidean.frequencies.quadrature import gauss_hermite as gauss_hermite
    from graphrf.euclidean.frequencies.quadrature import gauss_legendre as gauss_legendre
    from graphrf.euclidean.frequencies.quadrature import simpson as simpson
    from graphrf.euclidean.frequencies.quadrature import spectral_rule as spectral_rule

__getattr__, __dir__, __all__ = lazy.attach(
    __name__,
    {
        "copula": "GaussianCopula learn_copula",
        "directions": "haar simplex simplex_plus",
        "draw": "draw_frequencies",
        "norms": "norm_coupling",
        "quadrature": "gauss_hermite gauss_legendre simpson spectral_rule",
    },
    extra="euclidean",
)
