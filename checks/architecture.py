"""Can a stranger follow the library? Sizes, branches and paths of a fit, beside their limits.

It exits with 1 if a row is above its limit, which is today's value, so that no change makes a row
worse; beside it is what is wanted. Code lines of a function are those that are not blank, comment
or docstring. Complexity is McCabe's, one more than branches: if, loops, except, conditional
expressions, comprehensions and their conditions, cases, operands of `and` and `or`. Compiled loops
are left out of both. A fit enters a function if that runs in the second of two fits, in whatever
thread; the default fits are that of 20 values on the karate club, and the example of
`GraphGPRegressor`.
"""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

import graphrf as grf
from graphrf.gp.methods.gram import SeriesGram
from graphrf.operators.series.chebyshev_sums import shared_blocks
from graphrf.operators.series.series_factor import SeriesFactor

PACKAGE = Path(grf.__file__).parent
GP = PACKAGE / "gp"
TESTS = Path(__file__).parents[1] / "tests"
FORKS = ["If", "For", "While", "ExceptHandler", "IfExp", "comprehension", "match_case", "Assert"]
ROUTE = re.compile(r"\bmethod\w* (==|!=|in) |\b(precision|sampler)_? is (not )?None")
APART = ("terms", "latent", "fields", "space")
KIND = re.compile(r"\bisinstance\([^()]*\b\w*(Posterior|Solver|SpectralCG|ConjugateGradients)\b")
# Each call makes K among some nodes: of one kernel, of several, and for training.
MAKERS = (SeriesFactor.columns, shared_blocks, SeriesGram._summed)
FRAGMENT = re.compile(r"(What|Of|Whether|How|Where|That|With|By|In|At|As|For|To|From|On)\b")
LIMITS = {
    "lines of gp/, terms, latent, fields and space apart": (20_400, 16_500),
    "lines of gp/terms, latent, fields and space": (9_260, 2_500),
    "files that a default fit enters": (49, 32),
    "functions that a default fit enters": (294, 320),
    # One more where a busy machine announces the wait.
    "files that the example's fit enters": (50, 32),
    "functions that the example's fit enters": (293, 320),
    "files of hyperparameters/ entered where nothing is trained": (0, 0),
    "times K of the observed nodes is made there": (1, 1),
    "code lines of the longest function in gp/": (60, 60),
    "functions of gp/ above 60 code lines": (0, 0),
    "largest complexity in gp/": (15, 15),
    "functions of gp/ above a complexity of 15": (0, 0),
    "named numbers in gp/, these apart": (233, 170),
    "named numbers in gp/terms, latent, fields and space": (95, 30),
    "named numbers in hyperparameters/ and methods/": (87, 25),
    "tests of the method outside methods/": (6, 6),
    "isinstance of a posterior or solver in gp/": (0, 0),
    "docstrings that begin with a fragment, %": (1, 2),
    "lines of the longest file of graphrf": (500, 500),
    "functions of graphrf above a complexity of 15": (0, 0),
    "names in graphrf": (32, 32),
    "arguments of GraphGPRegressor": (13, 13),
    "words of its docstring": (500, 500),
    "patches of private names in tests": (47, 50),
}


class Function(NamedTuple):
    """A function of a file, and its sizes."""

    name: str
    lines: int
    complexity: int


def sources(folder: Path) -> Iterator[tuple[Path, str, ast.Module]]:
    """All files below a folder, their text and tree."""
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        yield path, text, ast.parse(text)


def functions(path: Path, text: str, tree: ast.Module) -> Iterator[Function]:
    """Those of a file that are not compiled."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        if "njit" in "".join(map(ast.unparse, node.decorator_list)):
            continue
        own = text.split("\n")[node.lineno - 1 : node.end_lineno]
        if ast.get_docstring(node) is not None:  # which begins after the signature
            del own[1 : node.body[0].end_lineno - node.lineno + 1]
        code = sum(bool(line.strip()) and not line.strip().startswith("#") for line in own)
        yield Function(
            f"{path.relative_to(PACKAGE)}:{node.name}",
            code,
            1 + sum(map(_branches, ast.walk(node))),
        )


def _branches(node: ast.AST) -> int:
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, ast.comprehension):
        return 1 + len(node.ifs)
    return int(type(node).__name__ in FORKS)


def numbers(tree: ast.Module) -> int:
    """Named constants of a module that are numbers, or tuples of them."""

    def count(value: ast.expr) -> int:
        if isinstance(value, ast.Tuple):
            return sum(map(count, value.elts))
        try:
            return int(isinstance(ast.literal_eval(value), int | float))
        except ValueError:
            return int(isinstance(value, ast.BinOp))

    return sum(count(node.value) for node in tree.body if isinstance(node, ast.Assign))


def private_patches(tree: ast.Module) -> int:
    """Calls of monkeypatch or mock that replace an attribute whose name begins with _."""
    patching = [
        [argument.value for argument in call.args[:2] if isinstance(argument, ast.Constant)]
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("setattr", "object", "patch")
    ]
    # The name is the first string: the last part of a path, or what follows an object. Those of
    # the language, such as __init__, are not private.
    last = [str(names[0]).split(".")[-1] for names in patching if names]
    return sum(name.startswith("_") and not name.startswith("__") for name in last)


def entered(fit: Callable[[], Any]) -> list[tuple[str, str]]:
    """Files and functions of graphrf that a second call enters, one for each time."""
    found: list[tuple[str, str]] = []

    def record(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        is_ours = code.co_filename.startswith(str(PACKAGE)) and not code.co_name.startswith("<")
        if event == "call" and is_ours:
            found.append((code.co_filename, code.co_qualname))

    threading.setprofile(record)  # of threads that start from now on
    sys.setprofile(record)
    try:
        fit()
        found.clear()
        fit()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return found


def example() -> Callable[[], Any]:
    """The fit in the docstring of GraphGPRegressor."""
    names: dict[str, Any] = {}
    for part in doctest.DocTestParser().get_examples(grf.GraphGPRegressor.__doc__ or ""):
        if ".fit(" in part.source:
            return lambda: exec(part.source, names)
        exec(part.source, names)
    sys.exit("the docstring of GraphGPRegressor has no example with a fit")


def paths() -> dict[str, float]:
    """Rows of what fits enter: by all defaults, and with every hyperparameter given."""
    graph, y = grf.datasets.load("karate").graph, np.random.default_rng(0).standard_normal(20)

    def entered_with(**settings: Any) -> list[tuple[str, str]]:
        return entered(
            lambda: grf.GraphGPRegressor(graph, seed=0, **settings).fit(np.arange(20), y)
        )

    rows: dict[str, float] = {}
    fits = {"a default fit": entered_with(), "the example's fit": entered(example())}
    for whose, calls in fits.items():
        rows[f"files that {whose} enters"] = len({file for file, _ in calls})
        rows[f"functions that {whose} enters"] = len(set(calls))
    given = {"kernel": grf.Diffusion(2.0), "optimize": False, "output_scale": 1.0, "noise": 0.1}
    known = entered_with(method="series", **given)
    trained = entered_with(method="series", kernel="diffusion")
    makers = [(own.__code__.co_filename, own.__code__.co_qualname) for own in MAKERS]
    made = sum(call in makers for call in known)
    if not made or not set(makers) <= {*known, *trained}:
        sys.exit(
            "K of the observed nodes is made by other functions than "
            f"{', '.join(name for _, name in makers)}"
        )
    training = {file for file, _ in known if f"{GP / 'hyperparameters'}" in file}
    rows["files of hyperparameters/ entered where nothing is trained"] = len(training)
    rows["times K of the observed nodes is made there"] = made
    return rows


def written(source: tuple[Path, str, ast.Module]) -> int:
    """Lines of a file that are not blank: blank ones make functions easier to read."""
    return sum(bool(line.strip()) for line in source[1].splitlines())


def measured() -> dict[str, float]:
    """All rows."""
    whole = list(sources(PACKAGE))
    own = list(sources(GP))
    every = [function for source in own for function in functions(*source)]
    terms, apart = ([s for s in own if (s[0].parent.name in APART) == chosen] for chosen in (1, 0))
    core = [tree for path, _, tree in own if path.parent.name in ("hyperparameters", "methods")]
    outside = [
        text
        for path, text, _ in own
        if path.parent.name != "methods" and path.name != "settings.py"
    ]
    documented = [
        ast.get_docstring(node) or ""
        for _, _, tree in whole
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and ast.get_docstring(node)
    ]
    regressor = grf.GraphGPRegressor
    return {
        "lines of gp/, terms, latent, fields and space apart": sum(map(written, apart)),
        "lines of gp/terms, latent, fields and space": sum(map(written, terms)),
        **paths(),
        "code lines of the longest function in gp/": max(function.lines for function in every),
        "functions of gp/ above 60 code lines": sum(function.lines > 60 for function in every),
        "largest complexity in gp/": max(function.complexity for function in every),
        "functions of gp/ above a complexity of 15": sum(
            function.complexity > 15 for function in every
        ),
        "named numbers in gp/, these apart": sum(numbers(tree) for _, _, tree in apart),
        "named numbers in gp/terms, latent, fields and space": sum(
            numbers(tree) for _, _, tree in terms
        ),
        "named numbers in hyperparameters/ and methods/": sum(map(numbers, core)),
        "tests of the method outside methods/": sum(len(ROUTE.findall(text)) for text in outside),
        "isinstance of a posterior or solver in gp/": sum(
            len(KIND.findall(text)) for _, text, _ in own
        ),
        "docstrings that begin with a fragment, %": 100
        * np.mean([bool(FRAGMENT.match(d)) for d in documented]),
        "lines of the longest file of graphrf": max(text.count("\n") for _, text, _ in whole),
        "functions of graphrf above a complexity of 15": sum(
            function.complexity > 15 for source in whole for function in functions(*source)
        ),
        "names in graphrf": sum(not name.startswith("_") for name in grf.__all__),
        "arguments of GraphGPRegressor": len(inspect.signature(regressor).parameters),
        "words of its docstring": len((regressor.__doc__ or "").split()),
        "patches of private names in tests": sum(
            private_patches(tree) for _, _, tree in sources(TESTS)
        ),
    }


def main() -> None:
    warnings.simplefilter("ignore")
    found = measured()
    print(f"{'claim':<60} {'measured':>9} {'limit':>7} {'wanted':>7}")
    for claim, (limit, wanted) in LIMITS.items():
        print(f"{claim:<60} {found[claim]:>9,.0f} {limit:>7,} {wanted:>7,}")
    above = [claim for claim, (limit, _) in LIMITS.items() if round(found[claim]) > limit]
    if above:
        sys.exit("above the limit: " + "; ".join(above))


if __name__ == "__main__":
    main()
