"""Formulas by MathJax, which the site brings along: readers need no network."""

from importlib import resources
from pathlib import Path

from mkdocs.utils import get_relative_url

_SCRIPT = "assets/mathjax.js"
_SETTINGS = """<script>
MathJax = {
  tex: { inlineMath: [["\\\\(", "\\\\)"]], displayMath: [["\\\\[", "\\\\]"]] },
  options: { ignoreHtmlClass: ".*", processHtmlClass: "arithmatex", enableMenu: false },
};
</script>"""


def on_page_content(content, page, **_):
    """The page, with MathJax where it has formulas."""
    if 'class="arithmatex"' not in content:
        return content
    return (
        f'{content}{_SETTINGS}<script src="{get_relative_url(_SCRIPT, page.url)}" defer></script>'
    )


def on_post_build(config, **_):
    """MathJax and its fonts, one file, from the package that ships it."""
    target = Path(config.site_dir, _SCRIPT)
    target.parent.mkdir(parents=True, exist_ok=True)
    source = resources.files("mathjax").joinpath("static", "mathjax", "es5", "tex-svg-full.js")
    target.write_bytes(source.read_bytes())
