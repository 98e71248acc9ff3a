"""The package as a whole: public names, the cost of importing it, and what a wheel holds."""

from __future__ import annotations

import ast
import functools
import itertools
import re
import runpy
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import graphrf as grf
from graphrf._base.lazy import EXTRAS

ROOT = Path(__file__).parent.parent.parent
# Tests may run beside an installed wheel: then there is no source to compare.
CHECKOUT = pytest.mark.skipif(not (ROOT / "graphrf").is_dir(), reason="there is no checkout here")
# Imports that fail as they do where nothing but the core is installed.
CORE_ALONE = """
import sys

class Absent:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in (
            "torch", "sklearn", "gpytorch", "linear_operator", "botorch", "dask", "distributed",
            "torch_geometric", "geometric_kernels", "lab", "matplotlib", "plotly", "trimesh",
            "pandas", "pymc", "pytensor", "jax", "numpyro",
        ):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent)
import graphrf as grf
"""


def test_dir_lists_the_public_names_and_nothing_else():
    listed = [name for name in dir(grf) if not name.startswith("_")]
    assert listed == sorted(name for name in grf.__all__ if not name.startswith("_"))
    assert [name for name in dir(grf.gp) if not name.startswith("_")] == sorted(grf.gp.__all__)
    for name in listed:
        try:
            assert getattr(grf, name).__doc__, name
        except ImportError as error:  # where nothing but the core is installed
            assert "graphrf[" in str(error)  # noqa: PT017


def test_importing_the_package_imports_nothing_heavy():
    heavy = {
        "numpy",
        "scipy",
        "numba",
        "torch",
        "sklearn",
        "networkx",
        "matplotlib",
        "requests",
        "typer",
    }
    code = f"import sys, graphrf.euclidean; bad = {heavy!r} & set(sys.modules); assert not bad, bad"
    subprocess.run([sys.executable, "-c", code], check=True)


# What fails without its extra, and the extra.
NEEDS = {
    "grf.GraphGPRegressor": "gp",
    "grf.GraphGPClassifier": "gp",
    "grf.gp.GRFKernel": "gp",
    "grf.gp.FactorOperator": "gp",
    "grf.gp.pathwise_draws": "gp",
    "grf.gp.GraphGPModel": "bo",
    "grf.euclidean.FourierFeatures": "euclidean",
    "grf.euclidean.PerformerAttention": "euclidean",
    "grf.distributed.sample_features": "distributed",
    "from graphrf.distributed import on_cluster": "distributed",
    "from graphrf.pyg import GRFDiffusion": "pyg",
    "from graphrf.bridges.pymc import GraphField": "pymc",
    "from graphrf.bridges.numpyro import GraphField": "numpyro",
    "grf.pagerank.estimate(grf.from_edges([0], [1]), engine='torch')": "gp",
    "from graphrf.bridges.geometric import MaternSeriesKernel as K; K(grf.from_edges([0], [1]))": (
        "geometric"
    ),
    "open('part.stl', 'w').write('solid'); grf.from_mesh('part.stl')": "mesh",
    "from graphrf.graph.tables import frame_of as f; f([], {})": "pandas",
    "import graphrf.plot as p; p.plot_graph_signal([[0, 0], [1, 0]], [[0, 1]], [0, 1])": "plot",
    "import graphrf.plot as p; p.plot_mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]], [0])": (
        "plot"
    ),
    "import graphrf.plot as p; p.plot_field([[0, 0], [1, 0]], [0, 1])": "plot",
    "import graphrf.plot as p; p.interactive_map([[0, 0], [1, 0]], [0, 1], edges=[[0, 1]])": (
        "interactive"
    ),
    "import graphrf.plot as p; p.plot_reliability({'x': [(0.5, 0.6)]})": "plot",
}


def test_what_an_extra_brings_is_named_where_it_is_missing(tmp_path):
    code = f"""
{CORE_ALONE}
for use in {list(NEEDS)!r}:
    try:
        exec(use)
    except ImportError as error:
        print(error)
    else:
        print("nothing is missing")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    said = dict(zip(NEEDS, done.stdout.splitlines(), strict=True))
    wrong = {
        use: said[use]
        for use, extra in NEEDS.items()
        if f"pip install 'graphrf[{extra}]'" not in said[use]
    }
    assert not wrong


def _nodes(source: str) -> list[ast.AST]:
    """The imports and calls of a source."""
    return [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Call)
    ]


@functools.cache
def _imports_and_calls() -> dict[str, list[ast.AST]]:
    """Those of every module of the package, by its path."""
    folder = Path(grf.__file__).parent
    paths = sorted(folder.rglob("*.py"))
    return {
        path.relative_to(folder).as_posix(): _nodes(path.read_text(encoding="utf-8"))
        for path in paths
    }


def _pyproject():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


# Modules that are not called as what is installed.
INSTALLED_AS = {"sklearn": "scikit-learn", "lab": "backends"}


def _installed_by(requirements):
    """Names that some requirements install, with those of our own extras they name."""
    names = set()
    for line in requirements:
        name, extras = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?", line).groups()
        if name == "graphrf":
            for extra in extras.split(","):
                names |= _installed_by(_pyproject()["project"]["optional-dependencies"][extra])
        else:
            names |= {name, *(extras or "").split(",")}  # dask[distributed] brings distributed
    return {name.lower().replace("_", "-") for name in names}


@CHECKOUT
def test_every_library_that_is_imported_is_declared():
    imported = set()
    for node in itertools.chain.from_iterable(_imports_and_calls().values()):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            imported.add(node.module.partition(".")[0])
    imported -= {
        "graphrf",
        "mpl_toolkits",
        *sys.stdlib_module_names,
    }  # matplotlib brings the second
    project = _pyproject()["project"]
    name = {
        module: INSTALLED_AS.get(module, module).replace("_", "-")
        for module in imported | set(EXTRAS)
    }
    needed = {name[module] for module in imported - set(EXTRAS)}
    assert needed == _installed_by(project["dependencies"]) - {""}
    for module, extras in EXTRAS.items():
        assert module in imported, f"{module} is not used"
        for extra in extras:
            assert name[module] in _installed_by(project["optional-dependencies"][extra]), (
                module,
                extra,
            )


@CHECKOUT
def test_every_folder_of_code_is_a_package():
    folders = {path.parent for path in (ROOT / "graphrf").rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []


@CHECKOUT
def test_every_other_file_of_the_package_reaches_a_wheel():
    files = [
        path
        for path in (ROOT / "graphrf").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    found = {path.relative_to(ROOT).as_posix() for path in files if path.suffix != ".py"}
    data = _pyproject()["tool"]["setuptools"]["package-data"]
    assert found == {
        f"{package.replace('.', '/')}/{name}" for package, names in data.items() for name in names
    }


def test_the_version_has_one_home():
    assert metadata.version("graphrf") == grf.__version__
    assert "version" in _pyproject()["project"]["dynamic"]
    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.M)
    assert cited is None or cited[1].strip("\"' ") == grf.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", grf.__version__)


def test_the_conda_recipe_has_the_version_and_the_requirements_of_the_package():
    project = _pyproject()["project"]
    oldest = project["requires-python"].removeprefix(">=")
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    assert f'  version: "{grf.__version__}"\n  python_min: "{oldest}"\n' in recipe
    recipe = recipe.replace("${{ python_min }}", oldest)
    for line in (
        *(
            f"    - {needed.replace('>', ' >', 1)}"
            for needed in _pyproject()["build-system"]["requires"]
        ),
        *(f"      - {name} = {target}" for name, target in project["scripts"].items()),
        f"  license: {project['license']}",
    ):
        assert f"{line}\n" in recipe
    needed = re.findall(
        r"^    - (\S+ >=\S+)$", recipe.partition("  run:\n")[2].partition("\ntests:")[0], re.M
    )
    wanted = [
        f"python {project['requires-python']}",
        *(line.replace(">", " >", 1) for line in project["dependencies"]),
    ]
    assert needed == wanted


def test_the_sum_of_extras_holds_all_but_rivals_of_versions_examples_and_tools():
    extras = _pyproject()["project"]["optional-dependencies"]
    (summed,) = extras["all"]
    named = set(re.fullmatch(r"graphrf\[(.*)\]", summed)[1].split(","))
    assert named == set(extras) - {
        "all",
        "areal",
        "geometric",
        "pymc",
        "numpyro",
        "test",
        "docs",
        "browser",
    }


def _run_file(name):
    return runpy.run_path(str(ROOT / "checks" / name))


@CHECKOUT
def test_the_release_check_knows_every_extra_and_every_part():
    extras = _pyproject()["project"]["optional-dependencies"]
    check = _run_file("package.py")
    named, brought = check["NAMED"], check["BROUGHT"]
    assert set(brought) == set(extras) - check["OTHER_EXTRAS"]
    assert {*named, *check["CORE_PARTS"]} == set(_run_file("package_parts.py")["PARTS"])
    assert set().union(*brought.values()) == set(named)
    assert check["FREED"].keys() <= set(brought)
    for part, extra in named.items():
        assert part in brought[extra], part
    for extra, parts in brought.items():
        for requirement in extras[extra]:
            if found := re.fullmatch(r"graphrf\[(.*)\]", requirement):
                for other in found[1].split(","):
                    assert brought[other] <= parts, (extra, other)


# -- nothing is unpickled, evaluated or imported from a file ---------------------------------------

CALLS = {"eval", "exec", "compile", "__import__", "execfile"}
LOADERS = ("np.load", "numpy.load", "torch.load", "np.fromregex", "pd.read_pickle")
MODULES = {
    "pickle",
    "cPickle",
    "_pickle",
    "cloudpickle",
    "dill",
    "joblib",
    "shelve",
    "marshal",
    "yaml",
    "runpy",
}
# Dask sends its tasks as pickles between its own processes, and this module packs their arrays
# beside them. No file is read there.
OF_DASK = "distributed/shared_object.py"


def _faults(nodes):
    """The imports and calls among these that could run a file's content, as text with the line."""
    found = []
    for node in nodes:
        if isinstance(node, ast.Import):
            found += [
                (name.name, node) for name in node.names if name.name.split(".")[0] in MODULES
            ]
        elif isinstance(node, ast.ImportFrom):
            if (node.module or "").split(".")[0] in MODULES:
                found.append((node.module, node))
        else:
            # np.load, torch.load: formats of their own are read member by member (`npz.py`).
            called = ast.unparse(node.func)
            pickles = [word.value for word in node.keywords if word.arg == "allow_pickle"]
            if called in CALLS or called in LOADERS:
                found.append((called, node))
            found += [
                ("allow_pickle", node)
                for value in pickles
                if getattr(value, "value", None) is not False
            ]
    return [f"{what} in line {node.lineno}" for what, node in found]


def test_no_module_unpickles_or_evaluates_what_it_reads():
    faults = {
        path: found for path, nodes in _imports_and_calls().items() if (found := _faults(nodes))
    }
    assert list(faults) == [OF_DASK]


def test_calls_that_unpickle_or_evaluate_would_be_seen():
    for source in (
        "import pickle",
        "from joblib import load",
        "eval(text)",
        "exec(text)",
        "np.load(path)",
        "np.savez(path, allow_pickle=True)",
        "torch.load(path)",
        "import yaml.loader",
    ):
        assert len(_faults(_nodes(source))) == 1
    assert not _faults(
        _nodes("np.savez(path, allow_pickle=False)\nre.compile(pattern)\nmodel.eval()")
    )
