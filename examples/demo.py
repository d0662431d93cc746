#!/usr/bin/env python3
"""What one attention layer learns, and from how many samples: three targets, three models, learning curves.

Runs `headlens generate`, `fit` and `evaluate`, prints the comparison and writes demo/report.html
(self-contained) and demo/learning-curves.svg. Started by `make demo`; about a minute on two cores.
"""

import json
import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from learning_curves import curves_svg
from report_page import report_html

ROOT = Path(__file__).resolve().parents[1]
BINARY = Path(os.environ.get("HEADLENS", ROOT / "build" / "headlens"))
DEMO = ROOT / "demo"

DIM = KEYS = 16
HEADS = 1000
COUNTS = (64, 128, 256, 512, 1024)
TEST_COUNT = 2000


@dataclass
class Target:
    title: str
    formula: str
    task: str  # as `headlens generate` takes it
    lesson: str


@dataclass
class Model:
    title: str
    kind: str  # as `headlens fit` takes it
    heads: int
    note: str


TARGETS = (
    Target("Square power mean", "(1/N) Σ ⟨β, xᵢ⟩²", "power-mean --degree 2",
           "A mean of squares over the keys. Both attention models learn it; the network without attention "
           "does not start here: in theory it needs some 60 times more samples."),
    Target("Native", "(1/N) Σ c₀(⟨x₀, xᵢ⟩) ⟨β, xᵢ⟩", "native --matrix identity",
           "Keys count by how much they agree with the query. That is what the biased heads compute on "
           "average, so BRFA is far ahead of RFA."),
    Target("Native, shifted", "(1/N) Σ c₀(⟨x₀, S xᵢ⟩) ⟨β, xᵢ⟩", "native --matrix shift",
           "The same after a cyclic shift S of the coordinates. Now the bias looks in the wrong direction, "
           "and RFA, which has none, is better."),
)  # fmt: skip

MODELS = (
    Model("RFA", "rfa", HEADS, f"attention, {HEADS} random heads"),
    Model("BRFA", "brfa", HEADS, f"heads of mean identity, {HEADS}"),
    Model("RFMLP", "mlp", HEADS * (DIM + 1), f"no attention, {HEADS * (DIM + 1)} neurons"),
)


@dataclass
class Session:
    """Runs headlens in the demo folder and remembers the commands."""

    commands: list = field(default_factory=list)

    def run(self, line):
        words = shlex.split(line)
        self.commands.append("headlens " + line)
        done = subprocess.run(
            [BINARY, *words, "--json"], cwd=DEMO, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            sys.exit(done.stderr.strip() or f"headlens {line}: exit status {done.returncode}")
        return json.loads(done.stdout)


def measure(session, target, model, count):
    """nmse on fresh sets after training on `count` sets: four commands."""
    shape = f"generate {target.task} --dim {DIM} --keys {KEYS}"
    session.run(f"{shape} --count {count} --seed 1 -o train.npz")
    session.run(f"{shape} --count {TEST_COUNT} --seed 2 -o test.npz")
    session.run(f"fit train.npz --model {model.kind} --heads {model.heads} -o model.hlm")
    return session.run("evaluate model.hlm test.npz")["nmse"]


def recover_a_layer(session):
    """The second question: the heads of a hidden layer, from examples alone."""
    session.run("generate attention-layer --heads 4 --dim 16 --tokens 6 --count 320 --seed 1 -o examples.npz"
                " --layer-out truth.npz")  # fmt: skip
    certificate = session.run("recover examples.npz -o layer.npz")
    error = session.run("compare layer.npz truth.npz")["worst_error"]
    for name in ("examples.npz", "truth.npz", "layer.npz"):
        (DEMO / name).unlink()
    return (f"A hidden attention layer (d = 16) from 320 examples: {certificate['status']}, {certificate['heads']} heads,"
            f" worst error {error:.0e}, {certificate['seconds']:.1f} s")  # fmt: skip


def table_lines(curves):
    yield f"{'error (nmse) on fresh sets':<30}" + "".join(f"{f'n = {n}':>10}" for n in COUNTS)
    for target in TARGETS:
        for model in MODELS:
            errors = curves[target.title, model.title]
            yield f"{target.title:<22}{model.title:<8}" + "".join(f"{e:>10.3f}" for e in errors)
        yield ""


def main():
    if not BINARY.exists():
        sys.exit(f"{BINARY} is missing: run `make` first")
    DEMO.mkdir(exist_ok=True)
    start = time.monotonic()
    session, curves = Session(), {}
    for target in TARGETS:
        for model in MODELS:
            before = time.monotonic()
            curves[target.title, model.title] = errors = [measure(session, target, model, n) for n in COUNTS]
            spent = time.monotonic() - before
            print(f"{target.title:<18} {model.title:<6} n = {COUNTS[0]} to {COUNTS[-1]}: "
                  f"error {errors[0]:.3f} to {errors[-1]:.3f}   ({spent:.1f} s)", flush=True)  # fmt: skip
    print()
    for line in table_lines(curves):
        print(line)
    print(recover_a_layer(session))
    for name in ("train.npz", "test.npz", "model.hlm"):
        (DEMO / name).unlink()
    svg = curves_svg(TARGETS, MODELS, COUNTS, curves)
    info = subprocess.run([BINARY, "info"], capture_output=True, text=True, check=True).stdout
    page = report_html(TARGETS, MODELS, COUNTS, curves, svg, session.commands, info, f"d = N = {DIM}")
    (DEMO / "learning-curves.svg").write_text(svg)
    (DEMO / "report.html").write_text(page)
    print(f"{time.monotonic() - start:.0f} s in all. The report: {DEMO / 'report.html'}")


if __name__ == "__main__":
    main()
