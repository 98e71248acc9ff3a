"""The example of PyTorch Geometric: its parts are what they say, and all of it runs."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf
from tests.support.real_data import needs_data

torch = pytest.importorskip("torch", reason="the example needs the extra `pyg`")
pytest.importorskip("torch_geometric", reason="the example needs the extra `pyg`")


def test_rings_with_skips_have_four_neighbours_and_other_returns(example):
    module = example("pyg_cora")
    rng = np.random.default_rng(0)
    transform = module.AddReturnProbabilities(module.WALK_LENGTH, budget=100)
    encodings = []
    for skip in module.SKIPS:
        one, two = (module.skip_graph(skip, rng) for _ in range(2))
        assert not torch.equal(one.edge_index, two.edge_index)
        graph = grf.load_graph(one)
        assert (graph.degrees == 4).all()
        first, second = (transform(data).return_probabilities.mean(dim=0) for data in (one, two))
        torch.testing.assert_close(first, second, atol=1e-6, rtol=0)
        encodings.append(first.numpy())
    distances = np.linalg.norm(np.array(encodings)[:, None] - np.array(encodings)[None], axis=-1)
    assert distances[~np.eye(len(encodings), dtype=bool)].min() > 1e-3


@needs_data
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.usefixtures("one_torch_thread")
def test_the_script_prints_a_row_for_every_model_and_draws(printed, require, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    require("cora")
    picture = tmp_path / "cora.png"
    rows = [
        line
        for line in printed("pyg_cora", "--quick", "--out", str(picture)).splitlines()
        if "±" in line
    ]
    assert len(rows) == 12
    assert picture.read_bytes().startswith(b"\x89PNG")
    shares = {line[:34].strip(): float(line[34:48].split("±")[0]) for line in rows}
    assert shares["AddRandomFeatures, 256"] > shares["projected edges"]
    assert shares["GRFDiffusion, heat"] > 30  # the commonest topic has 30 per cent
