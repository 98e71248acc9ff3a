"""Loops compiled by numba and cached on disk; without a usable cache, once in each process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba
from numba.core.caching import FunctionCache, NullCache

from graphrf._base import progress
from graphrf._base.warn import warn


def njit(*, cache: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit` for functions that run even where they cannot be cached, as on a full disk."""

    def compiled(function: Callable[..., Any]) -> Any:
        # Nothing calls the loops from C; without such entries a tenth less is compiled.
        dispatcher = numba.njit(**options | {"no_cfunc_wrapper": True})(function)
        if cache:
            dispatcher._cache = _Cache(function)
        return dispatcher

    return compiled


class _Cache(NullCache):
    """numba's cache of one function, where failures to read or write are not fatal."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._kept: Any = None
        with suppress(RuntimeError, OSError):  # there is no folder that can be written
            self._kept = FunctionCache(function)

    @property
    def cache_path(self) -> str | None:
        return None if self._kept is None else self._kept.cache_path

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        if self._kept is None:
            _say_that_nothing_is_kept()
            return None
        try:
            kept = self._kept.load_overload(sig, target_context)
        except Exception:  # pickle raises many types of error for damaged files
            with suppress(OSError):
                self._kept.flush()
            kept = None
        if kept is None:  # numba compiles now, without a word
            progress.write_once(
                "Compiling loops, once on this machine: up to half a minute for each method; "
                "`graphrf compile` does it beforehand."
            )
        return kept

    def save_overload(self, sig: Any, data: Any) -> None:
        if self._kept is None:
            return
        try:
            self._kept.save_overload(sig, data)
        except OSError:
            _say_that_nothing_is_kept()

    def flush(self) -> None:
        if self._kept is not None:
            self._kept.flush()


_NOTHING_IS_KEPT = (
    "compiled loops cannot be cached on disk: neither graphrf's folder nor the user's cache is "
    "writable, or the disk is full. Each process compiles them again, which takes seconds to "
    "minutes; set NUMBA_CACHE_DIR to a folder to which only you can write"
)


def _say_that_nothing_is_kept() -> None:
    """A warning, once for each process."""
    if progress.once.first(_NOTHING_IS_KEPT):
        warn(_NOTHING_IS_KEPT)
