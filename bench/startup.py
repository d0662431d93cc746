"""How long one waits before anything happens: commands of headlens and imports, median of 20 runs of each, alternating.

With --build also the build from a clean clone, without ccache: the program alone, then everything. Wall seconds. Writes
bench/results/startup.json.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

from contest import HEADLENS, ROOT, TORCH_PYTHON, VENV_PYTHON, build, checked_machine, write

RUNS = 20
COMMANDS = {
    "headlens --help": [HEADLENS, "--help"],
    "headlens info": [HEADLENS, "info"],
    "import headlens": [ROOT / ".venv/bin/python", "-c", "import headlens"],
    "Python alone": [ROOT / ".venv/bin/python", "-c", ""],
    "import numpy": [VENV_PYTHON, "-c", "import numpy"],
    "import sklearn.linear_model": [VENV_PYTHON, "-c", "import sklearn.linear_model"],
    "import jax": [VENV_PYTHON, "-c", "import jax"],
    "import torch": [TORCH_PYTHON, "-c", "import torch"],
}


def wall_seconds(command, **options):
    start = time.perf_counter()
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout).strip()[-300:]}")
    return seconds


def start_up():
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "build/python")}
    times = {name: [] for name in COMMANDS}
    for _ in range(RUNS):
        for name, words in COMMANDS.items():
            if times[name] is None:
                continue
            try:
                times[name].append(wall_seconds(words, env=environment))
            except RuntimeError as error:
                print(f"  {name}: left out ({str(error).splitlines()[-1]})")
                times[name] = None
    for name, found in times.items():
        if found:
            print(f"  {name:28s} {1e3 * statistics.median(found):7.0f} ms  (best {1e3 * min(found):.0f})")
    return {
        name: {"median": statistics.median(t), "best": min(t), "runs": t} for name, t in times.items() if t
    }


def clean_build():
    """A clone, configured and built: the program, then the rest (tests and Python package)."""
    environment = {**os.environ, "CCACHE_DISABLE": "1"}
    environment.pop("CMAKE_CXX_COMPILER_LAUNCHER", None)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "clone", "-q", str(ROOT), folder], check=True)
        options = {"cwd": folder, "env": environment}
        python = f"-DPython_EXECUTABLE={ROOT / '.venv/bin/python'}"
        jobs = ["--parallel", os.cpu_count()]
        found = {
            "configure": wall_seconds(
                ["cmake", "--preset", "release", "-DHEADLENS_PYTHON=ON", python], **options
            ),
            "program": wall_seconds(
                ["cmake", "--build", "build", *jobs, "--target", "headlens_app"], **options
            ),
            "everything else": wall_seconds(["cmake", "--build", "build", *jobs], **options),
        }
    for name, seconds in found.items():
        print(f"  {name:28s} {seconds:7.1f} s")
    return {**found, "jobs": os.cpu_count()}


def main():
    build()
    out = {"machine": checked_machine(), "clock": "wall", "start_up": start_up()}
    if "--build" in sys.argv:
        out["build"] = clean_build()
    write("startup", out)


if __name__ == "__main__":
    main()
