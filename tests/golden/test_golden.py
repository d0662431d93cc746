"""The golden commands print what the list says, and write the same bytes with one thread and with three."""

import os
from pathlib import Path

import numpy as np
from compare_programs import HERE, commands, difference, differences, run_all
from contents import contents, neutral_text

BINARY = str(Path(os.environ.get("HEADLENS", HERE.parents[1] / "build" / "headlens")).resolve())


def test_threads_change_nothing():
    found = {}
    for (command, one), (_, three) in zip(run_all(BINARY, 1), run_all(BINARY, 3), strict=True):
        found[command] = list(differences(one, three))
    assert len(found) == len(list(commands()))
    assert not any(found.values()), {command: lines for command, lines in found.items() if lines}


def test_the_last_bit_counts():
    old = {"values": np.array([1.0, 2.0]), "stdout": "status solved"}
    new = {"values": np.array([1.0, np.nextafter(2, 3)]), "stdout": "status stalled"}
    assert [line.split(":")[0] for line in differences(old, new)] == ["stdout", "values"]
    assert difference(old["values"], new["values"]).startswith("1 of 2 entries, by up to 4.44e-16")
    assert not list(differences(old, {**old, "values": np.array([1.0, 2.0])}))
    assert list(differences(old, {**old, "values": np.array([1, 2])})), "the type counts"
    assert list(differences(old, {"stdout": "status solved"})), "a file that is not written counts"


def test_what_may_differ():
    one = '{"seconds": 1, "backend": "cpu", "ridge": 0.5, "phases": {"search": 1.0}, "version": "0.1"}'
    two = '{"seconds": 2, "ridge": 0.5, "phases": {"search": 3.0}, "commit": "abc"}'
    assert neutral_text(one) == neutral_text(two)
    assert neutral_text(one) != neutral_text(two.replace("0.5", "0.25"))
    assert neutral_text("status solved, 4.96 s\nback end  cpu\n") == neutral_text("status solved, 12 s\n")
    assert neutral_text("residual 1e-9, 4.96 s") != neutral_text("residual 2e-9, 4.96 s")


def test_archives_are_read_by_array(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(3), y=np.ones(2))
    np.savez_compressed(tmp_path / "b.npz", y=np.ones(2), x=np.arange(3))
    assert not list(differences(contents(tmp_path / "a.npz"), contents(tmp_path / "b.npz")))
