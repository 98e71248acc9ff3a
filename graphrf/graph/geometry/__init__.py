"""Geometry of graphs: maps, meshes, common borders of areas, and places that are one but for
rounding.
"""
