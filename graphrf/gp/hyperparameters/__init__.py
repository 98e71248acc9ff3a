"""Training of the regressor, the classifier and the metric field; `time` and `latent` train on
their own.
"""
