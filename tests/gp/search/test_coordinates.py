"""Values and coordinates of hyperparameters, and their priors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate

from graphrf.gp.likelihoods.counts import NegativeBinomial
from graphrf.gp.model.prior import BetaPrior, PenalisedDeviation
from graphrf.gp.search.coordinates import (
    Coordinates,
    Parameter,
    likelihood_at,
    likelihood_parameters,
)

PARAMETERS = (
    Parameter("sd", "positive", 1.0, 1e-3, 1e3, PenalisedDeviation()),
    Parameter("range", "positive", 2.0, 0.1, 30.0, (2.0, 3.0)),
    Parameter("mixing", "proportion", 0.5, 1e-3, 1 - 1e-3, BetaPrior(2.0, 2.0)),
    Parameter("correlation", "correlation", 0.2, -0.99, 0.99, BetaPrior(2.0, 3.0)),
    Parameter("weight", "real", 0.3, -2.0, 2.0, None),
)
VALUES = [0.7, 5.0, 0.2, -0.4, -1.5]


def test_values_come_back_from_their_coordinates_and_from_the_ends_of_their_ranges():
    coordinates = Coordinates(PARAMETERS)
    np.testing.assert_allclose(coordinates.values(coordinates.vector(VALUES)), VALUES)
    for end in (0, 1):
        ends = coordinates.values(coordinates.box[:, end])
        assert ends == [parameter[3 + end] for parameter in PARAMETERS] or np.allclose(
            ends, [parameter[3 + end] for parameter in PARAMETERS], rtol=1e-12
        )
        assert all(
            parameter.low <= value <= parameter.high
            for parameter, value in zip(PARAMETERS, ends, strict=True)
        )


@pytest.mark.parametrize(("parameter", "value"), list(zip(PARAMETERS, VALUES, strict=True)))
def test_derivatives_are_limits_of_differences(parameter, value):
    x, step = parameter.coordinate(value), 1e-6
    slope = (parameter.value(x + step) - parameter.value(x - step)) / (2 * step)
    assert parameter.derivative(value) == pytest.approx(slope, rel=1e-6)
    ahead, behind = (parameter.log_prior(x + sign * step)[0] for sign in (1, -1))
    assert parameter.log_prior(x)[1] == pytest.approx((ahead - behind) / (2 * step), abs=1e-6)


@pytest.mark.parametrize("parameter", PARAMETERS[:-1], ids=lambda parameter: parameter.name)
def test_priors_are_densities_of_the_coordinate(parameter):
    total = integrate.quad(lambda x: np.exp(parameter.log_prior(np.float64(x))[0]), -30, 8)[0]
    assert total == pytest.approx(1.0, abs=1e-6)


def test_parameters_of_a_likelihood_are_in_the_unit_of_its_latent_function():
    likelihood = NegativeBinomial()
    (parameter,) = likelihood_parameters(likelihood, 1.0)
    assert parameter.prior == (parameter.start, likelihood.priors[parameter.name][1])
    (without,) = likelihood_parameters(likelihood, 1.0, flat=True)
    assert without.prior is None
    assert likelihood_at(likelihood, [3.5]) == NegativeBinomial(3.5)
    assert likelihood_at(NegativeBinomial(2.0), []) == NegativeBinomial(2.0)
