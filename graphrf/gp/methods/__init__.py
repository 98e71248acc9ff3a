"""Three ways to compute with a kernel: its series, its sparse precision, and sampled features."""
