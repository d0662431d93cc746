"""kill -9 of a random rank at 20 random moments: no hang, nothing half-written; with --checkpoint the same bytes."""

import os
import random
import signal
import subprocess
import time

from binary import command, run
from ranks import MPIRUN, needs_mpi, ranks_of

KILLS, PATIENCE = 20, 10
pytestmark = needs_mpi


def run_and_kill(words, output, kills, rng, between=lambda: None):
    """Kills a rank of so many runs of a command. What lies under `output` has the bytes of a run that is left alone: a rank may die
    when the file has just been written. Returns these bytes and the longest time that the others took to end; `between` is called
    before every run.
    """
    begin = time.perf_counter()
    subprocess.run(words, check=True, capture_output=True, timeout=600)
    whole, expected = time.perf_counter() - begin, output.read_bytes()
    killed, longest = 0, 0.0
    while killed < kills:
        output.unlink(missing_ok=True)
        between()
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            time.sleep(rng.uniform(0.1, whole))
            pids = ranks_of(process)
            if process.poll() is None and pids:
                os.kill(rng.choice(pids), signal.SIGKILL)
                moment = time.perf_counter()
                process.wait(timeout=60)
                longest = max(longest, time.perf_counter() - moment)
            process.wait(timeout=600)
        killed += process.returncode != 0  # else the run was faster
        if output.exists() or process.returncode == 0:
            assert output.read_bytes() == expected
    return expected, longest


def names(folder):
    """Of files, but for temporary ones: rank 0 may have been killed while it wrote."""
    return {path.name for path in folder.iterdir() if ".tmp-" not in path.name}


def test_killed_ranks(tmp_path, report):
    data, model, sums = tmp_path / "d.npz", tmp_path / "m", tmp_path / "sums"
    run("generate power-mean --degree 2 --dim 8 --keys 8 --count 30000 -o", data)
    options = "--heads 300 --solver primal --threads 1 --block-sets 1024"
    words = [*MPIRUN, "-n", "2", *command("fit", data, options, "--checkpoint", sums, "-o", model)]
    resumed = []

    def between():
        assert names(tmp_path) <= {"d.npz", "sums"}
        resumed.append(any(sums.glob("*.checkpoint")))

    expected, longest = run_and_kill(words, model, KILLS, random.Random(20), between)
    model.unlink(missing_ok=True)
    between()
    assert longest < PATIENCE
    subprocess.run(words, check=True, capture_output=True, timeout=600)
    assert model.read_bytes() == expected
    report(
        f"a rank killed at {KILLS} moments: all ended within {longest:.1f} s; {sum(resumed)} runs went on from kept sums, "
        "and the last has the bytes of an undisturbed one"
    )


def test_killed_recoveries(tmp_path, report):
    """A recovery keeps nothing: it ends, and a run that is left alone has the bytes that it had before."""
    examples, layer = tmp_path / "e.npz", tmp_path / "l.npz"
    shape = "--heads 2 --dim 16 --rank 4 --tokens 4 --seed 1 --count 1200"
    run("generate attention-layer", shape, "-o", examples)
    words = [*MPIRUN, "-n", "2", *command("recover", examples, "--heads 2 --rank 4 --threads 1 -o", layer)]

    def between():
        assert names(tmp_path) == {"e.npz"}

    _, longest = run_and_kill(words, layer, KILLS, random.Random(21), between)
    layer.unlink(missing_ok=True)
    between()
    assert longest < PATIENCE
    report(
        f"a rank of a recovery killed at {KILLS} moments: all ended within {longest:.1f} s, and nothing half-written was left"
    )
