"""Geometry of graphs: maps, meshes, borders of areas, and places that are one but for rounding."""
