"""Running headlens under mpirun, and ending one of its ranks."""

import os
import random
import shlex
import shutil
import signal
import subprocess
import time

import pytest
from binary import BINARY, command

needs_mpi = pytest.mark.skipif(
    not shutil.which("mpirun") or not (BINARY.parent / "libheadlens_mpi.so").exists(),
    reason="Open MPI is not installed (scripts/setup mpi), or the plugin was not built",
)
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]


def mpirun(ranks, *args, status=0, timeout=150, **options):
    words = [*MPIRUN, "-n", str(ranks), *command(*args)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False, **options)
    assert status is None or done.returncode == status, (shlex.join(words), done.returncode, done.stderr)
    return done


def lines_of(done):
    """What headlens itself says on standard error; mpirun adds its own."""
    return [line for line in done.stderr.splitlines() if line.startswith("headlens:")]


def expect_refused(done, folder, *words, before=()):
    """One line with these words, a status that is not 0, and no new file."""
    assert done.returncode != 0
    said = lines_of(done)
    assert len(said) == 1 and all(word in said[0] for word in words), done.stderr
    assert {path.name for path in folder.iterdir()} == set(before)


def different(words, more, timeout=60):
    """Two ranks whose words differ in what comes last."""
    parts = []
    for last in more:
        parts += ["-n", "1", *command(*words, last), ":"]
    return subprocess.run(
        [*MPIRUN, *parts[:-1]], capture_output=True, text=True, timeout=timeout, check=False
    )


def ranks_of(process):
    """Process ids of the ranks that this mpirun started."""
    text = subprocess.run(
        ["ps", "--ppid", str(process.pid), "-o", "pid="], capture_output=True, text=True, check=False
    )
    return [int(pid) for pid in text.stdout.split()]


def start_and_kill(words, seconds, number=signal.SIGKILL, rng=None):
    """Ends one rank so many seconds after the ranks have begun; the status of mpirun, and how long the others took to end."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not ranks_of(process) and process.poll() is None:
            time.sleep(0.01)
        time.sleep(seconds)
        pids = ranks_of(process)
        if pids and process.poll() is None:
            os.kill((rng or random).choice(pids), number)
        begin = time.perf_counter()
        process.communicate(timeout=60)
    return process.returncode, time.perf_counter() - begin
