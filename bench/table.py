"""Last part of make bench: bench/results/*.json as one page, bench/results/table.md, and what misses its aim.

Aims: the feature map at 70% of the measured GEMM rate at least for d >= 16, and nothing slower than a rival.
"""

import json
import statistics

from contest import RESULTS, ratio

AIM = 0.7


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def interval(found):
    low, middle, high = found
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"


def shape_of(case):
    return f"{case['d']}, {case['N']}, {case['M']}, {case['precision']}, {case['layout']}"


def features(data):
    """A table for each number of threads, the worst of each kind, and the cases that miss an aim."""
    text = ""
    for threads in sorted({case["threads"] for case in data["cases"]}):
        cases = [case for case in data["cases"] if case["threads"] == threads]
        clock = cases[0]["clock"]
        rivals = [name for name in cases[0]["results"] if name != "headlens" and "blocks" not in name]
        text += f"### {threads} thread{'s' * (threads > 1)}, {clock} seconds\n\n"
        text += table(
            [
                "d, N, M, precision, layout",
                "sets",
                "seconds",
                "GFLOP/s",
                "of GEMM",
                "over the floor",
                "peak MiB",
            ]
            + [f"{name}: ratio, peak MiB" for name in rivals],
            [feature_row(case, rivals) for case in cases],
        )
        text += "\n" + worst_of(cases) + "\n"
        others = {name: e for name, e in cases[0]["results"].items() if "blocks of" in name}
        for name, entry in others.items():
            text += f"{shape_of(cases[0])}: {name}: {interval(entry['ratio'])}\n\n"
    return text


def feature_row(case, rivals):
    ours, theirs = case["results"]["headlens"], case["results"]
    return [
        shape_of(case), case["n"], f"{ours['best']:.3f}", f"{ours['gflops']:.1f}", f"{100 * ours['share_of_gemm']:.0f}%",
        f"{case['over_floor']:.2f} ({case['floor_bound']})", f"{ours['peak_mib']:.0f}",
        *(f"{interval(theirs[name]['ratio'])}, {theirs[name]['peak_mib']:.0f}" if name in theirs else "-" for name in rivals),
    ]  # fmt: skip


def worst_of(cases):
    """For each d and precision: least and median share of GEMM, least ratio to the best rival, and the misses."""
    rows, misses = [], []
    for d in sorted({case["d"] for case in cases}):
        for precision in ("float32", "float64"):
            some = [case for case in cases if case["d"] == d and case["precision"] == precision]
            if not some:
                continue
            shares = [case["results"]["headlens"]["share_of_gemm"] for case in some]
            ratios = [case["best_ratio"] for case in some if case["best_ratio"]]
            floors = [case["over_floor"] for case in some]
            rows.append(
                [d, precision, f"{100 * min(shares):.0f}%", f"{100 * statistics.median(shares):.0f}%"]
                + [f"{min(ratios):.2f}", f"{statistics.median(ratios):.2f}", f"{max(floors):.2f}"]
            )
    for case in cases:
        share = case["results"]["headlens"]["share_of_gemm"]
        if case["d"] >= 16 and share < AIM:
            misses.append(f"- {shape_of(case)}: {100 * share:.0f}% of the GEMM rate\n")
        if case["best_ratio"] and case["best_ratio"] < 1:
            misses.append(
                f"- {shape_of(case)}: {case['best_rival']} takes {case['best_ratio']:.2f} of the time\n"
            )
    head = ["d", "precision", "least share of GEMM", "median", "least ratio to the best rival", "median"]
    text = table([*head, "furthest over the floor"], rows)
    return text + "\n" + (f"Missed aims:\n\n{''.join(misses)}" if misses else "No aim is missed.\n")


def fit(data):
    rows = []
    for case in data["cases"]:
        ours = [run["processor_seconds"] for run in case["results"]["headlens"]]
        for name, runs in case["results"].items():
            if "stopped" in runs[-1]:
                least = runs[-1].get("processor_seconds", 0) / min(ours)
                bound = f"over {least:.1f}" if least else "-"
                rows.append([", ".join(map(str, case["case"])), name, "stopped", bound, "-", "-"])
                continue
            seconds = [run["processor_seconds"] for run in runs]
            rows.append(
                [
                    ", ".join(map(str, case["case"])),
                    name,
                    f"{min(seconds):.2f}",
                    interval(ratio(seconds, ours)),
                ]
                + [f"{max(run['peak_mib'] for run in runs):.0f}", f"{runs[0]['nmse']:.4g}"]
            )
    return table(["n, d, N, M, precision", "", "processor seconds", "ratio", "peak MiB", "nmse"], rows)


def predict(data):
    rows = []
    for name, runs in data["runs"].items():
        seconds = [run["processor_seconds"] for run in runs]
        sets = data["sets"] // 10 if "tenth" in name else data["sets"]
        # The rate of the map alone in the same round; its cost a set over that of the command.
        shares = [100 * a * sets / b for a, b in zip(data["map_seconds_a_set"], seconds)]
        rows.append(
            [name, sets, f"{min(seconds):.2f}", f"{min(run['wall_seconds'] for run in runs):.2f}"]
            + [f"{statistics.median(shares):.0f}%", f"{max(run['peak_mib'] for run in runs):.0f}"]
        )
    return table(
        ["", "sets", "processor seconds", "wall seconds", "rate, of the feature map's", "peak MiB"], rows
    )


def kernels(data):
    rows = []
    for contest, results in data["contests"].items():
        for name, entry in results.items():
            rows.append(
                [contest, name, f"{entry['best']:.2f}", f"{1e-6 * entry['pairs_per_second']:.0f}"]
                + [interval(entry["ratio"]), f"{entry['peak_mib']:.0f}"]
            )
    head = ["kernel", "", "processor seconds", "million pairs of keys/s", "ratio", "peak MiB"]
    return (
        table(head, rows)
        + f"\nLargest difference of the two forms of the brfa kernel: {data['difference']:.1e}\n"
    )


def recovery(data):
    rows = []
    for case in data["cases"]:
        k, d, m, n, s = case["case"]
        ours = [run["headlens"] for run in case["results"]]
        adam = [run["adam"] for run in case["results"]]
        reached = [run["seconds"] for run in adam if run["seconds"]]
        # A lower bound where Adam did not arrive.
        ratios = [(b["seconds"] or b["limit"]) / a["seconds"] for a, b in zip(ours, adam)]
        rows.append(
            [f"{k}, {d}, {m}, {n}, {s}", f"{statistics.median(run['seconds'] for run in ours):.2f}"]
            + [
                f"{statistics.median(run['whole'] for run in ours):.2f}",
                f"{max(run['error'] for run in ours):.0e}",
            ]
            + [f"{statistics.median(reached):.1f}" if reached else "-", f"{len(reached)} of {len(adam)}"]
            + [f"{min(ratios):.1f} to {max(ratios):.1f}"]
        )
    head = [
        "k, d, m, examples, s",
        "processor seconds",
        "whole command",
        "worst error",
        "Adam",
        "arrived",
        "ratio",
    ]
    large = data["large"]
    return table(head, rows) + (
        f"\nk = {large['k']}, d = {large['d']}, m = {large['m']} of rank {large['rank']}, {large['n']} examples,"
        f" {large['threads']} threads: {large['status']} in {large['seconds']:.1f} s (wall),"
        f" {large['processor_seconds']:.1f} s of the processor, peak {large['peak_mib']:.0f} MiB,"
        f" worst error {large.get('error', float('nan')):.0e}\n"
    )


def startup(data):
    rows = [
        [name, f"{1e3 * found['median']:.0f} ms", f"{1e3 * found['best']:.0f} ms"]
        for name, found in data["start_up"].items()
    ]
    text = table(["wall time", "median", "best"], rows)
    if "build" in data:
        build = data["build"]
        text += f"\nBuild from a clean clone, {build['jobs']} jobs, without ccache: configuring {build['configure']:.0f} s,"
        text += f" the program {build['program']:.0f} s, everything else {build['everything else']:.0f} s.\n"
    return text


def growth(data):
    rows = []
    for axis in data["axes"]:
        last = axis["points"][-1]
        others = ", ".join(f"{name} = {size}" for name, size in axis["base"].items() if name != axis["axis"])
        rows.append(
            [axis["what"], f"{axis['axis']} to {last[axis['axis']]} ({others})", f"{last['seconds']:.4g}"]
            + [f"{axis['time']:.2f}", f"{axis['time_expected']:.2f}", f"{last['peak_mib']:.0f}"]
            + [f"{axis[name]:.2f}" if name in axis else "-" for name in ("memory", "memory_expected")]
        )
    head = [
        "",
        "along",
        "processor seconds at the end",
        "exponent",
        "expected",
        "peak MiB",
        "exponent",
        "expected",
    ]
    return table(head, rows)


PARTS = {
    "features": ("Feature map", features),
    "fit": ("The whole fit", fit),
    "predict": ("Prediction", predict),
    "kernels": ("Infinitely many heads", kernels),
    "recovery": ("Recovery", recovery),
    "startup": ("Start-up and build", startup),
    "growth": ("Growth", growth),
}


def main():
    page = "# Results of make bench\n\nRatios are the rival's time over that of headlens, with the interval of 90% of"
    page += " the pairs of runs: above 1, headlens is faster.\n"
    for name, (title, render) in PARTS.items():
        file = RESULTS / f"{name}.json"
        if not file.exists():
            page += f"\n## {title}\n\nNot measured.\n"
            continue
        data = json.loads(file.read_text())
        machine = data["machine"]
        page += f"\n## {title}\n\nheadlens {machine['version']} ({machine['commit']}), BLAS core {machine['blas_core']}\n\n"
        page += render(data)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "table.md").write_text(page)
    print("written to bench/results/table.md")


if __name__ == "__main__":
    main()
