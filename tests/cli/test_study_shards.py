"""headlens study run --shard and study merge: parts on many machines, killed and joined."""

import csv
import io
import os
import random
import subprocess
import time

import pytest
from binary import BINARY, ROOT, command, refuse, run, run_json

STUDY = """name = "victim"
command = "fit"
seeds = [1, 2, 3, 4]
[fixed]
dim = 6
keys = 6
test-samples = 100
[grid]
degree = [1, 2]
samples = [50, 100, 200]
[variants.model]
RFA = {model = "rfa", heads = 60}
RFMLP = {model = "mlp", heads = 300}
"""
TIMES = {"fit-seconds", "seconds", "predicted_peak_bytes", "host", "finished"}


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "victim.toml"
    path.write_text(STUDY)
    return path


def table(store):
    """The exported cells without times, memory, host and date."""
    rows = csv.DictReader(io.StringIO(run("study export", store, "--format csv").stdout))
    return [{k: v for k, v in row.items() if k not in TIMES} for row in rows]


def run_until_done(study, store, shard, rng):
    """Kills the part at random moments until a run ends by itself; the number of kills."""
    for kills in range(50):
        words = command("study run", study, "-o", store, "--threads 1 --shard", shard)
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            time.sleep(rng.uniform(0.02, 0.15) * (1 + kills))
            process.kill()
            _, err = process.communicate(timeout=60)
        if process.returncode == 0:
            return kills
        assert process.returncode == -9, err
    raise AssertionError("the part never ended")


def test_parts_killed_at_random_merge_to_the_table_of_one_run(study, tmp_path):
    run("study run", study, "-o", tmp_path / "one.db")
    rng = random.Random(21)
    stores = [tmp_path / f"part-{i}.db" for i in (1, 2, 3)]
    for i, store in enumerate(stores, 1):
        run_until_done(study, store, f"{i}/3", rng)
    done = run_json("study merge", *stores, "-o", tmp_path / "all.db")
    assert (done["cells"], done["added"], done["failed"]) == (48, 48, 0)
    assert table(tmp_path / "all.db") == table(tmp_path / "one.db")
    assert run_json("study merge", *stores, "-o", tmp_path / "all.db")["added"] == 0
    assert run_json("study run", study, "-o", tmp_path / "all.db")["already_done"] == 48


def test_the_script_for_slurm_keeps_what_is_done_where_cells_fail(study, tmp_path):
    study.write_text(STUDY.replace("[50, 100, 200]", "[50, 1000000000]"))  # sets that no memory holds
    task = {"SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_TASK_COUNT": "1", "SLURM_SUBMIT_DIR": str(tmp_path)}
    words = ["bash", str(ROOT / "examples/slurm/study_array.sh"), str(study)]
    for again in range(2):
        done = subprocess.run(
            words, env={**os.environ, **task, "HEADLENS": str(BINARY)}, capture_output=True, text=True, timeout=60, check=False
        )  # fmt: skip
        assert done.returncode == 3, done.stderr
        assert f"{16 * again} before, {32 - 32 * again} now" in done.stdout
    rows = table(tmp_path / "part-1.db")
    assert [row["status"] for row in rows].count("done") == 16 == len(rows) / 2


def test_bad_input_is_one_line(study, tmp_path):
    assert "--shard: '9/8' given, expected I/N" in refuse(
        "study run", study, "-o", tmp_path / "a.db", "--shard 9/8", folder=tmp_path
    )
    assert "no such file" in refuse(
        "study merge", tmp_path / "none.db", "-o", tmp_path / "all.db", folder=tmp_path
    )
    assert "RESULTS" in refuse("study merge -o", tmp_path / "all.db")
    run("study run", study, "-o", tmp_path / "a.db", "--shard 1/48")
    assert "is read by this command" in refuse("study merge", tmp_path / "a.db", "-o", tmp_path / "a.db")
