"""make bench-cuda: the CUDA back end against PyTorch on the same device, and against two threads of the processor.

Medians. The floor of the feature map is the larger of two times: its flops over the peak rate of the precision (H200: 67 TFLOP/s
float32, 34 float64 without tensor cores) and its features over the bandwidth of the memory (4.3 TB/s, as copies measure).
Writes bench/results/cuda.json. `bench/cuda.py REPEATS`, 5 by default.
"""

import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SETS, DIM, KEYS, HEADS = 131072, 16, 16, 1000
PEAK = {"f32": 67e12, "f64": 34e12}
BANDWIDTH = 4.3e12


def output(*words):
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def floor(precision):
    width = DIM + 1
    flops = 2.0 * SETS * HEADS * width * (width + 2 * KEYS)
    written = SETS * HEADS * width * (4.0 if precision == "f32" else 8.0)
    return max(flops / PEAK[precision], written / BANDWIDTH)


def report(ours, rival, kernel, processor):
    for precision in ("f32", "f64"):
        mine = statistics.median(ours["features"][precision]["seconds"])
        best = min(statistics.median(rival[f"features {precision} {form}"]) for form in ("eager", "compiled"))
        print(
            f"feature map {precision}: {1e3 * mine:.2f} ms, PyTorch {1e3 * best:.2f} ms ({best / mine:.1f} x),"
            f" floor {1e3 * floor(precision):.2f} ms ({100 * floor(precision) / mine:.0f}% of it)"
        )
    for name, found in ours["fit"].items():
        print(
            f"whole fit, {name}: {statistics.median(found['seconds']):.3f} s, residual {found['residual']:.1e}"
        )
    for name in ("f32", "tf32", "f64"):
        print(f"whole fit, PyTorch {name}: {statistics.median(rival[f'fit {name}']):.3f} s")
    mine = statistics.median(kernel["device"])
    print(
        f"kernel, n = 20000: {mine:.2f} s, two threads {processor['seconds']:.1f} s"
        f" ({processor['seconds'] / mine:.0f} x)"
    )


def main():
    repeats = sys.argv[1] if len(sys.argv) > 1 else "5"
    worker = str(ROOT / "build/bench/bench_cuda")
    ours = {part: output(worker, part, repeats) for part in ("features", "fit")}
    kernel = output(worker, "kernel", repeats)
    processor = output(worker, "cpu-kernel", "1")
    rival = output("python3", str(ROOT / "bench/rivals/cuda.py"), repeats)
    report(ours, rival, kernel, processor)
    path = ROOT / "bench/results/cuda.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**ours, "kernel": kernel, "processor": processor, "rival": rival}, indent=1))


if __name__ == "__main__":
    main()
