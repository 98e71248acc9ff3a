"""Arguments and files of other models."""

from __future__ import annotations

from sklearn.exceptions import NotFittedError

from graphrf import GraphGPClassifier as Classifier
from graphrf import GraphGPRegressor as Regressor
from graphrf.gp import FieldGPRegressor, GraphTimeGPRegressor, LatentGaussianModel
from tests.gp.wrong.shared import (
    COUNTS,
    FEATURES,
    FRAME,
    LABELS,
    MATERN,
    NAMED,
    PLACES,
    READINGS,
    XY,
    Y,
    classifier,
    file,
    mesh,
    of_terms,
    on_mesh,
    regressor,
    terms,
    through_time,
    wrong,
)

MODELS = {
    "covariates of classes": wrong(
        lambda: Classifier(NAMED, mean=FEATURES), TypeError, "`mean`", "LatentGaussianModel"
    ),
    "covariates of several classes": wrong(
        lambda: Classifier(NAMED, mean=FEATURES),
        TypeError,
        *("of two classes", "one Bernoulli model for each", "by their sum over classes"),
    ),
    "a misspelt setting": wrong(
        lambda: Regressor(NAMED, mean=FEATURES).set_params(kernell=MATERN),
        ValueError,
        *("'kernell'", "GraphGPRegressor: did you mean 'kernel'? it has graph, hyperparameters,"),
    ),
    "classes as a response": wrong(
        lambda: terms("year ~ 1", likelihood="bernoulli").fit(FRAME.assign(year="b")),
        TypeError,
        *("`year`", "numbers", "str 'b'", "(frame['year'] == 'b').astype(int)"),
    ),
    "covariates of classes in fit": wrong(
        lambda: Classifier(NAMED).fit(PLACES, LABELS, x=FEATURES),
        TypeError,
        *("`x`", "LatentGaussianModel('class ~ 1 + x'", "bernoulli"),
    ),
    "covariates through time": wrong(
        lambda: GraphTimeGPRegressor(NAMED, mean=FEATURES),
        TypeError,
        *("`mean`", "LatentGaussianModel", "Steps('hour', 'ar1')"),
    ),
    "counts through time": wrong(
        lambda: GraphTimeGPRegressor(NAMED, likelihood="poisson"),
        TypeError,
        *("`likelihood`", "LatentGaussianModel", "likelihood='poisson'"),
    ),
    "covariates through time in fit": wrong(
        lambda: GraphTimeGPRegressor(NAMED).fit(READINGS, x=FEATURES),
        TypeError,
        *("`x`", "LatentGaussianModel"),
    ),
    "counts in space": wrong(
        lambda: FieldGPRegressor(mesh(), likelihood="poisson"),
        TypeError,
        *("`likelihood`", "LatentGaussianModel", "Field(domain)"),
    ),
    "exposures in space": wrong(
        lambda: FieldGPRegressor(mesh()).fit(XY, Y, exposure=COUNTS),
        TypeError,
        *("`exposure`", "LatentGaussianModel", "Field(domain)"),
    ),
    "a graph of a model of terms": wrong(
        lambda: LatentGaussianModel("cases ~ 1", graph=NAMED),
        TypeError,
        *("`graph`", "Nodes(graph, kernel, by='district')"),
    ),
    "a graph as a term": wrong(
        lambda: LatentGaussianModel("cases ~ 1", NAMED).fit(FRAME),
        TypeError,
        *("`terms`", "Graph(6 nodes", "Nodes(graph, kernel, by='district')"),
    ),
    "a column as a term": wrong(
        lambda: LatentGaussianModel("cases ~ 1", "district").fit(FRAME),
        TypeError,
        *("`terms`", "str 'district'", "Groups('school')"),
    ),
    "exposures of a regressor": wrong(
        lambda: Regressor(NAMED, exposure=COUNTS), TypeError, "`exposure`", "an argument of `fit`"
    ),
    "exposures of predictions": wrong(
        lambda: regressor().predict(exposure=COUNTS),
        TypeError,
        *("`exposure`", "an argument of `fit`", "multiplied"),
    ),
    "responses beside the frame of terms": wrong(
        lambda: terms("cases ~ 1").fit(FRAME, COUNTS),
        TypeError,
        *("`y`", "array of shape", "a column of the frame", "frame.assign(y=y)"),
    ),
    "exposures of predictions of terms": wrong(
        lambda: of_terms().predict(FRAME, exposure="people"),
        TypeError,
        *("`exposure`", "a column of the frame", "predict(frame, return_std='observation')"),
    ),
    "the noise of scikit-learn": wrong(
        lambda: Regressor(NAMED, alpha=0.1), TypeError, "`alpha`", "noise variance: pass `noise`"
    ),
    "exposures without counts": wrong(
        lambda: Regressor(NAMED).fit(PLACES, COUNTS, exposure=COUNTS),
        ValueError,
        *("`exposure`", "set `likelihood`", "'poisson'"),
    ),
    "an offset": wrong(
        lambda: Regressor(NAMED, likelihood="poisson").fit(PLACES, COUNTS, offset=Y),
        TypeError,
        *("`offset`", "exposure=np.exp(offset)"),
    ),
    "noise of counts": wrong(
        lambda: Regressor(NAMED, likelihood="poisson", noise=0.1).fit(PLACES, COUNTS),
        ValueError,
        *("`noise`", "Poisson()"),
    ),
    "a misspelt likelihood": wrong(
        lambda: Regressor(NAMED, likelihood="possion").fit(PLACES, COUNTS),
        ValueError,
        *("`likelihood`", "'possion'", "did you mean 'poisson'?"),
    ),
    "a misspelt likelihood of terms": wrong(
        lambda: terms(likelihood="possion").fit(FRAME),
        ValueError,
        *("`likelihood`", "'possion'", "did you mean 'poisson'?"),
    ),
    "a regressor's file": wrong(
        lambda: Classifier.load(file(regressor)),
        ValueError,
        *("`path`", "GraphGPClassifier.save", "GraphGPRegressor.load reads it"),
    ),
    "a classifier's file": wrong(
        lambda: Regressor.load(file(classifier)),
        ValueError,
        *("`path`", "GraphGPClassifier.load reads it"),
    ),
    "a file of readings": wrong(
        lambda: LatentGaussianModel.load(file(through_time)),
        ValueError,
        *("`path`", "GraphTimeGPRegressor.load reads it"),
    ),
    "a file of terms": wrong(
        lambda: FieldGPRegressor.load(file(of_terms)),
        ValueError,
        *("`path`", "LatentGaussianModel.load reads it"),
    ),
    "a file of a field": wrong(
        lambda: GraphTimeGPRegressor.load(file(on_mesh)),
        ValueError,
        *("`path`", "FieldGPRegressor.load reads it"),
    ),
    "a file that is none": wrong(
        lambda: Regressor.load("nothing.npz"),
        FileNotFoundError,
        *("`path`", "GraphGPRegressor.save", "nothing.npz"),
    ),
    "no fit": wrong(lambda: terms().predict(), NotFittedError, "LatentGaussianModel", "fit(frame)"),
}
