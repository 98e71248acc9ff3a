"""Another thread's call between any two lines of a method, without threads or luck."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any


def interleaved_results(
    call: Callable[[], Any], intruder: Callable[[], Any], code: CodeType
) -> list[Any]:
    """Results of `call`, with `intruder` run before each line of the function `code`.

    A thread can lose the interpreter between any two lines, so each of these is what a call may
    return when another thread makes the intruder's.
    """
    results = []
    while True:
        left = len(results)
        intruded = False

        def at_line(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal left, intruded
            if event == "line" and not intruded:
                if left == 0:
                    intruded = True
                    sys.settrace(None)
                    intruder()
                    sys.settrace(at_call)
                left -= 1
            return at_line

        def at_call(frame: FrameType, event: str, argument: Any) -> Any:
            return at_line if frame.f_code is code else None

        before = sys.gettrace()
        sys.settrace(at_call)
        try:
            result = call()
        finally:
            sys.settrace(before)
        if not intruded:
            return results
        results.append(result)
