"""`graphrf.bridges.numpyro`: densities, gradients, batches, draws, and a posterior."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.bridges import SparseField
from tests.bridges.scotland import RATE, assert_agrees, districts, needs_districts

numpyro = pytest.importorskip("numpyro")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpyro.distributions as dist  # noqa: E402
from jax import random  # noqa: E402
from numpyro.infer import MCMC, NUTS, Predictive  # noqa: E402

from graphrf.bridges.numpyro import GraphField  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:the density of the field is 0")
GRAPH = grf.load_graph(nx.grid_2d_graph(4, 5))
X = np.random.default_rng(0).standard_normal((3, 20))
MIXING = np.array([0.3, 0.6, 0.9])


@pytest.fixture(autouse=True)
def float64():
    before = jax.config.jax_enable_x64
    numpyro.enable_x64()
    yield
    numpyro.enable_x64(before)


def log_density(x, mixing, sd):
    return GraphField(GRAPH, grf.BYM2(), mixing=mixing, sd=sd).log_prob(x)


def own(x, mixing, sd):
    return SparseField(GRAPH, grf.BYM2()).gradients(x, np.array([mixing, sd]))


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit])
def test_densities_and_gradients_are_those_of_the_field(transform):
    density, (in_x, in_mixing, in_sd) = transform(jax.value_and_grad(log_density, (0, 1, 2)))(
        X[0], 0.3, 2.0
    )
    expected, expected_in_x, expected_in_values = own(X[0], 0.3, 2.0)
    assert density == pytest.approx(expected)
    np.testing.assert_allclose(in_x, expected_in_x)
    np.testing.assert_allclose([in_mixing, in_sd], expected_in_values)


def test_the_gradient_from_above_is_multiplied():
    slope = jax.grad(lambda x: jnp.exp(0.01 * log_density(x, 0.3, 2.0)))(X[0])
    density, in_x, _ = own(X[0], 0.3, 2.0)
    np.testing.assert_allclose(slope, 0.01 * np.exp(0.01 * density) * in_x)


def test_batches_are_members_one_by_one():
    expected = [own(x, mixing, 2.0) for x, mixing in zip(X, MIXING, strict=True)]
    density, (in_x, in_mixing) = jax.jit(
        jax.vmap(jax.value_and_grad(log_density, (0, 1)), (0, 0, None))
    )(X, MIXING, 2.0)
    np.testing.assert_allclose(density, [part[0] for part in expected])
    np.testing.assert_allclose(in_x, [part[1] for part in expected])
    np.testing.assert_allclose(in_mixing, [part[2][0] for part in expected])
    together = GraphField(GRAPH, grf.BYM2(), mixing=MIXING, sd=2.0)
    assert (together.batch_shape, together.event_shape) == ((3,), (20,))
    np.testing.assert_allclose(together.log_prob(X), density)
    np.testing.assert_allclose(together.log_prob(X[0])[0], density[0])
    shared = jax.grad(lambda mixing: log_density(X, mixing, 2.0).sum())(0.3)
    assert shared == pytest.approx(sum(own(x, 0.3, 2.0)[2][0] for x in X))


def test_draws_are_determined_by_the_key():
    field = GraphField(GRAPH, grf.BYM2(), mixing=MIXING)
    drawn = field.sample(random.PRNGKey(0), (5,))
    assert drawn.shape == (5, 3, 20)
    np.testing.assert_array_equal(
        drawn, jax.jit(lambda key: field.sample(key, (5,)))(random.PRNGKey(0))
    )
    assert (drawn != field.sample(random.PRNGKey(1), (5,))).all()
    keys = random.split(random.PRNGKey(2), 4)
    several = jax.vmap(field.sample)(keys)
    np.testing.assert_array_equal(several[1], field.sample(keys[1]))


def test_distributions_are_trees_that_are_mapped_over():
    field = GraphField(GRAPH, grf.BYM2(), mixing=MIXING, sd=2.0)
    np.testing.assert_allclose(
        jax.jit(lambda made, x: made.log_prob(x))(field, X), field.log_prob(X)
    )


def test_bad_arguments_are_refused_where_the_distribution_is_made():
    with pytest.raises(TypeError, match="`length` is no hyperparameter"):
        GraphField(GRAPH, grf.Matern(), length=jnp.ones(()))
    with pytest.raises(ValueError, match="`sd` must be greater than 0"):
        GraphField(GRAPH, grf.BYM2(), sd=-1.0)
    for n in (1, 19):
        with pytest.raises(
            ValueError, match=rf"`value` must have shape .* got an array of shape \({n},\)"
        ):
            GraphField(GRAPH, grf.BYM2()).log_prob(np.ones(n))
    numpyro.enable_x64(False)
    with pytest.raises(RuntimeError, match=r"needs float64.*enable_x64"):
        GraphField(GRAPH, grf.BYM2())


@needs_districts
def test_the_posterior_of_scotland_is_that_of_our_model():
    graph, cases, expected, outdoors = districts()

    def model(y=None):
        a, b = (numpyro.sample(name, dist.Normal(0, 5)) for name in "ab")
        sd, mixing = (
            numpyro.sample("sd", dist.Exponential(RATE)),
            numpyro.sample("mixing", dist.Beta(1, 1)),
        )
        f = numpyro.sample("f", GraphField(graph, grf.BYM2(), sd=sd, mixing=mixing))
        numpyro.sample("y", dist.Poisson(expected * jnp.exp(a + b * outdoors + f)), obs=y)

    mcmc = MCMC(
        NUTS(model),
        num_warmup=400,
        num_samples=400,
        num_chains=2,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(random.PRNGKey(0), y=cases)
    draws = mcmc.get_samples()
    assert_agrees(draws, np.asarray(draws["f"]))
    assert Predictive(model, num_samples=3)(random.PRNGKey(1))["y"].shape == (3, 56)
