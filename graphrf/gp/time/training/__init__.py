"""Hyperparameters on graph and time: likelihood, derivatives, search, individual variances."""
