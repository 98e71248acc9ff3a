"""Hyperparameters on graph and time: likelihood, slopes, the search, and what each sensor has of its own."""
