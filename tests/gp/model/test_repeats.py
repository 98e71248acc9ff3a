"""Counts of one node that are no repeats of one rate are warned of, and repeats are not."""

import warnings

import numpy as np
import pytest

import graphrf as grf

GRAPH = grf.from_edges(range(19), range(1, 20))
NODES = np.repeat(np.arange(20), 8)
KNOWN = {"kernel": grf.Diffusion(2.0), "output_scale": 0.5, "optimize": False, "seed": 0}
MATCH = r"160 observations are at 20 nodes.* differ by more than .*LatentGaussianModel"


def fit(likelihood, y, nodes=NODES, **beside):
    return grf.GraphGPRegressor(GRAPH, likelihood=likelihood, **KNOWN).fit(nodes, y, **beside)


def simulated(seed=0, trend=0.0):
    """Exposures, counts and successes of eight years whose log rates have a trend."""
    rng = np.random.default_rng(seed)
    people, years = rng.uniform(200, 2000, 160).round(), np.tile(np.arange(8) - 3.5, 20)
    f = -4.0 + 0.3 * np.sin(NODES / 3) + trend * years
    return people, rng.poisson(people * np.exp(f)), rng.binomial(people.astype(int), np.exp(f))


def test_years_that_are_taken_for_repeats_are_warned_of():
    people, counts, successes = simulated(trend=0.15)
    with pytest.warns(UserWarning, match=MATCH + ".*likelihood='negative_binomial'"):
        fit("poisson", counts, exposure=people)
    with pytest.warns(UserWarning, match=MATCH):
        fit("binomial", successes, trials=people)


def test_repeats_of_one_rate_and_other_likelihoods_are_not():
    people, counts, successes = simulated()
    trended = simulated(trend=0.15)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit("poisson", counts, exposure=people)
        fit("binomial", successes, trials=people)
        fit("bernoulli", successes > np.median(successes))
        fit("poisson", trended[1][::8], nodes=NODES[::8], exposure=trended[0][::8])
        fit("poisson", np.repeat([0, 1], 80))  # nodes without any, and with as many in each row
        settings = {"noise": 0.1, **KNOWN}
        grf.GraphGPRegressor(GRAPH, **settings).fit(NODES, trended[1])  # noise holds the years


def test_false_alarms_are_rare():
    """Of 400 sets of repeats, also with few counts and unequal exposures, none is noticed: at
    most one in a thousand would be.
    """
    rng = np.random.default_rng(1)
    from graphrf.gp.likelihoods.counts import Poisson
    from graphrf.gp.model.notices import warn_of_differing_repeats

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for rate in (0.1, 1.0, 20.0, 500.0):
            for _ in range(100):
                exposure = np.exp(rng.standard_normal(160))
                y = rng.poisson(rate * exposure * np.exp(0.5 * rng.standard_normal(20))[NODES])
                warn_of_differing_repeats(Poisson(), NODES, y.astype(float), np.log(exposure))
    assert len(caught) <= 3
