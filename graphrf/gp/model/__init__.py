"""A Gaussian process and its observations, as one record each."""
