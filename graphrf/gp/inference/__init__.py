"""The posterior of given hyperparameters: covariances, solvers, draws, likelihoods."""
