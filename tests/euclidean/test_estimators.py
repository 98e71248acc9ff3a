"""The feature maps and the classifier as scikit-learn estimators, and in torch."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from graphrf.euclidean.features import FourierFeatures, LaplaceFeatures
from graphrf.euclidean.kernel_regression import KernelRegressionClassifier
from graphrf.euclidean.quadrature_features import QuadratureFeatures

MAPS = {
    "fourier": FourierFeatures(16, seed=0),
    "fourier phased": FourierFeatures(15, readout="phased", kernel="matern32", norms="pm", seed=0),
    "fourier simplex-hd": FourierFeatures(16, directions="simplex-hd", norms="iid", seed=0),
    "fourier halton": FourierFeatures(
        16, directions="halton", norms=None, kernel="matern52", seed=0
    ),
    "laplace": LaplaceFeatures(16, seed=0),
    "laplace simplex+": LaplaceFeatures(
        15, directions="simplex+", norms="iid", antithetic=False, seed=0
    ),
    "quadrature": QuadratureFeatures(4, kernel="matern52", lengthscale=[1.0, 2.0, 0.5, 1.5]),
}
# Other settings share their code with these.
CHECKED = [
    *(MAPS[name] for name in ("fourier", "fourier phased", "laplace")),
    KernelRegressionClassifier(),
    KernelRegressionClassifier(LaplaceFeatures(256, lengthscale=3.0, seed=0)),
]
every_map = pytest.mark.parametrize("features", MAPS.values(), ids=MAPS.keys())


def points(n=60, d=4, seed=0, dtype=np.float64):
    return (0.4 * np.random.default_rng(seed).normal(size=(n, d))).astype(dtype)


# Two of the checks skip themselves: one wants pandas, one SCIPY_ARRAY_API.
@parametrize_with_checks(CHECKED)
def test_checks_of_scikit_learn_pass(estimator, check):
    check(estimator)


@every_map
def test_clones_and_pickles_give_the_same_features(features):
    x = points()
    phi = clone(features).fit_transform(x)
    fitted = clone(features).fit(x[:1])
    np.testing.assert_array_equal(fitted.transform(x), phi)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).transform(x), phi)
    assert features.get_params() == clone(features).get_params()
    assert not hasattr(features, "frequencies_")


@every_map
def test_single_precision_stays_and_errs_by_rounding_only(features):
    x = points()
    fitted = clone(features).fit(x)
    single = fitted.transform(x.astype(np.float32))
    assert single.dtype == np.float32
    assert fitted.transform(x).dtype == np.float64
    np.testing.assert_allclose(single, fitted.transform(x), atol=1e-5)


@every_map
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_tensors_come_back_as_tensors(features, dtype):
    x = points()
    fitted = clone(features).fit(x)
    out = fitted.transform(torch.tensor(x, dtype=dtype))
    assert out.dtype == dtype
    np.testing.assert_allclose(
        out.numpy(), fitted.transform(x), atol=1e-5 if dtype == torch.float32 else 1e-13
    )
    # Fitted on a tensor: the same draw. Leading axes are kept.
    batch = torch.tensor(x, dtype=dtype).reshape(3, 20, 4)
    torch.testing.assert_close(clone(features).fit(batch).transform(batch), out.reshape(3, 20, -1))


@every_map
def test_gradients_are_those_of_finite_differences(features):
    fitted = clone(features).fit(points())
    x = torch.tensor(points(2), requires_grad=True)
    assert torch.autograd.gradcheck(fitted.transform, x)


@every_map
def test_one_seed_gives_the_same_bits_on_any_number_of_threads(features):
    # Many blocks of rows.
    for dtype in (np.float64, np.float32):
        x = points(20_011, dtype=dtype)
        one, two = (clone(features).set_params(n_threads=n).fit_transform(x) for n in (1, 2))
        assert one.tobytes() == two.tobytes()
    if "seed" in features.get_params():
        other = clone(features).set_params(seed=1).fit_transform(x)
        assert np.abs(other - one).max() > 0.01


def test_a_drawn_seed_is_recorded_and_gives_the_features_again():
    x = points()
    first = FourierFeatures(16, seed=None).fit(x)
    assert first.seed_ != FourierFeatures(16, seed=None).fit(x).seed_
    again = FourierFeatures(16, seed=first.seed_).fit(x)
    np.testing.assert_array_equal(first.transform(x), again.transform(x))
    for features in (first, KernelRegressionClassifier(first)):
        assert features.__sklearn_tags__().non_deterministic
    for features in (again, KernelRegressionClassifier(again), KernelRegressionClassifier()):
        assert not features.__sklearn_tags__().non_deterministic


BAD_SETTINGS = [
    (
        FourierFeatures,
        {"n_frequencies": 0},
        ValueError,
        "`n_frequencies` must be at least 1, got 0",
    ),
    (LaplaceFeatures, {"n_frequencies": 7}, ValueError, "`n_frequencies` must be even .*, got 7"),
    (
        LaplaceFeatures,
        {"antithetic": "yes"},
        TypeError,
        "`antithetic` must be True or False, got str 'yes'",
    ),
    (FourierFeatures, {"norms": None}, ValueError, "`norms` must be a coupling"),
    (FourierFeatures, {"directions": "halton"}, ValueError, "`norms` must be None"),
    (FourierFeatures, {"lengthscale": -1.0}, ValueError, "`lengthscale` must be finite"),
    (LaplaceFeatures, {"lengthscale": [1.0, 2.0]}, ValueError, "one for each of the 4"),
]


@pytest.mark.parametrize(("kind", "settings", "error", "message"), BAD_SETTINGS)
def test_bad_settings_are_refused_when_fitted(kind, settings, error, message):
    features = kind(**settings)
    with pytest.raises(error, match=message):
        features.fit(points())


@pytest.mark.parametrize("kind", [FourierFeatures, LaplaceFeatures])
def test_bad_tensors_are_refused(kind):
    """The checks of scikit-learn have those of arrays."""
    x = points()
    fitted = kind(8, seed=0).fit(x)
    with pytest.raises(
        ValueError, match="`X` must have 4 columns, got a Tensor of shape \\(60, 3\\)"
    ):
        fitted.transform(torch.tensor(x[:, :3]))
    holes = x.copy()
    holes[3, 1] = np.nan
    with pytest.raises(ValueError, match="`X` must be finite, got NaN or infinity"):
        fitted.transform(torch.tensor(holes))
    with pytest.raises(TypeError, match="`X` must be real"):
        fitted.transform(torch.tensor(x, dtype=torch.complex128))
