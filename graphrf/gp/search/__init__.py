"""Searches of hyperparameters: their coordinates, maxima of posterior densities, and samples."""
