"""The version of graphrf."""

__version__ = "0.1.0"
