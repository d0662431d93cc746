"""mpirun -n R headlens: the answers of one process, the same bytes for the same ranks, and one clear end of every fault."""

import json
import os
import random
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from binary import command, read_model, run, run_json
from ranks import MPIRUN, different, expect_refused, lines_of, mpirun, needs_mpi, ranks_of, start_and_kill

pytestmark = needs_mpi
# What a solver stops at: factorisations at rounding, the others at their tolerance.
ROUNDING, CG, NEWTON = 1e-9, 1e-8, 1e-4


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    rng = np.random.default_rng(3)
    sizes = rng.integers(3, 7, 203)
    offsets = np.r_[0, sizes.cumsum()]
    query, keys = rng.normal(size=(203, 5)), rng.normal(size=(offsets[-1], 5))
    y = np.array([np.tanh(k @ q).mean() for q, k in zip(query, np.split(keys, offsets[1:-1]), strict=True)])
    np.savez(folder / "ragged.npz", query=query, keys=keys, offsets=offsets, y=y)
    query, keys = rng.normal(size=(203, 5)), rng.normal(size=(203, 4, 5))
    y = np.einsum("nd,nkd->n", query, np.tanh(keys))
    np.savez(folder / "equal.npz", query=query, keys=keys, y=y)
    np.savez(folder / "labels.npz", query=query, keys=keys, y=np.digitize(y, np.quantile(y, [0.3, 0.6])))
    tokens = rng.normal(size=(41, 5, 4))
    np.savez(folder / "tokens.npz", tokens=tokens, y=np.tanh(tokens).sum(-1))
    (folder / "parts").mkdir()
    for i, some in enumerate(np.array_split(np.arange(203), [20, 21, 150])):
        np.savez(folder / "parts" / f"part-{i}.npz", query=query[some], keys=keys[some], y=y[some])
    return folder


ROUTES = [
    ("ragged.npz", "--heads 10 --ridge 1e-3", "primal Cholesky", ROUNDING),
    ("ragged.npz", "--heads 10", "primal band reduction", ROUNDING),
    ("ragged.npz", "--heads 60 --ridge 1e-3", "dual Cholesky", ROUNDING),
    ("ragged.npz", "--heads 60", "dual eigenvectors", ROUNDING),
    (
        "ragged.npz",
        "--heads 60 --ridge 0",
        "dual eigenvectors",
        1e-7,
    ),  # no penalty: the condition of K counts
    (
        "ragged.npz",
        "--heads 200 --ridge 1e-3 --solver primal",
        "primal Cholesky in single precision",
        ROUNDING,
    ),
    ("ragged.npz", "--heads 60 --ridge 1e-3 --solver iterative", "dual conjugate gradients", CG),
    ("ragged.npz", "--heads 10 --ridge 1e-3 --solver iterative", "primal conjugate gradients", CG),
    ("ragged.npz", "--heads inf --ridge 1e-3", "kernel Cholesky", ROUNDING),
    ("ragged.npz", "--heads inf --positions sinusoidal", "kernel eigenvectors", 1e-7),
    ("ragged.npz", "--heads inf --centres 20", "Nystrom with 20 centres, primal band reduction", ROUNDING),
    ("ragged.npz", "--heads 20 --loss huber --ridge 1e-2", "Newton", NEWTON),
    ("ragged.npz", "--heads 20 --norm-ball 1,1", "accelerated projected gradients", NEWTON),
    ("equal.npz", "--model mlp --heads 500 --ridge 1e-3", "dual Cholesky", ROUNDING),
    ("labels.npz", "--loss logistic --heads 20 --ridge 0.01", "Newton", NEWTON),
    ("labels.npz", "--loss hinge --heads 20 --ridge 0.01", "interior point", NEWTON),
    ("tokens.npz", "--sequence --heads 80 --ridge 1e-2", "dual Cholesky", ROUNDING),
]


@pytest.mark.parametrize("file, options, method, bound", ROUTES, ids=lambda x: str(x)[:40])
def test_fits_agree_with_one_process(data, tmp_path, file, options, method, bound):
    scores = {}
    for ranks in (1, 2, 3) if "inf" in options or "primal" in method else (1, 2):
        model = tmp_path / f"m{ranks}"
        words = ("fit", data / file, options, "--threads 1 --json -o", model)
        done = json.loads((run(*words) if ranks == 1 else mpirun(ranks, *words)).stdout)
        assert done["status"] == "solved"
        if ranks > 1:
            assert method in done["method"] and done["backend"] == f"cpu on {ranks} ranks"
        run("predict", model, data / file, "--scores -o", tmp_path / "p.npy")
        scores[ranks] = np.load(tmp_path / "p.npy")
    for ranks in scores:
        assert np.abs(scores[ranks] - scores[1]).max() <= bound * np.abs(scores[1]).max(), ranks


def test_bytes_exchanged_are_those_of_the_formula(data, tmp_path):
    """A triangle once; vectors of p numbers for means, their bounds and every product; y, and some words at the start."""
    for heads, item in ((40, 8), (200, 4)):  # in double, and from 1024 unknowns on in single precision
        words = (
            "fit",
            data / "equal.npz",
            "--solver primal --ridge 1e-3 --json --heads",
            heads,
            "-o",
            tmp_path / "m",
        )
        done = json.loads(mpirun(2, *words).stdout)
        p, padded = 6 * heads, 6 * 16 * -(-heads // 16)
        triangle = item * (p if item == 4 else padded) * ((p if item == 4 else padded) + 1) // 2
        if item == 4:  # exact, but for words and single numbers
            known = triangle + 8 * padded * (done["iterations"] + 7) + 8 * 203
            assert known < done["exchanged_bytes"] < known + 2048
        vectors = 8 * padded * (3 + done["iterations"] + 6)
        assert triangle <= done["exchanged_bytes"] <= triangle + vectors + 8 * 203 + 4096
    assert run_json("fit", data / "equal.npz", "--heads 5 -o", tmp_path / "m")["exchanged_bytes"] == 0


@pytest.mark.parametrize("ranks, rows, columns", [(2, 1, 2), (4, 2, 2)])
def test_a_kernel_fit_moves_the_sets_of_its_rows_and_columns(data, tmp_path, ranks, rows, columns):
    """What rank 0 gets: those sets of its part of the matrix that others read, all sets for the model, and vectors."""
    words = ("fit", data / "equal.npz", "--heads inf --ridge 1e-3 --json -o", tmp_path / "m")
    done = json.loads(mpirun(ranks, *words).stdout)
    n, block = 203, max(1, min(64, 203 // (4 * columns)))
    wanted = {i for i in range(n) if i // block % rows == 0 or i // block % columns == 0}
    others = len(wanted - set(range(n // ranks)))
    sets, model = others * 5 * 5 * 8, n * 5 * 5 * 8
    vectors = 8 * n  # y, diagonals, means, and every product and solve
    assert sets + model + 4 * vectors <= done["exchanged_bytes"] <= sets + model + 40 * vectors + 4096


def test_the_heads_do_not_depend_on_the_ranks(data, tmp_path):
    for ranks in (1, 2):
        words = ("fit", data / "equal.npz", "--heads 12 --ridge 1e-3 -o", tmp_path / f"m{ranks}")
        run(*words) if ranks == 1 else mpirun(ranks, *words)
    one, two = (read_model(tmp_path / f"m{ranks}")[0]["heads"] for ranks in (1, 2))
    assert np.array_equal(one, two)


@pytest.mark.parametrize(
    "options", ["--heads 30", "--heads 200", "--heads inf", "--heads 30 --loss huber --ridge 1e-2"]
)
def test_same_ranks_same_bytes(data, tmp_path, options):
    for i, threads in enumerate((1, 2, 1)):
        mpirun(3, "fit", data / "ragged.npz", options, "--threads", threads, "-o", tmp_path / f"m{i}")
    assert len({(tmp_path / f"m{i}").read_bytes() for i in range(3)}) == 1


@pytest.mark.parametrize("name", ["parts", "parts/part-*.npz"])
def test_folders_and_patterns_are_one_list(data, tmp_path, name):
    run("fit", data / "equal.npz", "--heads 12 --ridge 1e-3 -o", tmp_path / "one")
    run("fit", data / name, "--heads 12 --ridge 1e-3 -o", tmp_path / "files")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "files").read_bytes()
    mpirun(3, "fit", data / name, "--heads 12 --ridge 1e-3 -o", tmp_path / "ranks")
    for i, (model, sets) in enumerate([("one", "equal.npz"), ("ranks", name)]):
        words = ("predict", tmp_path / model, data / sets, "-o", tmp_path / f"p{i}.npy")
        run(*words) if i == 0 else mpirun(3, *words)
    one, ranks = np.load(tmp_path / "p0.npy"), np.load(tmp_path / "p1.npy")
    assert one.shape == ranks.shape and np.abs(one - ranks).max() <= ROUNDING * np.abs(one).max()


def test_predictions_have_the_same_bytes_for_any_ranks(data, tmp_path):
    for file, options in (
        ("ragged.npz", ""),
        ("tokens.npz", "--sequence"),
        ("labels.npz", "--loss logistic --ridge 1"),
    ):
        run("fit", data / file, "--heads 20", options, "-o", tmp_path / "m")
        run("predict", tmp_path / "m", data / file, "-o", tmp_path / "p1.npy")
        mpirun(3, "predict", tmp_path / "m", data / file, "-o", tmp_path / "p3.npy")
        assert (tmp_path / "p1.npy").read_bytes() == (tmp_path / "p3.npy").read_bytes()
        one, three = (
            run_json("evaluate", tmp_path / "m", data / file),
            json.loads(mpirun(3, "evaluate", tmp_path / "m", data / file, "--json").stdout),
        )
        assert one.keys() == three.keys()
        assert all(three[key] == pytest.approx(one[key], rel=1e-12) for key in one)


@pytest.mark.parametrize("options", ["", "--score softmax --samples 64", "--model mlp", "--precision f32"])
def test_kernels_agree(data, tmp_path, options):
    for ranks in (1, 3):
        words = ("kernel", data / "equal.npz", options, "-o", tmp_path / f"k{ranks}.npy")
        run(*words) if ranks == 1 else mpirun(ranks, *words)
    one, three = np.load(tmp_path / "k1.npy"), np.load(tmp_path / "k3.npy")
    assert one.dtype == three.dtype
    bound = 1e-6 if "f32" in options else 1e-12
    assert np.abs(one - three).max() <= bound * np.abs(one).max()


def test_small_recoveries_run_on_rank_0(tmp_path):
    run("generate attention-layer --heads 2 --dim 4 --tokens 4 --count 120 -o", tmp_path / "ex.npz")
    run("recover", tmp_path / "ex.npz", "-o", tmp_path / "one.npz")
    done = mpirun(2, "recover", tmp_path / "ex.npz", "--json -o", tmp_path / "two.npz")
    assert json.loads(done.stdout)["status"] == "recovered"
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


def test_a_kernel_larger_than_the_memory_of_one_process(tmp_path):
    rng = np.random.default_rng(0)
    keys = rng.normal(size=(2000, 2, 3))
    np.savez(tmp_path / "d.npz", query=rng.normal(size=(2000, 3)), keys=keys, y=keys[:, 0, 0])
    words = ("fit", tmp_path / "d.npz", "--heads inf --ridge 1e-2 --solver dual --threads 1 --max-memory")
    refused = run(*words, "40M -o", tmp_path / "one", status=2)  # two matrices of 30.5 MiB
    assert "may be used" in refused.stderr
    mpirun(4, *words, "40M -o", tmp_path / "four")
    assert (tmp_path / "four").exists() and not (tmp_path / "one").exists()
    done = mpirun(2, *words, "10M -o", tmp_path / "two", status=2)
    assert len(lines_of(done)) == 1 and "may be used" in done.stderr


# Faults: one line, a status that is not 0, no model.


def test_a_bad_file_on_one_rank(data, tmp_path):
    shutil.copytree(data / "parts", tmp_path / "parts")
    bad = tmp_path / "parts" / "part-2.npz"
    for damage, said in ((b"nonsense", "cannot be read"), (None, "is nan")):
        if damage:
            bad.write_bytes(damage)
        else:
            arrays = dict(np.load(data / "parts" / "part-2.npz"))
            arrays["keys"][100, 2, 1] = np.nan
            np.savez(bad, **arrays)
        done = mpirun(3, "fit", tmp_path / "parts", "--heads 12 -o", tmp_path / "m", status=2)
        expect_refused(done, tmp_path, "part-2.npz", said, before=["parts"])


def test_shapes_that_differ_between_files(data, tmp_path):
    shutil.copytree(data / "parts", tmp_path / "parts")
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "parts" / "part-9.npz",
        query=rng.normal(size=(9, 6)),
        keys=rng.normal(size=(9, 4, 6)),
        y=np.ones(9),
    )
    done = mpirun(2, "fit", tmp_path / "parts", "--heads 12 -o", tmp_path / "m", status=2)
    expect_refused(done, tmp_path, "part-9.npz", "coordinates", before=["parts"])


def test_different_options_and_misuse(data, tmp_path):
    done = different(("fit", data / "equal.npz", "-o", tmp_path / "m"), ("--heads 12", "--heads 13"))
    expect_refused(done, tmp_path, "rank 1", "--heads 13", "--heads 12")
    expect_refused(
        mpirun(2, "fit", data / "equal.npz", "--heads -3 -o", tmp_path / "m", status=2), tmp_path, "--heads"
    )
    expect_refused(
        mpirun(2, "fit", tmp_path / "none.npz", "-o", tmp_path / "m", status=2), tmp_path, "none.npz"
    )
    missing = tmp_path / "no" / "m"
    expect_refused(
        mpirun(2, "fit", data / "equal.npz", "--heads 9 -o", missing, status=2), tmp_path, str(missing.parent)
    )


def test_a_full_disk(data, tmp_path):
    done = mpirun(2, "fit", data / "equal.npz", "--heads 12 -o /dev/full", status=2)
    assert len(lines_of(done)) == 1 and "No space left" in done.stderr


SLOW = "--heads 300 --solver primal --ridge 1e-3 --threads 1"


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    run("generate power-mean --degree 2 --dim 8 --keys 8 --count 30000 -o", folder / "d.npz")
    return folder / "d.npz"


def test_a_killed_rank_ends_all(large, tmp_path):
    rng = random.Random(5)
    words = [*MPIRUN, "-n", "2", *command("fit", large, SLOW, "-o", tmp_path / "m")]
    for _ in range(3):
        status, seconds = start_and_kill(words, rng.uniform(0, 0.4), rng=rng)
        assert status != 0 and seconds < 10
        assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_goes_on_with_the_same_bytes(large, tmp_path):
    words = (
        "fit",
        large,
        SLOW,
        "--block-sets 1024 --checkpoint",
        tmp_path / "sums",
        "-o",
        tmp_path / "m",
    )
    mpirun(2, *words)
    whole = (tmp_path / "m").read_bytes()
    assert not (tmp_path / "sums").exists()
    (tmp_path / "m").unlink()
    command_line = [*MPIRUN, "-n", "2", *command(*words)]
    with subprocess.Popen(command_line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while len(list(tmp_path.glob("sums/*.checkpoint"))) < 2:
            assert process.poll() is None, "the fit ended before both ranks had kept their sums"
            time.sleep(0.01)
        os.kill(ranks_of(process)[0], signal.SIGKILL)
        process.wait(timeout=30)
    kept = {path.name: path.read_bytes() for path in tmp_path.glob("sums/*.checkpoint")}
    assert len(kept) == 2 and not (tmp_path / "m").exists()
    other = mpirun(2, "fit", large, SLOW, "--checkpoint", tmp_path / "sums", "-o", tmp_path / "m", status=2)
    assert len(lines_of(other)) == 1 and "belongs to another fit" in other.stderr
    mpirun(2, *words)
    assert (tmp_path / "m").read_bytes() == whole
    # The sums were used: others give another model.
    (tmp_path / "sums").mkdir()
    for name, content in kept.items():
        (tmp_path / "sums" / name).write_bytes(content[:-5] + bytes([content[-5] ^ 1]) + content[-4:])
    damaged = mpirun(2, *words, status=2)
    assert len(lines_of(damaged)) == 1 and "checksum differs" in damaged.stderr
