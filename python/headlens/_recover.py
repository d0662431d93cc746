"""From examples of an unknown attention layer to its heads, with a certificate."""

import html
import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from . import _core
from ._arrays import as_float64
from ._call import fill, settings, warn, whole_number
from ._layer import AttentionLayer


@dataclass(frozen=True)
class Certificate:
    """The evidence for a recovery, in the words of `headlens recover --json`."""

    status: str
    """recovered, approximate, needs_more_examples, not_identified, stalled or best_fit."""
    reason: str
    """Why no layer was certified; empty if one was."""
    advice: str
    """What to do about that; empty if a layer was certified."""
    heads_in_doubt: list[int]
    """Heads that the examples do not determine."""
    unseen_directions: list[list[float]]
    """Directions along which the tokens of an example never vary, each with d entries."""
    heads: int
    held_out_error: float
    """|F - Y| / |Y| on examples that the search has not seen."""
    train_error: float
    examples: int
    held_out: int
    examples_per_unknown: float
    residual_z: float | None
    noise: float | None
    """Standard deviation of the labels' noise, from the residual."""
    smallest_singular_value: float | None
    weakest_direction: list[float]
    head_count_evidence: list[dict[str, Any]]
    """heads, train_error and held_out_error of every number of heads that was tried."""
    moment_singular_values: list[float]
    per_head: list[dict[str, Any]]
    """scale, effective_rank, w_norm, theta_error_bar, w_error_bar and mean_pooling of every head. The bars of a
    recovered layer are bounds on |error| / |true size|, those of an approximate one hold with probability 0.95."""
    starts: int
    steps: int
    inner_steps: int
    sculpt: dict[str, Any] | None
    parity: dict[str, Any] | None
    """The hidden set and the evidence for it, of the methods that know hard layers; None for others."""
    best_fit: dict[str, Any] | None
    """repeats, noise_floor, excess_error and excess_interval of a best fit; None if none was asked for."""
    phases: dict[str, float]
    trace: list[dict[str, Any]]
    """phase, heads, step, seconds, train_error and (gradient) held_out_error of every step that was kept."""
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists and numbers."""
        return asdict(self)

    def to_json(self) -> str:
        """As `headlens recover --certificate` writes it."""
        return json.dumps(self.to_dict(), indent=2) + "\n"


@dataclass(frozen=True, repr=False, eq=False)
class Recovery:
    """A recovered layer and its certificate."""

    layer: AttentionLayer | None
    """None unless the status is recovered, approximate or best_fit."""
    certificate: Certificate
    span: np.ndarray | None = None
    """(m - 1, d, d): directions Theta_i - Theta_j that sculpting found; None for other methods."""
    best: AttentionLayer | None = None
    """The best layer that was found, certified or not; None where there was nothing to find."""

    @property
    def status(self) -> str:
        return self.certificate.status

    @property
    def advice(self) -> str:
        """What to do about a status without a layer; empty otherwise."""
        return self.certificate.advice

    def _facts(self) -> list[tuple[str, str]]:
        c = self.certificate
        facts = [
            ("status", c.status),
            ("heads", str(c.heads)),
            ("held-out error", f"{c.held_out_error:.1e} on {c.held_out} of {c.examples} examples"),
            ("equations per unknown", f"{c.examples_per_unknown:.2f}"),
        ]
        if c.noise is not None:
            facts.append(("noise of labels", f"{c.noise:.1e}"))
        tried = ", ".join(f"{t['heads']}: {t['held_out_error']:.1e}" for t in c.head_count_evidence)
        facts.append(("heads tried", tried))
        if c.best_fit is not None:
            facts += _excess(c.best_fit)
        if c.parity is not None:
            facts.append(("hidden set", " ".join(map(str, c.parity["set"])) + f" ({_evidence(c.parity)})"))
        facts.append(("work", f"{c.starts} starts, {c.steps} steps, {c.seconds:.2f} s"))
        if c.reason:
            facts += [("why", c.reason), ("what next", c.advice)]
        return facts

    def _heads(self) -> list[list[str]]:
        return [
            [
                str(i),
                f"{head['scale']:.3f}",
                f"{head['effective_rank']:.2f}",
                f"{head['w_norm']:.3f}",
                f"{head['theta_error_bar']:.1e}",
                f"{head['w_error_bar']:.1e}",
            ]
            for i, head in enumerate(self.certificate.per_head)
        ]

    _COLUMNS = ("head", "logit scale", "effective rank", "|W|", "error of Theta", "error of W")

    def __repr__(self) -> str:
        lines = [f"{name:<22}{value}" for name, value in self._facts()]
        rows = self._heads()
        if rows:
            lines.append("  ".join(f"{name:>14}" if i else name for i, name in enumerate(self._COLUMNS)))
            lines += [
                "  ".join(f"{cell:>14}" if i else f"{cell:<4}" for i, cell in enumerate(row)) for row in rows
            ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        def row(cells: Any, tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

        facts = "".join(
            f'<tr><th style="text-align:left">{html.escape(name)}</th>'
            f'<td style="text-align:left">{html.escape(value)}</td></tr>'
            for name, value in self._facts()
        )
        out = f"<table>{facts}</table>"
        heads = self._heads()
        if heads:
            body = "".join(row(cells, "td") for cells in heads)
            out += f"<table><thead>{row(self._COLUMNS, 'th')}</thead><tbody>{body}</tbody></table>"
        return out

    def plot(self, truth: AttentionLayer | None = None, **options: Any) -> Any:
        """The certificate, and the heads beside those of `truth`, drawn by `headlens.plot`."""
        import importlib

        plot = importlib.import_module("headlens.plot")
        return plot.recovery(self, truth, **options)


def _excess(fit: dict[str, Any]) -> list[tuple[str, str]]:
    """The noise floor and the excess error of a best fit."""
    interval = fit["excess_interval"]
    if fit["noise_floor"] is None:
        floor, excess = "unknown: no X repeats", f"at most {interval[1]:.1e}" if interval else "unknown"
    else:
        floor, excess = (
            f"{fit['noise_floor']:.1e} from {fit['repeats']} repeats",
            f"{fit['excess_error']:.1e}",
        )
        if interval:
            excess += f" ({interval[0]:.1e} to {interval[1]:.1e})"
    return [("noise floor", floor), ("excess error", excess)]


def _evidence(parity: dict[str, Any]) -> str:
    """For a hidden set, of either method."""
    if "rank" in parity:
        return f"{parity['equations']} equations of rank {parity['rank']}, {parity['violated']} contradict"
    return (
        f"correlation {parity['correlation']:.3f}, next best {parity['next_correlation']:.3f}; "
        f"{parity['tried']:.0f} of {parity['candidates']:.0f} sets tried"
    )


def recover(
    X: Any,
    Y: Any,
    heads: int | str = "auto",
    *,
    max_heads: int = 16,
    starts: int = 6,
    start: str = "random",
    method: str = "varpro",
    sculpt_form: str = "least-squares",
    span_form: str = "eigenvectors",
    polish: bool = True,
    steps: int = 3000,
    best_fit: bool = False,
    seed: int = 0,
    time_limit: float | None = None,
    threads: int | None = None,
    max_memory: int | str | None = None,
    progress: bool | None = None,
) -> Recovery:
    """The heads of an unknown multi-head softmax attention layer, from examples of it.

    Parameters
    ----------
    X : array (n, k, d), inputs
    Y : array (n, k, e), outputs of the layer
    heads : number of heads, or "auto"
    max_heads : most heads that "auto" tries
    starts : for each number of heads
    start : "random", or "spectral" (many examples, three tokens or more)
    method : "varpro" (variable projection) or "sculpt" (the paper's six phases); "moments" or "gradient" (Adam),
        which show how far they come without a polish; for hard parities and roundings "brute-force" (all hidden
        sets), for hard parities "linear-algebra" (equations over GF(2))
    sculpt_form : "least-squares" or "lp", the body of sculpting
    span_form : "eigenvectors" or "membership", how sculpting finds its long directions
    polish : False: what sculpting alone reaches, as `--no-polish`; never certified
    steps : of "gradient", for each start
    best_fit : the best layer of `heads` heads for labels of any origin, with its excess error over the noise
        floor; the status is then "best_fit", never "recovered"
    seed : of the starts; the same seed gives the same bytes as `headlens recover`
    time_limit : seconds after which to stop with the status "stalled"
    progress : show a tqdm bar; None: on terminals and in notebooks

    Returns
    -------
    Recovery, with a layer if the status is "recovered", "approximate" or "best_fit"; otherwise a
    `NumericalWarning` says why there is none.

    >>> import headlens
    >>> truth = headlens.AttentionLayer.random(heads=2, dim=4, seed=1)
    >>> X, Y = truth.examples(count=60, tokens=4)
    >>> recovery = headlens.recover(X, Y)
    >>> recovery.layer, recovery.certificate.heads
    (AttentionLayer(heads=2, dim=4, outputs=4), 2)
    >>> headlens.compare(recovery.layer, truth).worst_error < 1e-8
    True
    """
    options = _core.RecoverOptions()
    fill(options.sculpt, form=sculpt_form, span=span_form, polish=polish)
    if heads == "auto":
        heads_given = None
    elif isinstance(heads, str):
        raise ValueError(f"heads: '{heads}' given, expected auto, or 1 or more")
    else:
        heads_given = heads
    fill(
        options,
        method=method,
        heads=heads_given,
        max_heads=max_heads,
        starts=starts,
        start=start,
        steps=steps,
        best_fit=best_fit,
        seed=whole_number(seed),
        time_limit=time_limit,
    )
    with settings(threads, max_memory, progress) as how:
        layer, certificate, span, best = _core.recover(as_float64(X, "X"), as_float64(Y, "Y"), options, how)
    found, kept = (AttentionLayer._wrap(a) if a is not None else None for a in (layer, best))
    result = Recovery(found, Certificate(**certificate), span, kept)
    if found is None:
        warn(f"recover: {result.status}: {result.certificate.reason} {result.advice}")
    return result
