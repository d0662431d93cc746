"""kill -9 of a random rank at 20 random moments: no hang, nothing half-written; with --checkpoint the same bytes."""

import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

BINARY = Path(os.environ.get("HEADLENS", Path(__file__).resolve().parents[2] / "build" / "headlens"))
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"]
KILLS, PATIENCE = 20, 10
pytestmark = pytest.mark.skipif(
    not shutil.which("mpirun") or not (BINARY.parent / "libheadlens_mpi.so").exists(),
    reason="Open MPI is not installed (scripts/setup mpi), or the plugin was not built",
)


def ranks_of(process):
    done = subprocess.run(
        ["ps", "--ppid", str(process.pid), "-o", "pid="], capture_output=True, text=True, check=False
    )
    return [int(pid) for pid in done.stdout.split()]


def test_killed_ranks(tmp_path, report):
    data, model, sums = tmp_path / "d.npz", tmp_path / "m", tmp_path / "sums"
    generate = "generate power-mean --degree 2 --dim 8 --keys 8 --count 30000 -o".split()
    subprocess.run([str(BINARY), *generate, str(data)], check=True, capture_output=True)
    options = "--heads 300 --solver primal --threads 1 --block-sets 1024".split()
    words = [*MPIRUN, str(BINARY), "fit", str(data), *options, "--checkpoint", str(sums), "-o", str(model)]
    begin = time.perf_counter()
    subprocess.run(words, check=True, capture_output=True, timeout=600)
    whole, expected = time.perf_counter() - begin, model.read_bytes()
    model.unlink()
    rng, killed, longest, resumed = random.Random(20), 0, 0.0, 0
    while killed < KILLS:
        resumed += any(sums.glob("*.checkpoint"))
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            time.sleep(rng.uniform(0.1, whole))
            pids = ranks_of(process)
            if process.poll() is None and pids:
                os.kill(rng.choice(pids), signal.SIGKILL)
                moment = time.perf_counter()
                process.wait(timeout=60)
                longest = max(longest, time.perf_counter() - moment)
            process.wait(timeout=600)
        if process.returncode == 0:  # the fit was faster
            assert model.read_bytes() == expected
            model.unlink()
            continue
        killed += 1
        assert not model.exists()
        assert {path.name for path in tmp_path.iterdir()} <= {"d.npz", "sums"}
    assert longest < PATIENCE
    subprocess.run(words, check=True, capture_output=True, timeout=600)
    assert model.read_bytes() == expected
    report(
        f"a rank killed at {killed} moments: all ended within {longest:.1f} s; {resumed} runs went on from kept sums, "
        "and the last has the bytes of an undisturbed one"
    )


def test_killed_recoveries(tmp_path, report):
    """A recovery keeps nothing: it ends, and a run that is left alone has the bytes that it had before."""
    examples, layer = tmp_path / "e.npz", tmp_path / "l.npz"
    shape = "generate attention-layer --heads 2 --dim 16 --rank 4 --tokens 4 --seed 1 --count 1200 -o".split()
    subprocess.run([str(BINARY), *shape, str(examples)], check=True, capture_output=True)
    options = "--heads 2 --rank 4 --threads 1 -o".split()
    words = [*MPIRUN, str(BINARY), "recover", str(examples), *options, str(layer)]
    begin = time.perf_counter()
    subprocess.run(words, check=True, capture_output=True, timeout=600)
    whole, expected = time.perf_counter() - begin, layer.read_bytes()
    layer.unlink()
    rng, killed, longest = random.Random(21), 0, 0.0
    while killed < KILLS:
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            time.sleep(rng.uniform(0.1, whole))
            pids = ranks_of(process)
            if process.poll() is None and pids:
                os.kill(rng.choice(pids), signal.SIGKILL)
                moment = time.perf_counter()
                process.wait(timeout=60)
                longest = max(longest, time.perf_counter() - moment)
            process.wait(timeout=600)
        if process.returncode == 0:  # the recovery was faster
            assert layer.read_bytes() == expected
            layer.unlink()
            continue
        killed += 1
        assert {path.name for path in tmp_path.iterdir()} == {"e.npz"}
    assert longest < PATIENCE
    report(
        f"a rank of a recovery killed at {killed} moments: all ended within {longest:.1f} s, and no file was left"
    )
