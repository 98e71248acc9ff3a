"""The torch modules of random features: the transformers' numbers, with gradients."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from graphrf.euclidean.features import FourierFeatures, LaplaceFeatures
from graphrf.euclidean.modules import FourierModule, LaplaceModule

SETTINGS = [
    {"kernel": "gaussian", "directions": "orthogonal", "norms": "pnc", "readout": "paired"},
    {"kernel": "matern32", "directions": "iid", "norms": "iid", "readout": "phased"},
    {"kernel": "gaussian", "directions": "orthogonal-hd", "norms": "pnc", "readout": "paired"},
    {"kernel": "gaussian", "directions": "sobol", "norms": None, "readout": "phased"},
]


@pytest.fixture(autouse=True)
def _double():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.fixture
def points():
    return torch.from_numpy(np.random.default_rng(0).normal(size=(2, 5, 3)))


@pytest.mark.parametrize(
    "settings", SETTINGS, ids=lambda s: f"{s['kernel']}-{s['directions']}-{s['readout']}"
)
def test_fourier_module_has_the_numbers_of_the_transformer(points, settings):
    lengthscale = [0.7, 1.5, 3.0]
    features = FourierFeatures(10, lengthscale=lengthscale, seed=4, **settings).fit(
        np.zeros((1, 3))
    )
    expected = features.transform(points)
    features.set_params(lengthscale=5.0)  # it waits for the next fit
    same_seed = FourierModule(3, 10, lengthscale=lengthscale, seed=4, **settings)
    for module in (FourierModule.from_features(features), same_seed):
        torch.testing.assert_close(module(points), expected, rtol=0, atol=1e-13)


def test_laplace_module_has_the_numbers_of_the_transformer(points):
    features = LaplaceFeatures(10, directions="simplex", norms="iid", lengthscale=2.0, seed=4)
    expected = features.fit(np.zeros((1, 3))).transform(points)
    same_seed = LaplaceModule(3, 10, directions="simplex", norms="iid", lengthscale=2.0, seed=4)
    for module in (LaplaceModule.from_features(features), same_seed):
        torch.testing.assert_close(module(points), expected, rtol=1e-13, atol=0)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (FourierModule, {"readout": "paired", "lengthscale": [0.7, 1.5, 3.0]}),
        (FourierModule, {"readout": "phased", "lengthscale": [0.7, 1.5, 3.0]}),
        (LaplaceModule, {"lengthscale": 2.0}),
    ],
    ids=["paired", "phased", "laplace"],
)
def test_gradients_are_those_of_finite_differences(points, kind, settings):
    module = kind(3, 4, train_frequencies=True, seed=0, **settings)
    names = [name for name, _ in module.named_parameters()]
    assert set(names) == {"log_lengthscale", "frequencies"}

    def forward(x, *values):
        return torch.func.functional_call(module, dict(zip(names, values, strict=True)), (x,))

    inputs = [value.detach().clone().requires_grad_() for value in (points, *module.parameters())]
    assert torch.autograd.gradcheck(forward, inputs)


def test_a_state_dict_carries_frequencies_and_phases(points):
    module, other = (FourierModule(3, 4, readout="phased", seed=seed) for seed in (0, 1))
    assert not torch.allclose(module(points), other(points))
    other.load_state_dict(module.state_dict())
    torch.testing.assert_close(module(points), other(points), rtol=0, atol=0)


MODULES = [
    FourierModule(3, 8, seed=0),
    FourierModule(3, 8, readout="phased", seed=0),
    LaplaceModule(3, 8, seed=0),
]


@pytest.mark.parametrize("module", MODULES, ids=["paired", "phased", "laplace"])
@pytest.mark.parametrize("narrow", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
def test_narrow_numbers_are_widened_under_autocast_too(points, module, narrow):
    module = copy.deepcopy(module).float()
    x = points.float()
    with torch.autocast("cpu", torch.bfloat16):
        features, widened = module(x), module(x.to(narrow))
    assert features.dtype == widened.dtype == torch.float32
    torch.testing.assert_close(features, module(x), rtol=0, atol=0)
    torch.testing.assert_close(widened, module(x.to(narrow).float()), rtol=0, atol=0)
    # a module of narrow numbers rounds its frequencies and its answer, and nothing between them
    half = module.to(narrow)
    answer = half(x.to(narrow))
    assert answer.dtype == narrow
    wide = copy.deepcopy(half).float()
    torch.testing.assert_close(answer, wide(x.to(narrow).float()).to(narrow), rtol=0, atol=0)


def test_bad_input_is_refused(points):
    module = FourierModule(3, 4, seed=0)
    with pytest.raises(ValueError, match=r"`x` must have shape \(\.\.\., 3\), got \(5, 2\)"):
        module(torch.zeros(5, 2))
    with pytest.raises(TypeError, match="`x` must have the module's dtype"):
        module.float()(points)
    with pytest.raises(TypeError, match="`x` must be a torch tensor"):
        module(points.numpy())
    with pytest.raises(ValueError, match="`features` must be fitted"):
        FourierModule.from_features(FourierFeatures(4))
    fitted = [kind(4).fit(np.zeros((1, 2))) for kind in (FourierFeatures, LaplaceFeatures)]
    for kind, features in zip((LaplaceModule, FourierModule), fitted, strict=True):
        with pytest.raises(
            TypeError, match=f"`features` must be fitted {kind._transformer.__name__}, got"
        ):
            kind.from_features(features)
    with pytest.raises(ValueError, match="even"):
        LaplaceModule(3, 5)
    with pytest.raises(TypeError, match="`train_frequencies`"):
        FourierModule(3, 4, train_frequencies="yes")
