"""Docstrings as the site shows them: their formulas between dollars, and names of graphrf as links."""

import re

import griffe

import graphrf

_MATH = re.compile(r"^(?P<indent> *)\.\. math:: *(?P<latex>.*(?:\n(?P=indent) +\S.*)*)", re.MULTILINE)
_ROLE = re.compile(r":math:`([^`]+)`")
_NAME = re.compile(r"(?<![\w`\[])`(?:graphrf\.|grf\.)?(?P<name>[A-Za-z_]+)(?P<member>\.[a-z_]+)?`(?![`\]])")
# "name : type", whose types the theme links by itself.
_TYPE = re.compile(r"^ *[\w*, ]+ : ")
_PUBLIC = frozenset(graphrf.__all__) - {"__version__", "datasets", "distributed", "euclidean", "gp", "pagerank"}


class Docstrings(griffe.Extension):
    """Rewrites every docstring of the package once it is read."""

    def on_object(self, *, obj, **_):
        if obj.docstring:
            obj.docstring.value = _as_markdown(obj.docstring.value, own=obj.path)


def _as_markdown(text, own):
    text = _MATH.sub(lambda match: _display(match["indent"], match["latex"]), text)
    text = _ROLE.sub(r"$\1$", text)
    lines = text.splitlines()
    return "\n".join(line if _TYPE.match(line) else _NAME.sub(lambda m: _link(m, own), line) for line in lines)


def _display(indent, latex):
    latex = " ".join(line.strip() for line in latex.splitlines())
    if "&" in latex or r"\\" in latex:  # as Sphinx does
        latex = rf"\begin{{align*}} {latex} \end{{align*}}"
    return f"{indent}$$\n{indent}{latex}\n{indent}$$"


def _link(match, own):
    name, member = match["name"], match["member"] or ""
    if name not in _PUBLIC or own.endswith(f".{name}") or f".{name}." in own:
        return match[0]
    return f"[`{name}{member}`][graphrf.{name}]"
