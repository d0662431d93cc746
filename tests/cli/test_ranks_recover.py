"""mpirun -n R headlens recover and study run --mpi: what one process finds, same bytes for same ranks, one clear end of every fault."""

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import time

import numpy as np
import pytest
from binary import BINARY, command, run, run_json
from ranks import MPIRUN, different, expect_refused, lines_of, mpirun, needs_mpi, ranks_of, start_and_kill
from test_study_shards import STUDY, table

pytestmark = needs_mpi
FACTORS = "--heads 2 --rank 3 --threads 1"


@pytest.fixture(scope="module")
def layers(tmp_path_factory):
    """Examples of a layer that is recovered, of one with missing labels, with noise, with a mask and biases, and too few of them."""
    folder = tmp_path_factory.mktemp("layers")
    words = "generate attention-layer --heads 2 --dim 12 --rank 3 --tokens 4 --seed 5"
    run(words, "--count 900 -o", folder / "exact.npz", "--layer-out", folder / "truth.npz")
    run(words, "--count 500 --noise 1e-3 -o", folder / "noisy.npz")
    run(words, "--count 900 --mask causal --bias -o", folder / "variant.npz")
    run(words, "--count 12 -o", folder / "few.npz")
    run(words, "--count 3000 -o", folder / "wide.npz")
    exact = dict(np.load(folder / "exact.npz"))
    observed = np.random.default_rng(0).random(exact["Y"].shape) > 0.03
    np.savez(folder / "partial.npz", **exact | {"observed": observed})
    return folder


@pytest.mark.parametrize("name, options", [
    ("exact", ""), ("partial", ""), ("variant", "--mask causal --bias"), ("noisy", ""), ("few", "--starts 1"),
])  # fmt: skip
def test_recoveries_agree_with_one_process(layers, tmp_path, name, options):
    found = {}
    for ranks in (1, 2, 3):
        words = (
            "recover",
            layers / f"{name}.npz",
            FACTORS,
            options,
            "-o",
            tmp_path / f"l{ranks}.npz",
            "--json",
        )
        done = run(*words, status=None) if ranks == 1 else mpirun(ranks, *words, status=None)
        found[ranks] = json.loads(done.stdout) | {"exit": done.returncode}
    one = found[1]
    assert one["status"] == {"noisy": "approximate", "few": "needs_more_examples"}.get(name, "recovered")
    for ranks in (2, 3):
        assert found[ranks]["backend"] == f"cpu on {ranks} ranks"
        assert [found[ranks][key] for key in ("status", "heads", "exit")] == [
            one[key] for key in ("status", "heads", "exit")
        ]
        if name != "few":
            compared = run_json("compare", tmp_path / f"l{ranks}.npz", tmp_path / "l1.npz")
            assert compared["worst_error"] < (1e-5 if name == "noisy" else 1e-10)


def test_same_ranks_same_bytes(layers, tmp_path):
    for i, threads in enumerate((1, 2, 1)):
        words = (
            "recover",
            layers / "exact.npz",
            "--heads 2 --rank 3 --threads",
            threads,
            "-o",
            tmp_path / f"l{i}.npz",
        )
        mpirun(3, *words)
    assert len({(tmp_path / f"l{i}.npz").read_bytes() for i in range(3)}) == 1


def test_a_recovery_that_is_too_large_for_one_process(layers, tmp_path):
    """The arrays of the search are divided among the ranks."""
    words = ("recover", layers / "wide.npz", FACTORS, "--max-memory 6400K -o", tmp_path / "l.npz")
    refused = run(*words, status=2)
    assert "may be used" in refused.stderr
    mpirun(4, *words)
    assert (tmp_path / "l.npz").exists()


def test_faults_of_recoveries(layers, tmp_path):
    (tmp_path / "bad.npz").write_bytes(b"nonsense")
    words = (FACTORS, "-o", tmp_path / "l.npz")
    expect_refused(
        mpirun(2, "recover", tmp_path / "bad.npz", *words, status=2), tmp_path, "bad.npz", before=["bad.npz"]
    )
    done = different(
        ("recover", layers / "exact.npz", "--heads 2 -o", tmp_path / "l.npz"), ("--rank 3", "--rank 4")
    )
    expect_refused(done, tmp_path, "rank 1", "--rank 4", "--rank 3", before=["bad.npz"])
    full = mpirun(2, "recover", layers / "exact.npz", FACTORS, "-o /dev/full", status=2)
    assert len(lines_of(full)) == 1 and "No space left" in full.stderr
    small = mpirun(
        2, "recover", layers / "exact.npz", FACTORS, "--max-memory 100K -o", tmp_path / "l.npz", status=2
    )
    expect_refused(small, tmp_path, "may be used", before=["bad.npz"])


def test_ranks_that_read_other_examples_are_told(layers, tmp_path):
    """One name, two contents: as on machines with disks of their own."""
    parts = []
    for name in ("exact", "noisy"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "e.npz").write_bytes((layers / f"{name}.npz").read_bytes())
        parts += [
            "-n",
            "1",
            "--wdir",
            folder,
            *command("recover e.npz", FACTORS, "-o", tmp_path / "l.npz"),
            ":",
        ]
    done = subprocess.run([*MPIRUN, *parts[:-1]], capture_output=True, text=True, timeout=60, check=False)
    expect_refused(done, tmp_path, "rank 1 has read other examples than rank 0", before=["exact", "noisy"])


def test_ranks_of_another_build_are_told(layers, tmp_path):
    """The same program with another commit in it, and in its plugin."""
    name = run_json("info")["commit"][:8].encode()
    other = tmp_path / "other"
    other.mkdir()
    for file in (BINARY, BINARY.parent / "libheadlens_mpi.so"):
        content = file.read_bytes()
        if len(name) < 8 or name not in content:
            pytest.skip("the commit is not to be found in the program as text")
        (other / file.name).write_bytes(content.replace(name, b"00000000"))
        (other / file.name).chmod(0o755)
    words = command("recover", layers / "exact.npz", FACTORS, "-o", tmp_path / "l.npz")
    parts = [*MPIRUN, "-n", "1", *words, ":", "-n", "1", other / BINARY.name, *words[1:]]
    done = subprocess.run(parts, capture_output=True, text=True, timeout=60, check=False)
    expect_refused(done, tmp_path, "rank 1", "the build", "00000000", before=["other"])


def test_a_time_limit_ends_all_ranks_together(layers, tmp_path):
    words = (
        "recover",
        layers / "exact.npz",
        "--heads 2 --rank 3 --time-limit 0.05 --json -o",
        tmp_path / "l.npz",
    )
    done = mpirun(2, *words, status=3)
    assert json.loads(done.stdout)["status"] == "stalled" and not (tmp_path / "l.npz").exists()


def test_a_killed_rank_ends_a_recovery_and_a_prediction(layers, tmp_path):
    rng = random.Random(3)
    run("generate power-mean --degree 2 --dim 8 --keys 16 --count 60000 -o", tmp_path / "d.npz")
    run("generate power-mean --degree 2 --dim 8 --keys 16 --count 500 -o", tmp_path / "few.npz")
    run("fit", tmp_path / "few.npz", "--heads 3000 --ridge 1 -o", tmp_path / "m")
    before = {path.name for path in tmp_path.iterdir()}
    slow = "--heads 6 --rank 8 --threads 1"
    for words in (
        ("recover", layers / "noisy.npz", slow, "-o", tmp_path / "l.npz"),
        ("predict", tmp_path / "m", tmp_path / "d.npz", "--threads 1 -o", tmp_path / "p.npy"),
    ):
        status, seconds = start_and_kill([*MPIRUN, "-n", "2", *command(*words)], rng.uniform(0, 0.4), rng=rng)
        assert status != 0 and seconds < 10
        assert {path.name for path in tmp_path.iterdir()} == before


def test_faults_of_predictions(tmp_path):
    run("generate power-mean --degree 2 --dim 4 --keys 3 --count 300 -o", tmp_path / "d.npz")
    run("fit", tmp_path / "d.npz", "--heads 9 -o", tmp_path / "m")
    (tmp_path / "parts").mkdir()
    for i in range(3):
        run(
            "generate power-mean --degree 2 --dim 4 --keys 3 --count 50 --seed",
            i,
            "-o",
            tmp_path / "parts" / f"{i}.npz",
        )
    (tmp_path / "parts" / "2.npz").write_bytes(b"nonsense")
    before = {path.name for path in tmp_path.iterdir()}
    done = mpirun(3, "predict", tmp_path / "m", tmp_path / "parts", "-o", tmp_path / "p.npy", status=2)
    expect_refused(done, tmp_path, "2.npz", before=before)
    full = mpirun(2, "predict", tmp_path / "m", tmp_path / "d.npz", "-o /dev/full", status=2)
    assert len(lines_of(full)) == 1 and "No space left" in full.stderr


# Studies.

SEEDS = 40  # of 12 cells each: a study that outlasts the start of another mpirun


@pytest.fixture
def study(tmp_path):
    (tmp_path / "victim.toml").write_text(STUDY)
    return tmp_path / "victim.toml"


@pytest.fixture
def long_study(tmp_path):
    (tmp_path / "long.toml").write_text(STUDY.replace("[1, 2, 3, 4]", str([*range(SEEDS)])))
    return tmp_path / "long.toml"


def run_over(ranks, study, store, **options):
    return mpirun(ranks, "study run", study, "-o", store, "--mpi --threads 1 --json", **options)


def test_a_study_over_ranks_is_the_study_of_one_process(study, tmp_path):
    run("study run", study, "-o", tmp_path / "one.db")
    done = json.loads(run_over(3, study, tmp_path / "all.db").stdout)
    assert (done["cells"], done["already_done"], done["ran"], done["failed"]) == (48, 0, 48, 0)
    assert table(tmp_path / "all.db") == table(tmp_path / "one.db")
    again = json.loads(run_over(2, study, tmp_path / "all.db").stdout)
    assert (again["cells"], again["already_done"], again["ran"]) == (48, 48, 0)
    assert {path.name for path in tmp_path.iterdir()} == {"victim.toml", "one.db", "all.db"}


def finished(store):
    """How many cells of a store that others write have their results."""
    with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        try:
            return connection.execute("select count(*) from cell where status = 'done'").fetchone()[0]
        except sqlite3.OperationalError:  # no table yet
            return 0


def test_a_second_run_leaves_the_parts_of_the_first_alone(long_study, tmp_path):
    words = [
        *MPIRUN,
        "-n",
        "2",
        *command("study run", long_study, "-o", tmp_path / "all.db", "--mpi --threads 1"),
    ]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not all((tmp_path / f"all.db.rank-{rank}").exists() for rank in range(2)):
            assert process.poll() is None
            time.sleep(0.005)
        second = run_over(2, long_study, tmp_path / "all.db", status=2)
        assert process.poll() is None, "the first run ended before the second could meddle"
        assert len(lines_of(second)) == 1 and "another run over ranks is at work" in second.stderr
        assert process.wait(timeout=120) == 0
    again = json.loads(run_over(2, long_study, tmp_path / "all.db").stdout)
    assert again["already_done"] == again["cells"] == 12 * SEEDS
    assert {path.name for path in tmp_path.iterdir()} == {"long.toml", "all.db"}


def test_a_killed_study_goes_on(long_study, tmp_path):
    run("study run", long_study, "-o", tmp_path / "one.db")
    words = [
        *MPIRUN,
        "-n",
        "3",
        *command("study run", long_study, "-o", tmp_path / "all.db", "--mpi --threads 1"),
    ]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        parts = [tmp_path / f"all.db.rank-{rank}" for rank in range(3)]
        while not all(part.exists() for part in parts) or not any(finished(part) for part in parts):
            assert process.poll() is None
            time.sleep(0.005)
        os.kill(ranks_of(process)[1], signal.SIGKILL)
        begin = time.perf_counter()
        assert process.wait(timeout=30) != 0 and time.perf_counter() - begin < 10
    done = json.loads(
        run_over(2, long_study, tmp_path / "all.db").stdout
    )  # fewer ranks take over what three had
    assert done["cells"] == 12 * SEEDS == done["already_done"] + done["ran"] and done["already_done"] > 0
    assert table(tmp_path / "all.db") == table(tmp_path / "one.db")
    assert {path.name for path in tmp_path.iterdir()} == {"long.toml", "one.db", "all.db"}


def test_faults_of_studies(study, tmp_path):
    expect_refused(
        mpirun(2, "study run", study, "-o", tmp_path / "a.db", "--mpi --shard 1/2", status=2),
        tmp_path, "--shard", "leave out", before=["victim.toml"],
    )  # fmt: skip
    missing = tmp_path / "no" / "a.db"
    expect_refused(
        mpirun(2, "study run", study, "-o", missing, "--mpi", status=2), tmp_path, before=["victim.toml"]
    )
    (tmp_path / "a.db").write_bytes(b"no store" * 1000)
    expect_refused(
        mpirun(2, "study run", study, "-o", tmp_path / "a.db", "--mpi", status=2),
        tmp_path, "not a study store", before=["victim.toml", "a.db"],
    )  # fmt: skip
