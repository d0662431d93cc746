"""Distances of matched heads, errors of conventions, and parameters against error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._match import Check, Match
from ._plot_axes import COLOURS, QUIET, one
from ._refit import Refit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROUNDING = 1e-17  # what is drawn of a distance of zero


def match(found: Match, *, ax: Any = None) -> Axes:
    """The distance of every matched pair on a logarithmic axis; heads that changed most have a colour of their own.

    >>> import headlens
    >>> layer = headlens.AttentionLayer.random(heads=6, dim=8)
    >>> headlens.plot.match(headlens.match(layer, layer)).get_ylabel()
    'distance'
    """
    ax = one(ax)
    several = len(found.layers) > 1
    names = [f"{h['layer_a']}.{h['a']}" if several else str(h["a"]) for h in found.heads]
    places = range(len(names))
    colours = [COLOURS[1] if i in found.moved else COLOURS[0] for i in places]
    ax.bar(places, [max(h["distance"], _ROUNDING) for h in found.heads], color=colours)
    ax.axhline(1e-5, color=QUIET, linewidth=1, linestyle="--")
    ax.set_yscale("log")
    ax.set_xticks(list(places) if len(names) <= 24 else [])
    if len(names) <= 24:
        ax.set_xticklabels(names)
    ax.set_xlabel("head of A")
    ax.set_ylabel("distance")
    ax.set_title(f"{found.verdict} (p = {found.p_value:.2g})", fontsize="small")
    return ax


def check(found: Check, *, ax: Any = None) -> Axes:
    """The errors of the eight best conventions, with the tolerance.

    >>> import headlens
    >>> layer = headlens.AttentionLayer.random(heads=2, dim=6)
    >>> headlens.plot.check(headlens.check(layer, *layer.examples(20))).get_xlabel()
    'relative error'
    """
    ax = one(ax)
    best = found.tried[:8]
    ax.barh(range(len(best)), [max(t["error"], _ROUNDING) for t in best], color=COLOURS[0])
    ax.axvline(found.tolerance, color=QUIET, linewidth=1, linestyle="--")
    ax.set_xscale("log")
    ax.set_yticks(range(len(best)), [t["convention"] for t in best])
    ax.invert_yaxis()
    ax.set_xlabel("relative error")
    return ax


def refit(found: Refit, *, ax: Any = None) -> Axes:
    """Parameters against held-out error of the refit and of the other ways; the layer itself has no error and is left out.

    >>> import headlens
    >>> layer = headlens.AttentionLayer.random(heads=3, dim=6, rank=2)
    >>> headlens.plot.refit(headlens.refit(layer, heads=2, count=60, length=4, steps=10)).get_xlabel()
    'parameters'
    """
    ax = one(ax)
    for row in found.pareto:
        if row["held_out_error"] > 1e-12:
            colour = COLOURS[1] if row["name"] == "refit" else COLOURS[0] if row["on_front"] else QUIET
            ax.plot([row["parameters"]], [row["held_out_error"]], "o", color=colour)
            ax.annotate(row["name"], (row["parameters"], row["held_out_error"]), fontsize="small")
    ax.set_yscale("log")
    ax.set_xlabel("parameters")
    ax.set_ylabel("held-out error")
    return ax
