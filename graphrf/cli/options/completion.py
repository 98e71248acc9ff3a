"""Shell completion of option values, data sets and files."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable


def of_words(words: tuple[str, ...]) -> Callable[[str], list[str]]:
    """Those of the words that begin as typed."""

    def completed(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return completed


def graphs(incomplete: str) -> list[str]:
    """Files and folders, and the names of data sets."""
    from graphrf.datasets.sets import names

    found = sorted(glob.glob(f"{glob.escape(incomplete)}*"))
    files = [f"{path}/" if os.path.isdir(path) else path for path in found]
    return files + [name for name in names() if name.startswith(incomplete)]
