"""The version in the header, and "[source]" behind every entry of the reference.

Sources are those of the repository, `repo_url` in mkdocs.yml, at the tag of the version. As long as
it is empty, the site has pages of them itself.
"""

import importlib
import inspect
import re
from pathlib import Path

from mkdocs.utils import get_relative_url
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

import graphrf

_HEADING = re.compile(
    r'<h(?P<level>\d) id="(?P<name>graphrf[\w.]*)" class="doc doc-heading">.*?(?=</h(?P=level)>)',
    re.DOTALL,
)
_ROOT = Path(graphrf.__file__).parent.parent
_HEAD = """<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,"><style>
body { margin: 1rem; font: .85rem monospace }
h2 { overflow-wrap: anywhere; font-size: 1rem }
pre { overflow-x: auto }
.highlight :target { background: #fe9 }
</style></head>"""
_shown: set[Path] = set()


def on_config(config, **_):
    """Name and footer with the version."""
    config.site_name = f"graphrf {graphrf.__version__}"
    config.copyright = f"graphrf {graphrf.__version__}, Apache-2.0"
    _shown.clear()


def on_page_content(content, page, config, **_):
    """The reference with links to sources."""
    if not page.file.src_uri.startswith("reference/"):
        return content
    return _HEADING.sub(lambda match: match[0] + _link(match["name"], page, config), content)


def on_post_build(config, **_):
    """A page for every file that a link leads to."""
    for file in sorted(_shown):
        form = HtmlFormatter(
            full=True, linespans="L", title=str(file), style="default", wrapcode=True
        )
        target = Path(config.site_dir, "source", file).with_suffix(".html")
        target.parent.mkdir(parents=True, exist_ok=True)
        text = (_ROOT / file).read_text(encoding="utf-8")
        page = highlight(text, PythonLexer(), form).replace("</head>", _HEAD, 1)
        target.write_text(page, encoding="utf-8")


def _link(name, page, config):
    place = _place(name)
    if place is None:
        return ""
    file, line = place
    if config.repo_url:
        address = (
            f"{config.repo_url.rstrip('/')}/blob/v{graphrf.__version__}/{file.as_posix()}#L{line}"
        )
    else:
        _shown.add(file)
        address = (
            get_relative_url(f"source/{file.with_suffix('.html').as_posix()}", page.url)
            + f"#L-{line}"
        )
    return f' <a class="source" href="{address}">[source]</a>'


def _place(name):
    """The file (from the repository's root) and line of this dotted name, or None."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
            break
        except ImportError:
            continue
    try:
        for part in parts[count:]:
            if inspect.isclass(found):
                found = inspect.getattr_static(found, part)
            else:
                found = getattr(found, part)
        found = (
            getattr(found, "fget", None)
            or getattr(found, "func", None)
            or getattr(found, "__func__", found)
        )
        found = inspect.unwrap(found)
        file, line = Path(inspect.getsourcefile(found)), inspect.getsourcelines(found)[1]
    except (AttributeError, OSError, TypeError):
        return None
    return (file.relative_to(_ROOT), line) if file.is_relative_to(_ROOT) else None
