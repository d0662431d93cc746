"""The paper's guarantee beside what sculpting does: fitted exponents of its time and of its error.

    python examples/sculpt_guarantee.py [--small] [--seeds 3]

One quantity varies at a time around (k, d, m, n, logit scale) = (2, 8, 2, 20000, 2). Every row is the median over seeds
of the sine of the angle to the true hull, the held-out error of the net and the processor seconds, all of sculpting alone
(`--no-polish`), and the share of rows where all heads put more than .95 on one token (matched). Under the table stand
the exponents: the slopes of straight lines through the logarithms, in each quantity, and in the matched share as k, m
or the scale changes it. About ten minutes; `--small` takes under a minute.
"""

import argparse
import math
import statistics

from sculpt_fading import sculpt

BASE = {"k": 2, "d": 8, "m": 2, "n": 20000, "scale": 2}
GRID = {
    "n": (1250, 2500, 5000, 10000, 20000, 40000),
    "d": (6, 8, 12, 16),
    "k": (2, 3, 4, 6),
    "m": (2, 3, 4),
    "scale": (1, 2, 4, 8, 12),
}
SMALL_BASE = BASE | {"d": 7, "n": 4000}
SMALL_GRID = {"n": (1000, 4000), "k": (2, 3), "m": (2, 3), "scale": (2, 8)}


def exponent(at, values):
    """The slope of log(value) against log(at), by least squares."""
    x, y = [math.log(a) for a in at], [math.log(max(v, 1e-300)) for v in values]
    mean_x, mean_y = statistics.mean(x), statistics.mean(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / sum((a - mean_x) ** 2 for a in x)


def slopes_of(name, at, found):
    """A line of exponents in a quantity that took these values."""
    over = f"{100 * at[0]:.2g}% to {100 * at[-1]:.2g}%" if "matched" in name else f"{at[0]} to {at[-1]}"
    of = [exponent(at, [r[key] for r in found]) for key in ("sine", "net_error", "seconds")]
    return f"| {name} | {over} | " + " | ".join(f"{slope:+.2f}" for slope in of) + " |"


def measure(case, seeds):
    runs = [sculpt(*(case[key] for key in BASE), seed, "--no-polish") for seed in range(seeds)]
    return {
        key: statistics.median(run[key] for run in runs)
        for key in ("sine", "net_error", "seconds", "matched")
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="few and small cases, one seed")
    parser.add_argument("--seeds", type=int, default=3, help="layers for each case")
    given = parser.parse_args()
    base, grid = (SMALL_BASE, SMALL_GRID) if given.small else (BASE, GRID)
    seeds = 1 if given.small else given.seeds
    print("| k | d | m | n | scale | matched | sine | net error | seconds |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    slopes, matched, known = [], [], {}
    for name, values in grid.items():
        found = []
        for value in values:
            case = base | {name: value}
            key = tuple(case.values())
            if key not in known:
                known[key] = measure(case, seeds)
                shape = " | ".join(str(x) for x in key)
                r = known[key]
                print(
                    f"| {shape} | {100 * r['matched']:.2g}% | {r['sine']:.3f} | {r['net_error']:.4f} | {r['seconds']:.1f} |",
                    flush=True,
                )
            found.append(known[key])
        slopes.append(slopes_of(name, values, found))
        if name in ("k", "m", "scale"):
            matched.append(slopes_of(f"matched share, by {name}", [r["matched"] for r in found], found))
    print("\n| exponent in | over | sine | net error | seconds |\n|---|---|---|---|---|")
    print("\n".join(slopes + matched))


if __name__ == "__main__":
    main()
