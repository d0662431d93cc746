"""What all figures share: matplotlib when it is needed, axes, colours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito, in the order of the reports; every colour has a marker of its own.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b7280")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
QUIET = "#6b7280"


def pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("headlens.plot: needs matplotlib (pip install 'headlens[plot]')") from None
    return pyplot


def one(ax: Axes | None, size: tuple[float, float] = (5.2, 3.6)) -> Axes:
    """`ax`, or the axes of a new figure."""
    return pyplot().subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def several(
    axes: Any, shape: tuple[int, int], size: tuple[float, float] = (6, 4), **options: Any
) -> np.ndarray:
    """`axes`, in `shape`, or those of a new figure."""
    if axes is None:
        figure = pyplot().figure(figsize=size, layout="constrained")
        return figure.subplots(*shape, squeeze=False, **options)
    given = np.asarray(axes, dtype=object)
    if given.size != shape[0] * shape[1]:
        raise ValueError(f"axes: {given.size} given, expected {shape[0]} x {shape[1]}")
    return given.reshape(shape)


def log_y(ax: Axes) -> None:
    """A logarithmic axis that says 0.3 rather than 3 x 10^-1 where all its numbers are of everyday size."""
    from matplotlib.ticker import LogFormatterSciNotation

    class Plain(LogFormatterSciNotation):
        def __call__(self, x: Any, pos: Any = None) -> str:
            text = super().__call__(x, pos)
            low, high = self.axis.get_view_interval()  # pyright: ignore[reportOptionalMemberAccess]
            return f"{x:g}" if text and low > 1e-4 and high < 1e5 else text

    ax.set_yscale("log")
    ax.yaxis.set_major_formatter(Plain())
    ax.yaxis.set_minor_formatter(Plain(minor_thresholds=(1, 0.4)))


def style(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(True, color="#e5e7eb", linewidth=0.7)
    ax.set_axisbelow(True)


def look(index: int) -> dict[str, Any]:
    """Colour and marker of a series."""
    return {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)]}
