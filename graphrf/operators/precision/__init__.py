"""Sparse inverses of kernels."""
