"""Gaussian processes on R^d by random features."""
