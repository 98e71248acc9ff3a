"""A fork waits until no thread compiles: registered when this file is first read."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any


class _ForkGuard(threading.local):
    """Holds numba's lock while a process is forked: a child would wait for a held one for ever.

    There is no hold on the interpreter's lock of a module that another thread imports at that
    moment.
    """

    held: Any = None

    def before(self) -> None:
        """Wait until no thread compiles."""
        compiler = sys.modules.get("numba.core.compiler_lock")
        lock = getattr(compiler, "global_compiler_lock", None)
        if lock is not None:
            lock.acquire()
        self.held = lock

    def after(self) -> None:
        """Let others compile again."""
        if self.held is not None:
            self.held.release()
        self.held = None


_fork_guard = _ForkGuard()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_fork_guard.before,
        after_in_parent=_fork_guard.after,
        after_in_child=_fork_guard.after,
    )
