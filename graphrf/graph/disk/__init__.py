"""Graphs on disk: folders of arrays that are mapped into memory, read and written in chunks."""
