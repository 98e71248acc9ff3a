"""The k-th largest of some values, in a compiled loop."""

from __future__ import annotations

from graphrf._base.compiled import njit


@njit(nogil=True)
def kth_largest(values, k):  # type: ignore[no-untyped-def]
    """The k-th largest of `values`, reordered (Hoare; np.partition takes 4 s to compile)."""
    low = 0
    high = values.size - 1
    while low < high:
        pivot = values[(low + high) >> 1]
        i = low
        j = high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                value = values[i]
                values[i] = values[j]
                values[j] = value
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            break
    return values[k - 1]
