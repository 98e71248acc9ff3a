"""Prior covariances among nodes by rows of a factor, for posteriors."""
