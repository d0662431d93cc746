"""Learning curves, measured and predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ._plot_axes import COLOURS, QUIET, log_y, look, one, several, style
from ._theory import Theory, theory

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LARGEST_BOUND = 10.0  # a bound far above 1 says nothing and would stretch the axis


def learning_curves(
    curves: Mapping[str, tuple[Any, Any]],
    *,
    theory: Mapping[str, Theory] | None = None,
    bound: bool = True,
    ax: Axes | None = None,
    xlabel: str = "training sets",
    ylabel: str = "error / variance of the target",
) -> Axes:
    """Error against the number of training sets, both axes logarithmic.

    Parameters
    ----------
    curves : label -> (samples, errors); errors are (n,), or (n, repeats): their median, and a band from the 10%
        to the 90% quantile. What is not positive and finite has no place on the axes and is left out
    theory : label -> `Theory`: its predicted error as a dashed line; the curve of that label becomes points
    bound : also bound^2 / variance, dotted, where it is below 10

    `sklearn.model_selection.learning_curve` gives samples, training and test scores; for regressors
    ``1 - test_scores`` is the error over the variance.

    >>> import headlens
    >>> predicted = headlens.theory("power-mean", dim=8, keys=4, samples=[32, 64, 128])
    >>> curves = {"attention": ([32, 64, 128], [[0.3, 0.4], [0.1, 0.2], [0.02, 0.03]])}
    >>> headlens.plot.learning_curves(curves, theory={"attention": predicted}).get_yscale()
    'log'
    """
    known = dict(theory or {})
    if unknown := set(known) - set(curves):
        raise ValueError(
            f"theory: {sorted(unknown)[0]!r} given, expected one of {', '.join(map(repr, curves))}"
        )
    ax = one(ax)
    style(ax)
    ax.set_xscale("log", base=2)
    log_y(ax)
    for i, (label, (samples, errors)) in enumerate(curves.items()):
        _draw_curve(ax, i, label, *_quantiles(label, samples, errors), points=label in known)
        if label in known:
            _draw_theory(ax, i, known[label], bound)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    _add_legend(ax, known, bound)
    return ax


def _quantiles(label: str, samples: Any, errors: Any) -> tuple[np.ndarray, np.ndarray]:
    """Samples in order, and the 10%, 50% and 90% quantiles at each."""
    n, e = np.asarray(samples, float), np.asarray(errors, float)
    if n.ndim != 1 or e.ndim not in (1, 2) or len(e) != len(n):
        raise ValueError(
            f"curves[{label!r}]: errors {e.shape} for samples {n.shape}, expected (n,) or (n, repeats)"
        )
    e = np.where((e > 0) & np.isfinite(e), e, np.nan).reshape(len(n), -1)
    keep = ~np.isnan(e).all(1) & (n > 0) & np.isfinite(n)
    order = np.argsort(n[keep])
    levels = np.nanquantile(e[keep], [0.1, 0.5, 0.9], axis=1) if keep.any() else np.empty((3, 0))
    return n[keep][order], levels[:, order]


def _draw_curve(ax: Axes, i: int, label: str, n: np.ndarray, levels: np.ndarray, points: bool) -> None:
    low, middle, high = levels
    if points:  # a line of its own would hide the prediction
        bars = np.stack([middle - low, high - middle])
        ax.errorbar(n, middle, bars, **look(i), linestyle="none", markersize=5, elinewidth=1.2, label=label)
        return
    ax.plot(n, middle, **look(i), markersize=5, linewidth=1.5, label=label)
    ax.fill_between(n, low, high, color=COLOURS[i % len(COLOURS)], alpha=0.18, linewidth=0)


def _draw_theory(ax: Axes, i: int, known: Theory, bound: bool) -> None:
    colour = COLOURS[i % len(COLOURS)]
    ax.plot(known.samples, known.predicted_error, "--", color=colour, linewidth=1.3, zorder=1.5)
    if bound:
        limit = known.square_bound / known.variance
        shown = limit < _LARGEST_BOUND
        ax.plot(known.samples[shown], limit[shown], ":", color=colour, linewidth=1.3, zorder=1.5)


def _add_legend(ax: Axes, known: Mapping[str, Theory], bound: bool) -> None:
    """Measured curves first; one entry for all predictions, one for all bounds."""
    handles, labels = ax.get_legend_handles_labels()
    lines = {"predicted": "--"} if known else {}
    if bound and any((t.square_bound / t.variance < _LARGEST_BOUND).any() for t in known.values()):
        lines["bound"] = ":"
    handles += [ax.plot([], [], line, color=QUIET, linewidth=1.3)[0] for line in lines.values()]
    ax.legend(handles, [*labels, *lines], frameon=False, fontsize="small")


def study_curves(
    rows: Any,
    *,
    x: str = "samples",
    y: str = "nmse",
    series: str | None = None,
    panel: str | None = None,
    theory: bool = False,
    bound: bool = True,
    axes: Any = None,
) -> np.ndarray:
    """Learning curves of a study: one panel for each value of `panel`, one curve for each value of `series`.

    Parameters
    ----------
    rows : what `Study.results` returns, or a `pandas.DataFrame` of it; unfinished and failed cells are left out
    x, y : columns to draw
    series, panel : columns; cells that differ in anything else but their seed are refused, not averaged
    theory : add predictions and bounds to series about which theory speaks, as `headlens report` does

    Returns
    -------
    array (panels,) of axes

    >>> import headlens
    >>> rows = [{"samples": n, "model": m, "seed": s, "status": "done", "nmse": 8 / n + s / 100}
    ...         for n in (16, 32) for m in ("rfa", "mlp") for s in (1, 2)]
    >>> (ax,) = headlens.plot.study_curves(rows, series="model")
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['rfa', 'mlp']
    """
    cells = rows.to_dict("records") if hasattr(rows, "to_dict") else list(rows)
    for name in (x, y, *filter(None, (series, panel))):
        if not any(name in row for row in cells):
            raise ValueError(f"rows: no column {name!r}, expected one of {', '.join(_columns(cells))}")
    cells = [row for row in cells if row.get("status", "done") == "done" and row.get(y) is not None]
    if not cells:
        raise ValueError("rows: no cell is done")
    panels = _distinct(cells, panel)
    own = axes is None
    axes = _panels(axes, len(panels))
    for ax, value in zip(axes, panels):
        _draw_panel(
            ax, [row for row in cells if panel is None or row[panel] == value], x, y, series, theory, bound
        )
        ax.set_title("" if panel is None else _name(panel, value), fontsize="medium")
        ax.set_xlabel("training sets" if x == "samples" else x)
        ax.set_ylabel("error / variance of the target" if y == "nmse" else y)
        if own and ax.get_subplotspec().colspan.start > 0:
            ax.set_ylabel("")
        if ax is not axes[0] and _legend_of(ax) <= _legend_of(axes[0]):
            ax.get_legend().remove()
    return axes


def _panels(axes: Any, count: int) -> np.ndarray:
    """(count,) axes: up to three beside each other, with one scale of errors."""
    if axes is not None:
        return several(axes, (1, count))[0]
    columns = 2 if count == 4 else min(count, 3)
    rows = -(-count // columns)
    made = several(None, (rows, columns), (1.0 + 3.8 * columns, 3.4 * rows), sharey=True).ravel()
    for ax in made[count:]:
        ax.remove()
    return made[:count]


def _legend_of(ax: Axes) -> set[str]:
    legend = ax.get_legend()
    return {text.get_text() for text in legend.get_texts()} if legend else set()


def _draw_panel(
    ax: Axes, cells: list[Any], x: str, y: str, series: str | None, with_theory: bool, bound: bool
) -> None:
    curves, known = {}, {}
    for value in _distinct(cells, series):
        mine = [row for row in cells if series is None or row[series] == value]
        label = "measured" if series is None else _name(series, value)
        curves[label] = _curve(mine, x, y, [x, *filter(None, [series])])
        found = _theory_of(mine, x) if with_theory and x in ("samples", "heads") and y == "nmse" else None
        if found is not None:
            known[label] = found
    learning_curves(curves, theory=known, bound=bound, ax=ax)


def _curve(cells: list[Any], x: str, y: str, named: Sequence[str]) -> tuple[list[Any], np.ndarray]:
    """(values of x, errors (n, seeds)); nan where a seed is missing."""
    samples, seeds = _distinct(cells, x), _distinct(cells, "seed")
    errors = np.full((len(samples), len(seeds)), np.nan)
    for row in cells:
        at = samples.index(row[x]), seeds.index(row.get("seed"))
        if not np.isnan(errors[at]):
            others = [c for c in _columns(cells) if c not in named and len(_distinct(cells, c)) > 1]
            raise ValueError(
                f"rows: several cells with {x} = {row[x]} and the same seed; they differ in "
                f"{', '.join(others) or 'nothing'}: choose series and panel, or fewer rows"
            )
        errors[at] = row[y]
    return samples, errors


def _theory_of(cells: list[Any], x: str) -> Theory | None:
    """What theory says of these cells along x, samples or heads; None where it is silent (docs/reports.md says where).

    Along heads, `samples` holds the numbers of heads: that is where the curve is drawn.
    """
    if x == "samples":
        return _predict(cells[0], sorted(_distinct(cells, "samples")))
    counts = sorted(heads for heads in _distinct(cells, "heads") if heads != "inf")
    points = [_predict({**cells[0], "heads": heads}, [cells[0]["samples"]]) for heads in counts]
    if not points or any(point is None for point in points):
        return None
    columns = ("bound", "predicted_error", "ridge", "square_bound", "heads_needed")
    joined = {name: np.concatenate([getattr(point, name) for point in points]) for name in columns}
    return replace(points[0], samples=np.array(counts), **joined)


def _predict(row: Any, samples: list[int]) -> Theory | None:
    asked = {"score": ["relu"], "positions": ["none"], "norm-ball": ["none"]}
    asked |= {"mean": ["identity"], "head-rank": ["full"], "weight-scale": ["auto"]}
    asked |= {"loss": ["squared"], "ridge": ["auto"], "intercept": [True]}
    if row.get("model") != "mlp":
        asked["weight-scale"] = ["auto", 0.5]
    asked |= {"matrix": ["identity"]} if row.get("model") == "brfa" else {"bias-scale": ["auto", 0]}
    if any(row.get(name, values[0]) not in values for name, values in asked.items()) or "heads" not in row:
        return None
    names = ("dim", "keys", "degree", "pure", "noise", "model", "heads")
    options = {name: row[name] for name in names if name in row}
    if row.get("model") == "brfa" and row.get("bias-scale", "auto") != "auto":
        options["bias_scale"] = row["bias-scale"]
    try:
        found = theory(row["task"], samples=samples, **options)
    except (ValueError, TypeError):  # a task, model or size of sets that it is not about
        return None
    # Cells are tested on targets without noise.
    noise = float(row.get("noise", 0)) ** 2
    clean = found.variance - noise
    return replace(
        found, variance=clean, predicted_error=(found.predicted_error * found.variance - noise) / clean
    )


def _columns(cells: list[Any]) -> list[str]:
    """The options: what stands before the seed."""
    names = list(dict.fromkeys(name for row in cells for name in row))
    return names[: names.index("seed")] if "seed" in names else names


def _distinct(cells: list[Any], column: str | None) -> list[Any]:
    return list(dict.fromkeys(row.get(column) for row in cells)) if column else [None]


def _name(column: str, value: Any) -> str:
    return str(value) if isinstance(value, str) else f"{column} {value}"
