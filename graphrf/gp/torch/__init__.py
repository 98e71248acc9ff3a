"""Gaussian processes for GPyTorch and BoTorch, on any torch device."""
