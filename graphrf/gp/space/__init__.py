"""Regression of values at places of a domain: points of a triangle mesh, or places along edges."""
