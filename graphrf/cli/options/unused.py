"""Options that what was chosen does not use are refused, in words."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


def refuse_unused(given: Mapping[str, Any], used: Collection[str], chosen: str) -> None:
    """ValueError for options, given by name with their values (None: not given), that `chosen` does not use."""
    unused = [option for option, value in given.items() if value is not None and option not in used]
    if unused:
        names = ", ".join(f"`{option}`" for option in unused)
        takes = ", ".join(f"`{option}`" for option in given if option in used)
        raise ValueError(
            f"{names} {'has' if len(unused) == 1 else 'have'} no use with {chosen}"
            + (f", which takes {takes}" if takes else "")
        )


def refuse_without(given: Mapping[str, Any], needed: str) -> None:
    """ValueError for options, given by name with their values (None: not given), where `needed` is not given."""
    options = [f"`{option}`" for option, value in given.items() if value is not None]
    if options:
        raise ValueError(f"{', '.join(options)} {'needs' if len(options) == 1 else 'need'} {needed}")
