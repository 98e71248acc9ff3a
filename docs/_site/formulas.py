"""Formulas of the pages as MathML, made when the site is built: readers need no script and no network."""

import html
import re

from latex2mathml.converter import convert

_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?P<open>[(\[])(?P<latex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)


def on_page_content(content, page, **_):
    """The page with every formula as MathML."""

    def as_mathml(match):
        latex = html.unescape(match["latex"]).strip()
        try:
            return convert(latex, display="block" if match["open"] == "[" else "inline")
        except Exception as error:
            raise ValueError(
                f"{page.file.src_uri}: the formula {latex!r} cannot be rendered: {error!r}"
            ) from error

    made = _FORMULA.sub(as_mathml, content)
    if 'class="arithmatex"' in made:
        raise ValueError(f"{page.file.src_uri}: a formula was not recognised")
    return made
