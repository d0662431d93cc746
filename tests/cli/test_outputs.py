"""Outputs are checked before work: never over an input or another output, never where nothing can be written."""

import os
import pty
import resource
import shutil
import subprocess

import numpy as np
import pytest
from binary import command, fit, refuse, run, run_json

STUDY = """
name = "tiny"
command = "fit"
seeds = [1]
[fixed]
task = "power-mean"
dim = 4
keys = 2
heads = 4
test-samples = 20
[grid]
samples = [20, 30]
"""


@pytest.fixture
def files(tmp_path, make_sets):
    """A folder with one file of every kind that commands read."""
    make_sets(name="sets")
    fit(tmp_path / "sets.npz", tmp_path / "model", "--heads 4")
    run("generate attention-layer --heads 2 --dim 4 --count 40 -o ex.npz --layer-out layer.npz", cwd=tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "link.npz").symlink_to("sets.npz")
    (tmp_path / "dangling.npz").symlink_to("target.npz")
    os.link(tmp_path / "sets.npz", tmp_path / "hard.npz")
    return tmp_path


@pytest.mark.parametrize("line", [
    "fit sets.npz --heads 4 -o sets.npz",
    "fit sets.npz --heads 4 -o ./sets.npz",
    "fit sets.npz --heads 4 -o link.npz",
    "fit sets.npz --heads 4 -o hard.npz",
    "fit link.npz --heads 4 -o sets.npz",
    "recover ex.npz --heads 2 -o ex.npz",
    "recover ex.npz --heads 2 -o new.npz --certificate new.npz",
    "recover ex.npz --heads 2 -o new.npz --certificate ex.npz",
    "recover ex.npz --heads 2 --method sculpt -o new.npz --span-out ./new.npz",
    "recover ex.npz --heads 2 -o dangling.npz --certificate target.npz",
    "generate attention-layer --count 20 -o new.npz --layer-out new.npz",
    "generate hard-parity --count 20 -o new.npz --layer-out ./new.npz",
    "generate examples --layer layer.npz --count 20 -o layer.npz",
    "inspect layer.npz -o layer.npz",
    "inspect layer.npz --fourier 1 --fourier-out layer.npz",
    "inspect layer.npz --fourier 1 --fourier-out new.npz -o new.npz",
    "inspect --weights layer.npz --heads 2 -o layer.npz",
    "study run study.toml -o study.toml",
])  # fmt: skip
def test_no_output_is_an_input_or_another_output(files, line):
    words = line.split()
    for i, word in enumerate(words):
        if (files / word).exists() or word.endswith("new.npz") or word in ("target.npz", "dangling.npz"):
            words[i] = str(files) + "/" + word
    said = refuse(" ".join(words), folder=files)
    assert "lost" in said or "also what" in said, said


def test_a_suffix_that_is_added_counts(files):
    np.savez(files / "k.npy", query=np.ones((3, 2)), keys=np.ones((3, 2, 2)))  # k.npy.npz
    shutil.move(files / "k.npy.npz", files / "k.npy")
    assert "lost" in refuse("kernel", files / "k.npy", "-o", files / "k", folder=files)


def test_export_over_its_store(files):
    run("study run study.toml -o results.db", cwd=files, timeout=60)
    assert "lost" in refuse("study export", files / "results.db", "-o", files / "results.db", folder=files)
    folder = files / "report"
    folder.mkdir()
    shutil.copy(files / "results.db", folder)
    assert "lies in" in refuse("report", folder / "results.db", "-o", folder, folder=files)


@pytest.mark.parametrize("target", ["missing/out", "sets.npz/out", "."])
def test_an_output_that_cannot_be_is_refused_before_work(files, target):
    """The data do not exist either: whoever worked first would complain about them."""
    for line in ("fit none.npz", "kernel none.npz", "predict model none.npz", "recover none.npz"):
        output = f"{files}/{target}" if target != "." or "fit" in line or "recover" in line else "/proc/out"
        words = line.replace("none", f"{files}/none").replace("model", f"{files}/model")
        said = refuse(words, "-o", output, folder=files)
        assert said.startswith("headlens: cannot write"), said


def test_all_files_of_a_command_or_none(files):
    """The second file cannot be written, which shows only when it is."""
    before = sorted(p.name for p in files.iterdir())
    said = refuse("recover", files / "ex.npz", "--heads 2 -o", files / "new.npz", "--certificate /dev/full")
    assert "/dev/full" in said and sorted(p.name for p in files.iterdir()) == before


def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def test_limit_on_the_size_of_files(tmp_path):
    done = run("generate power-mean --count 2000 -o", tmp_path / "a.npz", status=2, preexec_fn=small_files)
    assert done.stderr.count("\n") == 1 and "File too large" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kib", [100_000, 200_000, 300_000, 450_000])
def test_limit_on_the_address_space(tmp_path, kib):
    """Little of it is an error at once; enough is enough. OpenBLAS would wait for ever in between."""

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (kib * 1024, kib * 1024))

    first = command("generate power-mean --count 500 -o", tmp_path / "a.npz")
    for words in (first, command("fit", tmp_path / "a.npz", "--heads 100 -o", tmp_path / "m")):
        done = subprocess.run(
            words, preexec_fn=limit, capture_output=True, text=True, timeout=20, check=False
        )
        assert done.returncode == (0 if kib == 450_000 else 2), done.stderr
        assert done.returncode == 0 or "ulimit -v" in done.stderr


def test_standard_output(files):
    """`-o -` carries the file alone; the report goes to standard error."""

    def stream(line):
        done = subprocess.run(command(line), cwd=files, capture_output=True, check=True)
        assert done.stderr.count(b"\n") >= 1
        return done.stdout

    run("predict model sets.npz -o p.npy", cwd=files)
    assert stream("predict model sets.npz -o -") == (files / "p.npy").read_bytes()
    run("kernel sets.npz -o k.npy", cwd=files)
    assert stream("kernel sets.npz --json -o -") == (files / "k.npy").read_bytes()
    run("generate native --count 9 -o n.npz", cwd=files)
    assert stream("generate native --count 9 -o -") == (files / "n.npz").read_bytes()
    assert stream("fit sets.npz --heads 4 -o -") == (files / "model").read_bytes()
    run("study run study.toml -o results.db", cwd=files)
    table = run("study export results.db", cwd=files).stdout
    assert run("study export results.db -o -", cwd=files).stdout == table != ""
    with open(files / "log", "wb") as log:
        log.write(b"before")
        log.flush()
        subprocess.run(command("predict model sets.npz -o -"), cwd=files, stdout=log, check=True)
    assert (files / "log").read_bytes() == b"before" + (files / "p.npy").read_bytes()


@pytest.mark.parametrize("line", [
    "study run study.toml -o -", "generate attention-layer -o a.npz --layer-out -",
    "recover ex.npz -o a.npz --certificate -",
])  # fmt: skip
def test_where_standard_output_makes_no_sense(files, line):
    done = run(line, status=2, cwd=files)
    assert "standard output" in done.stderr and not (files / "-").exists()


def test_no_binary_on_a_terminal(files):
    ours, theirs = pty.openpty()
    done = subprocess.run(
        command("predict model sets.npz -o -"), cwd=files, stdout=theirs, stderr=subprocess.PIPE, check=False
    )
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 2 and b"terminal" in done.stderr


def test_json_names_the_file(files):
    assert run_json("predict", files / "model", files / "sets.npz", "-o", files / "p")["file"] == str(
        files / "p.npy"
    )
