"""Likelihoods: distributions of an observation given the latent value at its node."""
