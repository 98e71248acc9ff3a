"""Kernels whose inverse is sparse: their precision matrices, and Cholesky factors of sparse matrices."""
