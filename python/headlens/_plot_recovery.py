"""Recovered heads beside the truth, and the evidence for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._inspect import compare
from ._layer import AttentionLayer
from ._plot_axes import COLOURS, QUIET, log_y, look, one, pyplot, several, style
from ._recover import Certificate, Recovery

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RECOVERED = 1e-8  # held-out error below which a layer counts as recovered
_PARTS = {"theta": r"$\Theta$", "w": "$W$"}


def heads(layer: AttentionLayer, truth: AttentionLayer | None = None, *, axes: Any = None) -> np.ndarray:
    """Theta and W of every head as pictures, each above that of its match in `truth`.

    One column a head. Pictures of Theta share one scale of colours, those of W another.

    Returns
    -------
    array of axes: (2, heads), or with `truth` (4, heads) with the larger of both numbers of heads

    >>> import headlens
    >>> layer = headlens.AttentionLayer.random(heads=3, dim=4)
    >>> shuffled = headlens.AttentionLayer(layer.theta[[2, 0, 1]], layer.w[[2, 0, 1]])
    >>> headlens.plot.heads(shuffled, layer)[0, 0].get_title().splitlines()[0]
    'head 0 = truth 2'
    """
    columns = _match(layer, truth)
    rows = [(part, whose) for part in _PARTS for whose in ((layer,) if truth is None else (layer, truth))]
    shape = len(rows), len(columns)
    if axes is None:
        figure = pyplot().figure(figsize=_size(*shape), layout="constrained")
        axes = _place(figure.add_gridspec, *shape)
    axes = several(axes, shape)
    for part in _PARTS:
        mine = [(whose, line) for (p, whose), line in zip(rows, axes) if p == part]
        limit = max(abs(getattr(whose, part)).max() for whose, _ in mine)
        for whose, line in mine:
            for ax, column in zip(line, columns):
                index = column["layer" if whose is layer else "truth"]
                _draw_matrix(ax, getattr(whose, part), index, limit)
            kind = "" if truth is None else "\nrecovered" if whose is layer else "\ntruth"
            line[0].set_ylabel(_PARTS[part] + kind)
        for ax, column in zip(mine[0][1], columns):
            ax.set_title(column["title"] + column.get(part, ""), fontsize="small")
        _add_scale(np.concatenate([line for _, line in mine]), limit)
    return axes


_BESIDE = 4  # heads up to which Theta and W stand beside each other


def _size(rows: int, columns: int) -> tuple[float, float]:
    """Inches of a figure of `rows` x `columns` matrices."""
    if columns <= _BESIDE:
        return 2 * (0.9 + 1.3 * columns), 0.5 + 0.68 * rows
    return 0.9 + 1.3 * columns, 0.9 + 1.35 * rows


def _place(grid: Any, rows: int, columns: int) -> np.ndarray:
    """Axes (rows, columns): the upper half for Theta, the lower for W, beside each other where they fit.

    `grid` makes a grid of cells: `Figure.add_gridspec`, or `SubplotSpec.subgridspec`.
    """
    halves = grid(1, 2) if columns <= _BESIDE else grid(2, 1)
    return np.concatenate([half.subgridspec(rows // 2, columns).subplots(squeeze=False) for half in halves])


def _match(layer: AttentionLayer, truth: AttentionLayer | None) -> list[dict[str, Any]]:
    """A column a head: index in `layer`, index in `truth`, title."""
    if truth is None:
        return [{"layer": i, "truth": None, "title": f"head {i}"} for i in range(layer.heads)]
    if (layer.dim, layer.outputs) != (truth.dim, truth.outputs):
        raise ValueError(
            f"truth: dim {truth.dim} and outputs {truth.outputs}, expected {layer.dim} and {layer.outputs}"
        )
    matches = {m["a"]: m for m in compare(layer, truth).matches}
    columns = []
    for i in range(layer.heads):
        found = matches.get(i)
        if found is None:
            columns.append({"layer": i, "truth": None, "title": f"head {i}\nno match"})
            continue
        errors = {part: f"\nerror {found[part + '_error']:.2g}" for part in _PARTS}
        columns.append({"layer": i, "truth": found["b"], "title": f"head {i} = truth {found['b']}", **errors})
    missed = sorted(set(range(truth.heads)) - {m["b"] for m in matches.values()})
    return columns + [{"layer": None, "truth": b, "title": f"truth {b}\nnot found"} for b in missed]


def _draw_matrix(ax: Axes, matrices: np.ndarray, index: int | None, limit: float) -> None:
    ax.set_xticks([])
    ax.set_yticks([])
    if index is not None:
        ax.imshow(matrices[index], cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
        return
    ax.set_box_aspect(matrices.shape[1] / matrices.shape[2])
    ax.text(0.5, 0.5, "none", ha="center", va="center", color=QUIET, transform=ax.transAxes)
    ax.spines[:].set_color("#e5e7eb")


def _add_scale(axes: np.ndarray, limit: float) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    colours = ScalarMappable(Normalize(-limit, limit), "RdBu_r")
    bar = axes[0].figure.colorbar(colours, ax=list(axes), fraction=0.06, pad=0.02, aspect=25)
    bar.ax.tick_params(labelsize="small")


def error_bars(recovery: Recovery, truth: AttentionLayer | None = None, *, ax: Axes | None = None) -> Axes:
    """For every head, the size that the relative error of Theta and of W stays below with probability 0.95.

    With `truth`, also the errors themselves, as points.

    >>> import headlens
    >>> layer = headlens.AttentionLayer.random(heads=2, dim=4, seed=1)
    >>> recovery = headlens.recover(*layer.examples(count=80, noise=0.01), heads=2)
    >>> len(headlens.plot.error_bars(recovery, layer).patches)      # Theta and W of two heads
    4
    """
    ax = one(ax)
    style(ax)
    ax.set_title("errors of the heads", fontsize="medium")
    ax.set_ylabel("relative error")
    layer, c = recovery.layer, recovery.certificate
    if layer is None:
        return _nothing(ax, f"no layer\n{c.status}")
    if not c.per_head:
        return _nothing(ax, "no error bars:\ndetermined among\nparity layers only")
    numbers = np.arange(layer.heads)
    matches = [] if truth is None else compare(layer, truth).matches
    lowest = []
    for i, part in enumerate(_PARTS):
        bars = np.array([head[f"{part}_error_bar"] for head in c.per_head])
        ax.bar(
            numbers + 0.36 * i - 0.18,
            bars,
            0.3,
            color=COLOURS[i],
            alpha=0.3,
            label=f"{_PARTS[part]}, at most",
        )
        errors = np.array([m[f"{part}_error"] for m in matches])
        lowest += [*bars, *errors]
        if matches:
            at = np.array([m["a"] for m in matches]) + 0.36 * i - 0.18
            ax.plot(at, errors, linestyle="none", **look(i), markersize=6, label=f"{_PARTS[part]}, error")
    positive = [value for value in lowest if value > 0]
    if positive:
        log_y(ax)
        ax.set_ylim(min(positive) / 10, max(positive) * 30)
    ax.set_xticks(numbers)
    ax.set_xlabel("head")
    ax.grid(False, axis="x")
    ax.legend(frameon=False, fontsize="small", ncols=1 + bool(matches), loc="upper center")
    return ax


def _nothing(ax: Axes, why: str) -> Axes:
    ax.text(0.5, 0.5, why, ha="center", va="center", color=QUIET, transform=ax.transAxes)
    ax.set_xticks([])
    ax.set_yticks([])
    return ax


def trace(recovery: Recovery | Certificate, *, ax: Axes | None = None) -> Axes:
    """The training error after every step of the solver, one colour for each number of heads tried.

    >>> import headlens
    >>> layer = headlens.AttentionLayer.random(heads=2, dim=4, seed=1)
    >>> headlens.plot.trace(headlens.recover(*layer.examples(count=60))).get_ylabel()
    'training error'
    """
    ax = one(ax)
    style(ax)
    steps = _certificate(recovery).trace
    tried = list(dict.fromkeys(step["heads"] for step in steps))
    for i, count in enumerate(tried):
        colour, label = COLOURS[i % len(COLOURS)], f"{count} head" + "s" * (count > 1)
        for run in _runs(steps, count):
            at = np.array(run)
            ax.plot(at[:, 0], at[:, 1], ".-", color=colour, markersize=3, linewidth=1.2, label=label)
            label = None
    if steps:
        log_y(ax)
        ax.legend(frameon=False, fontsize="small")
    ax.set_title("steps of the solver", fontsize="medium")
    ax.set_xlabel("step")
    ax.set_ylabel("training error")
    return ax


def _runs(steps: list[dict[str, Any]], count: int) -> list[list[tuple[int, float]]]:
    """Steps with `count` heads, cut where a new run begins. Gradient descent keeps some of its steps only, and is
    drawn at their numbers."""
    runs: list[list[tuple[int, float]]] = []
    previous: dict[str, Any] | None = None
    for number, step in enumerate(steps):
        if step["heads"] == count and step["train_error"] > 0:
            if previous is None or step["step"] <= previous["step"] or step["phase"] != previous["phase"]:
                runs.append([])
            runs[-1].append((step["step"] if step["phase"] == "gradient" else number, step["train_error"]))
            previous = step
        else:
            previous = None
    return runs


def head_count(recovery: Recovery | Certificate, *, ax: Axes | None = None) -> Axes:
    """Training and held-out error of every number of heads that was tried; the chosen number is ringed.

    >>> import headlens
    >>> layer = headlens.AttentionLayer.random(heads=2, dim=4, seed=1)
    >>> ax = headlens.plot.head_count(headlens.recover(*layer.examples(count=60)))
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['training', 'held out', 'chosen']
    """
    ax = one(ax)
    style(ax)
    c = _certificate(recovery)
    evidence = [t for t in c.head_count_evidence if t["held_out_error"] > 0 and t["train_error"] > 0]
    tried = sorted({t["heads"] for t in evidence})
    at = [tried.index(t["heads"]) for t in evidence]
    best = [min(t["held_out_error"] for t in evidence if t["heads"] == count) for count in tried]
    ax.plot(range(len(tried)), best, color=COLOURS[0], linewidth=1, alpha=0.6)
    ax.plot(at, [t["train_error"] for t in evidence], "_", color=COLOURS[1], markersize=11, label="training")
    ax.plot(
        at, [t["held_out_error"] for t in evidence], "o", color=COLOURS[0], markersize=5, label="held out"
    )
    if c.heads in tried and c.status in ("recovered", "approximate"):
        chosen = tried.index(c.heads)
        ring = {"markerfacecolor": "none", "markeredgecolor": "black", "markersize": 13, "linestyle": "none"}
        ax.plot([chosen], [best[chosen]], "o", **ring, label="chosen")
    if best and min(best) < _RECOVERED:
        ax.axhline(_RECOVERED, color=QUIET, linewidth=0.8, linestyle=":")
        at_left = {"transform": ax.get_yaxis_transform(), "va": "bottom", "fontsize": "small", "color": QUIET}
        ax.text(0.01, _RECOVERED, "recovered: below", **at_left)
    if best:
        log_y(ax)
    ax.set_xticks(range(len(tried)), [str(count) for count in tried])
    ax.set_xlim(-0.6, len(tried) - 0.4)
    ax.set_title("number of heads", fontsize="medium")
    ax.set_xlabel("heads")
    ax.set_ylabel("relative error of outputs")
    ax.legend(frameon=False, fontsize="small")
    return ax


def _certificate(recovery: Recovery | Certificate) -> Certificate:
    return recovery.certificate if isinstance(recovery, Recovery) else recovery


def certificate(recovery: Recovery, truth: AttentionLayer | None = None, *, axes: Any = None) -> np.ndarray:
    """The evidence: `head_count`, `trace` and `error_bars` beside each other.

    >>> import headlens
    >>> layer = headlens.AttentionLayer.random(heads=2, dim=4, seed=1)
    >>> len(headlens.plot.certificate(headlens.recover(*layer.examples(count=60))))
    3
    """
    axes = several(axes, (1, 3), (11, 3.3))[0]
    head_count(recovery, ax=axes[0])
    trace(recovery, ax=axes[1])
    error_bars(recovery, truth, ax=axes[2])
    return axes


def recovery(recovery: Recovery, truth: AttentionLayer | None = None, *, figure: Any = None) -> np.ndarray:
    """The certificate above the heads: what `Recovery.plot` draws.

    figure : a matplotlib figure or subfigure to draw into

    Returns
    -------
    array of axes: the three of `certificate`, then those of `heads` row by row, if there is a layer

    >>> import headlens
    >>> layer = headlens.AttentionLayer.random(heads=2, dim=4, seed=1)
    >>> len(headlens.recover(*layer.examples(count=60)).plot(layer))
    11
    """
    layer = recovery.layer
    if layer is None:
        axes = None if figure is None else figure.subplots(1, 3)
        return certificate(recovery, axes=axes)
    rows, columns = (2 if truth is None else 4), len(_match(layer, truth))
    width, height = _size(rows, columns)
    if figure is None:
        figure = pyplot().figure(figsize=(max(11.0, width), 3.3 + height), layout="constrained")
    top, bottom = figure.add_gridspec(2, 1, height_ratios=[3.3, height])
    above = certificate(recovery, truth, axes=top.subgridspec(1, 3).subplots())
    below = heads(layer, truth, axes=_place(bottom.subgridspec, rows, columns))
    return np.concatenate([above, below.ravel()])
