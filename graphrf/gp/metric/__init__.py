"""Metric graphs, whose edges are lines: roads, rivers, cables."""
