"""Cholesky factors of sparse matrices."""
