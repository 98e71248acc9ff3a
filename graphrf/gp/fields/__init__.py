"""Gaussian fields over space: triangle meshes, their finite elements, and points in them."""
