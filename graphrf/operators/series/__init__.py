"""Functions of the Laplacian by Chebyshev series of the walk matrix."""
