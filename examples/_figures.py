"""The look of figures of the examples on R^d: a width, a colour and mark a coupling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphrf.plot import COLOURS, DEVIATIONS, VALUES, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

GREY = "#6b6b6b"
#: Inches; at this width text of 9 points can be read on a page of 700 pixels.
WIDTH = 8.0
#: Sharp on screens with twice as many pixels.
DPI = 170
#: Bytes from which a picture is kept in fewer colours: those of shaded meshes.
LARGE = 150_000
_LOOKS = {
    "iid": ("#000000", "o", "--"),
    "orthogonal": (COLOURS[1], "s", "-"),
    "+ PNC": (COLOURS[0], "D", "-"),
    "+ PM": (COLOURS[4], "P", "-"),
    "simplex": (COLOURS[2], "^", "-"),
    "simplex+": (COLOURS[3], "v", "-"),
    "low discrepancy": (COLOURS[5], "p", "-"),
}


@contextmanager
def figure(path: str, height: float, width: float = WIDTH) -> Iterator[Figure]:
    """A figure in the style of graphrf's own, written to `path` in the end."""
    from matplotlib.figure import Figure

    with style():
        result = Figure(figsize=(width, height))
        yield result
        result.savefig(path, dpi=DPI)
    if path.endswith(".png") and Path(path).stat().st_size > LARGE:
        _reduce(path)


def _reduce(path: str) -> None:
    """256 colours, a third of the bytes: 64 of each colour map keep colour bars smooth."""
    import numpy as np
    from matplotlib import colormaps
    from PIL import Image
    from scipy.spatial import cKDTree

    steps = np.linspace(0, 1, 64)
    own = np.concatenate(
        [[(0, 0, 0), (1, 1, 1)], *(colormaps[m](steps)[:, :3] for m in (VALUES, DEVIATIONS))]
    )
    with Image.open(path) as image:
        full = image.convert("RGB")
    others = 256 - len(own)
    rest = full.quantize(others, kmeans=2, dither=Image.Dither.NONE).getpalette() or []
    palette = np.concatenate([np.rint(255 * own), np.reshape(rest[: 3 * others], (-1, 3))])
    # Pillow's own search is approximate, and would make white grey.
    packed, places = np.unique(
        np.asarray(full).reshape(-1, 3) @ [1 << 16, 1 << 8, 1], return_inverse=True
    )
    colours = np.stack([packed >> 16, packed >> 8 & 255, packed & 255], axis=1)
    nearest = cKDTree(palette).query(colours)[1].astype(np.uint8)
    reduced = Image.fromarray(nearest[places].reshape(full.size[::-1]), mode="P")
    reduced.putpalette(palette.astype(np.uint8).tobytes())
    reduced.save(path, optimize=True)


def look(coupling: str, *, is_open: bool = False, line: bool = True) -> dict[str, Any]:
    """Options of `plot` and `errorbar` for a coupling; a variant of it has an open mark."""
    colour, marker, style = _LOOKS[coupling]
    return {
        "color": colour,
        "marker": marker,
        "linestyle": style if line else "none",
        "markerfacecolor": "white" if is_open else colour,
    }


def doublings(ax: Axes, counts: Sequence[int]) -> None:
    """A logarithmic horizontal axis with these numbers alone."""
    ax.set_xscale("log", base=2)
    ax.set_xticks(counts, [str(count) for count in counts])
    ax.xaxis.minorticks_off()


def plain_logs(axis: Axis) -> None:
    """Numbers as they are said, 0.02 and not 2 x 10^-2, for an axis of a few powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(lambda value, _: f"{value:.10g}")
    axis.set_minor_formatter(NullFormatter())


def legend_below(figure: Figure, *axes: Axes, columns: int) -> None:
    """One legend under all panels, with every label of `axes` once."""
    named: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    figure.legend(list(named.values()), list(named), loc="outside lower center", ncols=columns)
