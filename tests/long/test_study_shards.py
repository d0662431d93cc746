"""500 cells in 8 shards that are killed at random moments: the merged table is that of one run."""

import csv
import io
import json
import os
import random
import subprocess
import time
from pathlib import Path

BINARY = Path(os.environ.get("HEADLENS", Path(__file__).resolve().parents[2] / "build" / "headlens"))
STUDY = """name = "many"
command = "fit"
seeds = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25]
[fixed]
dim = 6
keys = 6
test-samples = 100
[grid]
degree = [1, 2]
samples = [50, 100, 150, 200, 250]
[variants.model]
RFA = {model = "rfa", heads = 60}
RFMLP = {model = "mlp", heads = 300}
"""
CELLS, SHARDS, KILLS = 500, 8, 3
TIMES = {"fit-seconds", "seconds", "predicted_peak_bytes", "host", "finished"}


def headlens(*words):
    done = subprocess.run([str(BINARY), *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def table(store):
    rows = csv.DictReader(io.StringIO(headlens("study", "export", store, "--format", "csv")))
    return [{k: v for k, v in row.items() if k not in TIMES} for row in rows]


def killed(words, seconds):
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        time.sleep(seconds)
        process.kill()
        process.wait(timeout=60)
    return process.returncode == -9


def test_shards_that_are_killed_merge_to_one_run(tmp_path, report):
    study = tmp_path / "many.toml"
    study.write_text(STUDY)
    start = time.perf_counter()
    headlens("study", "run", study, "-o", tmp_path / "one.db")
    whole = time.perf_counter() - start
    rng = random.Random(8)
    stores, kills = [], 0
    for i in range(1, SHARDS + 1):
        stores.append(tmp_path / f"part-{i}.db")
        words = ["study", "run", study, "-o", stores[-1], "--shard", f"{i}/{SHARDS}"]
        for _ in range(KILLS):
            kills += killed([str(BINARY), *map(str, words)], rng.uniform(0.02, 1.5 * whole / SHARDS / KILLS))
        headlens(*words)
    merged = json.loads(headlens("study", "merge", *stores, "-o", tmp_path / "all.db", "--json"))
    assert (merged["cells"], merged["added"], merged["failed"]) == (CELLS, CELLS, 0)
    assert table(tmp_path / "all.db") == table(tmp_path / "one.db")
    assert kills >= SHARDS
    report(f"{CELLS} cells in {SHARDS} shards, killed {kills} times: the merged table is that of one run")
