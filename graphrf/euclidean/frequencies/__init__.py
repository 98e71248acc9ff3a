"""Frequencies of random features: directions, norms and their couplings, and quadrature rules."""
