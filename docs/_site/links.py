"""The first mention of a public name on a page leads to the reference."""

import re
from pathlib import Path

from mkdocs.exceptions import PluginError

_SHOWN = re.compile(r"^::: (graphrf\.\S+)", re.MULTILINE)
_PAPER = re.compile(r"\[([^]]*)\]\(paper/[^)]*\)")
_FENCE = re.compile(r"^\s*(```|~~~)")
# `Name`, `grf.Name`, `gp.Name(...)`, not in a link.
_CODE = re.compile(r"(?<![\[`\w])`(?P<path>[A-Za-z_][\w.]*)(?P<call>\([^`]*\))?`(?![\]`])")


def targets_in(folder):
    """Last part of a dotted name -> the whole, for names that cannot be taken for common words."""
    found = {}
    for page in sorted(Path(folder).glob("reference/*.md")):
        for path in _SHOWN.findall(page.read_text(encoding="utf-8")):
            name = path.rpartition(".")[2]
            if name != name.lower() or "_" in name:
                found[name] = min(path, found.get(name, path), key=len)
    return found


def on_post_page(output, page, **_):
    """A link to a name that the reference lacks stays in brackets, and mkdocs is silent."""
    if dead := re.search(r"\]\[graphrf\.[\w.]+\]", output):
        raise PluginError(f"{page.file.src_uri}: {dead[0][1:]} is not in the reference")
    return output


def on_page_markdown(markdown, page, config, **_):
    """The page with links to the reference, but for code, headings and the reference itself."""
    if page.file.src_uri.startswith("reference/"):
        return markdown
    if page.file.src_uri == "changelog.md":  # the file of the repository, whose links begin there
        changelog = Path(config.docs_dir).with_name("CHANGELOG.md").read_text(encoding="utf-8")
        markdown = _PAPER.sub(r"\1", changelog).replace("](docs/", "](")
    targets, lines, fenced = targets_in(config.docs_dir), [], False
    for line in markdown.split("\n"):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and not line.startswith(("#", "    ")):
            line = _CODE.sub(lambda match: _linked(match, targets), line)
        lines.append(line)
    return "\n".join(lines)


def _linked(match, targets):
    """The code as a link, once; `targets` forgets what was linked."""
    parts = match["path"].split(".")
    if len(parts) > 2 or (
        len(parts) == 2 and parts[0] not in ("grf", "graphrf", "gp", "euclidean", "euc")
    ):
        return match[0]
    path = targets.pop(parts[-1], None)
    return match[0] if path is None else f"[{match[0]}][{path}]"
