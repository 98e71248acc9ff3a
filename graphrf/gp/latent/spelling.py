"""The spelling of formulas: that of other programs is refused with the one here."""

from __future__ import annotations

import re

from graphrf._base import checks
from graphrf.gp.latent.expressions import FITTED, NAMED

_TERM = "it as a term beside the formula, terms=[Groups('g'), ...]"
_SMOOTH = (
    "bs(x, df=4) or cr(x, df=4, constraints='center'), or Steps('x', 'rw2') as a term beside the "
    "formula"
)
# The terms of R-INLA's f(column, model="...").
_OF_INLA = {
    **dict.fromkeys(("bym", "bym2"), "Nodes(graph, BYM2(), by={!r})"),
    "besag": "Nodes(graph, ICAR(), by={!r})",
    "besagproper": "Nodes(graph, CAR(), by={!r})",
    "besagproper2": "Nodes(graph, Leroux(), by={!r})",
    **{kind: f"Steps({{!r}}, '{kind}')" for kind in ("rw1", "rw2", "ar1")},
    "iid": "Groups({!r})",
}
_INLA = re.compile(r"(?<![\w.])f\(\s*([\w.]+)[^()]*?\bmodel\s*=\s*['\"](\w+)['\"]")
_CATEGORY = "C(g)"
_ELSEWHERE = {
    "offset": "exposure='E' of LatentGaussianModel, a column or numbers, for offset(log(E))",
    **dict.fromkeys(("s", "te", "ti", "t2", "lo", "ns", "smooth"), _SMOOTH),
    **dict.fromkeys(("f", "re", "random", "us", "diag", "ar1", "gp"), _TERM),
    **dict.fromkeys(
        ("factor", "as.factor", "ordered", "as.ordered", "as_factor", "category"), _CATEGORY
    ),
    **dict.fromkeys(
        ("cbind", "Surv"),
        "one response, with trials='n' for counts of n, or event='seen' for times",
    ),
    "Q": "its name in backticks, `x.1`",
    **dict.fromkeys(("mo", "hashed", "lag", "diff"), "a column of the frame, computed before"),
}
_CONTRASTS = ("C", "I", "Treatment", "Sum", "Helmert", "Diff", "Poly")
# A call, with the dots of R's names; not after a name, number or bracket.
_CALL = re.compile(r"(?<![\w.])([A-Za-z_][\w.]*)\s*\(")
_QUOTED = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"")
# A power of a name, a quoted name, a call or a bracket, where the contents of quotes and brackets
# are blank.
_POWER = re.compile(r"((?:[A-Za-z_][\w.]*)?\(_*\)|[A-Za-z_]\w*)\s*(?:\^|\*\*)\s*\d")


def check_spelling(formula: object) -> str:
    """The formula as text, with one response and functions that are known; ValueError otherwise."""
    if not isinstance(formula, str) or formula.count("~") != 1:
        raise checks.value_error(
            "formula", f"must be like 'cases ~ 1 + share', got {checks.describe(formula)}"
        )

    response, effects = formula.split("~")
    if not response.strip() or not effects.strip():
        raise checks.value_error(
            "formula", f"must have a response and fixed effects, as 'cases ~ 1', got {formula!r}"
        )

    bare = _QUOTED.sub(lambda match: "_" * len(match[0]), formula)
    if "|" in bare:
        raise checks.value_error("formula", f"has groups, '|', in {formula!r}: write {_TERM}")
    for name in _CALL.findall(bare):
        _check_function(name, formula)

    if "^" in _inside(bare):
        raise checks.value_error(
            "formula", f"has '^' within brackets of {formula!r}: the power of a number is x**2"
        )

    for power in _POWER.finditer(_outside(bare)):
        base, expression = formula[slice(*power.span(1))], formula[slice(*power.span())]
        if base.startswith("(") and re.search(
            r"[-+*:/]", _outside(bare[slice(*power.span(1))][1:-1])
        ):
            continue  # interactions of several terms
        raise checks.value_error(
            "formula",
            f"has {expression!r}, which stands for {base!r} alone: a power of terms is their "
            f"interactions; write I({base}**2), or poly({base}, 2)",
        )

    if re.search(r"[<>]|==|!=", _outside(bare)):
        raise checks.value_error(
            "formula", f"has a comparison in {formula!r}: write it as I(x > 1)"
        )
    if re.search(r"(^|[~+\-*:/])\s*\.\s*($|[+\-*:/])", effects):
        raise checks.value_error("formula", f"has '.' for all columns in {formula!r}: name them")
    return formula


def _check_function(name: str, formula: str) -> None:
    """ValueError for a function that formulas here do not have."""
    root, _, rest = name.partition(".")
    plain = rest if root in ("np", "numpy") else name
    if plain in (*NAMED, *FITTED) or name in _CONTRASTS or root == "contr":
        return
    if name in _ELSEWHERE:
        way_out, inla = _ELSEWHERE[name], _INLA.search(formula)
        if name == "f" and inla and inla[2] in _OF_INLA:
            term = _OF_INLA[inla[2]].format(inla[1])
            way_out = f"{term} as a term beside the formula, terms=[{term}, ...]"
        raise checks.value_error("formula", f"has {name}(...) in {formula!r}: write {way_out}")
    known = [*NAMED, *FITTED, *_CONTRASTS]
    near = checks.did_you_mean(plain, known)
    raise checks.value_error(
        "formula",
        f"has {name}(...) in {formula!r}, which is no function of formulas{near and '; '}{near}; "
        "compute it as a column of the frame",
    )


def _outside(text: str) -> str:
    """The text without what is in brackets."""
    depth, kept = 0, []
    for letter in text:
        depth -= letter in ")]}"
        kept.append(letter if depth == 0 else "_")
        depth += letter in "([{"
    return "".join(kept)


def _inside(text: str) -> str:
    """The text within the brackets of calls, where arithmetic is of numbers."""
    result = []
    for match in _CALL.finditer(text):
        depth = 1
        for place in range(match.end(), len(text)):
            depth += (text[place] == "(") - (text[place] == ")")
            if not depth:
                break
            result.append(text[place])
    return "".join(result)
