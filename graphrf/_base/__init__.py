"""Helpers shared by all packages: checks of arguments, memory, threads, files, and lazy imports."""
