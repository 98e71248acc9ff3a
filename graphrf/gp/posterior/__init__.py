"""Posteriors at known hyperparameters."""
