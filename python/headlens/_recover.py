"""From examples of an unknown attention layer to its heads, with a certificate."""

import html
import json
import math
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
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
    variant: str
    """What the layer was said or found to be beyond its heads: "plain", or "causal mask, biases"."""
    variant_evidence: list[dict[str, Any]]
    """variant and held_out_error of every variant that variant='auto' tried."""
    span_dimension: int | None
    """Of the tokens of a variant, where less than d: the heads are determined on their span, and zero beyond."""
    reason: str
    """Why no layer was certified; empty if one was."""
    advice: str
    """What to do about that; empty if a layer was certified."""
    heads_in_doubt: list[int]
    """Heads that the examples do not determine."""
    unseen_directions: list[list[float]]
    """Directions along which the tokens of an example never vary, each with d entries."""
    heads: int
    held_out_error: float | None
    """|F - Y| / |Y| on examples that the search has not seen; None if there was one example only."""
    train_error: float
    examples: int
    held_out: int
    missing_labels: int
    """Labels that are nan in Y, or said to be missing."""
    outliers: list[list[int]]
    """[example, token, output] of every label that disagrees with the layer, and was left out."""
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
    """scale, effective_rank, w_norm, theta_error_bar, w_error_bar, theta_rank, w_rank and mean_pooling of every head.
    The bars of a recovered layer are bounds on |error| / |true size|, those of an approximate one hold with
    probability 0.95."""
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
    backend: str
    """the machine that computed the recovery"""
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
    advice: str = ""
    """What to do about a status without a layer; empty otherwise. The certificate has it in the words of the program."""
    words: str = ""
    """The certificate in words, as `headlens recover` prints it."""

    @property
    def status(self) -> str:
        return self.certificate.status

    def __repr__(self) -> str:
        return self.words

    def _repr_html_(self) -> str:
        """The same words as tables: facts with their names, then what has columns of its own."""
        facts, _, columns = self.words.partition("\n\n")
        tables = [[[line[:18].strip(), line[18:]] for line in facts.splitlines()]]
        tables.append([re.split(r"\s{2,}", line.strip()) for line in columns.splitlines()])
        out = ""
        for rows in tables:
            cells = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows)
            out += f'<table style="text-align:left">{"".join(f"<tr>{row}</tr>" for row in cells)}</table>'
        return out

    def plot(self, truth: AttentionLayer | None = None, **options: Any) -> Any:
        """The certificate, and the heads beside those of `truth`, drawn by `headlens.plot`."""
        import importlib

        plot = importlib.import_module("headlens.plot")
        return plot.recovery(self, truth, **options)


def _read(text: str) -> Certificate:
    """From the JSON of the library, where null stands for a bound that is infinite."""
    found = json.loads(text)
    for head in found["per_head"]:
        for bar in ("theta_error_bar", "w_error_bar"):
            head[bar] = math.inf if head[bar] is None else head[bar]
    return Certificate(**found)


def _only_observed(labels: Any, observed: np.ndarray) -> np.ndarray:
    """The labels, with nan where they are not observed."""
    labels = np.asarray(labels)
    if observed.shape not in (labels.shape, labels.shape[:2]):
        raise ValueError(
            f"observed has shape {observed.shape}, expected {labels.shape[:2]} or {labels.shape}"
        )
    return np.where(observed.reshape(observed.shape + (1,) * (3 - observed.ndim)) != 0, labels, np.nan)


def recover(
    X: Any,
    Y: Any,
    heads: int | str = "auto",
    *,
    max_heads: int = 16,
    rank: int | str = "auto",
    variant: str = "given",
    mask: str = "none",
    bias: bool = False,
    rotary: str = "none",
    kv_groups: int | None = None,
    lengths: Any = None,
    observed: Any = None,
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
    report: str | os.PathLike | None = None,
    threads: int | None = None,
    max_memory: int | str | None = None,
    backend: str = "auto",
    progress: bool | None = None,
) -> Recovery:
    """The heads of an unknown multi-head softmax attention layer, from examples of it.

    Parameters
    ----------
    X : array (n, k, d), inputs
    Y : array (n, k, e), outputs of the layer; nan where a label is missing
    heads : number of heads, or "auto"
    max_heads : most heads that auto tries
    rank : rank of the heads: auto, full (every entry of Theta is an unknown) or a number
    variant : "auto" tries the usual masks, biases and rotary positions and names the simplest that explains the
        labels (with heads); "given" takes the three options below
    mask : "none", "causal": tokens that a token sees: all, or those up to itself (causal)
    bias : query biases (a vector per head), and one constant for value and output biases
    rotary : rotary positions, as base=10000,layout=half (or interleaved), with share=0.5 where only a part of the
        columns is turned; or none
    kv_groups : groups of heads that share keys and values (None: one per head)
    lengths : array (n,), tokens of every example where they differ; the others are padding
    observed : array (n, k) or (n, k, e), false where labels are missing that are not nan
    starts : starts for each number of heads
    start : "random", or "spectral" (many examples, three tokens or more)
    method : "varpro" (variable projection) or "sculpt" (the paper's six phases); "moments" or "gradient", shown
        without a polish; for hard layers "brute-force" (all hidden sets), for hard parities "linear-algebra"
        (equations over GF(2))
    sculpt_form : the body of method='sculpt': an ellipsoid ("least-squares") or a polytope ("lp")
    span_form : how method='sculpt' finds the long directions of the body: "eigenvectors", or "membership" questions
        alone
    polish : polish what method='sculpt' found; sculpting alone is never certified
    steps : steps of gradient descent for each start
    best_fit : the best layer of the given number of heads for labels of any origin, with its excess error; never
        called recovered
    seed : of the starts; the same seed gives the same bytes as `headlens recover`
    time_limit : seconds after which to stop with a status
    report : folder of a page to write, as `headlens recover --report`
    backend : "auto", "cpu" or "cuda", the machine that computes (`headlens.info` lists them)
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
    fill(options.sculpt, sculpt_form=sculpt_form, span_form=span_form, polish=polish)
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
        rank=rank if isinstance(rank, str) else str(whole_number(rank, "rank")),
        variant=variant,
        mask=mask,
        bias=bias,
        rotary=rotary,
        kv_groups=kv_groups,
        starts=starts,
        start=start,
        steps=steps,
        best_fit=best_fit,
        seed=whole_number(seed),
        time_limit=time_limit,
    )
    own = None if lengths is None else as_float64(lengths, "lengths")
    labels = as_float64(Y, "Y")
    if observed is not None:
        labels = _only_observed(labels, np.asarray(observed))
    with settings(threads, max_memory, progress, backend) as how:
        layer, certificate, span, best, advice, words = _core.recover(
            as_float64(X, "X"),
            labels,
            own,
            options,
            None if report is None else Path(report),
            how,
        )
    found, kept = (AttentionLayer._wrap(a) if a is not None else None for a in (layer, best))
    result = Recovery(found, _read(certificate), span, kept, advice, words)
    if found is None:
        warn(f"recover: {result.status}: {result.certificate.reason} {result.advice}")
    return result
