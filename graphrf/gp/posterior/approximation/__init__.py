"""Normal approximations of posteriors: expectation propagation, and Laplace's approximation for
classes.
"""
