"""The choice of hyperparameters: searches over the marginal likelihood."""
