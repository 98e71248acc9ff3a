"""Write the card of every data set, `datasets/<name>.md`, from graphrf's registry.

    python datasets/make_cards.py

Run it after a change of `graphrf/datasets/registry.json`; a test compares the cards with the
registry. The data themselves are third parties' and never stored here.
"""

from __future__ import annotations

from pathlib import Path

from graphrf import datasets

FOLDER = Path(__file__).parent


def main() -> None:
    cards = {f"{name}.md": datasets.describe(name) for name in datasets.names()}
    for old in FOLDER.glob("*.md"):
        if old.name not in {*cards, "README.md"}:
            old.unlink()
    for file, card in cards.items():
        (FOLDER / file).write_text(card, encoding="utf-8")
    print(f"{len(cards)} cards in {FOLDER}")


if __name__ == "__main__":
    main()
