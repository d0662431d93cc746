"""Two programs side by side: is one slower than the other? bench/instructions.py OLD NEW [--repeats 9]

Instructions are counted by callgrind, on one thread: the same number however busy the machine is. Valgrind knows AVX2 and nothing
later, so the counts are those of the AVX2 kernels. The kernels that this machine uses are timed as well: user seconds, the two programs
in turn, the median of the ratios with the second smallest and second largest of them. On a busy machine the counts are to be believed.
"""

import argparse
import os
import pathlib
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

SETS = "generate power-mean --degree 2 --dim 8 --keys 8 --noise 0.1"
INPUTS = [
    f"{SETS} --count 250 --seed 3 -o tiny.npz",
    f"{SETS} --count 500 --seed 1 -o small.npz",
    f"{SETS} --count 1200 --seed 2 -o large.npz",
    "generate attention-layer --heads 2 --dim 5 --tokens 4 --count 60 --seed 1 -o examples.npz",
    "fit tiny.npz --heads 1000 --ridge 1e-3 -o model.hlm",
    "fit tiny.npz --heads 500 --ridge 1e-3 --score softmax --precision f32 -o softmax.hlm",
]
CASES = {
    "start": "info",
    "feature map, every step again": "fit small.npz --heads 48 --ridge 1 --solver iterative --max-memory 4M -o out.hlm",
    "fit, primal": "fit large.npz --heads 20 --solver primal -o out.hlm",
    "fit, dual": "fit tiny.npz --heads 64 --solver dual -o out.hlm",
    "fit, infinitely many heads": "fit tiny.npz --heads inf --ridge 1e-2 -o out.hlm",
    "fit, Huber": "fit tiny.npz --heads 16 --loss huber --ridge 1e-2 -o out.hlm",
    "prediction, relu, f64": "predict model.hlm large.npz -o out.npy",
    "prediction, softmax, f32": "predict softmax.hlm large.npz -o out.npy",
    "recovery": "recover examples.npz --heads 2 --starts 1 -o layer.npz",
}


def run(words, folder, **more):
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, env={**os.environ, **more})
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: exit {done.returncode}: {done.stderr[-500:]}")
    return done


def instructions(binary, command, folder):
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--trace-children=yes"]
    # A core without AVX-512, which also keeps the program from starting itself again.
    words = [*valgrind, binary, *command.split(), "--threads", "1"]
    found = run(words, folder, OPENBLAS_CORETYPE="Haswell", OPENBLAS_NUM_THREADS="1")
    return int(re.findall(r"Collected : (\d+)", found.stderr)[-1])


def seconds(binary, command, folder):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    run([binary, *command.split(), "--threads", "1"], folder, OPENBLAS_NUM_THREADS="1")
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def timed(old, new, command, folder, repeats):
    """Medians of both, and of the ratio of neighbours with its spread."""
    pairs = [(seconds(old, command, folder), seconds(new, command, folder)) for _ in range(repeats)]
    ratios = sorted(b / max(a, 1e-3) for a, b in pairs)
    inner = ratios[1:-1] or ratios
    return statistics.median(a for a, _ in pairs), statistics.median(ratios), inner[0], inner[-1]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument(
        "--repeats", type=int, default=9, help="timed runs of each program; 0: count instructions alone"
    )
    args = parser.parse_args()
    old, new = (str(path.resolve()) for path in (args.old, args.new))
    counted = shutil.which("valgrind") is not None
    if not counted:
        print("valgrind is missing (scripts/setup dev installs it): times alone")
    print(
        f"{'':32}{'instructions of OLD':>20}{'NEW / OLD':>11}{'seconds of OLD':>16}{'NEW / OLD':>11}  spread"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for command in INPUTS:
            run([old, *command.split()], folder)
        for label, command in CASES.items():
            line = f"{label:32}"
            if counted:
                a, b = (instructions(binary, command, folder) for binary in (old, new))
                line += f"{a / 1e6:>18.1f} M{b / a:>11.4f}"
            if args.repeats:
                before, ratio, low, high = timed(old, new, command, folder, args.repeats)
                line += f"{before:>16.3f}{ratio:>11.3f}  {low:.3f} to {high:.3f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
