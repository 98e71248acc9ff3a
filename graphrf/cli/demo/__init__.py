"""The demo: examples on generated data, their report, and the table of errors of samplers."""
