"""Graphs in folders of arrays, written whole and opened as memory maps."""
