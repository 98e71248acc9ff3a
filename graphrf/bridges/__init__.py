"""Kernels and priors on graphs for the models of other libraries; each module needs the extra of its library."""
