"""Citations: all works cited are in the bibliography, and the paper cites what exists."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
BIBLIOGRAPHY = (ROOT / "docs" / "bibliography.md").read_text(encoding="utf-8")
PAPER = ROOT / "paper"
NAME = r"[A-ZÀ-Ž][\w'’-]*[a-zß-ž]"
CITATION = re.compile(
    rf"({NAME})(?:(?:, {NAME})*,? and (?:van )?{NAME}| et al\.)?,? \(?((?:18|19|20)\d\d)[ab]?\b"
)
# Months, journals, places, vintages of software and of data.
NO_AUTHORS = re.compile(
    "January|February|March|April|May|June|July|August|September|October|November|December"
    "|Bernoulli|Biometrika|Carolina|Dask|Microsystems"
)


def entries() -> dict[str, str]:
    """Anchor -> the text of the entry."""
    items = re.findall(r'^- <a id="([^"]+)"></a>(.*?)(?=^- <a|^#|\Z)', BIBLIOGRAPHY, re.M | re.S)
    return {anchor: " ".join(text.split()) for anchor, text in items}


def folded(text: str) -> str:
    """Without accents; umlauts may be written with an e."""
    plain = unicodedata.normalize("NFKD", text.replace("ø", "o")).encode("ascii", "ignore").decode()
    return plain.replace("ue", "u")


def cited(text: str) -> set[tuple[str, str]]:
    """First author and year of every citation by author and year."""
    joined = re.sub(r"\s+(?:#:? )?", " ", text)
    found = {(folded(name), year) for name, year in CITATION.findall(joined)}
    return {(name, year) for name, year in found if not NO_AUTHORS.fullmatch(name)}


def test_every_cited_work_is_in_the_bibliography():
    listed = [folded(text) for text in entries().values()]
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.name != "bibliography.md"]
    scripts = [
        path
        for folder in ("graphrf", "benchmarks", "examples")
        for path in (ROOT / folder).rglob("*.py")
    ]
    missing = {
        (path.name, name, year)
        for path in (*pages, *scripts)
        for name, year in cited(path.read_text(encoding="utf-8"))
        if not any(name in entry and year in entry for entry in listed)
    }
    assert missing == set()


def test_citations_are_found():
    text = (
        "after Grünwald and van\n    # Ommen 2017, Rue, Martino and Chopin (2009), Good 1953; in "
        "May 2017"
    )
    assert cited(text) == {("Grunwald", "2017"), ("Ru", "2009"), ("Good", "1953")}


def test_every_entry_says_where_it_is_used():
    assert [anchor for anchor, text in entries().items() if " → " not in text] == []
    assert len(entries()) > 100


def test_links_within_the_bibliography_lead_to_an_entry():
    assert set(re.findall(r"\]\(#([\w-]+)\)", BIBLIOGRAPHY)) <= set(entries())


def body() -> str:
    """The paper without its header."""
    return (PAPER / "paper.md").read_text(encoding="utf-8").split("\n---\n", 1)[1]


def test_the_paper_is_short_and_has_the_sections_of_the_journal():
    assert 750 <= len(body().split()) <= 1000
    assert re.findall(r"^# (.*)$", body(), re.M) == [
        "Summary",
        "Statement of need",
        "State of the field",
        "Software design",
        "Research impact statement",
        "AI usage disclosure",
        "References",
    ]


def test_the_paper_cites_what_is_in_its_list_and_in_the_bibliography():
    listed = re.findall(r"^@\w+\{([^,]+),", (PAPER / "paper.bib").read_text(encoding="utf-8"), re.M)
    assert sorted(listed) == sorted(set(re.findall(r"@([a-z][\w-]*)", body())))
    assert set(listed) <= set(entries())


@pytest.mark.parametrize(
    "kind", [r"(?:benchmarks|examples|tests|docs)/[\w/]+\.(?:py|md)", r"\.\./docs/[\w/.]+"]
)
def test_what_the_paper_names_is_there(kind):
    named = re.findall(kind, body())
    assert named
    assert [
        name
        for name in named
        if not (PAPER / name if name.startswith("..") else ROOT / name).is_file()
    ] == []
