"""Docstrings as the site shows them: formulas between dollars, names of graphrf as links."""

import re
import runpy
from pathlib import Path

import griffe
from griffe._internal.docstrings import numpy as numpy_style

_MATH = re.compile(
    r"^(?P<indent> *)\.\. math:: *(?P<latex>.*(?:\n(?P=indent) +\S.*)*)", re.MULTILINE
)
_ROLE = re.compile(r":math:`([^`]+)`")
_NAME = re.compile(
    r"(?<![\w`\[])`(?:graphrf\.|grf\.)?(?P<name>[A-Za-z_]+)(?P<member>\.[a-z_]+)?`(?![`\]])"
)
# "name : type", whose types the theme links by itself.
_TYPE = re.compile(r"^ *[\w*, ]+ : ")
# Public names that cannot be taken for arguments, and where the reference has them.
_PUBLIC = runpy.run_path(str(Path(__file__).with_name("links.py")))["targets_in"](
    Path(__file__).parents[1]
)


class Docstrings(griffe.Extension):
    """Rewrites every docstring of the package once it is read."""

    def on_object(self, *, obj, **_):
        if obj.docstring:
            obj.docstring.value = _as_markdown(obj.docstring.value, own=obj.path)


def _as_markdown(text, own):
    text = _MATH.sub(lambda match: _display(match["indent"], match["latex"]), text)
    text = _ROLE.sub(r"$\1$", text)
    lines = text.splitlines()
    return "\n".join(
        line if _TYPE.match(line) else _NAME.sub(lambda m: _link(m, own), line) for line in lines
    )


def _display(indent, latex):
    latex = " ".join(line.strip() for line in latex.splitlines())
    if "&" in latex or r"\\" in latex:  # as Sphinx does
        latex = rf"\begin{{align*}} {latex} \end{{align*}}"
    return f"{indent}$$\n{indent}{latex}\n{indent}$$"


def _link(match, own):
    name, member = match["name"], match["member"] or ""
    if name not in _PUBLIC or own.endswith(f".{name}") or f".{name}." in own:
        return match[0]
    return f"[`{name}{member}`][{_PUBLIC[name]}]"


def _as_written(parse):
    """Types of several words unchanged, which the parser takes for code: "shape (n,)"."""
    return lambda annotation, *rest, **options: (
        annotation if re.search(r"[\s,]", annotation) else parse(annotation, *rest, **options)
    )


def _as_in_the_signature(read):
    """Each parameter with its own default and annotation, not the first's, unless stated."""

    def read_again(lines, docstring, **options):
        section, offset = read(lines, docstring, **options)
        signature = getattr(docstring.parent, "parameters", ())
        annotations = [argument.annotation for argument in signature]
        for parameter in section.value if section else ():
            if parameter.name in signature and any(
                parameter.annotation is known for known in annotations
            ):
                parameter.annotation = signature[parameter.name].annotation
            if "default" in str(parameter.annotation):
                parameter.value = None
            elif parameter.name in signature:
                parameter.value = signature[parameter.name].default
        return section, offset

    return read_again


numpy_style.parse_docstring_annotation = _as_written(numpy_style.parse_docstring_annotation)
for _kind in (griffe.DocstringSectionKind.parameters, griffe.DocstringSectionKind.other_parameters):
    numpy_style._section_reader[_kind] = _as_in_the_signature(numpy_style._section_reader[_kind])
