"""Fields along edges: the covariance on lines, Kirchhoff's conditions, averages and new places."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp import Field, LatentGaussianModel
from graphrf.gp.metric.subdivision import Subdivision
from graphrf.gp.search.coordinates import Parameter
from graphrf.gp.terms.edge_axis import EdgeStructure
from graphrf.gp.terms.term import BoundTerm
from graphrf.gp.time import MaternTime

pandas = pytest.importorskip("pandas")

LENGTH = Parameter("range", "positive", 2.0, 0.02, 200.0, None, "range")
STREETS = grf.gp.MetricGraph([0, 0, 0, 1], [1, 2, 3, 2], [1.0, 2.0, 0.7, 1.5])


def covariance(src, dst, length, alpha, stationary=True):
    """Of the values at all vertices."""
    n = max(max(src), max(dst)) + 1
    pieces = Subdivision(
        n, np.array(src), np.array(dst), np.array(length, dtype=float), np.arange(n)
    )
    structure = EdgeStructure(
        pieces, alpha, ends="stationary" if stationary else "free", parameter=LENGTH
    )
    return np.linalg.inv(structure.precision({"range": 2.6}).toarray())[:n, :n]


@pytest.mark.parametrize(("alpha", "nu"), [(1, 0.5), (2, 1.5)])
def test_on_a_line_with_stationary_ends_it_is_a_matern_process(alpha, nu):
    times = np.array([0.0, 0.3, 1.0, 1.001, 2.5])
    found = covariance([0, 1, 2, 3], [1, 2, 3, 4], np.diff(times), alpha)
    np.testing.assert_allclose(
        found, MaternTime(1.3, nu).covariance(times[:, None] - times), atol=1e-7
    )


@pytest.mark.parametrize("alpha", [1, 2])
@pytest.mark.parametrize("stationary", [True, False])
def test_a_vertex_of_degree_two_changes_nothing(alpha, stationary):
    whole = covariance([0, 0, 0, 1], [1, 2, 3, 2], [1.0, 2.0, 0.7, 1.5], alpha, stationary)
    cut = covariance(
        [0, 4, 0, 0, 1, 5], [4, 1, 2, 3, 5, 2], [0.4, 0.6, 2.0, 0.7, 0.2, 1.3], alpha, stationary
    )
    np.testing.assert_allclose(cut[:4, :4], whole, atol=1e-12)


def test_order_one_is_the_field_of_metric_graphs():
    found = covariance([0, 0, 0, 1], [1, 2, 3, 2], [1.0, 2.0, 0.7, 1.5], 1)
    np.testing.assert_allclose(found, STREETS.covariance([0, 1, 2, 3], range=2.6), atol=1e-12)


def test_order_two_is_the_limit_of_differences():
    """(kappa^2 - Laplacian) u = W on fine equal pieces, with Kirchhoff's conditions."""
    step, kappa = 0.01, np.sqrt(3) / 1.3
    ends = [(0, 1, 1.0), (0, 2, 2.0), (0, 3, 0.7), (1, 2, 1.5)]
    rows, columns, n = [], [], 4
    for u, v, length in ends:
        inner = np.arange(n, n + round(length / step) - 1)
        n += inner.size
        path = np.concatenate([[u], inner, [v]])
        rows.append(path[:-1])
        columns.append(path[1:])
    graph = grf.from_edges(np.concatenate(rows), np.concatenate(columns), n_nodes=n)
    stiffness = graph.laplacian(normalized=False).toarray() / step
    mass = np.asarray(graph.degrees) * step / 2
    operator = kappa**2 * np.diag(mass) + stiffness
    inverse = np.linalg.inv(operator)
    expected = 4 * kappa**3 * (inverse * mass) @ inverse.T
    found = covariance([0, 0, 0, 1], [1, 2, 3, 2], [1.0, 2.0, 0.7, 1.5], 2, stationary=False)
    np.testing.assert_allclose(found, expected[:4, :4], rtol=2e-4)


@pytest.mark.parametrize("alpha", [1, 2])
def test_new_places_have_the_covariance_of_all_places(alpha):
    """Rows for places beside those of the fit, from the variables of the fit and new ones."""
    frame = pandas.DataFrame(
        {"edge": [(0, 2), (0, 2), (1, 2), (0, 1)], "distance": [0.5, 1.2, 0.3, 0.0]}
    )
    later = pandas.DataFrame(
        {"edge": [(0, 2), (0, 2), (0, 3), (0, 2)], "distance": [0.8, 1.9, 0.2, 1.2]}
    )
    bound = BoundTerm.of(Field(STREETS, alpha=alpha), frame, 0, 1.0)
    values = {own.name: own.start for own in bound.structure.parameters}
    extension = bound.extension(later, values)
    known = np.linalg.inv(bound.structure.precision(values).toarray())
    own = np.linalg.inv(extension.precision.toarray())
    found = extension.old @ known @ extension.old.T + extension.new @ own @ extension.new.T
    every = BoundTerm.of(Field(STREETS, alpha=alpha), later, 0, 1.0)
    rows = every.rows(later).toarray()
    expected = rows @ np.linalg.inv(every.structure.precision(values).toarray()) @ rows.T
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_places_at_equal_distances_keep_one_pattern():
    """Entries of derivatives cancel between equal pieces, at all ranges or at some."""
    frame = pandas.DataFrame(
        {"edge": [(0, 1), (0, 2), (0, 3)] * 4, "distance": np.linspace(0.05, 0.65, 12)}
    )
    frame["cases"] = np.random.default_rng(0).poisson(3.0, 12)
    model = LatentGaussianModel(
        "cases ~ 1", Field(STREETS, alpha=2), "poisson", hyperparameters="mode", seed=0
    )
    assert np.isfinite(model.fit(frame).predict(frame)).all()


def test_means_over_a_stretch_are_those_of_many_places():
    stretch = pandas.DataFrame({"edge": [(0, 2), (0, 2)], "distance": [(0.2, 1.8), 1.0]})
    bound = BoundTerm.of(Field(STREETS, alpha=2), stretch, 0, 1.0)
    values = {own.name: own.start for own in bound.structure.parameters}
    rows = bound.rows(stretch).toarray()
    found = rows @ np.linalg.inv(bound.structure.precision(values).toarray()) @ rows.T
    many = pandas.DataFrame({"edge": [(0, 2)] * 401, "distance": np.linspace(0.2, 1.8, 401)})
    fine = BoundTerm.of(Field(STREETS, alpha=2), many, 0, 1.0)
    dense = np.linalg.inv(fine.structure.precision(values).toarray())
    weights = np.full(401, 1.0)
    weights[[0, -1]] = 0.5
    a = fine.rows(many).toarray()
    average = weights @ a / weights.sum()
    assert found[0, 0] == pytest.approx(average @ dense @ average, rel=2e-3)
    assert found[0, 1] == pytest.approx(average @ dense @ a[200], rel=2e-3)


def test_counts_along_streets_are_fitted_and_predicted():
    rng = np.random.default_rng(0)
    edges = [(0, 1), (0, 2), (0, 3), (1, 2)]
    lengths = dict(zip(edges, [1.0, 2.0, 0.7, 1.5], strict=True))
    which = rng.integers(0, 4, 150)
    frame = pandas.DataFrame({"edge": [edges[k] for k in which]})
    frame["distance"] = [float(rng.uniform(0, lengths[edge])) for edge in frame["edge"]]
    rate = np.exp(1.0 + np.sin(3 * frame["distance"] / frame["edge"].map(lengths)))
    frame["cases"] = rng.poisson(rate)
    model = LatentGaussianModel(
        "cases ~ 1", Field(STREETS, alpha=2), "poisson", hyperparameters="mode", seed=0
    )
    model.fit(frame[:120])
    mean, std = model.predict(frame[120:], return_std=True)
    truth = rate[120:].to_numpy()
    assert np.mean(np.abs(mean - truth) < 2 * std) > 0.8
    assert np.corrcoef(mean, truth)[0, 1] > 0.8


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"alpha": 3}, "`alpha` must be 1 or 2"),
        ({"at": "street"}, "`at` must be the columns with edges and distances"),
        ({"prior": {"mixing": None}}, "`prior` must be of sd and range"),
    ],
)
def test_fields_along_edges_that_cannot_be_are_refused(settings, match):
    with pytest.raises(ValueError, match=match):
        Field(STREETS, **settings)


def test_places_beside_the_streets_are_refused():
    frame = pandas.DataFrame({"edge": [(0, 1), (3, 1)], "distance": [0.5, 0.5]})
    with pytest.raises(ValueError, match="no edge joins"):
        BoundTerm.of(Field(STREETS), frame, 0, 1.0)
    with pytest.raises(ValueError, match="`distance` must be a number or an increasing pair"):
        BoundTerm.of(Field(STREETS), frame.assign(distance=[(0.5, 0.2), 0.1]), 0, 1.0)
