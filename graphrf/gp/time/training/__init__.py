"""Hyperparameters on graph and time: likelihood, derivatives, the search, and
individual variances.
"""
