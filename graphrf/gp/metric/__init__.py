"""Gaussian processes along the edges of a metric graph: roads, rivers, cables."""
