"""Options whose value is one of a few words."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Any


def require_known(
    option: str, value: str, known: Iterable[str], *, given: str | None = None, also: str = ""
) -> None:
    """ValueError, with the words most like it, for a `value` that is not among the `known` words.

    `given` is what was typed, where `value` is another spelling of it; `also` is what else the option takes.
    """
    words = tuple(known)
    if value in words:
        return
    from graphrf._base.checks import did_you_mean

    like = did_you_mean(value, words)
    raise ValueError(
        f"`{option}` must be one of {', '.join(words)}{also}, got {given or value!r}"
        + (f"; {like}" if like else "")
    )


def given_options(group: Any) -> dict[str, Any]:
    """The options of a group, which is a dataclass, with their values."""
    return {f"--{name.replace('_', '-')}": value for name, value in dataclasses.asdict(group).items()}


def refuse_unused(given: Mapping[str, Any], used: Collection[str], chosen: str) -> None:
    """ValueError for options, given by name with their values (None: not given), that `chosen` does not use."""
    unused = [option for option, value in given.items() if value is not None and option not in used]
    if unused:
        names = ", ".join(f"`{option}`" for option in unused)
        takes = ", ".join(f"`{option}`" for option in given if option in used)
        raise ValueError(f"{names} cannot be used with {chosen}" + (f", which takes {takes}" if takes else ""))


def refuse_without(given: Mapping[str, Any], needed: str) -> None:
    """ValueError for options, given by name with their values (None: not given), where `needed` is not given."""
    options = [f"`{option}`" for option, value in given.items() if value is not None]
    if options:
        raise ValueError(f"{', '.join(options)} {'needs' if len(options) == 1 else 'need'} {needed}")
