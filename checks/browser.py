"""Opens the documentation and the report of `graphrf demo` in headless Chromium, as a reader would.

    make test-browser
    python checks/browser.py --site out/site --report out/report.html --screenshots out/screenshots

Fails where a page writes an error to the console, asks for anything that is not there or lies on
another machine, has a link or an anchor that leads nowhere, an image that does not load, a formula
that MathJax cannot read, or is wider than a telephone; and where the search finds nothing.
Screenshots are for the eye. Chromium is taken from CHROMIUM, or from the PATH.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

from playwright.sync_api import Browser, Page, sync_playwright

DESK, TELEPHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
# What Chromium asks of its maker at every start would
# be refused, and told, on a machine without a network.
QUIET = [
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

_FACTS = """() => ({
    links: [...document.querySelectorAll('a[href]')].map(a => a.href),
    anchors: [...document.querySelectorAll('[id]')].map(e => e.id),
    // Pictures that wait until they are scrolled to are fetched now.
    broken: [...document.images].filter(i => i.complete && !i.naturalWidth)
        .map(i => i.currentSrc || i.src),
    unreadable: [...document.querySelectorAll('[data-mjx-error]')].map(e => e.dataset.mjxError),
    nameless: [...document.images].filter(i => !i.alt).map(i => i.src),
    overflow: document.documentElement.scrollWidth - window.innerWidth,
})"""


def find_chromium() -> str | None:
    """The program, from the variable CHROMIUM or the PATH."""
    names = (
        os.environ.get("CHROMIUM", ""),
        "chromium",
        "chromium-browser",
        "google-chrome",
        "chrome",
    )
    return next((found for name in names if name and (found := shutil.which(name))), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        sys.exit(
            "no Chromium: install it (Debian: apt-get install chromium) or name it in CHROMIUM"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=QUIET, chromium_sandbox=os.geteuid() != 0
        )
        try:
            yield browser
        finally:
            browser.close()


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing: the browser tells what failed."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server of `folder` on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()


def _watch(page: Page, home: str, found: list[str]) -> None:
    """Append to `found` whatever goes wrong while pages are open."""

    def where() -> str:
        return page.url.removeprefix(home) or "start page"

    page.on(
        "console",
        lambda m: m.type in ("error", "warning") and found.append(f"{where()}: console: {m.text}"),
    )
    page.on("pageerror", lambda error: found.append(f"{where()}: script: {error}"))
    page.on("requestfailed", lambda request: found.append(f"{where()}: not loaded: {request.url}"))
    page.on(
        "response", lambda r: r.status >= 400 and found.append(f"{where()}: {r.status}: {r.url}")
    )
    page.on(
        "request",
        lambda r: _is_elsewhere(r.url, home) and found.append(f"{where()}: asks for {r.url}"),
    )


def _is_elsewhere(url: str, home: str) -> bool:
    return urlsplit(url).scheme in ("http", "https") and not url.startswith(home)


def problems(browser: Browser, home: str, starts: list[str]) -> list[str]:
    """Problems of the pages `starts` under the address `home`, and of all they lead to."""
    found: list[str] = []
    page = browser.new_page(viewport=DESK)
    _watch(page, home, found)
    anchors: dict[str, set[str]] = {}
    wanted: list[tuple[str, str]] = []  # (page, link)
    left = [home + start for start in starts]
    while left:
        address = left.pop()
        if address in anchors:
            continue
        response = page.goto(address, wait_until="networkidle")
        name = address.removeprefix(home) or "start page"
        if response is None or response.status >= 400:
            anchors[address] = set()
            continue  # told by `_watch`
        for picture in page.query_selector_all("img"):
            picture.scroll_into_view_if_needed()
        page.wait_for_load_state("networkidle")
        page.set_viewport_size(TELEPHONE)
        facts = page.evaluate(_FACTS)
        page.set_viewport_size(DESK)
        anchors[address] = set(facts["anchors"])
        found += [f"{name}: broken picture: {picture}" for picture in facts["broken"]]
        found += [f"{name}: picture without words: {picture}" for picture in facts["nameless"]]
        found += [f"{name}: formula: {error}" for error in facts["unreadable"]]
        if facts["overflow"] > 0:
            found.append(f"{name}: {facts['overflow']} pixels wider than a telephone")
        for link in facts["links"]:
            if not link.startswith(home):
                continue
            wanted.append((name, link))
            target = urldefrag(link).url
            if target.endswith(("/", ".html")):
                left.append(target)
            elif not page.request.head(target).ok:
                found.append(f"{name}: leads nowhere: {link}")
    page.close()
    for name, link in wanted:
        target, fragment = urldefrag(link)
        if (
            fragment
            and target in anchors
            and unquote(fragment) not in anchors[target] | {"__skip", "__top"}
        ):
            found.append(f"{name}: no such place: {link}")
    return sorted(set(found))


def search_problems(browser: Browser, home: str, words: str = "pagerank") -> list[str]:
    """What is wrong with the search of the site: whether it finds `words`."""
    page = browser.new_page(viewport=DESK)
    found: list[str] = []
    _watch(page, home, found)
    page.goto(home, wait_until="networkidle")
    page.click("label.md-search__icon, .md-search__input")
    page.keyboard.type(words)
    try:
        page.wait_for_selector(".md-search-result__item", timeout=10_000)
    except Exception:
        found.append(f"search: nothing found for {words!r}")
    page.close()
    return found


def take_screenshots(browser: Browser, home: str, name: str, folder: Path) -> None:
    """Pictures of a page: on a desk, on a telephone, and where the reader prefers dark."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind, viewport, scheme in (
        ("desk", DESK, "light"),
        ("telephone", TELEPHONE, "light"),
        ("dark", DESK, "dark"),
    ):
        page = browser.new_page(viewport=viewport, color_scheme=scheme)
        page.goto(home, wait_until="networkidle")
        page.screenshot(path=folder / f"{name}-{kind}.png", full_page=True)
        page.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--site", type=Path, required=True, help="folder of the built documentation"
    )
    parser.add_argument("--report", type=Path, required=True, help="report.html of `graphrf demo`")
    parser.add_argument("--screenshots", type=Path, required=True, help="folder for the pictures")
    options = parser.parse_args()
    for path in (options.site / "index.html", options.report):
        if not path.is_file():
            parser.error(f"{path} is not there: run `make docs` and `make demo` first")
    found = []
    with chromium() as browser:
        with served(options.site) as home:
            found += problems(browser, home, [""]) + search_problems(browser, home)
            take_screenshots(browser, home, "site", options.screenshots)
        with served(options.report.parent) as home:
            found += problems(browser, home, [options.report.name])
            take_screenshots(browser, home + options.report.name, "report", options.screenshots)
    for line in found:
        print(line)
    print(f"{len(found)} problems; screenshots are in {options.screenshots}")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
