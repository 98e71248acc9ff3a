"""Training: the posterior of hyperparameters."""
