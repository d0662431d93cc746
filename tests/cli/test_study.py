"""headlens study: runs, resumes, exports, and says what is wrong."""

import contextlib
import csv
import io
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import time
import zlib

import pytest
from binary import ROOT, command, refuse, run, run_json

TINY = """name = "tiny"
command = "fit"
seeds = [1, 2]
record = ["nmse", "fit-seconds"]
[fixed]
dim = 3
keys = 3
test-samples = 20
[grid]
samples = [5, 10, 20]
[variants.model]
attention = {model = "rfa", heads = 5}
plain = {model = "mlp", heads = 20}
"""
SLOW = TINY.replace("samples = [5, 10, 20]", "samples = [600, 700, 800]").replace("heads = 5", "heads = 2000")
TIMES = {"seconds", "fit-seconds", "recover-seconds", "predicted_peak_bytes", "host", "finished"}


def table(store, *options):
    return list(csv.DictReader(io.StringIO(run("study export", store, "--format csv", *options).stdout)))


def stable(rows):
    return [{k: v for k, v in row.items() if k not in TIMES} for row in rows]


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


def test_run_status_export(study, tmp_path):
    store = tmp_path / "r.db"
    done = run_json("study run", study, "-o", store)
    assert (done["cells"], done["ran"], done["failed"]) == (12, 12, 0)
    assert {"r.db", "tiny.toml"} == {p.name for p in tmp_path.iterdir()}
    status = run_json("study status", store)
    assert status["studies"][0]["done"] == 12 and status["other_cells"] == 0
    assert status["studies"][0]["command_line"] == f"headlens study run {study} -o {store}"
    rows = table(store)
    assert [int(r["samples"]) for r in rows] == [5] * 4 + [10] * 4 + [20] * 4
    assert [r["variants.model"] for r in rows[:4]] == ["attention", "attention", "plain", "plain"]
    assert all(r["status"] == "done" and float(r["nmse"]) > 0 and r["git_commit"] for r in rows)
    assert {"r.db", "tiny.toml"} == {p.name for p in tmp_path.iterdir()}, "reading left files behind"
    cells = json.loads(run("study export", store, "--format json").stdout)["cells"]
    assert [float(r["nmse"]) for r in rows] == [c["outputs"]["nmse"] for c in cells]
    run("study export", store, "--format csv -o", tmp_path / "t.csv")
    assert list(csv.DictReader((tmp_path / "t.csv").open())) == rows


def test_overrides(tmp_path, study):
    store = tmp_path / "r.db"
    run(
        "study run",
        study,
        "-o",
        store,
        "--set 'grid.samples=[40]' --set 'variants.model.plain={model=\"brfa\"}'",
    )
    rows = table(store)
    assert {r["model"] for r in rows} == {"rfa", "brfa"} and {r["heads"] for r in rows} == {"5", "1000"}


def test_resuming_and_changing(study, tmp_path):
    store = tmp_path / "r.db"
    run("study run", study, "-o", store, "--set 'grid.samples=[5]'")
    assert run_json("study run", study, "-o", store)["already_done"] == 4
    before = table(store)
    changed = run_json("study run", study, "-o", store, "--set fixed.dim=4")
    assert changed["already_done"] == 0 and changed["ran"] == 12
    status = run_json("study status", store)
    assert status["other_cells"] == 12 and status["studies"][0]["cells"] == 12
    assert run_json("study status", store, study)["studies"][0]["done"] == 12
    run("study run", study, "-o", store)
    assert table(store) == before


def test_norm_balls(tmp_path):
    """A cell over a ball is the fit over that ball; "theory" takes the radii from the complexity."""
    shape = "--dim 3 --keys 3"
    b = run_json(f"theory power-mean {shape} --samples 64")["complexity"]
    study = tmp_path / "ball.toml"
    study.write_text(
        'name = "ball"\ncommand = "fit"\nseeds = [1]\n[fixed]\ndim = 3\nkeys = 3\ntest-samples = 50\n'
        f'samples = 30\nheads = 5\n[grid]\nnorm-ball = ["none", "theory", "{b**0.5!r},{b / 5!r}", "0.01,1"]\n'
    )
    run("study run", study, "-o", tmp_path / "r.db")
    plain, theory, given, small = (float(row["nmse"]) for row in table(tmp_path / "r.db"))
    assert theory == pytest.approx(given, rel=1e-9) and plain != theory
    assert small > 0.9  # values of 0.01 at most predict nothing
    fixed = study.read_text().split("norm-ball")[0]
    for wrong in ("0.1", "1,2,3", "-1,2", "ball", "1,x"):
        study.write_text(f'{fixed}norm-ball = ["{wrong}"]\n')
        line = refuse("study run", study, "-o", tmp_path / "w.db", folder=tmp_path)
        assert f"norm-ball: '{wrong}' given" in line


def test_two_studies_share_cells(study, tmp_path):
    store, other = tmp_path / "r.db", tmp_path / "other.toml"
    other.write_text(TINY.replace('"tiny"', '"other"'))
    run("study run", study, "-o", store)
    assert run_json("study run", other, "-o", store)["ran"] == 0
    line = refuse("study export", store, "--format csv")
    assert "tiny, other" in line and "--study" in line
    assert "'x' is not in" in refuse("study export", store, "--format csv --study x")
    assert table(store, "--study other") == table(store, "--study tiny")


def test_jobs_and_threads_change_nothing(study, tmp_path):
    run("study run", study, "-o", tmp_path / "a.db", "--threads 1")
    run("study run", study, "-o", tmp_path / "b.db", "--threads 4 --jobs 3")
    assert stable(table(tmp_path / "a.db")) == stable(table(tmp_path / "b.db"))


def test_failed_cells_exit_with_3(study, tmp_path):
    store = tmp_path / "r.db"
    words = ("study run", study, "-o", store, "--set 'grid.samples=[5, 500000]' --max-memory 20M")
    done = run(*words, status=3)
    assert "4 cells failed" in done.stdout
    status = run_json("study status", store)["studies"][0]
    assert status["done"] == 4 and status["failed"] == 4 and "may be used" in status["errors"][0]
    assert run_json(*words, status=3)["ran"] == 0
    assert run_json(*words, "--retry-failed", status=3)["ran"] == 4
    assert (
        "nmse"
        not in [
            c["outputs"] for c in json.loads(run("study export", store, "--format json").stdout)["cells"]
        ][-1]
    )


def test_interruption_keeps_what_is_done(tmp_path):
    study, store = tmp_path / "slow.toml", tmp_path / "r.db"
    study.write_text(SLOW)
    words = command("study run", study, "-o", store, "--jobs 2")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.time() + 60
        while not finished(store) and time.time() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and re.search(r"interrupted: \d+ of 12 cells", err), err
    status = run_json("study status", store)["studies"][0]
    assert status["done"] >= 1 and status["running"] == 0
    assert len(err.splitlines()) == 1


def finished(store):
    try:
        with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as database:
            return database.execute("SELECT count(*) FROM cell WHERE status = 'done'").fetchone()[0]
    except sqlite3.Error:
        return 0


@pytest.mark.parametrize(
    "edit, expected",
    [
        (("dim = 3", "dims = 3"), r"tiny.toml:6: fixed.dims: .*did you mean 'dim'"),
        (("[5, 10, 20]", "[]"), r"tiny.toml:10: grid.samples: is empty"),
        (("heads = 5", "heads = 0"), r"tiny.toml:12: variants.model.attention.heads: 0 given"),
        (('"fit"', '"fit'), r"tiny.toml:2: not TOML"),
    ],
)
def test_a_wrong_study_makes_no_store(study, tmp_path, edit, expected):
    study.write_text(TINY.replace(*edit))
    assert re.search(expected, refuse("study run", study, "-o", tmp_path / "r.db", folder=tmp_path))


def test_wrong_stores(study, tmp_path):
    store = tmp_path / "r.db"
    assert "no such file" in refuse("study status", store)
    for contents in (b"not a database, but long enough to be one" * 100, bytes(range(256)) * 64):
        store.write_bytes(contents)
        for words in (("study run", study, "-o", store), ("study status", store), ("study export", store)):
            assert "is not a study store" in refuse(*words, folder=tmp_path)
    store.unlink()
    run("study run", study, "-o", store)
    with contextlib.closing(sqlite3.connect(store)) as database:
        database.execute("PRAGMA user_version = 99")
    for words in (("study run", study, "-o", store), ("study status", store), ("study export", store)):
        assert "newer headlens: store version 99" in refuse(*words, folder=tmp_path)


def test_rows_hold_everything(study, tmp_path):
    """One row a cell, for whoever reads the store with SQLite alone."""
    store = tmp_path / "r.db"
    run("study run", study, "-o", store)
    with contextlib.closing(sqlite3.connect(store)) as database:
        database.row_factory = sqlite3.Row
        rows = database.execute("SELECT * FROM cell").fetchall()
        assert database.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert len(rows) == 12
    for row in rows:
        inputs, outputs = json.loads(row["inputs"]), json.loads(row["outputs"])
        assert inputs["ridge"] == "auto" and inputs["dim"] == 3 and outputs["outcome"] == "solved"
        assert row["seconds"] > 0 and row["predicted_peak_bytes"] > 0 and row["seed"] in ("1", "2")
        assert all(row[c] for c in ("version", "git_commit", "host", "blas_core", "finished"))


def checksum(row):
    """Of the columns before it, as docs/studies.md says."""
    texts = (f"{v:.17g}" if isinstance(v, float) else str(v) for v in tuple(row)[:-1])
    return zlib.crc32(b"".join(text.encode() + b"\0" for text in texts))


def test_rows_have_the_documented_checksum(study, tmp_path):
    store = tmp_path / "r.db"
    run("study run", study, "-o", store)
    with contextlib.closing(sqlite3.connect(store)) as database:
        for table in "study", "cell":
            for row in database.execute(f"SELECT * FROM {table}"):
                assert row[-1] == checksum(row)


def test_a_changed_row_is_refused_with_its_cell(study, tmp_path):
    store = tmp_path / "r.db"
    run("study run", study, "-o", store)
    with contextlib.closing(sqlite3.connect(store)) as database, database:
        (key,) = database.execute("SELECT key FROM cell LIMIT 1").fetchone()
        database.execute("UPDATE cell SET outputs = outputs || ' ' WHERE key = ?", [key])
    for words in ("study export", store), ("study status", store), ("study run", study, "-o", store):
        line = refuse(*words, folder=tmp_path)
        assert f"r.db is damaged: the row of cell {key} " in line and "DELETE FROM cell" in line
    with contextlib.closing(sqlite3.connect(store)) as database, database:
        database.execute("DELETE FROM cell WHERE key = ?", [key])  # what the line says
    assert run_json("study run", study, "-o", store)["ran"] == 1


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="needs root to become nobody")
def test_read_only_store(study, tmp_path):
    store = tmp_path / "r.db"
    run("study run", study, "-o", store)
    store.chmod(0o444)
    for folder in [tmp_path, *tmp_path.parents][:4]:
        folder.chmod(0o555)
    try:
        as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]

        def nobody(*words):
            return subprocess.run(as_nobody + command(*words), capture_output=True, text=True, check=False)

        assert nobody("study export", store).stdout == run("study export", store).stdout
        refused = nobody("study run", study, "-o", store)
        assert refused.returncode == 2 and "r.db: Permission denied" in refused.stderr
    finally:
        for folder in [tmp_path, *tmp_path.parents][:4]:
            folder.chmod(0o755)


SHORTENED = {
    "keys": "fixed.samples=20 grid.keys=[3] grid.degree=[2]",
    "mean": "fixed.samples=20 grid.bias-scale=[0,2]",
    "mixture": "fixed.samples=20 grid.weight=[0.5]",
    "models": "grid.samples=[20]",
    "query": "grid.samples=[20] grid.degree=[3]",
    "scores": "grid.samples=[20]",
    "ordered": "grid.samples=[20] grid.keys=[3]",
    "rank": 'grid.samples=[20] grid.head-rank=[2,\\"full\\"]',
}


@pytest.mark.parametrize("name", SHORTENED)
def test_studies_of_the_model_run_when_made_tiny(tmp_path, name):
    changes = f"seeds=[1] fixed.test-samples=20 {SHORTENED[name]}".split()
    text = (ROOT / "studies" / f"{name}-small.toml").read_text().split("[[figure]]")[0].replace("500", "20")
    (tmp_path / "s.toml").write_text(text)
    options = " ".join(f"--set {change}" for change in changes)
    assert run_json("study run", tmp_path / "s.toml", "-o", tmp_path / "r.db", options)["failed"] == 0


@pytest.mark.parametrize("name", ["rounding", "gap"])
def test_studies_of_hard_layers_run_when_made_tiny(tmp_path, name):
    grid = {"rounding": "--set grid.width=[2] --set grid.modulus=[3]", "gap": "--set grid.count=[60]"}[name]
    text = (ROOT / "studies" / f"hardness-{name}-small.toml").read_text().split("[[figure]]")[0]
    (tmp_path / "s.toml").write_text(text.replace("time-limit = 1", "time-limit = 0.1"))
    options = ("--set seeds=[1] --set fixed.dim=8", grid)
    assert run_json("study run", tmp_path / "s.toml", "-o", tmp_path / "r.db", *options)["failed"] == 0


@pytest.mark.parametrize("name", ["separation", "bias", "heads", "complexity", "recovery"])
def test_shipped_studies_run_when_made_tiny(tmp_path, name):
    options = "--set seeds=[1] --set fixed.test-samples=20 --set grid.samples=[20]"
    if name == "recovery":
        options = "--set seeds=[1] --set grid.heads=[1] --set grid.examples-per-unknown=[4.0]"
    if name in ("heads", "complexity"):
        options += " --set grid.heads=[5]" if name == "heads" else " --set grid.degree=[1]"
    # Findings and figures name values of the grid: without them, any grid will do.
    text = (ROOT / "studies" / f"{name}-small.toml").read_text().split("[[figure]]")[0]
    (tmp_path / "s.toml").write_text(text)
    assert run_json("study run", tmp_path / "s.toml", "-o", tmp_path / "r.db", options)["failed"] == 0


def test_cells_run_on_the_machine_that_was_asked_for(study, tmp_path):
    device = run_json("info")["backends"][1]
    words = ("study run", study, "--backend cuda -o", tmp_path / "r.db")
    if device["available"]:
        run(*words)
        assert {row["blas_core"] for row in table(tmp_path / "r.db")} == {"cuda"}
    else:
        assert device["reason"] in refuse(*words, folder=tmp_path)
