"""Options whose value is one of a few words."""

from __future__ import annotations

from collections.abc import Iterable


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
