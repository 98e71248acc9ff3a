"""How long do `import graphrf`, its parts, its commands and first samples take?

python benchmarks/startup.py

Each line is the median of new processes, with compiled code in the cache; `cold` is without, and
`compiled` with what `graphrf compile` leaves there. A part that needs an extra which is not
installed is left out. First fits are of 50 values, with a prediction.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

from _machine import header

REPEATS = 5
# Timed inside the process, so that the start of Python is not counted.
PARTS = (
    "import graphrf",
    "from graphrf import Graph",
    "from graphrf import Graph, Diffusion, sample_features",
    "from graphrf.pagerank import pagerank",
    "from graphrf import GraphGPRegressor",
    "from graphrf.gp import GRFKernel",
    "from graphrf.euclidean import FourierFeatures",
    "from graphrf.euclidean import PerformerAttention",
    "import graphrf.distributed",
    "import graphrf.pyg",
    "import graphrf.plot",
)
# Timed from outside, the start of Python among it: seconds that pass, and those of the processor.
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "graphrf --version": ["-c", "from graphrf.cli import main; main()", "--version"],
    "graphrf --help": ["-c", "from graphrf.cli import main; main()", "--help"],
}
# A model for `graphrf predict`: the faces of a torus that is cut into triangles, in no order.
MODEL = """
import sys
import numpy as np, graphrf as grf
m, n = 46, 52
rng = np.random.default_rng(0)
faces = rng.permutation(2 * m * n).reshape(m, n, 2)
lower, upper = faces[..., 0], faces[..., 1]
ends = [upper, np.roll(upper, 1, axis=0), np.roll(upper, 1, axis=1)]
graph = grf.from_edges(np.tile(lower.ravel(), 3), np.concatenate([end.ravel() for end in ends]))
white = rng.standard_normal((graph.n_nodes, 1))
signal = grf.apply_root(graph, grf.Matern(lengthscale=3.0, nu=1.0), white)[:, 0]
observed = rng.choice(graph.n_nodes, int(sys.argv[2]), replace=False)
y = signal[observed] / signal.std() + 0.1 * rng.standard_normal(observed.size)
gp = grf.GraphGPRegressor(graph, seed=0).fit(observed, y)
gp.save(sys.argv[1])
print(graph.n_nodes, gp.n_points_)
"""
FIRST = """
import time
import numpy as np, graphrf as grf
graph = grf.Graph(np.ones((5, 5)))
ready = time.perf_counter()
features = grf.sample_features(graph, seed=0)
sampled = time.perf_counter()
features.matrix(grf.Diffusion(lengthscale=1.0))
print(sampled - ready, time.perf_counter() - sampled)
"""
# Estimators whose first fits in an empty cache are timed, and their statements.
FITS = {
    "GraphGPRegressor": """
gp = grf.GraphGPRegressor(graph, seed=0).fit(nodes, y)
gp.predict(return_std=True)
""",
    "LatentGaussianModel": """
frame = pd.DataFrame({"node": nodes, "step": np.arange(50) % 8, "y": y})
terms = [grf.gp.Nodes(graph, grf.BYM2(), by="node"), grf.gp.Steps("step", "rw1")]
grf.gp.LatentGaussianModel("y ~ 1", terms, seed=0).fit(frame).summary()
""",
    "FieldGPRegressor": """
mesh = grf.gp.TriangleMesh.sphere(3)
points = rng.standard_normal((50, 3))
points /= np.linalg.norm(points, axis=1)[:, None]
grf.gp.FieldGPRegressor(mesh).fit(points, y).predict(points, return_std=True)
""",
}
DATA = """
import numpy as np, pandas as pd, graphrf as grf
side, rng = 20, np.random.default_rng(0)
grid = np.arange(side * side).reshape(side, side)
graph = grf.from_edges(
    np.r_[grid[:, :-1].ravel(), grid[:-1].ravel()], np.r_[grid[:, 1:].ravel(), grid[1:].ravel()]
)
nodes = rng.choice(graph.n_nodes, 50, replace=False)
y = np.sin(nodes / side) + 0.1 * rng.standard_normal(50)
"""
COMPILE = ["-c", "from graphrf.cli import main; main()", "compile"]


def run(cache: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    return subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, check=False
    )


def part(cache: str, statement: str) -> float | None:
    """Seconds that an import takes, or None where its extra is missing."""
    code = (
        f"import time\nstarted = time.perf_counter()\n{statement}\n"
        "print(time.perf_counter() - started)"
    )
    run(cache, "-c", code)  # files are in memory, and compiled to bytes
    answers = [run(cache, "-c", code) for _ in range(REPEATS)]
    if any(answer.returncode for answer in answers):
        assert "graphrf[" in answers[0].stderr, answers[0].stderr
        return None
    return statistics.median(float(answer.stdout) for answer in answers)


def command(cache: str, words: list[str], repeats: int = REPEATS) -> str:
    """Seconds that a process takes from its start to its end, and of the processor.

    The first of several only fills the cache.
    """
    took = []
    for _ in range(repeats + (repeats > 1)):
        started, before = time.perf_counter(), os.times()
        answer = run(cache, *words)
        after = os.times()
        processor = (
            after.children_user
            + after.children_system
            - before.children_user
            - before.children_system
        )
        took.append((time.perf_counter() - started, processor))
        assert answer.returncode == 0, answer.stderr
    passed, processor = map(statistics.median, zip(*took[-repeats:], strict=True))
    return f"{passed:13.3f} s, processor {processor:.3f} s"


if __name__ == "__main__":
    print(header())
    with tempfile.TemporaryDirectory() as cache:
        for statement in PARTS:
            seconds = part(cache, statement)
            print(f"{statement:<55} {'not installed' if seconds is None else f'{seconds:13.3f} s'}")
        for name, words in COMMANDS.items():
            print(f"{name:<55} {command(cache, words)}")
        for n_observed in ("100", "400"):
            model = os.path.join(cache, f"{n_observed}.npz")
            answer = run(cache, "-c", MODEL, model, n_observed)
            assert answer.returncode == 0, answer.stderr
            n_faces, points = answer.stdout.split()
            words = [
                "-c",
                "from graphrf.cli import main; main()",
                "predict",
                model,
                "-o",
                f"{cache}/out.csv",
            ]
            name = f"graphrf predict, {n_faces} faces, {n_observed} observed ({points} points)"
            print(f"{name:<55} {command(cache, words)}")
    print(f"\n{'run':<6} {'first sample_features':>22} {'first matrix':>13}   seconds")
    for _ in range(3):
        with tempfile.TemporaryDirectory() as cache:
            for name in ("cold", "warm"):
                sampled, matrix = map(float, run(cache, "-c", FIRST).stdout.split())
                print(f"{name:<6} {sampled:>22.2f} {matrix:>13.2f}")
    print("\nfirst fits")
    with tempfile.TemporaryDirectory() as compiled:
        print(f"{'graphrf compile':<55} {command(compiled, COMPILE, 1)}")
        for name, statements in FITS.items():
            words = ["-c", DATA + statements]
            with tempfile.TemporaryDirectory() as cache:
                for state, place in (("cold", cache), ("warm", cache), ("compiled", compiled)):
                    print(f"{f'{name}, {state}':<55} {command(place, words, 1)}", flush=True)
