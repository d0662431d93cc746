"""SIGTERM and time limits end every command within a moment, whatever it is at; and what it shows meanwhile."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import time

import numpy as np
import pytest
from binary import command, run

SOON = 5.0  # seconds: a busy machine included; the work itself takes half a minute or more


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Problems of half a minute or more."""
    at = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(0)

    def sets(name, n, keys, d=16, y=None):
        arrays = {"query": rng.standard_normal((n, d)), "keys": rng.standard_normal((n, keys, d))}
        np.savez(at / f"{name}.npz", **arrays, y=rng.standard_normal(n) if y is None else y)

    sets("many", 6000, 8)
    sets("wide", 5000, 48)
    sets("labels", 4000, 8, y=rng.integers(0, 3, 4000))
    sets("long", 4, 200_000)
    sets("two", 2, 500_000)
    sets("few", 40, 8)
    run("fit few.npz --heads 2000 -o finite.hlm", cwd=at)
    run("fit few.npz --heads inf -o infinite.hlm", cwd=at)
    run("generate hard-parity --dim 40 --size 3 --count 4 -o ex.npz --layer-out layer.npz", cwd=at)
    run("generate attention-layer --dim 24 --tokens 8 --count 4000 --noise 1 -o noisy.npz", cwd=at)
    run(
        "generate hard-parity --dim 60 --size 6 --count 20000 -o hidden.npz --layer-out hidden.layer.npz",
        cwd=at,
    )
    (at / "study.toml").write_text(
        'name = "s"\ncommand = "fit"\nseeds = [1]\n[fixed]\ntask = "power-mean"\nheads = 1000\n'
        "[grid]\nsamples = [5000, 6000]\n"
    )
    return at


COMMANDS = {
    "primal": "fit many.npz --heads 300 --solver primal --ridge auto -o m",
    "dual": "fit many.npz --heads 1000 --solver dual --ridge auto -o m",
    "given penalty": "fit many.npz --heads 1000 --ridge 1e-3 -o m",
    "double": "fit many.npz --heads 1000 --ridge 1e-14 -o m",
    "iterative": "fit many.npz --heads 2000 --solver iterative --max-memory 1500M -o m",
    "huber": "fit many.npz --heads 1000 --loss huber -o m",
    "logistic": "fit labels.npz --heads 1000 --loss logistic -o m",
    "hinge": "fit labels.npz --heads 1000 --loss hinge -o m",
    "norm ball": "fit many.npz --heads 2000 --norm-ball 1,1 -o m",
    "network": "fit many.npz --model mlp --heads 17000 -o m",
    "long sets": "fit long.npz --heads 10000 --ridge 1 -o m",
    "infinitely many heads": "fit many.npz --heads inf -o m",
    "centres": "fit many.npz --heads inf --centres 3000 -o m",
    "a million keys": "fit two.npz --heads inf -o m",
    "kernel": "kernel wide.npz -o k",
    "exact kernel": "kernel many.npz --bias-scale 1 --exact -o k",
    "softmax kernel": "kernel many.npz --score softmax -o k",
    "kernel of long sets": "kernel long.npz -o k",
    "predict": "predict finite.hlm long.npz -o p",
    "predict with a kernel": "predict infinite.hlm two.npz -o p",
    "evaluate": "evaluate finite.hlm long.npz",
    "generate": "generate native --count 400000 --keys 64 --dim 64 --max-memory 60G -o g",
    "generate long sets": "generate native --count 40 --keys 2000000 --max-memory 60G -o g",
    "inspect": "inspect layer.npz --samples 300000000",
    "fourier": "inspect layer.npz --fourier 5 --samples 3000",
    "theory": "theory native --model mlp --dim 1000000",
    "gradient descent": "recover noisy.npz --method gradient --heads 8 --steps 1000000 -o m",
    "best fit": "recover noisy.npz --best-fit --heads 8 --starts 100 -o m",
    "sculpting": "recover noisy.npz --method sculpt --heads 8 -o m",
    "study": "study run study.toml -o r.db",
}


@pytest.mark.parametrize("case", COMMANDS)
def test_sigterm(folder, case):
    before = sorted(p.name for p in folder.iterdir())
    words = command(COMMANDS[case])
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        time.sleep(1)
        sent = time.monotonic()
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=SOON)
        except subprocess.TimeoutExpired:
            process.kill()
            pytest.fail(f"{case}: still at work {time.monotonic() - sent:.0f} s after SIGTERM")
    if process.returncode in (0, 3) and time.monotonic() - sent < 0.5:
        pytest.skip("this machine was done before the signal, or at its moment")
    assert process.returncode == 130
    for name in ("r.db", "r.db-wal", "r.db-shm"):
        (folder / name).unlink(missing_ok=True)
    assert sorted(p.name for p in folder.iterdir()) == before


LIMITED = {
    "search": "noisy.npz",
    "given heads": "noisy.npz --heads 8",
    "spectral starts": "noisy.npz --start spectral",
    "best fit": "noisy.npz --heads 8 --best-fit",
    "sculpting": "noisy.npz --method sculpt --heads 8",
    "sculpting alone": "noisy.npz --method sculpt --heads 8 --no-polish",
    "sculpting by linear programs": "noisy.npz --method sculpt --sculpt-form lp --heads 8",
    "sculpting by membership": "noisy.npz --method sculpt --span-form membership --heads 8",
    "moments": "noisy.npz --method moments --heads 16",
    "gradient descent": "noisy.npz --method gradient --heads 8 --steps 1000000",
    "brute force": "hidden.npz --method brute-force --heads 12",
}


@pytest.mark.parametrize("case", LIMITED)
def test_a_time_limit_ends_every_method(folder, tmp_path, case):
    """With a status that claims nothing, and whatever was found so far."""
    begun = time.monotonic()
    words = ("recover", LIMITED[case], "--threads 1 --time-limit 0.5 --json -o", tmp_path / "layer.npz")
    done = run(*words, cwd=folder, timeout=60, status=3)
    assert time.monotonic() - begun < 0.5 + SOON
    found = json.loads(done.stdout)
    assert found["status"] == "stalled" and "time limit" in found["reason"] and found["advice"]
    assert not found["per_head"] and found["best_fit"] is None
    assert not (tmp_path / "layer.npz").exists()


def test_sigterm_inside_one_long_call_of_lapack(tmp_path):
    """Eigenvectors of 3500 unknowns take LAPACK many seconds, and LAPACK asks nobody."""
    rng = np.random.default_rng(0)
    arrays = {"query": rng.standard_normal((3500, 4)), "keys": rng.standard_normal((3500, 1, 4))}
    np.savez(tmp_path / "sets.npz", **arrays, y=rng.standard_normal(3500))
    ours, theirs = pty.openpty()
    words = command("fit sets.npz --heads 700 --ridge 0 -o m")
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        assert b"gram" in os.read(ours, 65536)  # the phase before
        while select.select([ours], [], [], 2)[0]:  # LAPACK shows no progress either
            os.read(ours, 65536)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=3)
    shown = os.read(ours, 65536)
    os.close(ours)
    assert process.returncode == 130
    assert shown.strip().endswith(b"interrupted")
    assert [p.name for p in tmp_path.iterdir()] == ["sets.npz"]


def watch(words, folder, seconds, enough):
    """What a terminal would show, until a line is enough."""
    lines = []
    ours, theirs = pty.openpty()
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        shown, end = b"", time.monotonic() + seconds
        while time.monotonic() < end and process.poll() is None and not any(enough(x) for x in lines[:-1]):
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    shown += os.read(ours, 65536)
                except OSError:  # Linux: the other side is closed
                    break
                lines = [line.strip() for line in shown.decode().split("\r\x1b[K") if line.strip()]
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
    os.close(ours)
    return lines


def test_a_terminal_shows_phase_share_and_time(folder):
    for line, seconds, expected in (
        ("kernel long.npz -o k", 20, r"kernel.*%.*left of this phase"),
        ("recover ex.npz --method brute-force -o m", 20, r"brute force, sets of .*%"),
    ):
        shows = re.compile(expected).match
        lines = watch(command(line), folder, seconds, shows)
        assert any(shows(x) for x in lines), lines[-3:]


def test_an_iteration_shows_its_error_and_goal(folder):
    words = command("fit labels.npz --loss logistic --heads 300 --ridge 1e-6 -o m")
    lines = watch(words, folder, 40, lambda x: "newton" in x)
    found = [x for x in lines if "newton" in x]
    assert found and all("error" in x and "goal 1.0e-08" in x and "%" not in x for x in found)
