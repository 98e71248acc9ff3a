"""Gaussian processes on graph and time: separable kernels whose time part is a state-space model."""
