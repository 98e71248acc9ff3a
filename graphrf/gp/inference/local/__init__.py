"""Laplace's approximation for likelihoods that factor over nodes: Newton steps, dense and sparse."""
