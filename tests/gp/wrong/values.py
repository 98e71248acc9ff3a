"""Wrong nodes, places and values."""

from __future__ import annotations

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from graphrf import GraphGPClassifier as Classifier
from graphrf import GraphGPRegressor as Regressor
from graphrf.gp import FieldGPRegressor, GraphTimeGPRegressor
from tests.gp.wrong.shared import (
    COUNTS,
    FEATURES,
    LABELS,
    LONG,
    NAMED,
    NUMBERED,
    PLACES,
    READINGS,
    XY,
    XYZ,
    Y,
    mesh,
    of_streets,
    of_terms,
    on_mesh,
    pandas,
    regressor,
    streets,
    through_time,
    wrong,
)

VALUES = {
    "features as nodes": wrong(
        lambda: Regressor(NAMED).fit(FEATURES, Y),
        TypeError,
        *("`nodes`", "(6, 3), columns 'age', 'income', 'visits'", "mean=X", "may end a Pipeline"),
    ),
    "features at the end of a pipeline": wrong(
        lambda: make_pipeline(StandardScaler(), Regressor(NAMED)).fit(FEATURES, Y),
        TypeError,
        *("`nodes`", "(6, 3)", "X of scikit-learn, are nodes", "x=X of its `fit`"),
    ),
    "features of classes as nodes": wrong(
        lambda: Classifier(NAMED).fit(FEATURES.to_numpy(), LABELS),
        TypeError,
        *("`nodes`", "(6, 3)", "the formula of LatentGaussianModel"),
    ),
    "features in predict": wrong(
        lambda: regressor().predict(FEATURES), TypeError, "`nodes`", "'age'", "mean=X"
    ),
    "coordinates as nodes": wrong(
        lambda: Regressor(NAMED).fit(XY, Y), TypeError, "`nodes`", "(6, 2)", "cKDTree"
    ),
    "averages as nodes": wrong(
        lambda: Regressor(NAMED).fit([{"Ayr": 0.5, "Bute": 0.5}], [1.0]),
        TypeError,
        *("`nodes`", "dict {'Ayr': 0.5, 'Bute': 0.5}", "LatentGaussianModel"),
    ),
    "names of numbered nodes": wrong(
        lambda: Regressor(NUMBERED).fit(PLACES, Y),
        ValueError,
        *("`nodes`", "'Ayr'", "positions 0 to 5", "load_graph(frame.set_index('name'))"),
    ),
    "a misspelt node": wrong(
        lambda: regressor().predict(["But"]), ValueError, "`nodes`", "'But'", "did you mean 'Bute'?"
    ),
    "labels as values": wrong(
        lambda: Regressor(NAMED).fit(PLACES, LABELS), TypeError, "`y`", "<U1", "GraphGPClassifier"
    ),
    "labels of places": wrong(
        lambda: FieldGPRegressor(mesh()).fit(XY, LABELS), TypeError, "`y`", "<U1", "float"
    ),
    "values as labels": wrong(
        lambda: Classifier(NAMED).fit(PLACES, Y), ValueError, "`labels`", "GraphGPRegressor"
    ),
    "one class": wrong(
        lambda: Classifier(NAMED).fit(PLACES, list("aaaaaa")), ValueError, "`labels`", "'a'"
    ),
    "rates as counts": wrong(
        lambda: Regressor(NAMED, likelihood="poisson").fit(PLACES, COUNTS / 7),
        ValueError,
        *("`y`", "0.428571", "`exposure`"),
    ),
    "successes without trials": wrong(
        lambda: Regressor(NAMED, likelihood="binomial").fit(PLACES, COUNTS),
        ValueError,
        *("`trials`", "must be given"),
    ),
    "quantiles beside deviations": wrong(
        lambda: regressor().predict(return_std=True, quantiles=(0.1, 0.9)),
        ValueError,
        *("`quantiles`", "as_frame=True", "return_std='observation'"),
    ),
    "quantiles in per cent": wrong(
        lambda: of_terms().predict(quantiles=(2.5, 97.5)),
        ValueError,
        *("`quantiles`", "(2.5, 97.5)", "between 0 and 1"),
    ),
    "another kind of deviation": wrong(
        lambda: on_mesh().predict(return_std="obs"), ValueError, "`return_std`", "'observation'"
    ),
    "covariates with rows that repeat": wrong(
        lambda: Regressor(NAMED, mean=pandas.concat([FEATURES, FEATURES[:1]])).fit(PLACES, Y),
        ValueError,
        *("`mean`", "repeated labels, such as 'Ayr'", "drop_duplicates()"),
    ),
    "covariates with text": wrong(
        lambda: Regressor(NAMED, mean=FEATURES.assign(city="a")).fit(PLACES, Y),
        TypeError,
        *("`mean`", "'city'", "get_dummies"),
    ),
    "values that are missing": wrong(
        lambda: Regressor(NAMED).fit(PLACES, [1, 2, np.nan, 1, 2, 3]),
        ValueError,
        *("`y`", "nan at position 2", "drop or fill"),
    ),
    "places of three coordinates": wrong(
        lambda: FieldGPRegressor(mesh()).fit(XYZ, Y), ValueError, "`places`", "got 3", "height"
    ),
    "places elsewhere": wrong(
        lambda: on_mesh().predict(XY + 100), ValueError, "`places`", "6 of 6", "same unit"
    ),
    "a long table": wrong(
        lambda: GraphTimeGPRegressor(NAMED).fit(LONG.reset_index()),
        ValueError,
        *("`Y`", "a long table", "'node'", "Y.pivot("),
    ),
    "a long table with times": wrong(
        lambda: GraphTimeGPRegressor(NAMED).fit(LONG), ValueError, "`Y`", "'node'", "Y.pivot("
    ),
    "a long table of edges": wrong(
        lambda: GraphTimeGPRegressor(streets()).fit(of_streets()),
        ValueError,
        *("`Y`", "a long table", "['u', 'v']", "Y.pivot("),
    ),
    "times as columns": wrong(
        lambda: GraphTimeGPRegressor(NAMED).fit(READINGS.T), ValueError, "`Y`", "pass Y.T"
    ),
    "a stacked table": wrong(
        lambda: GraphTimeGPRegressor(NAMED).fit(READINGS.stack()), ValueError, "`Y`", "Y.unstack()"
    ),
    "a misspelt sensor": wrong(
        lambda: GraphTimeGPRegressor(NAMED).fit(READINGS.rename(columns={"Dee": "Deee"})),
        ValueError,
        *("`Y`", "'Deee'", "did you mean 'Dee'?"),
    ),
    "readings without times": wrong(
        lambda: GraphTimeGPRegressor(NAMED).fit(READINGS.to_numpy()),
        ValueError,
        *("`times`", "must be given", "index"),
    ),
    "logarithms of negative readings": wrong(
        lambda: GraphTimeGPRegressor(NAMED, transform="log").fit(READINGS),
        ValueError,
        *("`transform`", "'log'", "'yeo-johnson'"),
    ),
    "hours for dates": wrong(
        lambda: through_time().predict(["Ayr"], [3.0]), TypeError, "`times`", "dates, as in `fit`"
    ),
}
