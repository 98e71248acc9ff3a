"""Latent Gaussian models."""
