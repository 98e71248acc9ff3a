"""The compiled loop over the rows of large edge lists whose nodes are integers."""

from __future__ import annotations

from graphrf._base.compiled import njit

_NEWLINE, _SPACE, _QUOTE, _HASH, _PERCENT, _MINUS, _ZERO, _NINE, _TILDE = map(ord, '\n "#%-09~')


@njit(nogil=True, cache=True)
def integer_ends(text, mark, width, first, second, ends):  # type: ignore[no-untyped-def]
    """Write the integers in columns `first` and `second` into `ends`; True if all rows are plain.

    Plain are as many lines as `ends` has rows, each of `width` cells with one `mark` between them,
    with integers of at most 18 digits, and neither blank lines, comments nor quotation marks.
    `text` is UTF-8.
    """
    at = 0
    for row in range(len(ends)):
        if (
            at >= text.size
            or text[at] <= _SPACE
            or text[at] in (_HASH, _PERCENT)
            or text[at] > _TILDE
        ):
            return False

        for column in range(width):
            start = at
            is_end = column in (first, second)
            value = 0
            while at < text.size and text[at] != mark and text[at] != _NEWLINE:
                character = text[at]
                if is_end:
                    if _ZERO <= character <= _NINE and at - start < 19:
                        value = value * 10 + (character - _ZERO)
                    elif character != _MINUS or at > start:
                        return False
                elif character == _QUOTE or (mark == _SPACE and not _SPACE < character <= _TILDE):
                    return False
                at += 1

            if is_end:
                negative = at > start and text[start] == _MINUS
                digits = start + negative
                if (
                    at == digits
                    or at - digits > 18
                    or (text[digits] == _ZERO and (negative or at > digits + 1))
                ):
                    return False
                value = -value if negative else value
                if column == first:
                    ends[row, 0] = value
                if column == second:
                    ends[row, 1] = value
            elif mark == _SPACE and at == start:
                return False

            if (at == text.size or text[at] == _NEWLINE) != (column == width - 1):
                return False
            at += 1
    return at > text.size
