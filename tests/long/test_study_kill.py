"""Nothing ends a study for the worse: kill -9 at random moments, two workers on one store, a full disk."""

import contextlib
import csv
import io
import json
import os
import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

BINARY = Path(os.environ.get("HEADLENS", Path(__file__).resolve().parents[2] / "build" / "headlens"))
STUDY = """name = "victim"
command = "fit"
seeds = [1, 2, 3, 4, 5, 6, 7, 8]
[fixed]
dim = 8
keys = 8
test-samples = 500
[grid]
degree = [1, 2]
samples = [100, 300, 500, 700]
[variants.model]
RFA = {model = "rfa", heads = 300}
RFMLP = {model = "mlp", heads = 2000}
"""
CELLS = 128
KILLS = 50
TIMES = {"fit-seconds", "seconds", "predicted_peak_bytes", "host", "finished"}


def headlens(*words, status=0):
    done = subprocess.run([str(BINARY), *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == status, (words, done.returncode, done.stderr)
    return done


def start(study, store, *options):
    words = [str(BINARY), "study", "run", str(study), "-o", str(store), *options]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def table(store):
    """The exported bytes without the columns of time, memory, host and date."""
    rows = csv.reader(io.StringIO(headlens("study", "export", store, "--format", "csv").stdout))
    header = next(rows)
    keep = [i for i, name in enumerate(header) if name not in TIMES]
    out = io.StringIO()
    csv.writer(out).writerows([[row[i] for i in keep] for row in [header, *rows]])
    return out.getvalue().encode()


def tally(store):
    return json.loads(headlens("study", "status", store, "--json").stdout)["studies"][0]


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "victim.toml"
    path.write_text(STUDY)
    return path


@pytest.fixture
def uninterrupted(study, tmp_path):
    """The table of one run, and the seconds that it took."""
    begin = time.perf_counter()
    headlens("study", "run", study, "-o", tmp_path / "whole.db")
    seconds = time.perf_counter() - begin
    return table(tmp_path / "whole.db"), seconds


def test_kill_at_random_moments(study, uninterrupted, tmp_path, report):
    expected, whole = uninterrupted
    store = tmp_path / "killed.db"
    rng = random.Random(4)
    killed = at_work = done = 0
    while killed < KILLS:
        process = start(study, store, "--jobs", "2")
        # Moments up to twice what is due for a fiftieth of the work: some before the first cell, some after.
        time.sleep(rng.uniform(0, 2 * whole / KILLS + 0.2))
        process.kill()
        process.communicate()
        if process.returncode != -9:  # all cells were done: from here on there is nothing to kill
            store.unlink()
            done = 0
            continue
        killed += 1
        if store.exists() and store.stat().st_size > 0:
            now = tally(store) if has_study(store) else {"done": 0, "failed": 0}
            assert now["done"] >= done and now["failed"] == 0, "a finished cell was lost"
            at_work += now["done"] > done
            done = now["done"]
    final = json.loads(headlens("study", "run", study, "-o", store, "--json").stdout)
    assert final["cells"] == CELLS and final["already_done"] == done
    assert table(store) == expected
    report(
        f"study killed {killed} times, {at_work} of them after new cells; {done} of {CELLS} cells survived the last kill"
    )


def has_study(store):
    done = subprocess.run(
        [str(BINARY), "study", "status", str(store), "--json"], capture_output=True, check=False
    )
    # Killed while the store was being made: an empty file, which the next run fills.
    assert done.returncode == 0 or b"is empty" in done.stderr, done.stderr
    return done.returncode == 0 and json.loads(done.stdout)["studies"] != []


def test_two_workers_and_one_dies(study, uninterrupted, tmp_path, report):
    expected, whole = uninterrupted
    store = tmp_path / "shared.db"
    workers = [start(study, store, "--jobs", "1") for _ in range(3)]
    time.sleep(whole / 3)
    workers[0].kill()
    for worker in workers:
        _, errors = worker.communicate(timeout=600)
        assert worker.returncode in ((-9, 0) if worker is workers[0] else (0,)), errors
    assert table(store) == expected
    report("three workers shared a store, one was killed: the table is that of one uninterrupted run")


@contextlib.contextmanager
def small_disk(folder, size):
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("cannot mount a small disk here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_full_disk(study, uninterrupted, tmp_path, report):
    """The disk fills up during the run; with room again, the same command finishes."""
    expected, _ = uninterrupted
    with small_disk(tmp_path / "disk", "400k") as disk:
        store = disk / "r.db"
        failed = headlens("study", "run", study, "-o", store, status=2)
        assert len(failed.stderr.splitlines()) == 1 and "disk is full" in failed.stderr, failed.stderr
        kept = tally(store)
        assert 0 < kept["done"] < CELLS and kept["failed"] == 0
        subprocess.run(["mount", "-o", "remount,size=8M", str(disk)], check=True)
        final = json.loads(headlens("study", "run", study, "-o", store, "--json").stdout)
        assert final["already_done"] == kept["done"] and final["failed"] == 0
        assert table(store) == expected
    report(f"a full disk kept {kept['done']} of {CELLS} cells; the run went on from there")


def test_a_disk_too_small_for_anything(study, tmp_path):
    with small_disk(tmp_path / "disk", "8k") as disk:
        failed = headlens("study", "run", study, "-o", disk / "r.db", status=2)
        assert len(failed.stderr.splitlines()) == 1, failed.stderr


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("mount"), reason="needs root")
def test_read_only_disk(study, uninterrupted, tmp_path):
    expected, _ = uninterrupted
    with small_disk(tmp_path / "disk", "8M") as disk:
        headlens("study", "run", study, "-o", disk / "r.db", status=0)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        assert table(disk / "r.db") == expected
        refused = headlens("study", "run", study, "-o", disk / "r.db", status=2)
        assert "read-only" in refused.stderr and len(refused.stderr.splitlines()) == 1
