"""No module of graphrf runs what it reads: nothing is unpickled, evaluated or imported from a file."""

from __future__ import annotations

import ast
from pathlib import Path

import graphrf

ROOT = Path(graphrf.__file__).parent
CALLS = {"eval", "exec", "compile", "__import__", "execfile"}
MODULES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal", "yaml", "runpy"}
# Dask sends its tasks as pickles between its own processes, and this module packs their arrays beside them.
# No file is read there.
OF_DASK = {"distributed/shared_object.py"}


def _faults(source: str) -> list[str]:
    """What the source has that could run a file's content, as text with the line."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [(name.name, node) for name in node.names if name.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            found.append((str(node.module), node))
        elif isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name) and called.id in CALLS:
                found.append((called.id, node))
            # np.load, torch.load: formats of their own are read member by member (`npz.py`).
            if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
                text = f"{called.value.id}.{called.attr}"
                if text in ("np.load", "numpy.load", "torch.load", "np.fromregex", "pd.read_pickle"):
                    found.append((text, node))
            for keyword in node.keywords:
                if keyword.arg == "allow_pickle" and getattr(keyword.value, "value", None) is not False:
                    found.append(("allow_pickle", node))
    return [f"{what} in line {node.lineno}" for what, node in found]


def test_no_module_unpickles_or_evaluates_what_it_reads():
    faults = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        found = _faults(path.read_text(encoding="utf-8"))
        if found and name not in OF_DASK:
            faults[name] = found
    assert faults == {}


def test_such_calls_would_be_seen():
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
        assert len(_faults(source)) == 1
    assert not _faults("np.savez(path, allow_pickle=False)\nre.compile(pattern)\nmodel.eval()")
    assert _faults((ROOT / "distributed" / "parcel.py").read_text(encoding="utf-8"))
