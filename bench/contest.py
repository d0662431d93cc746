"""What the parts of make bench share: the machine, environments, long-lived workers, ratios with intervals, results."""

import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"
HEADLENS = ROOT / "build/headlens"
VENV_PYTHON = ROOT / ".venv-bench/bin/python"
TORCH_PYTHON = "/usr/bin/python3"  # PyTorch is Debian's

# A program inherits the peak memory of the process that starts it: a bare interpreter goes between.
LAUNCH = """
import json, os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, used = os.wait4(pid, 0)
code = os.waitstatus_to_exitcode(status)
if code == 0:
    found = {"processor_seconds": used.ru_utime + used.ru_stime, "peak_mib": used.ru_maxrss / 1024}
    print(json.dumps(found), file=sys.stderr)
sys.exit(code)
"""


def build(*targets):
    quiet = {"stdout": subprocess.DEVNULL, "check": True, "cwd": ROOT}
    subprocess.run(["cmake", "--preset", "release", "-DHEADLENS_BENCH=ON"], **quiet)
    subprocess.run(["cmake", "--build", "build", "--target", *targets, "headlens_app"], **quiet)


def info():
    out = subprocess.run([HEADLENS, "info", "--json"], capture_output=True, text=True, check=True)
    return json.loads(out.stdout)


def checked_machine():
    machine = info()
    if not machine["blas_core_fits"]:
        sys.exit("bench: the BLAS core is wrong for this processor: any figure would be dishonest")
    return machine


def environment(blas_core, threads):
    """The rivals get the repaired core too: NumPy and PyTorch have the fault that headlens repairs."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {
        **os.environ,
        "OPENBLAS_CORETYPE": blas_core,
        **{name: str(threads) for name in names},
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={str(threads > 1).lower()}",
    }


def pinned(command, threads):
    """Everyone gets as many cores as threads: some libraries take their threads from that alone."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    return ["taskset", "--cpu-list", ",".join(map(str, cores)), *map(str, command)]


class Worker:
    """A process that answers each line of JSON with one of its own, so that imports are paid once."""

    def __init__(self, name, command, core, threads):
        self.name = name
        self.process = subprocess.Popen(
            pinned(command, threads), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=environment(core, threads),
        )  # fmt: skip

    def ask(self, **question):
        """The answer, or None once the process has failed: the reason is printed, the others go on."""
        try:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())
        except (BrokenPipeError, json.JSONDecodeError):
            lines = self.process.stderr.read().strip().splitlines()
            print(f"  {self.name}: left out ({lines[-1] if lines else 'no answer'})", flush=True)
            return None

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def command(words, core, threads):
    """Runs one program to its end: output, processor seconds, peak MiB."""
    launched = pinned([sys.executable, "-I", "-S", "-c", LAUNCH, *words], threads)
    done = subprocess.run(launched, capture_output=True, text=True, env=environment(core, threads))
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}: {(done.stderr or done.stdout).strip()[-300:]}")
    used = json.loads(done.stderr.splitlines()[-1])
    return done.stdout, used["processor_seconds"], used["peak_mib"]


def headlens(*words, core, threads=1):
    """A command of headlens: its JSON, processor seconds and peak MiB."""
    text, seconds, peak = command([HEADLENS, *words, "--threads", threads, "--json"], core, threads)
    return json.loads(text), seconds, peak


def ratio(theirs, ours):
    """Median of the ratios of all pairs of runs and the interval that holds 90% of them: the noise of this machine."""
    ratios = sorted(a / b for a in theirs for b in ours)
    cut = len(ratios) // 20
    return [ratios[cut], statistics.median(ratios), ratios[-1 - cut]]


def write(name, out):
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(out, indent=1))
    print(f"written to bench/results/{name}.json", flush=True)
