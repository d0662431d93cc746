"""predict and evaluate read their file in blocks: flat memory, the same bytes, and no file if the last block is bad."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from binary import command, fit, predict, read_model, refuse, run, run_json
from reference import relative_error, scores_of


@pytest.fixture
def model(make_sets, tmp_path):
    fit(make_sets(n=50, d=16, keys=16, name="train").path, tmp_path / "m", "--heads 3 --ridge 1e-2")
    return tmp_path / "m"


# A process inherits the peak of the one that started it, and pytest is large: a bare interpreter goes between.
LAUNCH = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
print(usage.ru_maxrss * 1024, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def peak_bytes(*args):
    words = [sys.executable, "-I", "-S", "-c", LAUNCH, *command(*args)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return int(done.stderr)


def test_memory_does_not_grow_with_the_file(make_sets, model, tmp_path):
    """Of 6 and 61 MB; predictions, 8 bytes a set, are held: 0.2 MB more."""
    small = make_sets(n=2800, d=16, keys=16, name="small").path
    large = make_sets(n=28000, d=16, keys=16, name="large").path
    assert large.stat().st_size - small.stat().st_size > 50e6
    out = tmp_path / "p.npy"
    for name, *rest in (("predict", "-o", out), ("evaluate",)):
        one, ten = (peak_bytes(name, model, path, *rest, "--threads 2") for path in (small, large))
        assert ten - one < 4e6, (name, one, ten)
    assert peak_bytes("predict", model, large, "-o", out, "--threads 2 --max-memory 5M") < 40e6


@pytest.mark.parametrize("layout", ["rectangular", "ragged", "sequence"])
@pytest.mark.parametrize("heads", ["7", "inf"])
def test_any_number_of_blocks_and_threads(make_sets, tmp_path, layout, heads):
    """More sets than a block has, from stored and deflated arrays, against the reference."""
    data = make_sets(layout, n=700, q=2)
    train = make_sets(layout, n=40, q=2, name="train").path
    sequence = "--sequence" if layout == "sequence" else ""
    fit(train, tmp_path / "m", f"--heads {heads} --ridge 1e-2", sequence)
    one, two = (predict(tmp_path / "m", data.path, "--threads", t) for t in (1, 2))
    assert one.tobytes() == two.tobytes()
    np.savez_compressed(tmp_path / "packed.npz", **data)
    assert predict(tmp_path / "m", tmp_path / "packed.npz").tobytes() == one.tobytes()
    if heads == "7":
        expected = scores_of(*read_model(tmp_path / "m"), data)
        assert relative_error(one.reshape(expected.shape), expected) <= 1e-12


def test_errors_of_blocks(make_sets, tmp_path):
    """mse, nmse and their agreement with the predictions, over many blocks."""
    data = make_sets("ragged", n=5000)
    fit(data.path, tmp_path / "m", "--heads 5 --ridge 1e-2")
    found = [run_json("evaluate", tmp_path / "m", data.path, "--threads", t) for t in (1, 2)]
    assert found[0] == found[1]
    error = ((predict(tmp_path / "m", data.path) - data["y"]) ** 2).mean()
    assert found[0]["mse"] == pytest.approx(error, rel=1e-12)
    assert found[0]["nmse"] == pytest.approx(error / data["y"].var(), rel=1e-12)


def test_late_errors_leave_nothing(make_sets, save, model, tmp_path):
    data = make_sets(n=3000, d=16, keys=16)
    out = tmp_path / "p.npy"
    keys = data["keys"].copy()
    keys[2999, 15, 3] = np.nan
    bad = save("bad", **data | {"keys": keys})
    line = refuse("predict", model, bad.path, "-o", out, folder=tmp_path)
    assert str(bad.path) in line and "keys[2999, 15, 3] is nan" in line
    blob = bytearray(bad.path.read_bytes().replace(keys.tobytes(), data["keys"].tobytes()))
    bad.path.write_bytes(blob)  # every value is good, the checksum is that of the others
    line = refuse("predict", model, bad.path, "-o", out, folder=tmp_path)
    assert str(bad.path) in line and "CRC error" in line
    assert "CRC error" in refuse("evaluate", model, bad.path, folder=tmp_path)
    y = data["y"].copy()
    y[2999] = np.inf
    bad = save("bad", **data | {"y": y})
    assert "y[2999] is inf" in refuse("evaluate", model, bad.path, folder=tmp_path)
    run("predict", model, bad.path, "-o", out)  # y does not matter here


def test_interruption_leaves_nothing(make_sets, tmp_path):
    data = make_sets(n=20000, d=16, keys=16, dtype=np.float32)
    fit(make_sets(n=50, d=16, keys=16, name="train").path, tmp_path / "m", "--heads 2000 --ridge 1e-2")
    before = set(tmp_path.iterdir())
    process = subprocess.Popen(
        command("predict", tmp_path / "m", data.path, "-o", tmp_path / "p.npy", "--threads 2"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130 and "interrupted" in errors, errors
    assert set(tmp_path.iterdir()) == before
