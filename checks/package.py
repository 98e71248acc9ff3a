"""Can the package be released? Builds it, and installs it into clean environments.

python checks/package.py                          # all parts; about half an hour
python checks/package.py --only build,core        # some parts
python checks/package.py --only extras --extras gp,mesh
python checks/package.py --only core --python python3.13
python checks/package.py --only suite -- -n 4     # options for pytest after --

build   sdist from the tracked files, wheel from the unpacked sdist; their contents and metadata
core    the wheel alone: import, command line, README, tests; what is missing names its extra
lowest  the oldest versions that pyproject.toml allows for the core: the tests of the core
oldest  the oldest versions of the extras too, but for torch, in one environment: every part works
newest  Python 3.13, where it is on PATH, and the newest versions of all that the core needs: the
        tests of the core
extras  each extra alone: its parts work, the others name their extra
suite   the wheel with all extras: the tests, doctests and documentation of what was installed
types   pyright --verifytypes, where pyright is on PATH

Environments are made one after another in a temporary folder, with the versions of constraints.txt,
and removed. Needs git and the extra `test`.
"""

from __future__ import annotations

import argparse
import doctest
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from packaging.metadata import Metadata
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Part of package_parts.py -> the extra that its ImportError names.
NAMED = {
    "regression": "gp",
    "classification": "gp",
    "gpytorch_kernel": "gp",
    "torch_features": "gp",
    "torch_pagerank": "gp",
    "botorch_model": "bo",
    "geometric_kernel": "geometric",
    "fourier_features": "euclidean",
    "attention": "euclidean",
    "pyg_transform": "pyg",
    "mesh_file": "mesh",
    "figure": "plot",
    "frame": "pandas",
    "latent_model": "terms",
    "page": "interactive",
    "cluster": "distributed",
    "pymc_field": "pymc",
    "numpyro_field": "numpyro",
}
# Parts that need no extra.
CORE_PARTS = {"mesh_data_set"}
# Extra -> the parts that it brings.
_GP = {"regression", "classification", "gpytorch_kernel", "torch_features", "torch_pagerank"}
BROUGHT: dict[str, set[str]] = {
    "gp": _GP,
    "euclidean": {"fourier_features", "attention"},
    "bo": _GP | {"botorch_model"},
    "geometric": _GP | {"geometric_kernel"},
    "pyg": {"pyg_transform"},
    "mesh": {"mesh_file"},
    "plot": {"figure"},
    "pandas": {"frame"},
    "terms": _GP | {"frame", "latent_model"},
    "interactive": {"page"},
    "distributed": {"cluster"},
    "pymc": {"pymc_field"},
    "numpyro": {"numpyro_field"},
    # geopandas brings pandas.
    "areal": _GP | {"figure", "frame"},
}
# Extras for those who work on graphrf, and the sum of the others.
OTHER_EXTRAS = {"all", "test", "docs", "browser"}
# Constraints that an extra cannot meet: its environment has what pip resolves.
FREED = {"geometric": {"numpy"}, "pymc": {"numba", "llvmlite", "matplotlib"}}
# In the repository, but not in an sdist: what only its hosting reads.
HOSTING = (".gitignore", ".ci/", ".github/", ".zenodo.json")
# What pyright says of a name whose own annotation is incomplete; and of functions compiled by numba
# and of classes whose bases, in other libraries, have no types. The rest, "partially unknown",
# follows from one of these.
OWN = re.compile(
    r"missing type annotation|Type unknown|has unknown type|has partially unknown type"
)
NOT_OURS = ('Type argument 1 for class "Dispatcher"', "Type of base class", "Type of metaclass")
TOOLS = ("pytest", "pytest-xdist", "hypothesis")
# Tests of files that need nothing but the core; others skip what needs an extra.
CORE_TESTS = (
    "tests/sampling",
    "tests/pagerank",
    "tests/couplings",
    "tests/features",
    "tests/package/test_package.py",
)
NOT_OF_THE_CORE = (
    "torch",
    "sklearn",
    "gpytorch",
    "botorch",
    "matplotlib",
    "trimesh",
    "dask",
    "torch_geometric",
)


def run(command: Sequence[str | Path], *, cwd: Path, env: dict[str, str] | None = None) -> str:
    """Standard output of a command that must succeed."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**clean, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.stdout.write(done.stdout[-8000:])
        raise SystemExit(f"failed ({done.returncode}): {' '.join(map(str, command))}")
    return done.stdout


def tracked() -> set[str]:
    """Files under version control that are there, with `/` between folders."""
    names = run(["git", "ls-files", "-z"], cwd=ROOT).split("\0")
    return {name for name in names if name and (ROOT / name).is_file()}


def copy(names: set[str], folder: Path) -> Path:
    """These files of the repository, below a new folder."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
    return folder


def must_be_equal(what: str, found: set[str], wanted: set[str]) -> None:
    """Fails with what is too much and what is missing."""
    if found != wanted:
        raise SystemExit(
            f"{what}: unexpected {sorted(found - wanted)}; missing {sorted(wanted - found)}"
        )


class Workplace:
    """A temporary folder with the distributions, and environments that have the wheel."""

    def __init__(self, folder: Path, interpreter: str) -> None:
        self.folder = folder
        self.interpreter = interpreter
        self.empty = folder / "empty"
        self.empty.mkdir()
        self.sdist, self.wheel = self._built()

    def _built(self) -> tuple[Path, Path]:
        """As `python -m build` does, in two steps: the wheel shows what the sdist holds."""
        source, unpacked, dist = (self.folder / name for name in ("source", "unpacked", "dist"))
        copy(tracked(), source)
        build = [sys.executable, "-m", "build", "--outdir", dist]
        run([*build, "--sdist", source], cwd=self.empty)
        (sdist,) = dist.glob("*.tar.gz")
        with tarfile.open(sdist) as archive:
            archive.extractall(unpacked, filter="data")
        (top,) = unpacked.iterdir()
        run([*build, "--wheel", top], cwd=self.empty)
        (wheel,) = dist.glob("*.whl")
        return sdist, wheel

    @contextmanager
    def environment(
        self,
        name: str,
        extras: str = "",
        *,
        tools: Sequence[str] = (),
        pins: dict[str, str] | None = None,
        interpreter: str | None = None,
    ) -> Iterator[Path]:
        """The interpreter of a new environment with the wheel, removed afterwards."""
        place = self.folder / f"env-{name}"
        run([interpreter or self.interpreter, "-m", "venv", place], cwd=self.empty)
        python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
        constraints = self.folder / f"constraints-{name}.txt"
        lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if pins is None:
            kept = [line for line in lines if Requirement(line).name not in FREED.get(name, ())]
        else:
            kept = [f"{package}=={version}" for package, version in pins.items()]
        constraints.write_text("\n".join(kept) + "\n", encoding="utf-8")
        pip = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "-c",
            constraints,
        ]
        wanted = f"graphrf[{extras}] @ {self.wheel.as_uri()}" if extras else str(self.wheel)
        run([*pip, *(() if extras else ("--no-cache-dir",)), wanted, *tools], cwd=self.empty)
        run([python, "-m", "pip", "check"], cwd=self.empty)
        where = run(
            [python, "-c", "import graphrf; print(graphrf.__file__)"], cwd=self.empty
        ).strip()
        assert Path(where).is_relative_to(place), where
        assert "site-packages" in Path(where).parts, where
        try:
            yield python
        finally:
            shutil.rmtree(place)

    def tests(self, python: Path, targets: Sequence[str | Path], options: Sequence[str]) -> str:
        """The closing line of pytest on files beside which there is no `graphrf` folder."""
        beside = copy(
            {name for name in tracked() if not name.startswith("graphrf/")}, self.folder / "beside"
        )
        # Read by every worker, before any test.
        (beside / "conftest.py").write_text(
            "import graphrf\nfrom pathlib import Path\n\n"
            "assert 'site-packages' in Path(graphrf.__file__).parts, graphrf.__file__\n",
            encoding="utf-8",
        )
        command = [
            python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-m",
            "not full",
            "--rootdir",
            beside,
        ]
        command += ["-c", beside / "pyproject.toml", *options, *targets]
        try:
            printed = run(
                command, cwd=beside, env={} if "GRAPHRF_DATA_DIR" in os.environ else data_folder()
            )
        finally:
            shutil.rmtree(beside)
        return [line for line in printed.splitlines() if re.search(r"\d+ passed", line)][-1].strip(
            "= "
        )


def data_folder() -> dict[str, str]:
    """Data beside the checkout, as the Makefile finds it."""
    folder = ROOT.parent / "shared" / "data"
    return {"GRAPHRF_DATA_DIR": str(folder)} if folder.is_dir() else {}


def check_build(work: Workplace) -> str:
    """Contents and metadata of both distributions."""
    files = tracked()
    with zipfile.ZipFile(work.wheel) as archive:
        packed = {name for name in archive.namelist() if not name.endswith("/")}
        (info,) = {name.split("/")[0] for name in packed if ".dist-info/" in name}
        metadata = archive.read(f"{info}/METADATA")
    wanted = {name for name in files if name.startswith("graphrf/")}
    for name in ("py.typed", "datasets/registry.json", "sampling/walks/permutations.json"):
        assert f"graphrf/{name}" in wanted, name
    extra = {
        f"{info}/{name}"
        for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "top_level.txt")
    }
    must_be_equal("the wheel", packed, wanted | extra | {f"{info}/licenses/LICENSE"})

    with tarfile.open(work.sdist) as archive:
        packed_source = {
            name.partition("/")[2]
            for member in archive
            if member.isfile()
            for name in [member.name]
        }
    made = {name for name in packed_source if name.startswith("graphrf.egg-info/")} | {
        "PKG-INFO",
        "setup.cfg",
    }
    must_be_equal(
        "the sdist", packed_source, {name for name in files if not name.startswith(HOSTING)} | made
    )

    parsed = Metadata.from_email(metadata, validate=True)
    version: dict[str, str] = {}
    exec((ROOT / "graphrf" / "_base" / "version.py").read_text(encoding="utf-8"), version)
    assert parsed.name == "graphrf"
    assert str(parsed.version) == version["__version__"]
    assert parsed.license_expression == PROJECT["license"]
    assert parsed.license_files == ["LICENSE"]
    assert str(parsed.requires_python) == PROJECT["requires-python"]
    assert parsed.description_content_type == "text/markdown"
    must_be_equal("extras", set(parsed.provides_extra or []), set(PROJECT["optional-dependencies"]))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.strip() in (parsed.description or ""), "the description is not README.md"
    sizes = " and ".join(f"{path.stat().st_size / 1e6:.1f} MB" for path in (work.sdist, work.wheel))
    source = f"{work.sdist.name} ({len(packed_source)} files)"
    return f"{source} and {work.wheel.name} ({len(packed)} files), {sizes}"


def check_parts(work: Workplace, python: Path, brought: set[str]) -> str:
    """Every part works, or says which extra to install; those of this environment's extra work."""
    script = shutil.copyfile(ROOT / "checks" / "package_parts.py", work.empty / "package_parts.py")
    printed = run([python, script], cwd=work.empty)
    answers = dict(json.loads(line) for line in printed.splitlines() if line.startswith('["'))
    must_be_equal("parts", set(answers), {*NAMED, *CORE_PARTS})
    for part, missing in answers.items():
        if missing is None:
            continue
        if part in brought or part in CORE_PARTS:
            raise SystemExit(f"{part} does not work though nothing is missing: {missing}")
        if f"graphrf[{NAMED[part]}]" not in missing:
            raise SystemExit(f"{part} does not name the extra {NAMED[part]!r}: {missing}")
    works = sum(missing is None for missing in answers.values())
    return f"{works} parts work, {len(answers) - works} name their extra"


def readme_blocks() -> list[str]:
    """The examples of the README, one text a block."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return [
        block
        for block in re.findall(r"^```(?:python|pycon)\n(.*?)^```", text, re.M | re.S)
        if ">>>" in block
    ]


def check_readme(work: Workplace, python: Path) -> int:
    """How many blocks of the README run; the others must lack an extra that they name."""
    blocks = [
        [[example.source, example.want] for example in doctest.DocTestParser().get_examples(block)]
        for block in readme_blocks()
    ]
    code = """
import contextlib, io, json, sys
names, passed = {}, 0
for block in json.loads(sys.stdin.read() if len(sys.argv) < 2 else open(sys.argv[1]).read()):
    for source, want in block:
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(source, "README.md", "single"), names)
        except ImportError as error:
            assert "graphrf[" in str(error) or error.name in ("dask", "torch"), error
            break
        assert printed.getvalue() == want, (source, printed.getvalue(), want)
    else:
        passed += 1
print(passed)
"""
    examples = work.folder / "readme.json"
    examples.write_text(json.dumps(blocks), encoding="utf-8")
    # Notices may come before the number.
    return int(run([python, "-c", code, examples], cwd=work.empty).splitlines()[-1])


def check_core(work: Workplace) -> str:
    """The wheel and what it depends on, nothing else."""
    with work.environment("core") as python:
        code = (
            "import importlib.util, sys, graphrf\n"
            f"there = [name for name in {NOT_OF_THE_CORE!r} if importlib.util.find_spec(name)]\n"
            "assert not there, there\n"
            "assert not {'numpy', 'scipy', 'numba', 'networkx'} & set(sys.modules)"
        )
        run([python, "-c", code], cwd=work.empty)
        command = python.with_name("graphrf")
        assert "datasets" in run([command, "--help"], cwd=work.empty)
        assert "karate" in run([command, "datasets"], cwd=work.empty)
        assert PROJECT["name"] in run([command, "--version"], cwd=work.empty)
        parts = check_parts(work, python, set())
        blocks = check_readme(work, python)
        assert blocks, "no example of the README runs without an extra"
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*pip, "-c", ROOT / "constraints.txt", *TOOLS], cwd=work.empty)
        tests = work.tests(python, CORE_TESTS, ["-n", "2"])
    return f"{blocks} of {len(readme_blocks())} README examples run; {parts}; tests: {tests}"


def lower_bounds(requirements: Iterable[str]) -> dict[str, str]:
    """The oldest version that each requirement allows; not the project's own extras."""
    pins = {}
    for text in requirements:
        requirement = Requirement(text)
        if requirement.name == PROJECT["name"]:
            continue
        (bound,) = requirement.specifier
        assert bound.operator == ">=", text
        pins[requirement.name] = f"{bound.version}.*"
    return pins


def check_lowest(work: Workplace) -> str:
    """The lower bounds of the core."""
    pins = lower_bounds(PROJECT["dependencies"])
    with work.environment("lowest", tools=TOOLS, pins=pins) as python:
        printed = json.loads(run([python, "-m", "pip", "list", "--format", "json"], cwd=work.empty))
        have = {entry["name"].lower(): entry["version"] for entry in printed}
        tests = work.tests(python, CORE_TESTS, ["-n", "2"])
    return f"{', '.join(f'{name} {have[name]}' for name in pins)}; tests: {tests}"


def check_oldest(work: Workplace) -> str:
    """The lower bounds of all extras; torch as in constraints.txt, for its size."""
    texts = [text for name in BROUGHT for text in PROJECT["optional-dependencies"][name]]
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    (torch,) = (line.split("==")[1] for line in lines if Requirement(line).name == "torch")
    pins = {**lower_bounds([*PROJECT["dependencies"], *texts]), "torch": torch}
    with work.environment("oldest", ",".join(BROUGHT), pins=pins) as python:
        parts = check_parts(work, python, set(NAMED))
    return f"{', '.join(f'{name} {version}' for name, version in pins.items())}; {parts}"


def interpreters() -> dict[str, str | None]:
    """Versions of Python of pyproject.toml, oldest first -> an interpreter, or None."""
    named = [
        found[1]
        for line in PROJECT["classifiers"]
        if (found := re.search(r"Python :: (3\.\d+)$", line))
    ]
    return {version: _on_path(f"python{version}") for version in named}


def _on_path(command: str) -> str | None:
    """A launcher of pyenv's may be on PATH without the interpreter that it launches."""
    found = shutil.which(command)
    works = (
        found
        and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0
    )
    return found if works else None


def check_newest(work: Workplace) -> str:
    """The newest Python that is named in pyproject.toml, and what pip takes without constraints."""
    version, newest = list(interpreters().items())[-1]
    if newest is None:
        return f"left out: python{version} is not on PATH"
    with work.environment("newest", tools=TOOLS, pins={}, interpreter=newest) as python:
        printed = json.loads(run([python, "-m", "pip", "list", "--format", "json"], cwd=work.empty))
        have = {entry["name"].lower(): entry["version"] for entry in printed}
        tests = work.tests(python, CORE_TESTS, ["-n", "2"])
    names = ("numpy", "scipy", "numba", "networkx")
    return f"{', '.join(f'{name} {have[name]}' for name in names)}; tests: {tests}"


def check_extras(work: Workplace, names: Sequence[str]) -> str:
    """Each extra alone, one environment after another."""
    for name in names:
        with work.environment(name, name) as python:
            print(f"  {name}: {check_parts(work, python, BROUGHT[name])}", flush=True)
    return f"{len(names)} extras work alone"


def check_suite(work: Workplace, options: Sequence[str]) -> str:
    """All tests and documentation against the installed wheel."""
    with work.environment("suite", "all,test,docs") as python:
        where = run(
            [python, "-c", "import graphrf; print(graphrf.__file__)"], cwd=work.empty
        ).strip()
        targets = ["tests", Path(where).parent, "README.md", "docs"]
        return work.tests(
            python, targets, ["-n", "auto", "--doctest-modules", "--doctest-glob=*.md", *options]
        )


def check_types(work: Workplace) -> str:
    """Types of all public names, as pyright counts them."""
    pyright = shutil.which("pyright")
    if pyright is None:
        return "left out: pyright is not on PATH (npm install pyright)"
    with work.environment("types", "all") as python:
        command = [
            pyright,
            "--pythonpath",
            python,
            "--verifytypes",
            "graphrf",
            "--ignoreexternal",
            "--outputjson",
        ]
        # pyright looks for the package where the first `python` on PATH has its own.
        path = os.pathsep.join([str(python.parent), os.environ["PATH"]])
        done = subprocess.run(
            [str(word) for word in command],
            cwd=work.empty,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        answer = json.loads(done.stdout)["typeCompleteness"]
    lacking = {
        symbol["name"]: said
        for symbol in answer["symbols"]
        for message in symbol["diagnostics"]
        if (said := " ".join(message["message"].split()))
        and not said.startswith(NOT_OURS)
        and OWN.search(said)
    }
    for name, said in lacking.items():
        print(f"  {name}: {said[:200]}")
    if lacking:
        raise SystemExit(f"{len(lacking)} names lack types")
    counts = answer["exportedSymbolCounts"]
    assert counts["withKnownType"], done.stdout[-2000:]
    return (
        f"no annotation is missing; {counts['withKnownType']} public names are known, "
        f"{counts['withUnknownType']} are not, of bases without types or compiled by numba (score "
        f"{answer['completenessScore']:.1%})"
    )


def main() -> None:
    checks: dict[str, Callable[[Workplace], str]] = {
        "build": check_build,
        "core": check_core,
        "lowest": check_lowest,
        "oldest": check_oldest,
        "newest": check_newest,
        "extras": lambda work: check_extras(work, given.extras.split(",")),
        "suite": lambda work: check_suite(work, given.pytest),
        "types": check_types,
    }
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only",
        default="build,core,lowest,oldest,newest,extras,suite,types",
        help="parts, with commas between",
    )
    parser.add_argument(
        "--extras", default=",".join(BROUGHT), help="those that the part `extras` looks at"
    )
    parser.add_argument(
        "--python", default=sys.executable, help="the interpreter of the environments"
    )
    parser.add_argument(
        "pytest", nargs="*", help="options of pytest for the part `suite`, after --"
    )
    given = parser.parse_args()
    parts = given.only.split(",")
    if unknown := set(parts) - set(checks):
        parser.error(f"--only takes {', '.join(checks)}, not {', '.join(unknown)}")
    must_be_equal(
        "extras that are tried", set(BROUGHT), set(PROJECT["optional-dependencies"]) - OTHER_EXTRAS
    )
    with tempfile.TemporaryDirectory(prefix="graphrf-package-") as folder:
        work = Workplace(Path(folder), given.python)
        for part in parts:
            started = time.monotonic()
            print(f"{part}: {checks[part](work)} ({time.monotonic() - started:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
