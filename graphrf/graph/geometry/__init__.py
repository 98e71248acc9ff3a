"""Geometry of graphs: common borders of areas, places that are one but for rounding, and faces of meshes."""
