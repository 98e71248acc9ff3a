"""Exact, cut and compressed powers of the walk matrix."""
